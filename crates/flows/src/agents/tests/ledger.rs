//! The ledger closes, whatever is lost, overtaken or doubled on the way: the fault injector keeps a ledger of its own.

use std::collections::HashSet;

use weir_testbed::random::Source;

use super::super::{Ledger, Sequence, Step};
use super::{Limits, MILLISECOND, SECOND, WHO, agents, from, told};

/// Numbers with their faults, in the order in which they arrive, and the truth about them.
struct Faults {
    arrivals: Vec<u32>,
    duplicates: u64,
    lost: u64,
}

/// Each number is late by less than the window, so that each fault can be known.
fn faults(random: &mut Source, first: u32, count: u32) -> Faults {
    let share = random.uniform() * 0.3;
    let (mut due, mut duplicates, mut burst) = (Vec::new(), 0, 0u64);
    let mut came = HashSet::new();
    for i in 0..count {
        if burst == 0 && random.uniform() < 0.005 {
            burst = random.number(1..101);
        }
        burst = burst.saturating_sub(1);
        if burst > 0 || random.uniform() < share {
            continue;
        }
        let copies = 1 + u32::from(random.uniform() < 0.05);
        for _ in 0..copies {
            let late = if random.uniform() < 0.1 { random.number(0..60) } else { 0 };
            due.push((u64::from(i) + late, first.wrapping_add(i)));
        }
        duplicates += u64::from(copies - 1);
        came.insert(i);
    }
    due.sort_by_key(|&(at, _)| at);
    let span = came.iter().max().unwrap() - came.iter().min().unwrap() + 1;
    Faults {
        arrivals: due.into_iter().map(|(_, number)| number).collect(),
        duplicates,
        lost: u64::from(span) - came.len() as u64,
    }
}

#[test]
fn of_a_sequence() {
    let mut random = Source::drawn();
    for _ in 0..200 {
        // Every other run goes over the wrap.
        let first = if random.uniform() < 0.5 { u32::MAX - 500 } else { random.bits() as u32 };
        let truth = faults(&mut random, first, 2_000);
        let mut sequence = Sequence::default();
        for &number in &truth.arrivals {
            sequence.advance(number);
        }
        let ledger = sequence.ledger();
        let received = truth.arrivals.len() as u64 - truth.duplicates;
        assert_eq!((ledger.received, ledger.lost, ledger.duplicates), (received, truth.lost, truth.duplicates));
    }
}

#[test]
fn of_an_agent_with_restarts() {
    let mut random = Source::drawn();
    for _ in 0..50 {
        let mut agents = agents(Limits::default());
        let (mut now, mut lost, mut duplicates, mut received) = (SECOND, 0, 0, 0);
        let restarts = random.number(0..4);
        for _ in 0..=restarts {
            // Then it counts from 1 again, with an uptime that goes from 0.
            now += random.number(SECOND..60 * SECOND);
            let truth = faults(&mut random, 1, 2_000);
            let booted = now;
            for &number in &truth.arrivals {
                now = now.max(booted + u64::from(number) * 20 * MILLISECOND);
                let _ = agents.datagram(now, WHO, from(1), &told(number, number * 20));
            }
            received += truth.arrivals.len() as u64 - truth.duplicates;
            lost += truth.lost;
            duplicates += truth.duplicates;
        }
        let ledger = agents.agent(&WHO).unwrap().ledger();
        let all = ledger.sequence;
        assert_eq!(ledger.datagrams, all.received + all.duplicates);
        assert_eq!(ledger.restarts, restarts);
        assert_eq!(ledger.datagrams, received + duplicates);
        // Of a run whose first ones came late the first numbers are counted with those that are late.
        assert_eq!(all.lost, lost);
    }
}

#[test]
fn each_step_by_hand() {
    let mut sequence = Sequence::default();
    let steps = [
        (10, Step::First),
        (11, Step::Next),
        (14, Step::Lost(2)),
        (13, Step::Late),
        (13, Step::Duplicate),
        // Before the first: the run began earlier.
        (8, Step::Late),
        (500, Step::Lost(485)),
        (14, Step::Stale),
        (500, Step::Duplicate),
        (0x8000_0000, Step::Jump),
        (0x8000_0001, Step::Next),
        (3, Step::Jump),
        (u32::MAX, Step::Late),
        (4, Step::Next),
    ];
    for (number, step) in steps {
        assert_eq!(sequence.advance(number), step, "{number}");
    }
    let ledger = Ledger { received: 11, lost: 490, late: 3, duplicates: 2 };
    assert_eq!(*sequence.ledger(), ledger);
}
