//! What is told first of a flood: of agents that had little to tell before, and of those that send what they have once a second.

use super::*;
use crate::model::{Doubt, Rate};

/// How an agent sends 200 datagrams' worth of a flood, 7 samples each.
#[derive(Clone, Copy, Debug)]
enum Sending {
    /// As they are full. The first one has been open for half a second.
    Full,
    /// What came in a second, one behind the other.
    EachSecond,
}

/// A flood of so many samples a second, each of 1,000 packets of 1,400 bytes, to a host that gets nothing else; when its first sample came, and what is told
/// when, as the thread that decides asks.
fn told(detector: &mut Detector, rate: u64, sending: Sending) -> (u64, Vec<(u64, Detection)>) {
    let (begin, count) = (100 * SECOND, 200);
    let mut random = Source(7);
    let mut told = Vec::new();
    let mut ask = |detector: &mut Detector, now: u64| {
        detector.reach(now);
        let findings = detector.take_findings();
        told.extend(floods(&findings).into_iter().map(|one| (now, one.clone())));
    };
    let per_second = rate / 7;
    let (mut came, mut first) = (0, None);
    for number in 0..count {
        let (time, kept) = match sending {
            Sending::Full if number == 0 => (begin, SECOND / 2),
            Sending::Full => (begin + number * SECOND / per_second, SECOND / per_second),
            Sending::EachSecond => {
                (begin + number / per_second * SECOND + number % per_second * SECOND / 20_000, SECOND)
            }
        };
        // Nobody tells anything meanwhile; time goes on.
        (came / SECOND * 100..time / (SECOND / 100)).filter(|_| came > 0).for_each(|tick| {
            let now = tick * SECOND / 100;
            if came < now {
                detector.tick(now, 0);
                ask(detector, now);
            }
        });
        for _ in 0..7 {
            let packet = udp(anybody(&mut random), host(7), (53, random.bits() as u16), 1_400);
            let (point, stream) = (point("10.0.0.1"), Stream::default());
            let (ingress, frames, ago) = (Some(true), 1_000.0, [kept, 0]);
            detector.sample(&Sighting { time, kept, ago, point, stream, ingress, frames, packet, header: &[] });
        }
        ask(detector, time);
        came = time;
        first.get_or_insert(time);
    }
    for tick in 1..10 {
        detector.tick(came + tick * SECOND / 100, 0);
        ask(detector, came + tick * SECOND / 100);
    }
    (first.unwrap_or_default(), told)
}

/// A detector whose agent has an interface of so many bits a second.
fn detector(speed: f64) -> Detector {
    let mut detector = believed(settings(vec![Threshold::packets(Class::UdpFlood, 4_000.0)]));
    let (packets, bits, speed) = ([1e9; 2], [1e13; 2], Some(speed));
    let (point, stream) = (point("10.0.0.1"), Stream::default());
    detector.counters(&Counts { point, stream, from: 79 * SECOND, to: 99 * SECOND, packets, bits, speed });
    detector
}

#[test]
fn the_first_report_is_as_much_as_comes() {
    for (rate, sending) in [
        (70, Sending::Full),
        (420, Sending::Full),
        (2_100, Sending::Full),
        (420, Sending::EachSecond),
        (700, Sending::EachSecond),
    ] {
        let mut detector = detector(1e12);
        let (begin, told) = told(&mut detector, rate, sending);
        let (when, first) = &told[0];
        let Rate { value, low, high } = first.evidence.packets;
        let truth = rate as f64 * 1e3;
        // They come evenly: the interval is that of chance, the value has none.
        assert!((value / truth - 1.0).abs() < 0.15, "{rate} {sending:?}: {:?}", first.evidence.packets);
        assert!(low < truth && truth < high, "{rate} {sending:?}: {:?}", first.evidence.packets);
        assert!(first.doubts.is_empty(), "{rate} {sending:?}: {:?}", first.doubts);
        // Seven samples come in each tenth of a second of the slowest, and some twenty are needed.
        let most = if rate < 100 { 6 * SECOND / 10 } else { SECOND / 10 };
        assert!(when - begin <= most, "{rate} {sending:?}: after {} ms", (when - begin) / 1_000_000);
    }
}

/// 3.6 times the speed of the interface: as of a sampling rate that is told wrong.
#[test]
fn what_the_line_cannot_carry_is_never_told_without_a_doubt_however_it_is_sent() {
    for sending in [Sending::Full, Sending::EachSecond] {
        for rate in [350, 700] {
            let mut detector = detector(rate as f64 * 1_400.0 * 8.0 * 1e3 / 3.6);
            let (_, told) = told(&mut detector, rate, sending);
            let is_doubted = |one: &Detection| one.doubts.iter().any(|doubt| matches!(doubt, Doubt::Speed { .. }));
            assert!(!told.is_empty(), "{rate} {sending:?}");
            let sure: Vec<_> = told.iter().filter(|(_, one)| !is_doubted(one)).collect();
            assert!(sure.is_empty(), "{rate} {sending:?}: {:?}", sure[0]);
        }
    }
}

