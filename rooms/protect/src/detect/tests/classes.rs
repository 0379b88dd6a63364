//! What is told of a flood whose packets are others than its first ones, or too few by themselves.

use super::*;

/// 36,000 packets/s of an amplification beside 32,000 others, against 40,000: neither is too much, together they are.
#[test]
fn what_is_too_much_only_together_is_told_as_that() {
    let mut detector = Detector::new(settings(vec![Threshold::packets(Class::UdpFlood, 40_000.0)]));
    let mut random = Source(5);
    let seconds = 14;
    for number in 0..68 * seconds {
        let now = SECOND + number * SECOND / 68;
        let port = if number * 9 % 17 < 9 { 53 } else { 40_000 };
        show(&mut detector, now, "10.0.0.1", 1_000.0, udp(anybody(&mut random), host(7), (port, 4_000), 1_000));
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
    let thresholds = [Class::UdpFlood, Class::TcpFlood].map(|class| Threshold::packets(class, 40_000.0));
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

/// What was decided and has ended before anybody could be told keeps no place, and hides nothing.
#[test]
fn what_is_not_told_soon_is_decided_anew() {
    let mut detector = Detector::new(settings(vec![Threshold::packets(Class::UdpFlood, 40_000.0)]));
    show(&mut detector, 0, "10.0.0.1", 1_000.0, udp(ip("1.1.1.1"), host(60_000), (1, 1), 100));
    let (kept, time) = (SECOND / 10, 10 * SECOND);
    for number in 0..80 {
        let packet = udp(ip("198.51.100.9"), host(7), (53, 4_000 + number), 1_400);
        let (point, stream, ago) = (point("10.0.0.1"), Stream::default(), [kept, 0]);
        let (ingress, frames) = (Some(true), 1_000.0);
        detector.sample(&Sighting { time, kept, ago, point, stream, ingress, frames, packet, header: &[] });
    }
    assert_eq!((detector.statistics().floods, detector.is_about_to_tell()), (1, true));
    detector.tick(time + 6 * SECOND, 0);
    assert_eq!(detector.take_findings(), []);
    assert_eq!((detector.statistics().floods, detector.is_about_to_tell()), (0, false));
}
