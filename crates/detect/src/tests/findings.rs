//! What is told of a flood, and when it is over.

use super::*;

fn udp_and_ip() -> Vec<Threshold> {
    let udp = Threshold { min_sources: 10, ..Threshold::packets(Class::UdpFlood, 40_000.0) };
    vec![Threshold::packets(Class::IpFlood, 60_000.0), udp]
}

#[test]
fn a_flood_is_told_with_its_evidence_and_when_it_is_over() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(udp_and_ip()));
    let target = host(7);
    flood(&mut detector, &mut random, (0, 3.0), (400_000.0, 1000.0), |random| {
        udp(anybody(random), target, (53, 4000 + random.number(0..60_000) as u16), 1400)
    });
    let findings = detector.take_findings();
    let told = floods(&findings);
    let (first, last) = (told[0], told[told.len() - 1]);
    assert!(told.iter().all(|one| one.target.prefix == IpNet::from(target) && one.class == Class::UdpFlood));
    assert_eq!((first.target.group.as_str(), first.doubts.len()), ("web", 0));
    assert_eq!(first.evidence.rule, "group web, udp_flood, 40000 packets/s");
    assert_eq!(first.evidence.threshold_packets, Some(40_000.0));
    let model::Rate { value, low, high } = last.evidence.packets;
    assert!(0.0 < low && low < value && high.is_some_and(|high| value < high), "{:?}", last.evidence);
    assert!((0.8..1.25).contains(&(last.evidence.packets.value / 400_000.0)), "{:?}", last.evidence.packets);
    assert!((0.8..1.25).contains(&(last.evidence.bits.value / 400_000.0 / 8.0 / 1400.0)));
    assert!(last.evidence.sources > 500 && last.evidence.log_evidence > 20.0, "{:?}", last.evidence);
    assert_eq!(last.evidence.top_source_ports[0].value, "udp/53");
    assert_eq!((last.evidence.hosts, last.evidence.headers[0].as_str()), (1, "4500"));
    assert_eq!(last.evidence.points, [spot("10.0.0.1")]);
    // Told anew about once a second, not more often.
    assert!((3..=4).contains(&told.len()), "{}", told.len());

    pass(&mut detector, 3 * SECOND, 20);
    let findings = detector.take_findings();
    let over: Vec<_> = findings.iter().filter(|finding| matches!(finding, Finding::Over { .. })).collect();
    assert!(
        matches!(over[..], [Finding::Over { target: one, class: Class::UdpFlood, last, .. }]
        if one.prefix == IpNet::from(target) && (2 * SECOND..4 * SECOND).contains(last)),
        "{over:?}"
    );
    assert_eq!(detector.statistics().floods, 0);
}

#[test]
fn of_several_thresholds_the_narrowest_is_the_rule() {
    let mut random = Source::drawn();
    let classes = [Class::IpFlood, Class::UdpFlood, Class::UdpAmplification];
    let mut detector = Detector::new(settings(classes.map(|class| Threshold::packets(class, 40_000.0)).to_vec()));
    flood(&mut detector, &mut random, (0, 1.0), (400_000.0, 1000.0), |random| {
        udp(anybody(random), host(7), (53, 4000 + random.number(0..60_000) as u16), 1400)
    });
    let findings = detector.take_findings();
    assert_eq!(floods(&findings)[0].evidence.rule, "group web, udp_amplification, 40000 packets/s");
}

#[test]
fn few_sources_are_no_flood_until_they_are_many() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(vec![udp_and_ip().remove(1)]));
    let target = host(7);
    flood(&mut detector, &mut random, (0, 5.0), (400_000.0, 1000.0), |random| {
        udp(host(0x10_0000 + random.number(0..5) as u32), target, (443, 443), 1400)
    });
    assert_eq!(standing(&detector.take_findings()), []);
    flood(&mut detector, &mut random, (5 * SECOND, 1.0), (400_000.0, 1000.0), |random| {
        udp(anybody(random), target, (443, 443), 1400)
    });
    assert_eq!(floods(&detector.take_findings())[0].target.prefix, IpNet::from(target));
}