/// Datagrams of seven samples each of an agent that sends once a second; when each came, ms after 100 s, and since when its samples were taken, as far as its
/// times say. What is told first, which is asked for after each of them.
fn told_first(datagrams: &[(f64, f64)]) -> Detection {
    let mut detector = detector(1e12);
    let mut random = Source(7);
    let after = |millis: f64| 100 * SECOND + (millis * 1e6) as u64;
    let mut told = Vec::new();
    for &(came, since) in datagrams {
        let (time, kept) = (after(came), ((came - since) * 1e6) as u64);
        for _ in 0..7 {
            let packet = udp(anybody(&mut random), host(7), (53, random.bits() as u16), 1_400);
            let (point, stream) = (point("10.0.0.1"), Stream::default());
            let (ingress, frames, ago) = (Some(true), 1_000.0, [kept, 0]);
            detector.sample(&Sighting { time, kept, ago, point, stream, ingress, frames, packet, header: &[] });
        }
        detector.reach(time);
        told.extend(floods(&detector.take_findings()).into_iter().cloned());
    }
    let last = datagrams.last().map_or(0.0, |one| one.0);
    for tick in 1..20 {
        detector.tick(after(last + f64::from(tick) * 10.0), 0);
        told.extend(floods(&detector.take_findings()).into_iter().cloned());
    }
    told.swap_remove(0)
}

/// 700 samples a second. What comes after the pause was taken before it, and looks as if it had been taken in it.
#[test]
fn an_agent_that_pauses_within_a_batch_makes_no_flood_larger_than_it_may_be() {
    for (before, pause) in [(1, 6.0), (3, 6.0), (3, 20.0), (3, 45.0)] {
        let first = (0..before).map(|number| (f64::from(number) * 0.3, -1_000.0));
        let resumed = f64::from(before - 1) * 0.3 + pause;
        let rest = (0..97).map(|number| (resumed + f64::from(number) * 0.05, resumed - pause + 0.01));
        let datagrams: Vec<(f64, f64)> = first.chain(rest).collect();
        let Rate { value, low, high } = told_first(&datagrams).evidence.packets;
        let truth = f64::from(before + 97) * 7e3;
        assert!(low < truth && truth < high, "{before}, {pause} ms: {value} ({low} to {high}), {truth}");
    }
}

/// It began shortly before a batch, and is decided by the first samples of the next one, of which the others are still coming.
#[test]
fn a_flood_that_is_decided_in_the_middle_of_a_batch_may_be_as_much_as_is_still_to_come() {
    for before in [1, 2, 4] {
        let first = (0..before).map(|number| (f64::from(number) * 0.3, -1_000.0));
        let second = (0..43).map(|number| (1_000.0 + f64::from(number) * 0.3, f64::from(before - 1) * 0.3));
        let datagrams: Vec<(f64, f64)> = first.chain(second).collect();
        let Rate { value, low, high } = told_first(&datagrams).evidence.packets;
        assert!(low < 301e3 && 301e3 < high, "{before}: {value} ({low} to {high})");
    }
}

/// A pulse of a second, 8 times the threshold: when it is looked at first, too few of its samples are here, and there is no next batch of it.
#[test]
fn a_batch_is_of_many_sources_once_it_is_here() {
    for few in [false, true] {
        let mut random = Source(11);
        let udp_flood = Threshold { min_sources: 10, ..Threshold::packets(Class::UdpFlood, 200_000.0) };
        let mut detector = believed(settings(vec![udp_flood]));
        show(&mut detector, 0, "10.0.0.1", 1_000.0, udp(ip("1.1.1.1"), host(60_000), (1, 1), 100));
        let (begin, mut told) = (10 * SECOND, Vec::new());
        for number in 0..1_600 {
            let time = begin + number / 7 * 30_000;
            let source = if few { host(0x10_0000 + (number % 5) as u32) } else { anybody(&mut random) };
            let packet = udp(source, host(7), (53, random.bits() as u16), 1_400);
            let (point, stream) = (point("10.0.0.1"), Stream::default());
            let (ingress, frames, kept) = (Some(true), 1_000.0, SECOND);
            let ago = [kept, 0];
            detector.sample(&Sighting { time, kept, ago, point, stream, ingress, frames, packet, header: &[] });
            told.extend(detector.take_findings());
        }
        assert_eq!(
            (floods(&told).len(), detector.is_about_to_tell()),
            (0, true),
            "it is not to be known at the first look"
        );
        for tick in 1..20 {
            detector.tick(begin + tick * SECOND / 100, 0);
            told.extend(detector.take_findings());
        }
        let found = floods(&told);
        assert_eq!(found.is_empty(), few);
        if let Some(first) = found.first() {
            assert!(first.decided <= begin + SECOND / 20, "{}", first.decided);
            let packets = first.evidence.packets;
            assert!(packets.value > 800e3 && packets.high > 1_600e3, "{packets:?}");
        }
        // Nobody waits for more where nothing comes.
        assert!(!detector.is_about_to_tell());
    }
}

/// 25 times the threshold, of an agent that had been silent for a second: 100 samples a second, in datagrams of seven.
#[test]
fn the_first_flood_of_a_quiet_agent_is_as_much_as_it_is() {
    for silent in [200.0, 1_000.0] {
        let first = std::iter::once((0.0, -silent));
        let rest = (1..12).map(|number| (f64::from(number) * 70.0, f64::from(number - 1) * 70.0));
        let datagrams: Vec<(f64, f64)> = first.chain(rest).collect();
        let told = told_first(&datagrams);
        let Rate { value, low, high } = told.evidence.packets;
        assert!(low < 100e3 && 100e3 < high, "{silent} ms: {value} ({low} to {high})");
        assert!((80e3..120e3).contains(&value), "{silent} ms: {value} ({low} to {high})");
        assert!(told.decided <= 100 * SECOND + SECOND * 3 / 10, "{silent} ms: {}", told.decided);
    }
}
