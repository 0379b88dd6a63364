//! Somebody else speaks in an agent's name, and knows its uptime, not its numbers.

use super::super::{Step, StreamId};
use super::{Agents, Limits, MILLISECOND, Process, SECOND, Verdict, WHO, agents};

const START: u64 = 1_000 * SECOND;

fn honest() -> Process {
    Process { number: 5_000_000, booted: START - 900 * SECOND, uptime: 77_000 }
}

/// Two datagrams that continue one another.
fn pair(agents: &mut Agents<u32>, now: u64, number: u32, uptime: u32) {
    for next in 0..2 {
        agents.datagram(now + u64::from(next), WHO, number.wrapping_add(next), uptime + next);
    }
}

#[track_caller]
fn is_balanced(agents: &Agents<u32>) {
    let ledger = agents.agent(&WHO).unwrap().ledger();
    let of_sequence = ledger.sequence.received + ledger.sequence.duplicates + ledger.sequence.stale;
    assert_eq!(ledger.datagrams, of_sequence + ledger.strangers, "{ledger:?}");
    assert_eq!(ledger.sequence.span, ledger.sequence.received + ledger.sequence.lost, "{ledger:?}");
}

#[test]
fn an_agent_goes_on_whatever_is_begun_in_its_name() {
    // How a forger numbers its pairs, and which uptime it tells: as one that has just begun, or as the agent does.
    type Forged = fn(u32) -> u32;
    let going_on: Forged = |turn| 777_000_000 + 2 * turn;
    let anew: Forged = |turn| 0x9e37_79b9_u32.wrapping_mul(turn + 1);
    for (numbers, is_young) in [(going_on, false), (going_on, true), (anew, false), (anew, true)] {
        let (mut agents, mut process) = (agents(Limits::default()), honest());
        let (mut own, mut epochs, mut lost) = (None::<StreamId>, Vec::new(), 0);
        for step in 0..1_200u64 {
            let now = START + step * 100 * MILLISECOND;
            let (number, uptime) = process.send(now);
            match agents.datagram(now, WHO, number, uptime) {
                Verdict::Placed(placed) => {
                    assert_eq!(*own.get_or_insert(placed.stream), placed.stream, "at {step}");
                    epochs.push(placed.moment.epoch);
                }
                _ => lost += 1,
            }
            if step % 20 == 19 {
                let (between, turn) = (now + 50 * MILLISECOND, step as u32 / 20);
                pair(&mut agents, between, numbers(turn), if is_young { 10 } else { uptime + 50 });
            }
        }
        epochs.dedup();
        assert!(lost == 0 && epochs.len() <= 2, "{lost} lost, {} runs", epochs.len());
        is_balanced(&agents);
    }
}

/// He tells the agent's uptime, or that it has begun again, between two of its datagrams.
#[test]
fn who_begins_between_two_datagrams_is_somebody_else() {
    for is_young in [false, true] {
        let (mut agents, mut process) = (agents(Limits::default()), honest());
        let mut seen = Vec::new();
        for step in 0..120u64 {
            let now = START + step * SECOND;
            let (number, uptime) = process.send(now);
            let Verdict::Placed(placed) = agents.datagram(now, WHO, number, uptime) else { panic!("lost at {step}") };
            seen.push((placed.stream, placed.moment.epoch, placed.moment.era));
            for turn in (0..5).filter(|_| step >= 60) {
                let (now, told) =
                    (now + u64::from(turn) * 20 * MILLISECOND, 10 + 1_000 * (step as u32 - 60) + 20 * turn);
                let number = 4_000_000 + 5 * step as u32 + turn;
                let uptime = if is_young { told } else { uptime + 20 * turn };
                let forged = agents.datagram(now + 300 * MILLISECOND, WHO, number, uptime);
                assert!(!matches!(forged, Verdict::Placed(forged) if forged.stream == placed.stream), "{forged:?}");
            }
        }
        seen.dedup();
        assert_eq!(seen.len(), 1, "{seen:?}");
        is_balanced(&agents);
    }
}

