//! Whoever is on the network can send to a group: nobody else is harmed by it.

use std::net::UdpSocket;

use socket2::SockRef;
use weir_testbed::random::Source;

use super::socket::{Client, Told};
use super::*;
use crate::network::{Host, network};

/// The key of a station's only channel on a server.
#[track_caller]
fn key(host: &Host, station: &str) -> u16 {
    let channels = get(&host.ns, "/channels");
    let all = channels.as_array().or_else(|| channels["channels"].as_array()).unwrap();
    let found = all.iter().find(|channel| channel["station"] == station).unwrap_or_else(|| panic!("{channels:#}"));
    found["key"].as_u64().unwrap() as u16
}

/// Each sample of a station's channel is on the server, once and in order, and none is missing.
#[track_caller]
fn is_whole(host: &Host, station: &str, sent: u64) {
    let mut client = Client::connect(&host.ns);
    client.ask(&[key(host, station)], 60_000.0, 16_384);
    let mut next = 0;
    while next < sent {
        match client.next().unwrap() {
            Told::Samples { first, samples, .. } => {
                assert_eq!(first, next);
                next += samples;
            }
            Told::Gap { first, samples, .. } => panic!("{samples} are missing from {first} on"),
            Told::Close(why) => panic!("{why}"),
            Told::Text(_) => {}
        }
    }
    assert_eq!(next, sent);
}

/// The header of a datagram.
fn header(kind: u8, count: u16, session: u64, sequence: u64) -> Vec<u8> {
    let mut bytes = vec![b'W', b'S', 0x10 | kind, 0, 2, 20];
    bytes.extend(count.to_le_bytes());
    bytes.extend(session.to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes
}

/// A datagram of one block; 40 bytes of values.
fn block(session: u64, sequence: u64, form: u8, count: u16, first: u64, bucket: u32) -> Vec<u8> {
    let mut bytes = header(0, 1, session, sequence);
    bytes.extend([0, 0, 0, form]);
    bytes.extend(count.to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(first.to_le_bytes());
    bytes.extend(i64::MAX.to_le_bytes());
    [1_u32, u32::MAX, bucket].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend([0xff; 40]);
    bytes
}

/// So many that a receiver that works gets them all: it is not its buffer that is tried.
struct Attacker(UdpSocket, u32);

impl Attacker {
    fn send(&mut self, bytes: &[u8]) {
        self.0.send_to(bytes, GROUP).unwrap();
        self.1 += 1;
        if self.1.is_multiple_of(50) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for a receiver that stands still: its buffer holds some ten thousand.
    #[track_caller]
    fn let_catch_up(&self, server: &mut Started) {
        let sent = u64::from(self.1);
        server.await_ledger(|ledger| ledger["received"]["datagrams"].as_u64() >= Some(sent));
    }
}

#[test]
fn hostile_datagrams_harm_nobody() {
    hostile(2000, 5000);
}

#[test]
#[ignore = "long: 5 s"]
fn many_hostile_datagrams_take_little_memory() {
    let Some(resident) = hostile(10_000, 10_000) else { return };
    eprintln!("{} MiB", resident >> 20);
    assert!(resident < 400 << 20, "{resident} bytes");
}

/// So many datagrams of anything, and so many senders. Bytes of memory that the server has then.
fn hostile(random_ones: u64, senders: u64) -> Option<u64> {
    let [one, two, other] = network(["station", "attacker", "server"])?;
    let mut random = Source::drawn();
    let mut server = start_server(&other.ns, GROUP);
    let mut station = start_station(&one.ns, "coil", &["--display", "0", "--source", "counter,name=n,rate=1k/s"]);
    station.await_ledger(has_sent(100));
    let socket = two.run(|| {
        let socket = UdpSocket::bind((two.v4, 0)).unwrap();
        SockRef::from(&socket).set_multicast_if_v4(&two.v4).unwrap();
        socket
    });
    let mut attacker = Attacker(socket, 0);

    // Anything; half of it begins as signals do.
    for turn in 0..random_ones {
        let length = random.size(0..1473);
        let mut bytes = random.bytes(length);
        if turn % 2 == 0 && length > 8 {
            bytes[..4].copy_from_slice(&[b'W', b'S', 0x10 | (turn / 2 % 6) as u8, 0]);
            bytes[6..8].copy_from_slice(&(random.number(0..4) as u16).to_le_bytes());
        }
        attacker.send(&bytes);
        if turn % 1000 == 999 {
            attacker.let_catch_up(&mut server);
        }
    }
    // Parts of what is right.
    let whole = block(1, 0, 0, 10, 0, 1);
    (0..whole.len()).for_each(|length| attacker.send(&whole[..length]));
    // Numbers as large as there are.
    for (number, (form, count, first, bucket)) in [
        (0, u16::MAX, 0, 1),
        (1, u16::MAX, 0, u32::MAX),
        (1, 2, u64::MAX - 1, u32::MAX),
        (1, 2, 0, u32::MAX),
        (0, 10, u64::MAX - 3, 1),
        (2, 1, 1, 1),
        (2, 1, u64::MAX, 1),
        (2, u16::MAX, 0, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let session = 100 + number as u64;
        for (sequence, first) in [(0, 0), (1, first), (u64::MAX, first), (2, first / 2)] {
            attacker.send(&block(session, sequence, form, count, first, bucket));
        }
        for kind in 0..5 {
            attacker.send(&header(kind, u16::MAX, session, u64::MAX));
        }
        let mut position = header(1, 1, session, 1 << 31);
        position.extend([0, 0]);
        position.extend(u64::MAX.to_le_bytes());
        attacker.send(&position);
    }
    attacker.let_catch_up(&mut server);
    // Senders that are heard once, and then once more: too many, and so short that the buffer holds nearly all.
    for turn in 0..2 * senders {
        attacker.send(&block((1 << 32) | (turn % senders), turn / senders, 0, 10, 0, 1));
        if turn % 5000 == 4999 {
            attacker.let_catch_up(&mut server);
        }
    }
    let sent_so_far = u64::from(attacker.1);
    let ledger = server.await_ledger(|ledger| ledger["received"]["datagrams"].as_u64() > Some(sent_so_far));
    let number = |key: &Value| key.as_u64().unwrap();
    let (known, evicted) = (number(&ledger["received"]["sessions"]), number(&ledger["received"]["evicted"]));
    // Whether one is refused, or finds the place of one that is silent, is a matter of how fast they come.
    assert!(
        known <= 4096 && known + evicted + number(&ledger["received"]["refused"]["sessions"]) >= senders,
        "{ledger:#}"
    );
    assert_eq!(ledger["received"]["socket_drops"], 0, "{ledger:#}");
    let resident = resident(&server);

    // There is room for another that is what it says, once those that are silent have given way.
    server.await_ledger(|ledger| number(&ledger["received"]["sessions"]) < 4096 / 4 * 3);
    let mut late = start_station(&two.ns, "late", &["--display", "0", "--source", "counter,name=n,rate=1k/s"]);
    await_event(&other.ns, "begin", "late");
    late.await_ledger(has_sent(500));
    let sent_late = sent(&late.stop());
    let sent = sent(&station.stop());
    server.await_ledger(|ledger| has_ended(ledger, "coil") && has_ended(ledger, "late"));
    is_whole(&other, "coil", sent);
    is_whole(&other, "late", sent_late);
    server.stop();
    Some(resident)
}