#[test]
fn allowed_sources_do_not_count() {
    let mut random = Source::drawn();
    let allowed_sources = vec!["198.51.100.0/24".parse().unwrap()];
    let mut detector = Detector::new(Settings { allowed_sources, ..settings(udp_and_ip()) });
    flood(&mut detector, &mut random, (0, 5.0), (400_000.0, 1000.0), |_| {
        udp(ip("198.51.100.7"), host(7), (443, 443), 1400)
    });
    assert_eq!(standing(&detector.take_findings()), []);
}

#[test]
fn bits_count_where_they_are_asked_for() {
    let mut random = Source::drawn();
    let bits = Threshold { packets: None, bits: Some(5e8), ..Threshold::packets(Class::IpFlood, 0.0) };
    let mut detector = Detector::new(settings(vec![bits]));
    // 90 kpps of 64 bytes are 46 Mbit/s; of 1,500 bytes over a Gbit/s.
    let packet = |length| move |random: &mut Source| udp(anybody(random), host(7), (443, 443), length);
    flood(&mut detector, &mut random, (0, 5.0), (90_000.0, 1000.0), packet(64));
    assert_eq!(standing(&detector.take_findings()), []);
    flood(&mut detector, &mut random, (5 * SECOND, 10.0), (90_000.0, 1000.0), packet(1500));
    let findings = detector.take_findings();
    assert_eq!(floods(&findings)[0].evidence.rule, "group web, ip_flood, 500000000 bits/s");
    assert_eq!(floods(&findings)[0].evidence.threshold_bits, Some(5e8));
}

#[test]
fn the_same_packets_at_two_hops_are_one_flood() {
    // 30 kpps against 40 kpps, seen by two agents, at ingress and at egress of each.
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(vec![udp_and_ip().remove(1)]));
    for tick in 0..30 * 60 {
        let now = tick * SECOND / 30;
        for agent in ["10.0.0.1", "10.0.0.2"] {
            for ingress in [true, false] {
                let packet = udp(anybody(&mut random), host(7), (9, 9), 500);
                let ingress = Some(ingress);
                let told = Sighting { ingress, ..sighting(now, agent, 1000.0, packet) };
                detector.sample(&told);
            }
        }
    }
    assert_eq!(standing(&detector.take_findings()), []);
}

#[test]
fn at_the_edge_interfaces_are_summed_up() {
    // 30 kpps at each of two edges, against 40 kpps; what is seen within does not count.
    for (edge, found) in [(vec![], false), (vec![point("10.0.0.1"), point("10.0.0.2")], true)] {
        let mut random = Source::drawn();
        let mut detector = Detector::new(Settings { edge, ..settings(vec![udp_and_ip().remove(1)]) });
        for tick in 0..30 * 60 {
            for agent in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
                let packet = udp(anybody(&mut random), host(7), (9, 9), 500);
                show(&mut detector, tick * SECOND / 30, agent, 1000.0, packet);
            }
        }
        let findings = detector.take_findings();
        assert_eq!(!floods(&findings).is_empty(), found);
        assert!(floods(&findings).iter().all(|one| one.evidence.points == [spot("10.0.0.1"), spot("10.0.0.2")]));
    }
}

#[test]
fn thresholds_are_learnt_and_kept() {
    let mut random = Source::drawn();
    let learn = Threshold { learn: true, ratio: 2.0, ..Threshold::packets(Class::UdpFlood, 1_000.0) };
    let mut detector = Detector::new(settings(vec![learn.clone()]));
    // A week's hour in which the busiest host gets 20 kpps. It is over the fixed threshold at first.
    let packet = |random: &mut Source| udp(anybody(random), host(7), (9, 9), 500);
    flood(&mut detector, &mut random, (0, 3600.0), (20_000.0, 1000.0), packet);
    detector.tick(3610 * SECOND, 1);
    detector.take_findings();
    let saved = detector.save();
    drop(detector);
    let text = serde_json::to_string(&saved).unwrap();
    let mut detector = Detector::new(settings(vec![learn]));
    detector.restore(serde_json::from_str(&text).unwrap());
    flood(&mut detector, &mut random, (3600 * SECOND, 60.0), (20_000.0, 1000.0), packet);
    assert_eq!(standing(&detector.take_findings()), []);
    let (hosts, thresholds) = detector.in_force("web").unwrap();
    assert!(hosts == 1 && thresholds.len() == 1 && thresholds[0].learnt, "{hosts} {thresholds:?}");
    assert!(thresholds[0].packets.is_some_and(|packets| (35e3..60e3).contains(&packets)), "{thresholds:?}");
    flood(&mut detector, &mut random, (3660 * SECOND, 5.0), (200_000.0, 1000.0), packet);
    let findings = detector.take_findings();
    let rule = &floods(&findings)[0].evidence.rule;
    assert!(rule.ends_with("(learnt, Mon 00:00)"), "{rule}");
}

