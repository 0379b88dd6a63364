//! The model against arithmetic.

use std::net::IpAddr;

use weir_testbed::random;
use weir_wire::sflow::{Datagram, Record, Sample, Value, View};

use super::*;

fn plan(seed: u64) -> Plan {
    Plan {
        agents: 3,
        interfaces: 2,
        packets_per_second: 50_000.0,
        sampling_rate: 1000,
        selection: Selection::Skip,
        pool: Pool::Counted,
        polling: Duration::from_secs(1),
        longest: 1400,
        seed,
    }
}

/// Samples of an interface up to a time, s.
fn samples(plan: &Plan, until: f64) -> Vec<Sampled> {
    let mut traffic = plan.traffic(0, 1);
    std::iter::from_fn(|| Some(traffic.take())).take_while(|sampled| sampled.at < until).collect()
}

#[test]
fn the_classes_have_their_shares() {
    assert!((CLASSES.iter().map(|class| class.share).sum::<f64>() - 1.0).abs() < 1e-12);
    let samples = samples(&plan(random::seed()), 1000.0);
    let last = samples.last().unwrap();
    let n = samples.len() as f64;
    for (index, class) in CLASSES.iter().enumerate() {
        // Of 50 million packets; there are many such looks: six and a half standard deviations.
        let all = last.totals.packets() as f64;
        let share = last.totals.frames[index] as f64 / all;
        let deviation = (class.share * (1.0 - class.share) / all).sqrt();
        assert!((share - class.share).abs() < 6.5 * deviation, "{share} of {class:?}");
        // Of 50 thousand samples.
        let sampled = samples.iter().filter(|sampled| sampled.class == index).count() as f64 / n;
        let deviation = (class.share * (1.0 - class.share) / n).sqrt();
        assert!((sampled - class.share).abs() < 6.5 * deviation, "{sampled} of {class:?} are sampled");
    }
    assert!((last.totals.packets() as f64 / n / 1000.0 - 1.0).abs() < 6.5 * 0.578 / n.sqrt(), "one in 1000 is sampled");
    // The load is even between a half and one and a half, and independent from second to second.
    let rate = last.totals.packets() as f64 / last.at / 50_000.0;
    assert!((rate - 1.0).abs() < 6.5 * (1.0_f64 / 12.0 / 1000.0).sqrt(), "{rate} of the rate");
}

/// Mean and variance of skips, over the sampling rate and its square: those of even, geometric and constant ones.
#[test]
fn packets_are_selected_as_the_plan_says() {
    let even = (Selection::Skip, 1.0 / 3.0);
    for (selection, variance) in [even, (Selection::Chance, 1.0), (Selection::EveryNth, 0.0)] {
        let samples = samples(&Plan { selection, ..plan(random::seed()) }, 1000.0);
        let n = samples.len() as f64;
        let skips =
            samples.windows(2).map(|pair| (pair[1].totals.packets() - pair[0].totals.packets()) as f64 / 1000.0);
        let (sum, squares) = skips.fold((0.0, 0.0), |(sum, squares), skip| (sum + skip, squares + skip * skip));
        let (mean, found) = (sum / n, squares / n - (sum / n).powi(2));
        assert!((mean - 1.0).abs() < 6.5 / n.sqrt() && (found - variance).abs() < 0.1, "{selection:?}: {mean} {found}");
    }
}

#[test]
fn totals_only_grow_and_meet_at_samples() {
    let mut traffic = plan(random::seed()).traffic(2, 2);
    let mut before = Totals::default();
    let mut at = 0.0;
    for _ in 0..10_000 {
        let next = *traffic.next();
        let middle = traffic.totals_at((at + next.at) / 2.0);
        let end = traffic.totals_at(next.at);
        assert_eq!(end, next.totals);
        assert_eq!(traffic.totals_at(at), before);
        for class in 0..CLASSES.len() {
            assert!(before.frames[class] <= middle.frames[class] && middle.frames[class] <= end.frames[class]);
        }
        assert!(next.at > at && middle.packets() < end.packets());
        (before, at) = (end, next.at);
        traffic.take();
    }
}

#[test]
fn the_truth_is_the_same_traffic_again() {
    let plan = plan(random::seed());
    let samples = samples(&plan, 30.0);
    let mut truth = Truth::new(&plan, 0, 1);
    let mut by_time = truth.clone();
    assert_eq!(truth.up_to_sample(0), Totals::default());
    for (number, sampled) in (1..).zip(&samples).step_by(7) {
        assert_eq!(truth.up_to_sample(number), sampled.totals);
        assert_eq!(by_time.up_to_time(sampled.at), sampled.totals);
    }
    assert_ne!(Truth::new(&plan, 0, 2).up_to_sample(100), Truth::new(&plan, 1, 1).up_to_sample(100));
}

