//! What agents and networks do, each with the right answer.

use weir_testbed::random::Source;
use weir_wire::sflow::DataSource;

use super::super::{Placed, Step};
use super::{Agents, Limits, MILLISECOND, Nanos, Process, SECOND, Verdict, WHO, agents, from, told};
use crate::agents::AgentLedger;
use crate::fate::Fate;

const BOOTED: Nanos = 1_000 * SECOND;

fn placed(verdict: Verdict) -> Placed {
    match verdict {
        Ok(placed) => placed,
        other => panic!("{other:?}"),
    }
}

/// Sends so many datagrams, so far apart; returns when the last came.
fn run(agents: &mut Agents<u32>, process: &mut Process, mut now: Nanos, count: u32, apart: Nanos) -> Nanos {
    for _ in 0..count {
        now += apart;
        let told = process.send(now);
        placed(agents.datagram(now, WHO, from(1), &told));
    }
    now
}

fn streams(agents: &Agents<u32>) -> usize {
    agents.agent(&WHO).unwrap().streams().len()
}

fn ledger(agents: &Agents<u32>) -> AgentLedger {
    agents.agent(&WHO).unwrap().ledger()
}

#[test]
fn an_agent_that_restarts_is_one_stream() {
    let mut agents = agents(Limits::default());
    let mut process = Process { number: 700_000, booted: 0, uptime: 0 };
    let now = run(&mut agents, &mut process, BOOTED, 100, SECOND);
    let mut process = Process { number: 0, booted: now + 30 * SECOND, uptime: 0 };
    let now = now + 31 * SECOND;
    let first = placed(agents.datagram(now, WHO, from(1), &process.send(now)));
    assert_eq!((first.step, first.moment.epoch), (Step::Jump, 1));
    run(&mut agents, &mut process, now, 100, SECOND);
    let ledger = ledger(&agents);
    assert_eq!((ledger.restarts, streams(&agents), ledger.sequence.received, ledger.sequence.lost), (1, 1, 201, 0));
}

/// A process that ends within seconds of its start, and begins again: same numbers, and uptimes that are no further apart than
/// datagrams may be out of order. Its samples are taken all the same.
#[test]
fn an_agent_that_restarts_young_is_no_duplicate() {
    for (lived, apart, down) in [(2, SECOND, 500), (4, SECOND, 500), (4, SECOND, 20_000), (40, 100 * MILLISECOND, 300)]
    {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 0, booted: BOOTED, uptime: 0 };
        let now = run(&mut agents, &mut process, BOOTED, lived, apart);
        let mut process = Process { number: 0, booted: now + down * MILLISECOND, uptime: 0 };
        run(&mut agents, &mut process, now + down * MILLISECOND, 200, apart);
        let ledger = ledger(&agents);
        assert_eq!((streams(&agents), ledger.sequence.lost), (1, 0), "{lived} datagrams, down for {down} ms");
    }
}

/// What the network doubles or delays is that, and no restart.
#[test]
fn what_is_doubled_or_late_is_no_restart() {
    for (behind, late) in [(0, 1), (1, 300), (3, 900), (4, 0), (100, 0)] {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 0, booted: BOOTED, uptime: 0 };
        let mut sent = Vec::new();
        for turn in 1..=200_u64 {
            let now = BOOTED + turn * SECOND;
            sent.push(process.send(now));
            placed(agents.datagram(now, WHO, from(1), &sent[sent.len() - 1]));
            if let Some(told) = sent.len().checked_sub(behind + 1).and_then(|at| sent.get(at)) {
                let again = agents.datagram(now + late * MILLISECOND, WHO, from(1), told);
                assert_eq!(again, Err(Fate::Duplicate));
            }
        }
        assert_eq!((ledger(&agents).restarts, streams(&agents)), (0, 1));
    }
}

