//! How narrow rules are, and what they spare.

use super::*;
use crate::model::{Icmp, Ports, TcpFlags};

/// Ten minutes of a host's usual traffic, then a flood; the narrowest rule, and which part of usual traffic it would hit.
fn narrowest(
    mut usual: impl FnMut(&mut Source) -> Packet,
    attack: impl FnMut(&mut Source) -> Packet,
) -> (Rule, Harm, Class) {
    let mut random = Source::drawn();
    let thresholds = Class::ALL.map(|class| Threshold::packets(class, 40_000.0));
    let mut detector = Detector::new(settings(thresholds.into()));
    flood(&mut detector, &mut random, (0, 600.0), (10_000.0, 1000.0), &mut usual);
    flood(&mut detector, &mut random, (600 * SECOND, 3.0), (400_000.0, 1000.0), attack);
    let findings = detector.take_findings();
    let last = floods(&findings).into_iter().last().unwrap();
    assert!(last.rules[0].is_bare() && last.rules.len() > 1, "{:?}", last.rules);
    let bare = detector.traffic(last.target.prefix, &last.rules[0]);
    assert!((8_000.0..12_000.0).contains(&bare.packets) && bare.share == Some(1.0), "{bare:?}");
    let rule = last.rules.last().unwrap().clone();
    (rule.clone(), detector.traffic(last.target.prefix, &rule), last.class)
}

fn web(random: &mut Source) -> Packet {
    let port = random.number(1024..65_536) as u16;
    match random.number(0..10) {
        0 => udp(anybody(random), host(7), (53, port), 90 + random.number(0..60) as u32),
        1 => tcp(anybody(random), host(7), (port, 443), 0x02, 66),
        _ => tcp(anybody(random), host(7), (port, 443), 0x10, 66 + random.number(0..1400) as u32),
    }
}

#[test]
fn an_amplification_is_its_port_and_its_lengths() {
    let attack = |random: &mut Source| {
        let port = random.number(1024..65_536) as u16;
        udp(anybody(random), host(7), (53, port), 1000 + random.number(0..500) as u32)
    };
    let (rule, harm, class) = narrowest(web, attack);
    assert_eq!(class, Class::UdpAmplification);
    assert_eq!((rule.protocols, rule.source_ports), (vec![17], vec![Ports(53, 53)]));
    assert!(rule.lengths.is_some_and(|(low, high)| (500..=1000).contains(&low) && high > 1500), "{:?}", rule.lengths);
    assert_eq!(harm.share, Some(0.0));
}

#[test]
fn a_syn_flood_is_syn_without_ack() {
    let attack = |random: &mut Source| {
        let port = random.number(1024..65_536) as u16;
        tcp(anybody(random), host(7), (port, 443), 0x02, 64)
    };
    let (rule, harm, class) = narrowest(web, attack);
    assert_eq!(class, Class::TcpFlood);
    assert_eq!((rule.protocols, rule.destination_ports), (vec![6], vec![Ports(443, 443)]));
    assert!(rule.tcp_flags.is_some_and(|TcpFlags { mask, value }| mask & 0x12 == 0x12 && value == 0x02));
    // A tenth of what is usual; 24 packets of it are kept, and up to 14 of these may be such by chance.
    assert!(harm.share.is_some_and(|share| share < 0.6) && harm.packets < 7_000.0, "{harm:?}");
}

#[test]
fn fragments_are_fragments() {
    let attack =
        |random: &mut Source| Packet { fragment: true, transport: None, ..udp(anybody(random), host(7), (0, 0), 1500) };
    let (rule, harm, class) = narrowest(web, attack);
    assert_eq!((class, rule.fragment, rule.protocols), (Class::IpFragmentation, true, vec![17]));
    assert!(rule.source_ports.is_empty() && harm.share == Some(0.0));
}

#[test]
fn pings_of_one_network_are_its_pings() {
    let attack = |random: &mut Source| Packet {
        protocol: 1,
        transport: Some(Transport::Icmp { kind: 8, code: 0 }),
        ..udp(Ipv4Addr::new(198, 51, 100, random.bits() as u8).into(), host(7), (0, 0), 98)
    };
    let (rule, _, class) = narrowest(web, attack);
    assert_eq!((class, rule.icmp), (Class::IcmpFlood, Some(Icmp { kind: 8, code: Some(0) })));
    assert_eq!(rule.source.map(|net| net.to_string()).as_deref(), Some("198.51.100.0/24"));
}

#[test]
fn what_has_nothing_in_common_has_no_narrow_rule() {
    let attack = |random: &mut Source| {
        let ports = (random.bits() as u16, random.bits() as u16);
        match random.number(0..3) {
            0 => udp(anybody(random), host(7), ports, 60 + random.number(0..1400) as u32),
            1 => tcp(anybody(random), host(7), ports, random.bits() as u8, 60 + random.number(0..1400) as u32),
            _ => Packet { protocol: random.bits() as u8, transport: None, ..udp(anybody(random), host(7), ports, 700) },
        }
    };
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(vec![Threshold::packets(Class::IpFlood, 40_000.0)]));
    flood(&mut detector, &mut random, (0, 3.0), (400_000.0, 1000.0), attack);
    let findings = detector.take_findings();
    assert_eq!(floods(&findings)[0].rules, [Rule::to(host(7).into())]);
}

/// A host that nobody has heard of is flooded: its own first packets, those that another agent sees too few of, and all the rest are no traffic
/// of others, however long it lasts.
#[test]
fn the_first_samples_of_a_flood_are_no_other_traffic() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(vec![Threshold::packets(Class::UdpFlood, 40_000.0)]));
    flood(&mut detector, &mut random, (0, 100.0), (10_000.0, 1000.0), |random| {
        udp(anybody(random), host(1 + random.number(0..50) as u32), (443, 443), 700)
    });
    for (turn, times) in [2.0, 3.0, 5.0].into_iter().enumerate() {
        let target = host(200 + 1_000 * turn as u32);
        let mut told = None;
        for second in 0..80 {
            let now = (100 + 100 * turn as u64 + second) * SECOND;
            flood(&mut detector, &mut random, (now, 1.0), (40_000.0 * times, 1000.0), |random| {
                udp(anybody(random), target, (53, 4000 + random.number(0..60_000) as u16), 1400)
            });
            for _ in 0..2 {
                show(
                    &mut detector,
                    now + SECOND - 1,
                    "10.0.0.2",
                    1000.0,
                    udp(anybody(&mut random), target, (53, 9), 1400),
                );
            }
            let findings = detector.take_findings();
            let last = floods(&findings).into_iter().last().cloned();
            told = last.filter(|last| last.target.prefix == IpNet::from(target)).or(told);
            let Some(told) = &told else { continue };
            for rule in &told.rules {
                let harm = detector.traffic(told.target.prefix, rule);
                assert!(harm.share.is_none() && harm.packets < 1.0, "x{times}, {second} s: {harm:?} by {rule:?}");
            }
        }
        assert!(told.is_some(), "x{times}");
        pass(&mut detector, (180 + 100 * turn as u64) * SECOND, 20);
    }
}
