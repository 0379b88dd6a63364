//! Accounts that close.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::drops::Reason;

/// The ledger, where nobody is within a turn for long.
fn ledger(books: &Books, in_use: &InUse<'_>) -> Ledger {
    let agreed = |worker, copy: CopyCounts| loop {
        if let Some(counts) = books.turns(worker).read(&copy) {
            return counts;
        }
        thread::yield_now();
    };
    books.ledger(in_use, agreed)
}

#[test]
fn an_account_closes_at_any_moment() {
    let books = Books::new(2);
    let outlet = books.outlet("sink", None);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (outlet, stop, turns) = (&outlet, &stop, books.turns(worker));
            scope.spawn(move || {
                let cell = outlet.cell(worker);
                while !stop.load(Ordering::Relaxed) {
                    let turn = turns.begin();
                    cell.copies.add(3);
                    cell.drops.add(Reason::SampledOut, 1);
                    cell.sent.add(2);
                    drop(turn);
                    // Whoever looks has a moment.
                    thread::yield_now();
                }
            });
        }
        let closed = || {
            let ledger = ledger(&books, &InUse::default());
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
fn a_count_that_is_missing_shows() {
    let books = Books::new(1);
    let sink = books.outlet("sink", None);
    sink.cell(0).copies.add(5);
    let ledger = ledger(&books, &InUse::default());
    assert!(!ledger.closed);
    assert_eq!(ledger.destinations[0].unexplained, 5);
}

#[test]
fn what_was_removed_stays_in_the_totals() {
    let books = Books::new(1);
    let held = books.outlet("held", None);
    for port in 0..1_000 {
        let outlet = books.outlet("sink", Some(SocketAddr::from(([127, 0, 0, 1], port))));
        outlet.cell(0).copies.add(2);
        outlet.cell(0).sent.add(2);
        if port == 500 {
            assert_eq!(ledger(&books, &InUse::default()).destinations.len(), 3, "one still drains");
        }
    }
    let ledger = ledger(&books, &InUse { outlets: vec![&held], ..InUse::default() });
    let counts: Vec<_> = ledger.destinations.iter().map(|to| (&*to.name, to.copies.datagrams)).collect();
    assert_eq!(counts, [("held", 0), (REMOVED, 2_000)]);
    assert!(ledger.closed);
}

#[test]
fn what_was_removed_before_it_counted_leaves_no_trace() {
    let books = Books::new(1);
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    drop((books.listener("in", address), books.rule("rule"), books.outlet("sink", None)));
    let held = books.outlet("held", None);
    let ledger = ledger(&books, &InUse::default());
    assert_eq!((ledger.listeners.len(), ledger.rules.len(), ledger.destinations.len()), (0, 0, 1));
    assert_eq!(held.name, ledger.destinations[0].name);
}

#[test]
fn what_is_in_use_stands_first_in_its_order() {
    let books = Books::new(1);
    let [gone, second, first] = ["gone", "second", "first"].map(|name| books.rule(name));
    gone.cell(0).matched.add(1);
    drop(gone);
    let ledger = ledger(&books, &InUse { rules: vec![&first, &second], ..InUse::default() });
    assert_eq!(ledger.rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>(), ["first", "second", REMOVED]);
}