#[test]
fn sequence_and_uptime_wrap() {
    let mut agents = agents(Limits::default());
    let mut process = Process { number: u32::MAX - 50, booted: BOOTED, uptime: u32::MAX - 30_000 };
    run(&mut agents, &mut process, BOOTED, 100, SECOND);
    let ledger = ledger(&agents);
    assert_eq!((ledger.restarts, ledger.sequence.lost, ledger.sequence.received), (0, 0, 100));
}

/// Ten minutes without news: all are lost that the agent has sent meanwhile, and nothing else happened.
#[test]
fn an_outage_is_loss() {
    let mut agents = agents(Limits::default());
    let mut process = Process { number: 5, booted: BOOTED, uptime: 0 };
    let now = run(&mut agents, &mut process, BOOTED, 100, 10 * MILLISECOND);
    process.number += 60_000;
    run(&mut agents, &mut process, now + 600 * SECOND, 100, 10 * MILLISECOND);
    let ledger = ledger(&agents);
    assert_eq!((ledger.sequence.lost, ledger.restarts), (60_000, 0));
}

/// Containers, line cards, or a fleet that was installed from one image, also begun in the same second: each is a stream of its own, with its own
/// data sources.
#[test]
fn senders_behind_one_address_are_kept_apart() {
    for (senders, apart) in [(4_u32, 15), (60, 1), (60, 50_000_000)] {
        let mut agents = agents(Limits::default());
        let mut machines: Vec<_> =
            (0..senders).map(|at| Process { number: 5_000 + apart * at, booted: 0, uptime: 0 }).collect();
        let (mut now, mut lost, mut random) = (BOOTED, 0, Source::drawn());
        for turn in 0..200 * senders {
            now += MILLISECOND;
            let which = turn % senders;
            let told = machines[which as usize].send(now);
            // A tenth is lost, but none of the first and the last.
            if (senders..199 * senders).contains(&turn) && random.uniform() < 0.1 {
                lost += 1;
                continue;
            }
            let placed = placed(agents.datagram(now, WHO, from(which as u16 + 1), &told));
            *agents.source(&placed, DataSource { class: 0, index: 47 }).unwrap() += 1;
        }
        let ledger = ledger(&agents);
        assert_eq!((streams(&agents), ledger.restarts), (senders as usize, 0));
        assert_eq!((ledger.sequence.lost, ledger.sequence.duplicates), (lost, 0));
        assert_eq!(agents.sources_of(agents.agent(&WHO).unwrap()).count(), senders as usize);
    }
}

/// Behind a relay that takes another port nothing is lost; who comes from elsewhere while the agent goes on is somebody else.
#[test]
fn a_sender_that_moves_goes_on() {
    for (silence, expected) in [(11, 1), (1, 2)] {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 5, booted: 0, uptime: 0 };
        let now = run(&mut agents, &mut process, BOOTED, 100, SECOND) + silence * SECOND;
        placed(agents.datagram(now, WHO, from(2), &process.send(now)));
        let ledger = ledger(&agents);
        assert_eq!((streams(&agents), ledger.sequence.lost, ledger.sequence.received), (expected, 0, 101));
    }
}

/// The clock is set back or ahead while the agent goes on: nothing is lost, but intervals across it are not the uptime's.
#[test]
fn an_uptime_that_jumps_is_the_same_agent() {
    for jump in [-3_600_000i32, 3_600_000, i32::MAX] {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 5, booted: BOOTED, uptime: 100_000_000 };
        let now = run(&mut agents, &mut process, BOOTED, 100, SECOND);
        process.uptime = process.uptime.wrapping_add_signed(jump);
        run(&mut agents, &mut process, now, 100, SECOND);
        let ledger = ledger(&agents);
        assert_eq!((ledger.sequence.received, ledger.restarts, streams(&agents)), (200, 0, 1));
    }
}