#[test]
fn other_settings_keep_what_goes_on() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(udp_and_ip()));
    let packet = |random: &mut Source| udp(anybody(random), host(7), (9, 9), 500);
    flood(&mut detector, &mut random, (0, 2.0), (400_000.0, 1000.0), packet);
    assert_eq!(standing(&detector.take_findings()).len(), 1);
    detector.adopt(Settings { false_alarms_a_year: 12.0, ..settings(udp_and_ip()) });
    flood(&mut detector, &mut random, (2 * SECOND, 2.0), (400_000.0, 1000.0), packet);
    let findings = detector.take_findings();
    assert!(findings.iter().all(|finding| matches!(finding, Finding::Flood(_))), "{:?}", standing(&findings));
    assert!(floods(&findings).iter().all(|one| one.target.group == "web"));
    // Its group is gone: so is the flood, as with any other groups.
    detector.adopt(Settings { groups: Vec::new(), ..settings(Vec::new()) });
    let findings = detector.take_findings();
    assert!(matches!(&findings[..], [Finding::Over { target, .. }] if target.group == "web"), "{findings:?}");
}

#[test]
fn ipv6_hosts_are_protected_alike() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(udp_and_ip()));
    let target = ip("2001:db8:0:5::7");
    flood(&mut detector, &mut random, (0, 2.0), (400_000.0, 1000.0), |random| {
        let source = std::net::Ipv6Addr::from((0x2a00u128 << 112) | u128::from(random.bits()));
        udp(source.into(), target, (53, 4000), 1400)
    });
    assert_eq!(standing(&detector.take_findings()), [("2001:db8:0:5::7/128".to_owned(), Class::UdpFlood)]);
}

/// A host that got much before: what is told of its flood is the flood's.
#[test]
fn what_is_told_is_of_the_flood_and_not_of_what_came_before() {
    for seed in 0..10 {
        let mut random = Source(seed * 11 + 3);
        let mut detector = Detector::new(settings(vec![Threshold::packets(Class::UdpFlood, 40_000.0)]));
        let customer = |random: &mut Source| -> IpAddr { ip(&format!("198.18.{}.9", random.number(0..250))) };
        let honest = |random: &mut Source| {
            if random.uniform() < 0.5 {
                tcp(customer(random), host(7), (50_000, 443), 16, 1400)
            } else {
                udp(customer(random), host(7), (50_000, 443), 1200)
            }
        };
        flood(&mut detector, &mut random, (0, 60.0), (40_000.0, 1000.0), honest);
        assert_eq!(floods(&detector.take_findings()).len(), 0);
        // Ten times the threshold, and what came before goes on.
        flood(&mut detector, &mut random, (60 * SECOND, 3.0), (440_000.0, 1000.0), |random| {
            if random.uniform() < 1.0 / 11.0 {
                honest(random)
            } else {
                udp(anybody(random), host(7), (random.number(1024..60_000) as u16, 9999), 900)
            }
        });
        let findings = detector.take_findings();
        let told = floods(&findings);
        let first = &told[0].evidence;
        assert!((200_000.0..900_000.0).contains(&first.packets.value), "{seed}: {:?}", first.packets);
        assert!(first.samples < 200 && first.sources < 200, "{seed}: {} of {}", first.samples, first.sources);
        // What is told first rests on few samples, which may have begun to come before the flood; what is told next does not.
        let is_narrow = |told: &&Detection| told.rules.last().unwrap().destination_ports == [model::Ports(9999, 9999)];
        assert!(told.iter().take(2).any(is_narrow), "{seed}: {:?}", told[1].rules.last());
        assert!(!first.headers.is_empty(), "{seed}");
        let last = &told[told.len() - 1].evidence;
        assert!((600..1_400).contains(&last.samples) && last.sources > 500, "{seed}: {last:?}");
    }
}
