//! One sender that fills a worker: another helps, and order, account and reloads stay as they are.

use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_dgram::{Options, Socket};

use super::fixture::*;
use crate::ledger::Ledger;
use crate::settings::Settings;
use crate::worker::Workers;

/// Runs two workers at full load from one sender to four sinks while `during` runs, then checks the account, and with
/// `read` the order. Without, the sinks let nothing in, and the processors are for the workers.
fn under_load(read: bool, during: impl FnOnce(&Workers, &Settings)) -> Ledger {
    let sinks: [UdpSocket; 4] = std::array::from_fn(|_| sink("127.0.0.1:0"));
    if !read {
        for sink in &sinks {
            Socket::adopt(sink.try_clone().unwrap().into(), &Options::default()).unwrap().close_intake().unwrap();
        }
    }
    let to: Vec<SocketAddr> = sinks.iter().map(|sink| sink.local_addr().unwrap()).collect();
    let mut settings = settings(&to);
    settings.workers = 2;
    let workers = start(settings.clone());
    let at = address(&workers, 0);
    let (stop, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    let ledger = thread::scope(|scope| {
        scope.spawn(|| {
            let source = source(at);
            while !stop.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                // Neighbours differ in size, so that little is joined and sending is work.
                source.send(&payload(number, 4 + (number % 7) as usize * 50)).unwrap();
            }
        });
        let readers: Vec<_> = sinks
            .iter()
            .filter(|_| read)
            .map(|sink| {
                scope.spawn(|| {
                    let (mut last, mut buffer) = (None, [0; 1_000]);
                    // An empty datagram ends it.
                    while let length @ 1.. = sink.recv(&mut buffer).unwrap() {
                        let number = u32::from_be_bytes(buffer[..4].try_into().unwrap());
                        assert!(last.is_none_or(|last| last < number), "{number} after {last:?}");
                        assert!(buffer[..length] == payload(number, length));
                        last = Some(number);
                    }
                })
            })
            .collect();
        // A failure must not leave the others running.
        let result = catch_unwind(AssertUnwindSafe(|| during(&workers, &settings)));
        stop.store(true, Ordering::Relaxed);
        let ledger = finish(&workers);
        for to in &to {
            source(*to).send(&[]).unwrap();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        result.unwrap_or_else(|panic| resume_unwind(panic));
        ledger
    });
    let listener = &ledger.listeners[0];
    assert_eq!(listener.received.datagrams, listener.matched);
    // Both workers' shares are in the account, and no copy was given up.
    for to in to {
        let count = count(&ledger, to);
        assert_eq!((count.sent.datagrams, count.drops.total()), (listener.received.datagrams, 0));
    }
    ledger
}

/// Waits until one worker has lent lanes to the other.
fn until_lent(workers: &Workers) {
    let start = Instant::now();
    while workers.holders() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing was lent: {:#?}", workers.ledger());
        thread::yield_now();
    }
}

#[test]
#[ignore = "long: 3 s, of what is to go"]
fn two_workers_share_the_load_of_one_sender() {
    under_load(false, |workers, _| {
        until_lent(workers);
        let share = || {
            let before = workers.cpu_times();
            loop {
                let used: Vec<_> = workers.cpu_times().iter().zip(&before).map(|(now, then)| *now - *then).collect();
                if used.iter().sum::<Duration>() > Duration::from_secs(1) {
                    break used;
                }
                let ledger = workers.ledger();
                assert!(ledger.closed, "{ledger:#?}");
            }
        };
        // A busy machine may give one of them more than the other, but not each time.
        let is_fair = |used: Vec<Duration>| *used.iter().max().unwrap() < 2 * *used.iter().min().unwrap();
        assert!((0..10).any(|_| is_fair(share())), "{:?}", workers.cpu_times());
    });
}

#[test]
#[ignore = "long: 3 s, of what is to go"]
fn a_reload_takes_lanes_back_and_loses_nothing() {
    under_load(true, |workers, settings| {
        for _ in 0..5 {
            until_lent(workers);
            assert!(workers.ledger().closed);
            reload(workers, settings.clone());
            assert!(workers.ledger().closed);
        }
        until_lent(workers);
    });
}

#[test]
#[ignore = "long: 3 s, of what is to go"]
fn lanes_come_back_when_there_is_little_to_do() {
    let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
    let mut settings = settings(&sinks.each_ref().map(|sink| sink.local_addr().unwrap()));
    settings.workers = 2;
    let workers = start(settings);
    let source = source(address(&workers, 0));
    let start = Instant::now();
    while workers.holders() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        source.send(&[1; 100]).unwrap();
    }
    // One at a time: each waits until the one before has gone all the way.
    while workers.holders() > 0 {
        assert!(start.elapsed() < Duration::from_secs(120));
        let before = workers.ledger();
        source.send(&[2; 100]).unwrap();
        while workers.ledger().listeners[0].received == before.listeners[0].received {
            thread::sleep(Duration::from_millis(1));
        }
    }
    finish(&workers);
}
