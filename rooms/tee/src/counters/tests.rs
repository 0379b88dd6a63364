//! Accounts that close.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::entries::{FORGOTTEN, KEPT, REMEMBERED};
use super::*;
use crate::drops::Reason;

#[test]
fn an_account_closes_at_any_moment() {
    let books = Books::new(2);
    let outlet = books.outlet("sink", None);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (outlet, stop) = (&outlet, &stop);
            scope.spawn(move || {
                let (asked, carried) = (outlet.asked(worker), outlet.carried(worker));
                while !stop.load(Ordering::Relaxed) {
                    asked.change(|asked| {
                        asked.copies.add(3);
                        asked.drops.add(Reason::SampledOut, 1);
                        asked.given.add(2);
                    });
                    // Here two are on the way.
                    carried.change(|carried| {
                        carried.taken.add(2);
                        carried.sent.add(2);
                    });
                }
            });
        }
        let closed = || {
            let ledger = books.ledger(&InUse::default());
            if !ledger.closed {
                // Whoever counts ends, too.
                stop.store(true, Ordering::Relaxed);
            }
            assert!(ledger.closed, "{ledger:?}");
            ledger.destinations[0].copies.datagrams
        };
        // A busy machine lets whoever counts begin late.
        while closed() == 0 {
            thread::yield_now();
        }
        for _ in 0..2_000 {
            closed();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_on_the_way_to_another_worker_is_queued() {
    let books = Books::new(2);
    let outlet = books.outlet("sink", None);
    outlet.asked(0).change(|asked| {
        asked.copies.add(10);
        asked.given.add(10);
    });
    outlet.carried(0).change(|carried| {
        carried.taken.add(4);
        carried.sent.add(4);
    });
    let count = &books.ledger(&InUse::default()).destinations[0];
    assert_eq!((count.queued, count.unexplained), (6, 0));
}

#[test]
fn a_count_that_is_missing_shows() {
    let books = Books::new(1);
    books.outlet("sink", None).asked(0).change(|asked| asked.copies.add(5));
    let ledger = books.ledger(&InUse::default());
    assert!(!ledger.closed);
    assert_eq!(ledger.destinations[0].unexplained, 5);
}

#[test]
fn what_was_removed_stays_in_the_totals() {
    let books = Books::new(1);
    for port in 0..1_000 {
        let outlet = books.outlet("sink", Some(SocketAddr::from(([127, 0, 0, 1], port))));
        outlet.asked(0).change(|asked| {
            asked.copies.add(2);
            asked.given.add(2);
        });
        outlet.carried(0).change(|carried| {
            carried.taken.add(2);
            carried.sent.add(2);
        });
        drop(outlet);
        if port % 100 == 0 {
            books.ledger(&InUse::default());
        }
    }
    let ledger = books.ledger(&InUse::default());
    assert_eq!(ledger.destinations.len(), REMEMBERED + 1);
    assert_eq!(ledger.destinations.iter().map(|to| to.copies.datagrams).sum::<u64>(), 2_000);
    assert_eq!(ledger.destinations[REMEMBERED].name, FORGOTTEN);
    // One that comes back goes on from where it was.
    let last = books.outlet("sink", Some(SocketAddr::from(([127, 0, 0, 1], 999))));
    assert_eq!(last.asked(0).copies.get(), 2);
}

#[test]
fn what_was_removed_a_while_ago_is_summed_up() {
    let books = Books::new(1);
    let [held, gone] = ["held", "gone"].map(|name| books.rule(name));
    [&held, &gone].into_iter().for_each(|rule| rule.cell(0).matched.add(2));
    drop(gone);
    let names = || {
        let ledger = books.ledger(&InUse { rules: vec![&held], ..InUse::default() });
        ledger.rules.into_iter().map(|rule| (rule.name, rule.matched.datagrams)).collect::<Vec<_>>()
    };
    assert_eq!(names(), [("held".to_owned(), 2), ("gone".to_owned(), 2)]);
    let soon = Instant::now() + KEPT;
    books.entries().forget(soon);
    assert_eq!(names(), [("held".to_owned(), 2), (FORGOTTEN.to_owned(), 2)]);
}

#[test]
fn what_was_removed_before_it_counted_leaves_no_trace() {
    let books = Books::new(1);
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    drop((books.listener("in", address), books.rule("rule"), books.outlet("sink", None)));
    let held = books.outlet("held", None);
    let ledger = books.ledger(&InUse::default());
    assert_eq!((ledger.listeners.len(), ledger.rules.len(), ledger.destinations.len()), (0, 0, 1));
    assert_eq!(held.name, ledger.destinations[0].name);
}

#[test]
fn what_is_in_use_stands_first_in_its_order() {
    let books = Books::new(1);
    let [gone, second, first] = ["gone", "second", "first"].map(|name| books.rule(name));
    gone.cell(0).matched.add(1);
    let ledger = books.ledger(&InUse { rules: vec![&first, &second], ..InUse::default() });
    assert_eq!(ledger.rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>(), ["first", "second", "gone"]);
}
