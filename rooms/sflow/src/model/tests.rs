//! The model against arithmetic.

use weir_testbed::random;

use super::*;

fn plan(seed: u64) -> Plan {
    Plan {
        agents: 3,
        interfaces: 2,
        packets_per_second: 50_000.0,
        sampling_rate: 1000,
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
        // Of 50 million packets; five standard deviations.
        let all = last.totals.packets() as f64;
        let share = last.totals.frames[index] as f64 / all;
        let deviation = (class.share * (1.0 - class.share) / all).sqrt();
        assert!((share - class.share).abs() < 5.0 * deviation, "{share} of {class:?}");
        // Of 50 thousand samples.
        let sampled = samples.iter().filter(|sampled| sampled.class == index).count() as f64 / n;
        let deviation = (class.share * (1.0 - class.share) / n).sqrt();
        assert!((sampled - class.share).abs() < 5.0 * deviation, "{sampled} of {class:?} are sampled");
    }
    assert!((last.totals.packets() as f64 / n / 1000.0 - 1.0).abs() < 5.0 * 0.578 / n.sqrt(), "one in 1000 is sampled");
    // The load is even between a half and one and a half, and independent from second to second.
    let rate = last.totals.packets() as f64 / last.at / 50_000.0;
    assert!((rate - 1.0).abs() < 5.0 * (1.0_f64 / 12.0 / 1000.0).sqrt(), "{rate} of the rate");
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

/// What a datagram says: 32-bit words from the start.
fn word(datagram: &[u8], index: usize) -> u32 {
    u32::from_be_bytes(datagram[4 * index..4 * index + 4].try_into().unwrap())
}

#[test]
fn datagrams_come_in_the_order_of_time_and_none_is_missing() {
    let plan = plan(random::seed());
    let mut fleet = Fleet::new(&plan);
    let (mut at, mut sequences) = (0.0, [0; 3]);
    let (mut flow, mut counters) = (0, 0);
    while at < 20.0 {
        let (due, datagram) = fleet.next().unwrap();
        assert!(due.at >= at && (1..=7).contains(&due.samples) && datagram.len() <= plan.longest);
        at = due.at;
        sequences[due.agent as usize] += 1;
        assert_eq!(due.sequence, sequences[due.agent as usize]);
        let address = Ipv4Addr::from(word(datagram, 2));
        assert_eq!(plan.agent_of(address), Some(due.agent));
        assert_eq!([0, 1, 3, 4, 6].map(|index| word(datagram, index)), [5, 1, 0, due.sequence, due.samples]);
        let mut place = 7;
        for _ in 0..due.samples {
            match word(datagram, place) {
                1 => flow += 1,
                2 => counters += 1,
                other => panic!("a sample of format {other}"),
            }
            place += 2 + word(datagram, place + 1) as usize / 4;
        }
        assert_eq!(place * 4, datagram.len());
    }
    // Six interfaces for 20 s: 50 samples a second, by loads that may differ by a half, and a poll a second.
    assert!((3000..9000).contains(&flow), "{flow}");
    assert!((118..=122).contains(&counters), "{counters}");
}

#[test]
fn who_has_little_to_say_sends_each_second() {
    let plan = Plan { agents: 1, packets_per_second: 500.0, ..plan(random::seed()) };
    let mut fleet = Fleet::new(&plan);
    let mut at = 0.0;
    for _ in 0..100 {
        let (due, _) = fleet.next().unwrap();
        assert!(due.at - at <= 2.0, "a second until a counter is read, and a second of waiting");
        at = due.at;
    }
}
