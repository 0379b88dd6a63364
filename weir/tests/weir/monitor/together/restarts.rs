//! Stations and servers that are killed, that have the name of another, and whose clocks step.

use std::net::UdpSocket;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::SockRef;
use weir_testbed::standstills::Standstills;

use super::socket::{Client, Told};
use super::*;
use crate::network::{Host, network};

/// 1 kHz, full rate.
const COUNTER: [&str; 4] = ["--display", "0", "--source", "counter,name=n,rate=1k/s"];

/// A reader of a group that counts samples of sessions: no more than the sum of `count` in what is sent.
struct Reader(UdpSocket);

impl Reader {
    fn join(host: &Host) -> Self {
        let socket = host.run(|| {
            let socket = UdpSocket::bind(GROUP).unwrap();
            socket.join_multicast_v4(&"239.192.77.1".parse().unwrap(), &host.v4).unwrap();
            socket
        });
        SockRef::from(&socket).set_recv_buffer_size(8 << 20).unwrap();
        // Past net.core.rmem_max, where that is permitted.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20));
        socket.set_nonblocking(true).unwrap();
        Self(socket)
    }

    /// Samples that have come: of one channel, as they are.
    fn samples(&self) -> u64 {
        let (mut bytes, mut samples) = ([0; 2000], 0);
        while let Ok(length) = self.0.recv(&mut bytes) {
            let mut at = 24;
            while bytes[2] == 0x10 && at < length {
                let count = u64::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
                assert_eq!(&bytes[at + 2..at + 4], [1, 0], "f64, samples");
                samples += count;
                at += 36 + 8 * count as usize;
            }
        }
        samples
    }
}

#[test]
fn a_station_that_is_killed_comes_back() {
    let Some([one, other, witness]) = network(["station", "server", "witness"]) else { return };
    let reader = Reader::join(&witness);
    let mut server = start_server(&other.ns, GROUP);
    let station = start_station(&one.ns, "coil", &COUNTER);
    server.await_ledger(|ledger| received(ledger).0 > 500);
    drop(station);
    server.await_ledger(|ledger| ledger["streams"][0]["state"] == "silent");
    let silent = await_event(&other.ns, "silent", "coil");
    assert!(silent["remedy"].is_string(), "{silent:#}");
    let mut station = start_station(&one.ns, "coil", &COUNTER);
    station.await_ledger(has_sent(500));
    sent(&station.stop());
    server.await_ledger(|ledger| has_ended(ledger, "coil"));
    await_event(&other.ns, "restart", "coil");
    let ledger = server.stop();
    assert_eq!(received(&ledger), (reader.samples(), 0), "{ledger:#}");
    assert_eq!(ledger["channels"], 1, "{ledger:#}");
}

#[test]
fn two_stations_of_one_name_are_both_shown() {
    let Some([one, two, other]) = network(["one", "two", "server"]) else { return };
    let mut server = start_server(&other.ns, GROUP);
    let mut first = start_station(&one.ns, "coil", &COUNTER);
    let mut second = start_station(&two.ns, "coil", &COUNTER);
    let twin = await_event(&other.ns, "twin", "coil#2");
    assert!(twin["remedy"].is_string(), "{twin:#}");
    for station in [&mut first, &mut second] {
        station.await_ledger(has_sent(500));
    }
    let sent = sent(&first.stop()) + sent(&second.stop());
    server.await_ledger(|ledger| has_ended(ledger, "coil") && has_ended(ledger, "coil#2"));
    let ledger = server.stop();
    // What the one that lost the name sent within 100 ms is missing.
    let (samples, missing) = received(&ledger);
    assert_eq!((samples + missing, &ledger["received"]["missing"]["unknown"]), (sent, &missing.into()), "{ledger:#}");
    assert_eq!(ledger["channels"], 2, "{ledger:#}");
}

