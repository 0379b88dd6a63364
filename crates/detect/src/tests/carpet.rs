//! Floods that are spread over a prefix, and many at once.

use super::*;

fn thresholds() -> Vec<Threshold> {
    vec![Threshold::packets(Class::UdpFlood, 40_000.0)]
}

#[test]
fn a_carpet_over_a_22_is_one_attack_on_it() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(thresholds()));
    // 10 kpps to each of 1,024 hosts: a quarter of what each may get.
    flood(&mut detector, &mut random, (0, 5.0), (1.024e7, 10_000.0), |random| {
        udp(anybody(random), host(0x400 + random.number(0..1024) as u32), (53, 4000), 1400)
    });
    let findings = detector.take_findings();
    let expected = ("10.1.4.0/22".to_owned(), Class::UdpFlood);
    assert_eq!(standing(&findings), [expected]);
    let last = floods(&findings).into_iter().last().unwrap();
    assert!(last.evidence.hosts > 50 && last.rules[0].destination == "10.1.4.0/22".parse().unwrap(), "{last:?}");
}

#[test]
fn hosts_within_fold_into_their_prefix() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(thresholds()));
    let mut packet =
        |random: &mut Source| udp(anybody(random), host(0x400 + random.number(0..256) as u32), (9, 9), 400);
    // 80 kpps to each of 256: each one is a flood of its own, which takes longer to be seen than that of all.
    flood(&mut detector, &mut random, (0, 1.0), (256.0 * 80_000.0, 10_000.0), &mut packet);
    let mut findings = detector.take_findings();
    // The guard has answered it.
    detector.cover(vec![Rule::to("10.1.4.0/24".parse().unwrap())]);
    flood(&mut detector, &mut random, (SECOND, 30.0), (256.0 * 80_000.0, 10_000.0), &mut packet);
    findings.extend(detector.take_findings());
    assert_eq!(standing(&findings), [("10.1.4.0/24".to_owned(), Class::UdpFlood)]);
}

#[test]
fn one_host_is_itself_not_its_prefix() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(thresholds()));
    flood(&mut detector, &mut random, (0, 5.0), (5e7, 10_000.0), |random| udp(anybody(random), host(7), (9, 9), 400));
    let findings = detector.take_findings();
    assert!(floods(&findings).iter().all(|one| one.target.prefix == IpNet::from(host(7))), "{:?}", standing(&findings));
}

#[test]
fn a_thousand_targets_at_once_are_a_thousand_floods() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(thresholds()));
    // Every 64th address of the /16.
    flood(&mut detector, &mut random, (0, 3.0), (1000.0 * 400_000.0, 10_000.0), |random| {
        udp(anybody(random), host(64 * random.number(0..1000) as u32 + 5), (9, 9), 400)
    });
    let findings = detector.take_findings();
    let standing = standing(&findings);
    assert_eq!(standing.len(), 1000, "{:?}", &standing[..standing.len().min(5)]);
    assert!(standing.iter().all(|(prefix, _)| prefix.ends_with("/32")));
    assert_eq!(findings.iter().filter(|finding| matches!(finding, Finding::Over { .. })).count(), 0);
}
