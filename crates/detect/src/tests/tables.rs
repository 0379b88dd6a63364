//! What is kept is bounded, and whoever is under attack stays in it.

use super::*;

fn small(limits: Limits) -> Settings {
    let mut settings = settings(vec![Threshold::packets(Class::UdpFlood, 40_000.0)]);
    settings.groups[0].networks = vec!["10.0.0.0/8".parse().unwrap()];
    Settings { limits, ..settings }
}

/// Samples of a sweep over a /8 come a hundred times as often as those of a small flood: it is found as soon as without the sweep.
#[test]
fn a_sweep_does_not_push_out_who_is_under_attack() {
    let limits = Limits { targets: 128, dossiers: 64, profiles: 64, ..Limits::default() };
    let decided = |sweep: bool| {
        let mut random = Source(7);
        let mut detector = Detector::new(small(limits));
        (0..2).for_each(|_| show(&mut detector, 0, "10.0.0.1", 1000.0, udp(ip("1.1.1.1"), host(60_000), (1, 1), 100)));
        let mut swept = Source::drawn();
        let mut found = None;
        for tick in 0..20_000u64 {
            let now = tick * SECOND / 1000;
            // 80 samples a second of one host: twice the threshold.
            if random.uniform() < 0.08 {
                at_once(&mut detector, now, udp(anybody(&mut random), host(7), (9, 9), 100));
            }
            for _ in 0..if sweep { 8 } else { 0 } {
                let anywhere = Ipv4Addr::from(0x0a80_0000 + swept.bits() as u32 % 0x80_0000).into();
                at_once(&mut detector, now, udp(anybody(&mut random.clone_at(tick)), anywhere, (9, 9), 60));
            }
            if let Some(first) = floods(&detector.take_findings()).first() {
                found = Some((first.target.prefix, now));
                break;
            }
        }
        (found, detector.statistics())
    };
    let (alone, _) = decided(false);
    let (swept, statistics) = decided(true);
    assert_eq!(alone.map(|found| found.0), Some(IpNet::from(host(7))));
    assert_eq!(alone, swept);
    let Statistics { targets, dossiers, evicted_targets, evicted_profiles, .. } = statistics;
    assert_eq!((targets.0, targets.1, dossiers.0 <= dossiers.1), (128, 128, true), "it is full");
    assert!(evicted_targets > 0 && evicted_profiles > 0, "{statistics:?}");
}

/// A sample that was told as soon as it was taken.
fn at_once(detector: &mut Detector, time: u64, packet: Packet) {
    detector.sample(&Sighting { exposure: Some(0), ..sighting(time, "10.0.0.1", 1000.0, packet) });
}

trait Fork {
    fn clone_at(&self, at: u64) -> Source;
}

impl Fork for Source {
    /// Another source, which leaves this one where it is.
    fn clone_at(&self, at: u64) -> Source {
        Source(self.0 ^ at.wrapping_mul(0x9e37))
    }
}

#[test]
fn more_floods_than_there_is_room_for_are_counted() {
    let mut random = Source::drawn();
    let limits = Limits { floods: 10, dossiers: 30, ..Limits::default() };
    let mut detector =
        Detector::new(Settings { limits, ..settings(vec![Threshold::packets(Class::UdpFlood, 40_000.0)]) });
    flood(&mut detector, &mut random, (0, 3.0), (100.0 * 400_000.0, 10_000.0), |random| {
        udp(anybody(random), host(600 * random.number(0..100) as u32 + 5), (9, 9), 400)
    });
    let statistics = detector.statistics();
    assert!(statistics.floods <= 10 && statistics.dossiers.0 <= 30, "{statistics:?}");
    assert!(statistics.evicted_dossiers > 0, "{statistics:?}");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever comes, in whatever order of time: no panic, numbers that make sense, an end for each flood.
        #[test]
        fn nothing_breaks_it(seed: u64, low in 1.0f64..1e5) {
            let mut random = Source(seed);
            let learn = Threshold { learn: true, bits: Some(low * 1e3), ..Threshold::packets(Class::IpFlood, low) };
            let limits = Limits { targets: 64, dossiers: 8, profiles: 8, floods: 4, views: 4 };
            let mut detector = Detector::new(Settings { limits, ..settings(vec![learn]) });
            let mut findings = Vec::new();
            for _ in 0..3_000 {
                let now = random.bits() % (100 * SECOND);
                match random.number(0..50) {
                    0 => detector.tick(now, random.bits() as usize % 1000),
                    2 => detector.adopt(Settings { limits, ..settings(vec![Threshold::packets(Class::UdpFlood, low)]) }),
                    _ => {
                        let target = host(random.bits() as u32 % 300);
                        let packet = if random.uniform() < 0.5 {
                            udp(anybody(&mut random), target, (random.bits() as u16, 53), random.bits() as u32)
                        } else {
                            tcp(anybody(&mut random), target, (80, random.bits() as u16), random.bits() as u8, 60)
                        };
                        let agent = format!("10.0.0.{}", random.number(1..4));
                        show(&mut detector, now, &agent, (random.normal() * 10.0).exp().min(1e6 * low), packet);
                    }
                }
                findings.extend(detector.take_findings());
            }
            for one in floods(&findings) {
                let rates = [one.evidence.packets, one.evidence.bits];
                prop_assert!(rates.iter().all(|rate| rate.low <= rate.value && rate.high.is_none_or(|high| rate.value <= high && high.is_finite())));
                prop_assert!(one.first_excess <= one.decided && one.rules[0].is_bare());
                prop_assert!(one.rules.iter().all(|rule| rule.destination == one.target.prefix));
                prop_assert!(one.rules.windows(2).all(|pair| pair[0] != pair[1]));
            }
            // As long as a bucket of such samples takes to be empty, 157 of the largest deep.
            let end = 1_000_000_000 * SECOND;
            // What waited for more hosts may begin with the first tick.
            for time in [0, 10, 20].map(|after| end + after * SECOND) {
                (1..4).for_each(|last| alive(&mut detector, &format!("10.0.0.{last}"), time));
                detector.tick(time, 0);
            }
            findings.extend(detector.take_findings());
            prop_assert_eq!(standing(&findings), []);
        }
    }
}
