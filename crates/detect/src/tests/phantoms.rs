//! One attack is one attack: neither its host's nor its prefix's evidence makes another one.

use super::*;
use crate::model::Target;

/// A /24 with the thresholds of a small site, and benign traffic to three of its hosts.
fn site() -> Settings {
    let thresholds = [(Class::IpFlood, 200_000.0), (Class::UdpFlood, 40_000.0), (Class::TcpFlood, 100_000.0)]
        .map(|(class, packets)| Threshold { min_sources: 10, ..Threshold::packets(class, packets) });
    let mut settings = settings(thresholds.into());
    settings.groups[0].networks = vec!["10.1.0.0/24".parse().unwrap()];
    settings
}

fn benign(random: &mut Source) -> Packet {
    let source = host(0x10_0000 + random.number(0..2000) as u32);
    tcp(source, host(200 + random.number(0..3) as u32), (random.bits() as u16, 443), 0x10, 800)
}

/// One of so many sources.
fn one_of(random: &mut Source, count: u64) -> IpAddr {
    host(0x20_0000 + random.number(0..count) as u32)
}

/// What began and what ended: `+` and `-`, in order.
fn story(findings: &[Finding]) -> Vec<String> {
    let mut known: Vec<(Target, Class)> = Vec::new();
    let mut story = Vec::new();
    for finding in findings {
        match finding {
            Finding::Flood(one) => {
                let key = (one.target.clone(), one.class);
                if !known.contains(&key) {
                    story.push(format!("+{} {}", one.target.prefix, one.evidence.rule));
                    known.push(key);
                }
            }
            Finding::Over { target, class, .. } => {
                known.retain(|one| *one != (target.clone(), *class));
                story.push(format!("-{}", target.prefix));
            }
            Finding::Contested(_) => {}
        }
    }
    story
}

#[test]
fn a_steady_flood_of_one_host_is_one_attack() {
    for seed in 0..20 {
        let mut random = Source(seed * 7 + 1);
        let mut detector = Detector::new(site());
        flood(&mut detector, &mut random, (0, 3.0), (20_000.0, 1000.0), benign);
        flood(&mut detector, &mut random, (3 * SECOND, 10.0), (820_000.0, 1000.0), |random| {
            if random.uniform() < 20.0 / 820.0 {
                return benign(random);
            }
            udp(one_of(random, 300), host(8), (random.bits() as u16, random.bits() as u16), 200)
        });
        flood(&mut detector, &mut random, (13 * SECOND, 30.0), (20_000.0, 1000.0), benign);
        let story = story(&detector.take_findings());
        assert_eq!(story.len(), 2, "{seed}: {story:#?}");
        assert!(story[0].starts_with("+10.1.0.8/32") && story[1] == "-10.1.0.8/32", "{seed}: {story:?}");
    }
}

#[test]
fn floods_of_neighbours_one_after_another_stay_their_own() {
    for seed in 0..10 {
        let mut random = Source(seed * 7 + 1);
        let mut detector = Detector::new(site());
        for number in 0..4u64 {
            let target = host(8 + number as u32);
            flood(&mut detector, &mut random, (number * 4 * SECOND, 4.0), (800_000.0, 1000.0), |random| {
                udp(one_of(random, 300), target, (random.bits() as u16, random.bits() as u16), 200)
            });
        }
        let story = story(&detector.take_findings());
        assert!(story.iter().all(|one| one.contains("/32") && !one.contains("to a /")), "{seed}: {story:#?}");
        assert_eq!(story.iter().filter(|one| one.starts_with('+')).count(), 4, "{seed}: {story:#?}");
    }
}

#[test]
fn what_one_host_got_is_no_flood_of_its_prefix_afterwards() {
    for seed in 0..10 {
        let mut random = Source(seed * 7 + 1);
        let mut detector = Detector::new(site());
        flood(&mut detector, &mut random, (0, 3.0), (800_000.0, 1000.0), |random| {
            udp(one_of(random, 300), host(8), (random.bits() as u16, random.bits() as u16), 200)
        });
        // A little to its neighbours, in which the buckets of the prefix would spill over.
        flood(&mut detector, &mut random, (3 * SECOND, 8.0), (200_000.0, 1000.0), |random| {
            let target = host(random.number(0..16) as u32);
            match random.number(0..10) {
                0 => udp(one_of(random, 300), target, (9, 9), 200),
                _ => tcp(anybody(random), host(9), (9, 443), 0x02, 64),
            }
        });
        let story = story(&detector.take_findings());
        assert!(story.iter().all(|one| one.contains("/32") && !one.contains("to a /")), "{seed}: {story:#?}");
        assert!(story.iter().any(|one| one.starts_with("+10.1.0.9/32")), "{seed}: {story:#?}");
    }
}

