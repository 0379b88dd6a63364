//! Many clients of one server, those that do not read, and those of which nothing is heard.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockRef;
use weir_testbed::standstills::Standstills;
use weir_testbed::turn;

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

/// Ages of what a client is told, in so long a time, sorted, without the time for which the machine stood still.
fn ages(client: &mut Client, during: Duration, standstills: &Standstills) -> Vec<Duration> {
    let (begin, mut told) = (Instant::now(), Vec::new());
    while begin.elapsed() < during {
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

#[test]
fn two_hundred_clients_are_in_time_and_one_that_does_not_read_is_ended() {
    let _turn = turn();
    let Some([one, other]) = network(["station", "server"]) else { return };
    let mut server = Running::server(&other.ns, GROUP);
    let station = Running::station(&one.ns, "coil", &["--source", "sine,name=s,rate=1k/s,copies=16"]);
    server.await_ledger("a second", |ledger| ledger["channels"] == 16 && received(ledger).0 > 16_000);
    let watcher = || {
        let mut client = Client::connect(&other.ns);
        client.ask(&CHANNELS, 10_000.0, 1000);
        client
    };
    let mut probe = watcher();
    let standstills = Standstills::watch();
    let alone = ages(&mut probe, Duration::from_secs(2), &standstills);
    let before = server.resident();
    let streams: Vec<TcpStream> = (0..199).map(|_| watcher().reader.into_inner()).collect();
    let mut deaf = watcher();
    SockRef::from(deaf.reader.get_ref()).set_recv_buffer_size(4096).unwrap();
    let stop = AtomicBool::new(false);
    let among = thread::scope(|scope| {
        let draining = scope.spawn(|| drain(streams, &stop));
        // It asks and asks, and takes nothing of what it is told.
        let asking = scope.spawn(|| {
            for turn in 0..400_u32 {
                deaf.ask(&CHANNELS, 10_000.0 + f64::from(turn), 16_384);
            }
            deaf
        });
        let among = ages(&mut probe, Duration::from_secs(8), &standstills);
        let deaf = asking.join().unwrap();
        server.await_ledger("ended", |_| get(&other.ns, "/ledger")["page"]["ended_stuck"] == 1);
        stop.store(true, Ordering::Relaxed);
        assert!(draining.join().unwrap() > 199 * 100_000);
        drop(deaf);
        among
    });
    let (resident, page) = (server.resident(), get(&other.ns, "/ledger")["page"].clone());
    let share = |ages: &[Duration], share: usize| ages[ages.len() * share / 100];
    eprintln!(
        "a client alone: {:?}, 99 of 100 within {:?}; among 200: {:?}, {:?}; {} MiB, {} before",
        share(&alone, 50),
        share(&alone, 99),
        share(&among, 50),
        share(&among, 99),
        resident >> 20,
        before >> 20
    );
    assert!(share(&among, 50) <= Duration::from_millis(100), "{:?}", share(&among, 50));
    assert!(share(&among, 99) <= Duration::from_millis(200), "{:?}", share(&among, 99));
    assert!(resident < before + (200 << 20), "{resident} bytes, {before} before: {page:#}");
    let sent = sent(&station.stop());
    server.await_ledger("its end", |ledger| has_ended(ledger, "coil"));
    let ledger = server.stop();
    assert_eq!(received(&ledger), (sent, 0), "{ledger:#}");
}

pub(in crate::monitor) fn one_of_which_nothing_is_heard_is_told_so() {
    let Some([one, other]) = network(["station", "server"]) else { return };
    let mut server = Running::server(&other.ns, GROUP);
    let station = Running::station(&one.ns, "coil", &["--source", "sine,name=s,rate=1k/s"]);
    server.await_ledger("a channel", |ledger| ledger["channels"] == 1);
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
