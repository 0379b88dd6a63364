//! Many clients of one server, those that do not read, and those of which nothing is heard.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockRef;
use weir_testbed::standstills::Standstills;

use super::socket::{Client, Told, age};
use super::*;
use crate::network::network;

/// Channels of the station.
const CHANNELS: [u16; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Reads what all of these are sent, until told to stop; bytes.
fn drain(mut streams: Vec<TcpStream>, stop: &AtomicBool) -> u64 {
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    while !stop.load(Ordering::Relaxed) {
        for stream in &mut streams {
            match stream.read(&mut buffer) {
                Ok(0) => panic!("the server has ended it"),
                Ok(length) => bytes += length as u64,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        // As a browser: 60 times a second.
        thread::sleep(Duration::from_millis(16));
    }
    bytes
}

/// Ages of what a client is told meanwhile, sorted, without the time for which the machine stood still. It is told everything.
fn ages(client: &mut Client, standstills: &Standstills, goes_on: impl Fn() -> bool) -> Vec<Duration> {
    let (begin, mut told) = (Instant::now(), Vec::new());
    while goes_on() {
        match client.next().unwrap() {
            // What was before is history, or has waited for who did not read.
            Told::Samples { end, .. } if age(end) > begin.elapsed() => {}
            Told::Samples { end, .. } => told.push((Instant::now(), age(end))),
            Told::Gap { first, samples, .. } => panic!("{samples} are missing from {first} on"),
            Told::Close(why) => panic!("{why}"),
            Told::Text(_) => {}
        }
    }
    let running = |(at, age): (Instant, Duration)| standstills.running(at - age, at);
    let mut ages: Vec<Duration> = told.into_iter().map(running).collect();
    ages.sort_unstable();
    ages
}

/// So many clients, of which one does not read: another is told everything for so long, and until that one is ended. Ages of what
/// it is told, alone and among them, and by how many bytes the server has grown.
fn among(clients: usize, during: Duration) -> Option<([Vec<Duration>; 2], u64)> {
    let [one, other] = network(["station", "server"])?;
    let mut server = start_server(&other.ns, GROUP);
    let station = start_station(&one.ns, "coil", &["--source", "sine,name=s,rate=1k/s,copies=16"]);
    server.await_ledger(|ledger| ledger["channels"] == 16 && received(ledger).0 > 16_000);
    let watcher = || {
        let mut client = Client::connect(&other.ns);
        client.ask(&CHANNELS, 10_000.0, 1000);
        client
    };
    let mut probe = watcher();
    let (standstills, begin) = (Standstills::watch(), Instant::now());
    let alone = ages(&mut probe, &standstills, || begin.elapsed() < during / 4);
    let before = resident(&server);
    let streams: Vec<TcpStream> = (2..clients).map(|_| watcher().body.into_inner()).collect();
    let mut deaf = watcher();
    SockRef::from(deaf.body.get_ref()).set_recv_buffer_size(4096).unwrap();
    let (stop, reading) = (AtomicBool::new(false), streams.len() as u64);
    let among = thread::scope(|scope| {
        let draining = scope.spawn(|| drain(streams, &stop));
        // It asks and asks, and takes nothing of what it is told.
        let asking = scope.spawn(|| {
            for turn in 0..400_u32 {
                deaf.ask(&CHANNELS, 10_000.0 + f64::from(turn), 16_384);
            }
            deaf
        });
        let telling = scope.spawn(|| ages(&mut probe, &standstills, || !stop.load(Ordering::Relaxed)));
        thread::sleep(during);
        let deaf = asking.join().unwrap();
        await_that("it to be ended", || get(&other.ns, "/ledger")["page"]["ended_stuck"] == 1);
        stop.store(true, Ordering::Relaxed);
        assert!(draining.join().unwrap() > reading * 100_000);
        drop(deaf);
        telling.join().unwrap()
    });
    let grown = resident(&server).saturating_sub(before);
    let sent = sent(&station.stop());
    server.await_ledger(|ledger| has_ended(ledger, "coil"));
    let ledger = server.stop();
    assert_eq!(received(&ledger), (sent, 0), "{ledger:#}");
    Some(([alone, among], grown))
}

#[test]
#[ignore = "long: 12 s"]
fn one_that_does_not_read_is_ended_and_costs_others_nothing() {
    among(20, Duration::ZERO);
}

mod alone {
    use super::*;

    #[test]
    #[ignore = "long: 15 s"]
    fn two_hundred_clients_are_in_time() {
        let Some((ages, grown)) = among(201, Duration::from_secs(8)) else { return };
        let share = |ages: &[Duration], share: usize| ages[ages.len() * share / 100];
        let [alone, among] = ages.each_ref().map(|ages| [50, 99].map(|part| share(ages, part)));
        eprintln!("median and 99 of 100, alone: {alone:?}, among 200: {among:?}; {} MiB more", grown >> 20);
        assert!(among[0] <= Duration::from_millis(100) && among[1] <= Duration::from_millis(200), "{among:?}");
        assert!(grown < 200 << 20, "{grown} bytes");
    }
}

#[test]
#[ignore = "long: 32 s"]
fn one_of_which_nothing_is_heard_is_told_so() {
    let Some([one, other]) = network(["station", "server"]) else { return };
    let mut server = start_server(&other.ns, GROUP);
    let station = start_station(&one.ns, "coil", &["--source", "sine,name=s,rate=1k/s"]);
    server.await_ledger(|ledger| ledger["channels"] == 1);
    let (mut silent, mut lively) = (Client::connect(&other.ns), Client::connect(&other.ns));
    let begin = Instant::now();
    for client in [&mut silent, &mut lively] {
        client.ask(&[0], 1000.0, 1000);
    }
    // It reads and takes part in nothing.
    silent.answers = false;
    let ended = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        let living = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                assert!(!matches!(lively.next().unwrap(), Told::Close(_)));
            }
        });
        let told = loop {
            match silent.next().unwrap() {
                Told::Close(why) => break why,
                _ => assert!(begin.elapsed() < Duration::from_secs(60)),
            }
        };
        ended.store(true, Ordering::Relaxed);
        living.join().unwrap();
        told
    });
    assert_eq!(told, "nothing was heard of you");
    assert!(begin.elapsed() >= Duration::from_secs(30));
    assert_eq!(get(&other.ns, "/ledger")["page"]["ended_silent"], 1);
    sent(&station.stop());
    server.stop();
}