#[test]
fn what_is_told_may_be_above_its_threshold() {
    for times in [2.0, 3.0, 20.0] {
        let mut random = Source::drawn();
        let mut detector = Detector::new(site());
        flood(&mut detector, &mut random, (0, 5.0), (times * 40_000.0, 1000.0), |random| {
            udp(one_of(random, 300), host(8), (random.bits() as u16, random.bits() as u16), 200)
        });
        // While it goes on: of a second in which it ended half may be told.
        let mut findings = detector.take_findings();
        let told = floods(&findings);
        let above = |one: &&Detection| one.evidence.packets.high.is_none_or(|high| high > 40_000.0);
        assert!(told.iter().all(above), "{times}: {told:?}");
        // One of twice the threshold may take longer: one in a thousand does.
        assert!(times < 3.0 || !told.is_empty());
        // It is over; what is usual goes on.
        flood(&mut detector, &mut random, (5 * SECOND, 15.0), (5_000.0, 1000.0), |random| {
            udp(one_of(random, 300), host(8), (443, random.bits() as u16), 200)
        });
        findings.extend(detector.take_findings());
        assert_eq!(standing(&findings), []);
    }
}

#[test]
fn one_speed_test_beside_benign_clients_has_one_source() {
    for seed in 0..20 {
        let mut random = Source(seed * 7 + 1);
        let mut detector = Detector::new(site());
        let benign = |random: &mut Source| {
            let source = host(0x10_0000 + random.number(0..2000) as u32);
            tcp(source, host(11), (random.bits() as u16, 443), 0x10, 800)
        };
        flood(&mut detector, &mut random, (0, 3.0), (5_000.0, 1000.0), benign);
        for size in [160_000.0, 800_000.0, 95_000.0, 160_000.0] {
            let from = detector.now + SECOND / 5;
            flood(&mut detector, &mut random, (from, 5.0), (size + 5_000.0, 1000.0), |random| {
                if random.uniform() < 5_000.0 / (size + 5_000.0) {
                    return benign(random);
                }
                tcp(host(0x30_0000), host(11), (443, 50_123), 0x10, 1514)
            });
        }
        let story = story(&detector.take_findings());
        assert!(story.is_empty(), "{seed}: {story:?}");
    }
}

#[test]
fn shares_that_chance_makes_are_not_told() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(site());
    let mut top = |random: &mut Source, from: u64, one: f64| {
        flood(&mut detector, random, (from, 3.0), (800_000.0, 1000.0), |random| {
            // So many that none of them has six of a hundred samples, but for once in 10^8.
            let source = if random.uniform() < one { ip("198.51.100.7") } else { one_of(random, 3000) };
            udp(source, host(8), (random.bits() as u16, 9), 200)
        });
        let findings = detector.take_findings();
        floods(&findings).into_iter().last().unwrap().evidence.top_sources.clone()
    };
    assert_eq!(top(&mut random, 0, 0.0), []);
    let found = top(&mut random, 3 * SECOND, 0.4);
    // Of about a hundred samples: six standard deviations.
    assert!(
        matches!(&found[..], [only] if only.value == "198.51.100.7" && (0.1..0.7).contains(&only.share)),
        "{found:?}"
    );
}

#[test]
fn of_few_sources_some_are_told_though_none_stands_out() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(site());
    flood(&mut detector, &mut random, (0, 3.0), (800_000.0, 1000.0), |random| {
        udp(one_of(random, 40), host(8), (random.bits() as u16, 9), 200)
    });
    let findings = detector.take_findings();
    let top = &floods(&findings).into_iter().last().unwrap().evidence.top_sources;
    assert!(top.len() == 5 && top.iter().all(|one| one.share < 0.2), "{top:?}");
}