/// He comes from behind, and sends twice as much: each stream goes on by itself, and both are in dispute.
#[test]
fn streams_that_run_into_one_another_are_disputed() {
    let (mut agents, mut process) = (agents(Limits::default()), honest());
    let first = process.number + 61 - 200;
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for step in 0..400u64 {
        let now = START + step * SECOND;
        let (number, uptime) = process.send(now);
        let Verdict::Placed(placed) = agents.datagram(now, WHO, number, uptime) else { panic!("lost at {step}") };
        own.push((placed.stream, placed.moment.epoch, placed.moment.era));
        let Some(ahead) = step.checked_sub(60) else { continue };
        for turn in 0..2 {
            let (later, number) = (500 + 100 * turn, first + 2 * ahead as u32 + turn);
            let forged = agents.datagram(now + u64::from(later) * MILLISECOND, WHO, number, uptime + later);
            others.extend(if let Verdict::Placed(placed) = forged { Some(placed.stream) } else { None });
        }
        let streams = agents.agent(&WHO).unwrap().streams();
        let disputed = streams.iter().filter(|stream| stream.has_met).count();
        // Where they are within 128 numbers of one another.
        match ahead {
            ..70 => assert_eq!(disputed, 0, "{ahead}"),
            75.. => assert_eq!(disputed, 2, "{ahead}"),
            _ => {}
        }
    }
    // Where their numbers cross, one datagram is next in both.
    own.dedup();
    others.dedup();
    assert!(own.len() <= 3 && others.len() <= 3 && others[0] != own[0].0, "{own:?}, {others:?}");
    assert!(own.first() == own.last() && others.first() == others.last(), "{own:?}, {others:?}");
    is_balanced(&agents);
}

#[test]
fn an_agent_that_is_seldom_heard_is_not_pushed_out() {
    let (mut agents, mut process) = (agents(Limits::default()), honest());
    let mut own = None;
    for step in 0..30u64 {
        let now = START + step * 20 * SECOND;
        let (number, uptime) = process.send(now);
        let Verdict::Placed(placed) = agents.datagram(now, WHO, number, uptime) else { panic!("lost at {step}") };
        assert_eq!(*own.get_or_insert(placed.stream), placed.stream, "at {step}");
        for turn in 0..40u32 {
            let between = now + SECOND + u64::from(turn) * SECOND / 10;
            // As the agent's, and any: those that cannot have become of it are streams of their own.
            let told = if turn % 2 == 0 { uptime + 1_000 + 100 * turn } else { 0x7feb_352d_u32.wrapping_mul(turn + 1) };
            pair(&mut agents, between, 0x9e37_79b9_u32.wrapping_mul(turn + 1), told);
        }
    }
    is_balanced(&agents);
}

#[test]
fn an_agent_that_begins_again_itself_is_the_same_and_stays_so() {
    let (mut agents, mut process) = (agents(Limits::default()), honest());
    let mut seen = Vec::new();
    for step in 0..600u64 {
        let now = START + step * 100 * MILLISECOND;
        if step % 200 == 199 {
            process = Process { number: 0, booted: now, uptime: 0 };
        }
        let (number, uptime) = process.send(now);
        if let Verdict::Placed(placed) = agents.datagram(now, WHO, number, uptime) {
            seen.push((placed.stream, placed.moment.epoch));
        }
    }
    seen.dedup();
    assert!(seen.len() == 3 && seen.iter().all(|(stream, _)| *stream == seen[0].0), "{seen:?}");
    assert_eq!(agents.agent(&WHO).unwrap().ledger().restarts, 2);
    is_balanced(&agents);
}

#[test]
fn who_speaks_from_elsewhere_takes_no_place_whatever_numbers_he_knows() {
    let (mut agents, mut process) = (agents(Limits::default()), honest());
    let mut seen = Vec::new();
    for step in 0..200u64 {
        let now = START + step * SECOND;
        let (number, uptime) = process.send(now);
        let Verdict::Placed(placed) = agents.datagram(now, WHO, number, uptime) else { panic!("lost at {step}") };
        let again = agents.datagram_from(now, WHO, (number, uptime), true);
        assert!(!matches!(again, Verdict::Placed(other) if other.stream == placed.stream), "{again:?}");
        seen.push((placed.stream, placed.moment.epoch, placed.moment.era, placed.step));
        // The next ones, and more streams than are followed, some of another time.
        for turn in 0..20u32 {
            let told = if turn % 2 == 0 { uptime } else { uptime + 10_000_000 };
            for next in 1..=3 {
                agents.datagram_from(now + u64::from(next), WHO, (number + 1_000_000 * turn + next, told + next), true);
            }
        }
    }
    seen[0].3 = Step::Next;
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
    is_balanced(&agents);
}
