//! A tee that sends to itself, as two that send to one another do.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::fixture::*;
use crate::drops::Reason;
use crate::ledger::Ledger;
use crate::settings::{Destination, OnLoop, Replies, Settings};
use crate::worker::Workers;

/// Waits for a ledger that is as wanted.
#[track_caller]
fn await_ledger(workers: &Workers, wanted: impl Fn(&Ledger) -> bool) -> Ledger {
    let start = Instant::now();
    loop {
        let ledger = workers.ledger();
        if wanted(&ledger) {
            return ledger;
        }
        assert!(start.elapsed() < Duration::from_secs(40), "{ledger:#?}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "long: 3 s, of what is to go"]
fn what_comes_back_is_found_and_dropped_where_that_is_asked_for() {
    let aside = sink("127.0.0.1:0");
    let mut settings = settings(&[aside.local_addr().unwrap()]);
    let workers = start(settings.clone());
    let own = address(&workers, 0);
    settings.destinations.push(destination(own));
    settings.rules[0].to = (0..2).map(crate::settings::Recipient::Destination).collect();
    settings.on_loop = OnLoop::Stop;
    reload(&workers, settings);
    let source = source(own);
    for number in 0..3 {
        source.send(&payload(number, 100)).unwrap();
    }
    let ledger = await_ledger(&workers, |ledger| !ledger.loops.is_empty());
    let [found] = &ledger.loops[..] else { panic!("{ledger:#?}") };
    assert_eq!((found.address, found.source, found.present), (Some(own), Some(own.ip()), true));
    // All of them come back once more.
    let ledger = await_ledger(&workers, |ledger| count(ledger, own).drops[Reason::Loop] == 3);
    let sent = count(&ledger, own).sent.datagrams;
    // What is new goes out once.
    for number in 10..20 {
        source.send(&payload(number, 100)).unwrap();
    }
    await_ledger(&workers, |ledger| count(ledger, own).drops[Reason::Loop] == 13);
    let ledger = finish(&workers);
    assert_eq!(count(&ledger, own).sent.datagrams, sent + 10);
    assert_eq!(count(&ledger, aside.local_addr().unwrap()).drops[Reason::Loop], 0, "others get all there is");
}

/// By which socket a datagram goes out, and to which it comes back, is the kernel's hash: it may come to another worker each
/// round, or stay with one.
#[test]
#[ignore = "long: 3 s, of what is to go"]
fn a_loop_through_several_workers_is_found_and_broken_by_them() {
    let mut settings = settings(&[]);
    settings.workers = 2;
    let workers = start(settings.clone());
    let own = address(&workers, 0);
    settings.destinations.push(destination(own));
    settings.rules[0].to = vec![crate::settings::Recipient::Destination(0)];
    settings.on_loop = OnLoop::Stop;
    reload(&workers, settings);
    // Each from a port of its own, so that both workers have some.
    let sources: Vec<_> = (0..16).map(|_| source(own)).collect();
    for (number, source) in (0..).zip(&sources) {
        source.send(&payload(number, 700)).unwrap();
    }
    // Each of them goes round until it is dropped, once.
    let ledger = await_ledger(&workers, |ledger| count(ledger, own).drops[Reason::Loop] == 16);
    let before = count(&ledger, own);
    assert!(before.sent.datagrams > 16 && !ledger.loops.is_empty(), "{ledger:#?}");
    // What is new passes one that knows once, and one that does not before and after.
    for (number, source) in (100..).zip(&sources) {
        source.send(&payload(number, 700)).unwrap();
    }
    await_ledger(&workers, |ledger| count(ledger, own).drops[Reason::Loop] == 32);
    let ledger = finish(&workers);
    let after = count(&ledger, own);
    assert!((16..=48).contains(&(after.sent.datagrams - before.sent.datagrams)), "{ledger:#?}");
    assert_eq!(ledger.listeners[0].received.datagrams, 32 + after.sent.datagrams);
    assert_eq!((after.drops.total(), ledger.listeners[0].kernel_drops), (32, Some(0)));
}

/// Each round has a session of its own, so that it comes from another port each time.
#[test]
#[ignore = "long: 3 s, of what is to go"]
fn two_that_lead_answers_back_to_one_another_are_a_loop() {
    let with_replies = |to| Destination {
        replies: Some(Replies { sessions: 1_000, timeout: Duration::from_secs(60) }),
        ..destination(to)
    };
    let tee =
        |to: SocketAddr| Settings { destinations: vec![with_replies(to)], on_loop: OnLoop::Stop, ..settings(&[to]) };
    let first = start(settings(&[]));
    let second = start(tee(address(&first, 0)));
    let (there, back) = (address(&second, 0), address(&first, 0));
    reload(&first, tee(there));
    let source = source(back);
    for number in 0..3 {
        source.send(&payload(number, 100)).unwrap();
    }
    let began = Instant::now();
    let stopped = || {
        let drops = |workers: &Workers, to| count(&workers.ledger(), to).drops[Reason::Loop];
        drops(&first, there) + drops(&second, back)
    };
    while stopped() < 3 {
        assert!(began.elapsed() < Duration::from_secs(40), "{:#?} {:#?}", first.ledger(), second.ledger());
        sleep(Duration::from_millis(10));
    }
    finish(&first);
    finish(&second);
}