/// The sequence goes on elsewhere, ahead or behind by more than can be lost, with an uptime that just goes on.
#[test]
fn a_sequence_that_jumps_is_a_discontinuity() {
    for jump in [1 << 30, -100_000i32, -1_000_000_000] {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 1 << 30, booted: BOOTED, uptime: 0 };
        let now = run(&mut agents, &mut process, BOOTED, 100, SECOND);
        process.number = process.number.wrapping_add_signed(jump);
        for second in 1..=7 {
            let now = now + second * SECOND;
            assert_eq!(agents.datagram(now, WHO, from(1), &process.send(now)), Err(Fate::Stale));
        }
        run(&mut agents, &mut process, now + 7 * SECOND, 100, SECOND);
        let ledger = ledger(&agents);
        assert_eq!((ledger.sequence.received, ledger.sequence.lost), (200, 0));
        assert_eq!((ledger.restarts, streams(&agents)), (0, 1));
    }
}

/// An uptime is a clock once it has gone with the time for 20 s, also in steps of 10 ms (sysUpTime): none that stands still, shows whole
/// seconds, or goes at another speed. Loss is loss all the same.
#[test]
fn an_uptime_is_a_clock_once_it_has_agreed() {
    type Uptime = fn(u64) -> u64;
    let uptimes: [(Uptime, bool); 8] = [
        (|ms| 7_001 + ms, true),
        (|ms| ms * 1_001 / 1_000, true),
        (|ms| ms / 10 * 10, true),
        (|_| 77, false),
        (|ms| 5_001 + ms / 10, false),
        (|ms| ms / 1_000 * 1_000, false),
        (|ms| ms / 2, false),
        (|ms| ms * 3 / 2, false),
    ];
    for (case, (uptime, is_clock)) in uptimes.into_iter().enumerate() {
        let mut agents = agents(Limits::default());
        for number in (0..1_000_u32).filter(|number| number % 10 != 3) {
            let ms = 1_003 * u64::from(number);
            let told = told(number, uptime(ms) as u32);
            let moment = placed(agents.datagram(BOOTED + ms * MILLISECOND, WHO, from(1), &told)).moment;
            assert_eq!(moment.clock != 0, is_clock && number >= 20, "{case}: {number}");
        }
        let ledger = ledger(&agents);
        assert_eq!((ledger.sequence.lost, streams(&agents)), (100, 1));
    }
}

/// Datagrams with random numbers from elsewhere: none is the agent's.
#[test]
fn forged_datagrams_do_not_disturb_the_agent() {
    let mut agents = agents(Limits::default());
    let mut process = Process { number: 5, booted: BOOTED, uptime: 0 };
    let mut now = run(&mut agents, &mut process, BOOTED, 10, SECOND);
    let mut random = Source::drawn();
    for _ in 0..100 {
        for _ in 0..100 {
            now += MILLISECOND;
            let _ = agents.datagram(now, WHO, from(2), &told(random.bits() as u32, random.bits() as u32));
        }
        let placed = placed(agents.datagram(now, WHO, from(1), &process.send(now)));
        assert_eq!((placed.moment.epoch, placed.step), (0, Step::Next));
    }
    assert_eq!(streams(&agents), 2);
}

/// More than are followed are refused while the others are heard; then the one that has been silent for longest goes, with its data sources.
#[test]
fn streams_of_one_identity_have_a_limit() {
    let mut agents = agents(Limits { streams: 8, ..Limits::default() });
    for port in 1..=20 {
        let verdict = agents.datagram(BOOTED, WHO, from(port), &told(u32::from(port) << 20, 1));
        assert_eq!(matches!(verdict, Err(Fate::Crowded)), port > 8);
        if let Ok(placed) = verdict {
            agents.source(&placed, DataSource { class: 0, index: 1 });
        }
    }
    placed(agents.datagram(BOOTED + 121 * SECOND, WHO, from(77), &told(1, 1)));
    assert_eq!((streams(&agents), agents.source_count()), (8, 7));
}
