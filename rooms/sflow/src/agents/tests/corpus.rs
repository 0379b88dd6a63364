//! What agents and networks do, each with the right answer.

use weir_testbed::random::Source;
use weir_wire::sflow::DataSource;

use super::super::{Placed, Step};
use super::{Agents, Limits, MILLISECOND, Nanos, Process, SECOND, Verdict, WHO, agents};
use crate::agents::AgentLedger;

const BOOTED: Nanos = 1_000 * SECOND;

fn placed(verdict: Verdict) -> Placed {
    match verdict {
        Verdict::Placed(placed) => placed,
        other => panic!("{other:?}"),
    }
}

/// Sends so many datagrams, so far apart; returns when the last came.
fn run(agents: &mut Agents<u32>, process: &mut Process, mut now: Nanos, count: u32, apart: Nanos) -> Nanos {
    for _ in 0..count {
        now += apart;
        let (number, uptime) = process.send(now);
        placed(agents.datagram(now, WHO, number, uptime));
    }
    now
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
    let (number, uptime) = process.send(now);
    assert_eq!(agents.datagram(now, WHO, number, uptime), Verdict::Stranger);
    let (number, uptime) = process.send(now + SECOND);
    let second = placed(agents.datagram(now + SECOND, WHO, number, uptime));
    assert_eq!((second.step, second.restarted, second.moment.epoch), (Step::Jump, true, 1));
    run(&mut agents, &mut process, now + SECOND, 100, SECOND);
    let ledger = ledger(&agents);
    assert_eq!((ledger.restarts, ledger.streams, ledger.sequence.received, ledger.sequence.lost), (1, 1, 202, 0));
}

/// A process that ends within seconds of its start, and begins again: same numbers, and uptimes that are no further apart than
/// datagrams may be out of order.
#[test]
fn an_agent_that_restarts_young_is_no_duplicate() {
    for (lived, apart, down) in [(2, SECOND, 500), (4, SECOND, 500), (4, SECOND, 20_000), (40, 100 * MILLISECOND, 300)]
    {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 0, booted: BOOTED, uptime: 0 };
        let now = run(&mut agents, &mut process, BOOTED, lived, apart);
        let booted = now + down * MILLISECOND;
        let mut process = Process { number: 0, booted, uptime: 0 };
        let (number, uptime) = process.send(booted + apart);
        assert_eq!(agents.datagram(booted + apart, WHO, number, uptime), Verdict::Stranger);
        run(&mut agents, &mut process, booted + apart, 200, apart);
        let ledger = ledger(&agents);
        let told = (ledger.restarts, ledger.streams, ledger.sequence.duplicates, ledger.sequence.received);
        assert_eq!(told, (1, 1, 0, u64::from(lived) + 201), "{lived} datagrams, down for {down} ms");
    }
}

/// What the network doubles or delays while a process is young is that, and no restart.
#[test]
fn what_is_doubled_or_late_is_no_restart() {
    for (behind, late) in [(0, 1), (1, 300), (3, 900), (4, 0)] {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 0, booted: BOOTED, uptime: 0 };
        let mut sent = Vec::new();
        for turn in 1..=100_u64 {
            let now = BOOTED + turn * SECOND;
            sent.push(process.send(now));
            let (number, uptime) = sent[sent.len() - 1];
            placed(agents.datagram(now, WHO, number, uptime));
            if let Some(&(number, uptime)) = sent.len().checked_sub(behind + 1).and_then(|at| sent.get(at)) {
                assert_eq!(agents.datagram(now + late * MILLISECOND, WHO, number, uptime), Verdict::Duplicate);
            }
        }
        assert_eq!((ledger(&agents).restarts, ledger(&agents).streams), (0, 1));
    }
}

#[test]
fn sequence_and_uptime_wrap() {
    let mut agents = agents(Limits::default());
    let mut process = Process { number: u32::MAX - 50, booted: BOOTED, uptime: u32::MAX - 30_000 };
    run(&mut agents, &mut process, BOOTED, 100, SECOND);
    let ledger = ledger(&agents);
    let quiet = (ledger.restarts, ledger.discontinuities, ledger.uptime_jumps, ledger.strangers, ledger.sequence.lost);
    assert_eq!((quiet, ledger.sequence.received), ((0, 0, 0, 0, 0), 100));
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
    assert_eq!((ledger.sequence.lost, ledger.sequence.jumps, ledger.restarts), (60_000, 0, 0));
}

