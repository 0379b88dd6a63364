//! What is told of a flood whose packets are others than its first ones, or too few by themselves.

use super::*;

/// 36,000 packets/s of an amplification beside 32,000 others, against 40,000: neither is too much, together they are.
#[test]
fn what_is_too_much_only_together_is_told_as_that() {
    let thresholds = [Class::UdpAmplification, Class::UdpFlood].map(|class| Threshold::packets(class, 40_000.0));
    let mut detector = Detector::new(settings(thresholds.to_vec()));
    let mut random = Source(5);
    let seconds = 14;
    for number in 0..68 * seconds {
        let now = SECOND + number * SECOND / 68;
        let port = if number * 9 % 17 < 9 { 53 } else { 40_000 };
        show(&mut detector, now, "10.0.0.1", 1_000.0, udp(anybody(&mut random), host(7), (port, 4_000), 1_000));
        alive(&mut detector, "10.0.0.1", now);
        detector.tick(now, 0);
    }
    let findings = detector.take_findings();
    let told = floods(&findings);
    assert!(!told.is_empty() && told.iter().all(|one| one.class == Class::UdpFlood), "{:?}", standing(&findings));
    let Some(last) = told.last() else { return };
    assert!((55e3..80e3).contains(&last.evidence.packets.value), "{:?}", last.evidence.packets);
}

/// Others follow it: it is over, and they are a flood of their own.
#[test]
fn what_follows_a_flood_is_told_as_what_it_is() {
    let thresholds =
        [Class::UdpAmplification, Class::UdpFlood, Class::TcpFlood].map(|class| Threshold::packets(class, 40_000.0));
    for class in [Class::UdpFlood, Class::TcpFlood] {
        let mut detector = Detector::new(settings(thresholds.to_vec()));
        let mut random = Source(11);
        flood(&mut detector, &mut random, (SECOND, 3.0), (400_000.0, 1_000.0), |random| {
            udp(anybody(random), host(7), (53, 4_000), 1_000)
        });
        let amplification = [("10.1.0.7/32".to_owned(), Class::UdpAmplification)];
        let mut findings = detector.take_findings();
        assert_eq!(standing(&findings), amplification);
        flood(&mut detector, &mut random, (4 * SECOND, 7.0), (400_000.0, 1_000.0), |random| {
            let source = anybody(random);
            match class {
                Class::UdpFlood => udp(source, host(7), (40_000, 9), 1_000),
                _ => tcp(source, host(7), (random.number(1_024..60_000) as u16, 80), 2, 60),
            }
        });
        findings.extend(detector.take_findings());
        assert_eq!(standing(&findings), [("10.1.0.7/32".to_owned(), class)]);
        let told = floods(&findings);
        let last = told[told.len() - 1].evidence.packets;
        assert!((250e3..600e3).contains(&last.value), "{class:?}: {last:?}");
    }
}

/// Packets of another kind to the same target, while a flood goes on: both are told, each as it is.
#[test]
fn two_floods_of_one_target_are_two() {
    let thresholds = [Class::UdpAmplification, Class::UdpFlood, Class::TcpFlood, Class::IpFlood];
    let mut detector = Detector::new(settings(thresholds.map(|class| Threshold::packets(class, 40_000.0)).to_vec()));
    let mut random = Source::drawn();
    flood(&mut detector, &mut random, (SECOND, 5.0), (400_000.0, 1_000.0), |random| {
        udp(anybody(random), host(7), (53, 4_000), 1_000)
    });
    flood(&mut detector, &mut random, (6 * SECOND, 5.0), (800_000.0, 1_000.0), |random| match random.number(0..2) {
        0 => udp(anybody(random), host(7), (53, 4_000), 1_000),
        _ => tcp(anybody(random), host(7), (random.number(1_024..60_000) as u16, 80), 2, 60),
    });
    let findings = detector.take_findings();
    let target = "10.1.0.7/32".to_owned();
    assert_eq!(standing(&findings), [(target.clone(), Class::TcpFlood), (target, Class::UdpAmplification)]);
    for one in floods(&findings).iter().rev().take(2) {
        assert!((300e3..500e3).contains(&one.evidence.packets.value), "{:?}: {:?}", one.class, one.evidence.packets);
    }
}