/// Viewers of two servers, of which one is killed, miss no sample. The longest time for which one of them saw nothing new.
fn change_over() -> Option<Duration> {
    let names = ["station", "one", "two", "a", "b", "c"];
    let [source, one, two, a, b, c] = network(names)?;
    let dir = tempfile::tempdir().unwrap();
    let serve = |host: &Host, name: &str, priority: u8| {
        let path = dir.path().join(name);
        let text = format!(
            "[[listen]]\naddress = \"{GROUP}\"\ninterface = \"eth0\"\n\
             [publish]\nto = [\"{VIEWERS}\"]\ninterface = \"eth0\"\nname = \"{name}\"\npriority = {priority}\n"
        );
        std::fs::write(&path, text).unwrap();
        start(&host.ns, &["serve", "--json", "-c", path.to_str().unwrap()])
    };
    let (first, mut second) = (serve(&one, "control-1", 1), serve(&two, "control-2", 2));
    let mut viewers = [&a, &b, &c].map(|host| start_server(&host.ns, VIEWERS));
    let station = start_station(&source.ns, "coil", &["--source", "sine,name=I,rate=1k/s"]);
    let standstills = Standstills::watch();
    for viewer in &mut viewers {
        viewer.await_ledger(|ledger| {
            let streams = ledger["streams"].as_array().unwrap();
            streams.iter().filter(|stream| stream["station"].as_str().unwrap().starts_with("control-")).count() == 2
                && received(ledger).0 > 2000
        });
    }
    let mut clients = [&a, &b, &c].map(|host| Client::connect(&host.ns));
    for client in &mut clients {
        client.ask(&[0], 1000.0, 10_000);
        client.await_told(|told| matches!(told, Told::Text(text) if text.get("whole").is_some()));
    }
    drop(first);
    let (killed, now) = (Instant::now(), SystemTime::now());
    let until = now.duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(1);
    // Up to a second behind the kill.
    let watch = |mut client: Client| {
        let (mut next, mut last, mut longest) = (None, killed, Duration::ZERO);
        loop {
            match client.next().unwrap() {
                Told::Samples { first, samples, end, .. } => {
                    assert_eq!(*next.get_or_insert(first), first, "one behind another");
                    next = Some(first + samples);
                    let now = Instant::now();
                    longest = longest.max(standstills.running(last, now));
                    last = now;
                    if Duration::from_nanos(end as u64) > until {
                        return longest;
                    }
                }
                Told::Gap { first, samples, .. } => panic!("{samples} are missing from {first} on"),
                _ => {}
            }
        }
    };
    let longest = thread::scope(|scope| {
        clients
            .map(|client| scope.spawn(move || watch(client)))
            .map(|watching| watching.join().unwrap())
            .into_iter()
            .max()
    });
    for viewer in &mut viewers {
        let ledger = viewer.ledger();
        assert!(ledger["changes"].as_u64() > Some(0), "{ledger:#}");
    }
    sent(&station.stop());
    second.await_ledger(|ledger| has_ended(ledger, "coil"));
    let ledger = second.stop();
    assert_eq!(received(&ledger).1, 0, "{ledger:#}");
    longest
}

#[test]
fn viewers_change_over_when_a_server_is_killed() {
    change_over();
}

mod alone {
    use super::*;

    #[test]
    #[ignore = "long: 4 s"]
    fn viewers_change_over_at_once() {
        let Some(longest) = change_over() else { return };
        eprintln!("viewers saw nothing new for {longest:?}");
        // Silent after 500 ms, which is looked at each 20 ms.
        assert!(longest <= Duration::from_millis(600), "{longest:?}");
    }
}

/// A clock cannot be stepped for one process alone: the datagrams are made here, as those of a station whose clock was set back.
#[test]
fn a_clock_that_is_set_back_costs_no_sample() {
    let Some([one, two, other]) = network(["one", "two", "server"]) else { return };
    let mut server = start_server(&other.ns, GROUP);
    let mut beside = start_station(&two.ns, "beside", &COUNTER);
    let socket = one.run(|| {
        let socket = UdpSocket::bind((one.v4, 0)).unwrap();
        SockRef::from(&socket).set_multicast_if_v4(&one.v4).unwrap();
        socket
    });
    let header = |kind: u8, count: u16, sequence: u64| {
        let mut bytes = vec![b'W', b'S', 0x10 | kind, 0, 2, 20];
        bytes.extend(count.to_le_bytes());
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend(sequence.to_le_bytes());
        bytes
    };
    let mut metadata = header(3, 0, 0);
    for (key, value) in [(1, &b"stepped"[..]), (2, b"display"), (16, &[0, 0]), (17, b"I")] {
        metadata.extend([key, value.len() as u8]);
        metadata.extend(value);
    }
    for (key, value) in [(29, 1000_u32), (30, 1)] {
        metadata.extend([key, 4]);
        metadata.extend(value.to_le_bytes());
    }
    socket.send_to(&metadata, GROUP).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    for sequence in 0..60_u64 {
        // Back by an hour in the middle, and to before 1970 later.
        let time = match sequence {
            0..20 => now,
            20..40 => now - 3_600_000_000_000,
            _ => -5_000_000_000,
        };
        let mut bytes = header(0, 1, sequence);
        bytes.extend([0, 0, 0, 0, 10, 0, 0, 0]);
        bytes.extend((sequence * 10).to_le_bytes());
        bytes.extend((time + sequence as i64 * 10_000_000).to_le_bytes());
        [1000_u32, 1, 1].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend([0; 40]);
        if sequence % 20 != 7 {
            socket.send_to(&bytes, GROUP).unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut end = header(2, 1, 60);
    end.extend([0, 0]);
    end.extend(600_u64.to_le_bytes());
    socket.send_to(&end, GROUP).unwrap();
    server.await_ledger(|ledger| has_ended(ledger, "stepped"));
    let told = await_event(&other.ns, "time", "stepped");
    assert!(told["text"].is_string(), "{told:#}");
    beside.await_ledger(has_sent(500));
    let sent = sent(&beside.stop());
    server.await_ledger(|ledger| has_ended(ledger, "beside"));
    let ledger = server.stop();
    assert_eq!(received(&ledger), (sent + 570, 30), "{ledger:#}");
}