/// As in a capture of a data centre: same agent, same sub-agent, same sources; other uptimes, sequences, rates and pools.
#[test]
fn two_streams_behind_one_identity_are_kept_apart() {
    let mut agents = agents(Limits::default());
    let mut one = Process { number: 5_000, booted: 0, uptime: 0 };
    let mut other = Process { number: 9_000_000, booted: 0, uptime: 1_600_000_000 };
    let mut random = Source::drawn();
    let (mut now, mut streams, mut sent) = (BOOTED, [Vec::new(), Vec::new()], [0, 0]);
    for _ in 0..2_000 {
        now += 50 * MILLISECOND;
        let which = usize::from(random.uniform() < 0.3);
        let (number, uptime) = if which == 0 { one.send(now) } else { other.send(now) };
        sent[which] += 1;
        // A tenth is lost.
        if random.uniform() < 0.1 {
            continue;
        }
        if let Verdict::Placed(placed) = agents.datagram(now, WHO, number, uptime) {
            let source = agents.source(&placed, DataSource { class: 0, index: 47 }).unwrap();
            *source += 1;
            streams[which].push(placed.stream);
        }
    }
    let ledger = ledger(&agents);
    for stream in &mut streams {
        stream.dedup();
        assert_eq!(stream.len(), 1, "{stream:?}");
    }
    assert_ne!(streams[0], streams[1]);
    assert_eq!((ledger.streams, ledger.restarts, ledger.discontinuities), (2, 0, 0));
    assert!(ledger.strangers <= 3, "{}", ledger.strangers);
    // Each has its own state for the same data source.
    assert_eq!(agents.sources_of(agents.agent(&WHO).unwrap()).count(), 2);
    // Numbers before the first and behind the last of a stream nobody knows.
    let all = ledger.sequence.span + 20;
    assert!(all >= sent[0] + sent[1], "{all} of {sent:?}");
}

/// Three machines that were installed from one image: same address, begun at about the same time.
#[test]
fn agents_that_share_an_address_are_kept_apart() {
    let mut agents = agents(Limits::default());
    let mut machines: Vec<_> =
        (0..3).map(|i| Process { number: 1_000_000 * (i + 1), booted: u64::from(i) * SECOND, uptime: 0 }).collect();
    let mut now = BOOTED;
    for turn in 0..600 {
        now += 100 * MILLISECOND;
        let (number, uptime) = machines[turn % 3].send(now);
        agents.datagram(now, WHO, number, uptime);
    }
    let ledger = ledger(&agents);
    assert_eq!((ledger.streams, ledger.restarts, ledger.sequence.lost), (3, 0, 0));
    assert_eq!((ledger.strangers, ledger.sequence.received), (0, 600));
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
        assert_eq!((ledger.sequence.received, ledger.uptime_jumps), (200, 1));
        assert_eq!((ledger.restarts, ledger.discontinuities, ledger.strangers, ledger.streams), (0, 0, 0, 1));
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
        // As long as the stream may go on where it was, somebody else may have sent them.
        for second in 1..=2 {
            let now = now + second * SECOND;
            let (number, uptime) = process.send(now);
            assert_eq!(agents.datagram(now, WHO, number, uptime), Verdict::Stranger);
        }
        run(&mut agents, &mut process, now + 2 * SECOND, 100, SECOND);
        let ledger = ledger(&agents);
        let (received, lost) = (ledger.sequence.received, ledger.sequence.lost);
        assert_eq!((ledger.discontinuities, ledger.restarts, ledger.streams, received, lost), (1, 0, 1, 201, 0));
        assert_eq!(ledger.strangers, 1);
    }
}