#[test]
fn datagrams_come_in_the_order_of_time_and_tell_what_passed() {
    let plan = plan(random::seed());
    let mut fleet = Fleet::new(&plan);
    let (mut at, mut sequences) = (0.0, [0; 3]);
    let (mut flow, mut counters) = (0, 0);
    let mut truth = Truth::new(&plan, 1, 2);
    let mut pool = None;
    while at < 20.0 {
        let (due, bytes) = fleet.next_datagram().unwrap();
        assert!(due.at >= at && (1..=7).contains(&due.samples) && bytes.len() <= plan.longest);
        at = due.at;
        sequences[due.agent as usize] += 1;
        assert_eq!(due.sequence, sequences[due.agent as usize]);
        let datagram = Datagram::parse(bytes).unwrap();
        assert_eq!(datagram.agent, IpAddr::from(Plan::address(due.agent)));
        assert_eq!(plan.agent_of(Plan::address(due.agent)), Some(due.agent));
        assert_eq!((datagram.sequence, datagram.sample_count()), (due.sequence, due.samples));
        for sample in datagram.samples().map(Result::unwrap) {
            let record = sample.records().next().unwrap().unwrap();
            match (sample, record.view().unwrap()) {
                (Sample::Flow(sample), View::Header(packet)) => {
                    flow += 1;
                    let port = u16::from_be_bytes(packet.header[36..38].try_into().unwrap());
                    let class = CLASSES.iter().find(|class| class.port == port).unwrap();
                    assert_eq!((packet.frame_length, packet.stripped), (class.frame_length, 4));
                    assert_eq!(packet.header.len(), 128.min(class.frame_length as usize - 4));
                    if (due.agent, sample.source.index) == (1, 2) {
                        let passed = truth.up_to_sample(sample.sequence).packets() as u32;
                        let start = *pool.get_or_insert(sample.sample_pool.wrapping_sub(passed));
                        assert_eq!(sample.sample_pool, start.wrapping_add(passed), "the pool counts what passed");
                    }
                }
                (Sample::Counters(sample), View::Other) => {
                    counters += 1;
                    assert_eq!(u64::from(sample.source.index), counter(record, "ifIndex"));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // Six interfaces for 20 s: 50 samples a second, by loads that may differ by a half, and a poll a second.
    assert!((3000..9000).contains(&flow), "{flow}");
    assert!((118..=122).contains(&counters), "{counters}");
}

/// A counter of a record by its name.
fn counter(record: Record<'_>, name: &str) -> u64 {
    let value = record.values().flatten().find(|(field, _)| field.name == name).unwrap().1;
    match value {
        Value::U32(value) => value.into(),
        Value::U64(value) => value,
        other => panic!("{name}: {other:?}"),
    }
}

/// Counters as an agent sends them grow by what passed between two readings.
#[test]
fn counters_tell_what_passed_between_their_readings() {
    let plan = plan(random::seed());
    let mut fleet = Fleet::new(&plan);
    let mut truth = Truth::new(&plan, 2, 1);
    let mut last: Option<(u64, u32, Totals)> = None;
    let mut readings = 0;
    while readings < 40 {
        let (due, bytes) = fleet.next_datagram().unwrap();
        for sample in Datagram::parse(bytes).unwrap().samples().map(Result::unwrap) {
            let Sample::Counters(counters) = sample else { continue };
            let interface = sample.records().next().unwrap().unwrap();
            if (due.agent, counter(interface, "ifIndex")) != (2, 1) {
                continue;
            }
            let totals = truth.up_to_time(plan.polled_at(2, 1, counters.sequence));
            let (octets, packets) = (counter(interface, "ifInOctets"), counter(interface, "ifInUcastPkts") as u32);
            if let Some((octets_before, packets_before, before)) = last {
                let passed = totals.since(&before);
                assert_eq!(octets - octets_before, passed.bytes());
                assert_eq!(packets.wrapping_sub(packets_before), passed.packets() as u32);
            }
            last = Some((octets, packets, totals));
            readings += 1;
        }
    }
}

#[test]
fn polls_are_in_order_and_late_by_a_tenth_at_most() {
    let plan = plan(random::seed());
    let late = |number: u32| plan.polled_at(1, 2, number) - plan.polled_at(1, 2, 1).floor() - f64::from(number - 1);
    let all: Vec<f64> = (1..=1000).map(late).collect();
    let (least, most) = all.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), at| (least.min(*at), most.max(*at)));
    assert!(most - least < 0.1 && most - least > 0.09, "{least} to {most}");
    let mean = all.iter().sum::<f64>() / 1000.0;
    assert!((mean - (least + most) / 2.0).abs() < 0.01, "{mean}");
}

#[test]
fn who_has_little_to_say_sends_each_second() {
    let plan = Plan { agents: 1, packets_per_second: 500.0, ..plan(random::seed()) };
    let mut fleet = Fleet::new(&plan);
    let mut at = 0.0;
    for _ in 0..100 {
        let (due, _) = fleet.next_datagram().unwrap();
        assert!(due.at - at <= 2.0, "a second until a counter is read, and a second of waiting");
        at = due.at;
    }
}