/// Agents whose uptime says nothing: it stands still, or counts hundredths of seconds. Loss is loss all the same.
#[test]
fn an_uptime_that_is_no_clock_is_seen() {
    for unit in [0, 1, 10] {
        let mut agents = agents(Limits::default());
        let mut now = BOOTED;
        let mut granule = 0;
        for number in 0..1_000u32 {
            now += SECOND;
            if number % 10 != 3 {
                let uptime = number * 100 * unit;
                granule = placed(agents.datagram(now, WHO, number, uptime)).moment.granule;
            }
        }
        let ledger = ledger(&agents);
        // Only that of 1,000 a second is a clock.
        assert_eq!(granule > 0, unit == 10);
        assert_eq!((ledger.sequence.lost, ledger.strangers, ledger.streams), (100, 0, 1));
    }
}

/// Datagrams wait in a queue that grows, then empties at once: their uptimes are right all the time, their arrivals are not.
#[test]
fn a_queue_does_not_make_the_uptime_wrong() {
    for slowness in [2, 4, 7] {
        let mut agents = agents(Limits::default());
        let mut process = Process { number: 5, booted: 0, uptime: 0 };
        let now = run(&mut agents, &mut process, BOOTED, 100, 20 * MILLISECOND);
        let most = 100 / (slowness - 1);
        let mut arrived = now;
        for tick in 1..=80_000 / 20 {
            let sent = now + tick * 20 * MILLISECOND;
            // Up to 100 s late; then all that waits comes at once, and nothing waits any more.
            arrived = if tick * 20 < most * 1_000 { now + slowness * (sent - now) } else { sent.max(arrived) };
            let (number, uptime) = process.send(sent);
            assert_eq!(placed(agents.datagram(arrived, WHO, number, uptime)).moment.granule, 20, "{slowness}: {tick}");
        }
        let ledger = ledger(&agents);
        assert_eq!((ledger.uptime_jumps, ledger.sequence.lost, ledger.streams), (0, 0, 1));
    }
}

/// An uptime of half or twice the speed is no queue: that would be minutes long, or empty before it began.
#[test]
fn an_uptime_of_another_speed_is_seen() {
    for (apart, most) in [(500, 250), (1_500, 15)] {
        let mut agents = agents(Limits::default());
        let moment = |now: u64, agents: &mut Agents<u32>| {
            let uptime = (now * apart) as u32;
            placed(agents.datagram(BOOTED + now * SECOND, WHO, now as u32, uptime)).moment
        };
        for now in 0..most {
            moment(now, &mut agents);
        }
        (most..2 * most).for_each(|now| assert_eq!(moment(now, &mut agents).granule, 0, "{apart} at {now}"));
    }
}

/// Datagrams with random numbers and the address of an agent that is well.
#[test]
fn forged_datagrams_do_not_disturb_the_agent() {
    let mut agents = agents(Limits::default());
    let mut process = Process { number: 5, booted: BOOTED, uptime: 0 };
    let mut now = run(&mut agents, &mut process, BOOTED, 10, SECOND);
    let mut random = Source::drawn();
    for _ in 0..100 {
        for _ in 0..100 {
            now += MILLISECOND;
            let verdict = agents.datagram(now, WHO, random.bits() as u32, random.bits() as u32);
            assert!(!matches!(verdict, Verdict::Placed(Placed { step: Step::Jump, .. })), "{verdict:?}");
        }
        let (number, uptime) = process.send(now);
        assert_eq!(placed(agents.datagram(now, WHO, number, uptime)).moment.epoch, 0);
    }
    assert_eq!((ledger(&agents).restarts, ledger(&agents).sequence.received), (0, 110));
}

/// More than are followed: the one that has been silent longest goes, with its data sources.
#[test]
fn streams_of_one_identity_have_a_limit() {
    let mut agents = agents(Limits::default());
    let mut now = BOOTED;
    for i in 0..20u32 {
        // Each with another uptime, far from all others.
        let mut process = Process { number: i * 50_000_000, booted: now, uptime: 50_000_000 + i * 100_000_000 };
        for _ in 0..3 {
            now += 10 * MILLISECOND;
            let (number, uptime) = process.send(now);
            if let Verdict::Placed(placed) = agents.datagram(now, WHO, number, uptime) {
                agents.source(&placed, DataSource { class: 0, index: 1 });
            }
        }
    }
    let ledger = ledger(&agents);
    assert_eq!((ledger.streams, ledger.evicted_streams, agents.totals().evicted_streams), (20, 12, 12));
    assert_eq!((agents.agent(&WHO).unwrap().streams().len(), agents.source_count()), (8, 8));
}
