//! What waits for a person, and what is told all the same.

use super::*;
use crate::model::{Doubt, Why};

fn udp_alone() -> Vec<Threshold> {
    vec![Threshold::packets(Class::UdpFlood, 40_000.0)]
}

/// Ten times the threshold for a second, as so many agents tell it, each with a word.
fn told(settings: Settings, agents: &[(&str, Word)]) -> Vec<Finding> {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings);
    let mut findings = Vec::new();
    for sample in 0..1_500u64 {
        let now = SECOND + sample * SECOND / 400;
        for (agent, word) in agents {
            let packet = udp(anybody(&mut random), host(7), (53, 4_000), 1_000);
            detector.sample(&Sighting { word: *word, ..sighting(now, agent, 1_000.0, packet) });
            alive(&mut detector, agent, now);
        }
        detector.tick(now, 0);
        findings.extend(detector.take_findings());
    }
    findings
}

#[test]
fn what_speaks_against_all_that_tell_of_it_is_a_doubt() {
    let (one, two) = (point("10.0.0.1"), point("10.0.0.2"));
    let doubt = |word| Doubt::of(one, word).unwrap();
    for (words, doubts) in [
        (&[Word::Good][..], vec![]),
        (&[Word::New], vec![doubt(Word::New)]),
        (&[Word::Uncounted], vec![doubt(Word::Uncounted)]),
        (&[Word::Contested], vec![doubt(Word::Contested)]),
        (&[Word::Counters], vec![doubt(Word::Counters)]),
        (&[Word::Counters, Word::Good], vec![]),
    ] {
        let agents: Vec<_> = ["10.0.0.1", "10.0.0.2"].into_iter().zip(words.iter().copied()).collect();
        let findings = told(settings(udp_alone()), &agents);
        let told = floods(&findings);
        assert!(told.iter().all(|one| one.target.prefix == IpNet::from(host(7))), "{words:?}");
        let last = told[told.len() - 1];
        assert_eq!(last.doubts, doubts, "{words:?}");
        let points: Vec<_> = [one, two].into_iter().zip(words).collect();
        assert!(
            last.evidence.points.iter().map(|spot| (spot.point, &spot.word)).eq(points),
            "{:?}",
            last.evidence.points
        );
    }
}

#[test]
fn as_many_good_agents_as_asked_for_must_decide() {
    let one = ("10.0.0.1", Word::Good);
    for (agents, seen) in
        [(&[one][..], Some(1)), (&[one, ("10.0.0.2", Word::New)], Some(1)), (&[one, ("10.0.0.2", Word::Good)], None)]
    {
        let findings = told(Settings { witnesses: 2, ..settings(udp_alone()) }, agents);
        let told = floods(&findings);
        let expected: Vec<Doubt> = seen.map(|seen| Doubt::witnesses(seen, 2)).into_iter().collect();
        assert_eq!(told[told.len() - 1].doubts, expected, "{agents:?}");
    }
}

/// A stream settles during a flood of 1.6 times the threshold, which its test needs some seconds to find: that is one flood, and no part of
/// what the target got before.
#[test]
fn a_flood_goes_on_while_its_stream_settles_and_is_nothing_usual() {
    let mut detector = Detector::new(settings(udp_alone()));
    let mut findings = Vec::new();
    let usual = tcp(ip("198.51.100.9"), host(7), (9, 443), 0x10, 1_000);
    let flood = udp(ip("198.51.100.9"), host(7), (9, 80), 1_000);
    for sample in 0..64 * 140u64 {
        let now = SECOND + sample * SECOND / 64;
        let told = match sample / 64 {
            100..112 => Some((flood, Word::New)),
            112..130 => Some((flood, Word::Good)),
            _ => (sample % 320 == 0).then_some((usual, Word::Good)),
        };
        if let Some((packet, word)) = told {
            detector.sample(&Sighting { word, ..sighting(now, "10.0.0.1", 1_000.0, packet) });
        }
        alive(&mut detector, "10.0.0.1", now);
        detector.tick(now, 0);
        findings.extend(detector.take_findings());
    }
    assert!(floods(&findings).iter().any(|one| one.doubts.is_empty()), "it is decided anew");
    let over = findings.iter().filter(|finding| matches!(finding, Finding::Over { .. }));
    assert_eq!((over.count(), standing(&findings)), (1, vec![]));
    let rule = Rule { protocols: vec![17], ..Rule::to(host(7).into()) };
    assert_eq!(detector.traffic(IpNet::from(host(7)), &rule).share, Some(0.0));
}

#[test]
fn doubted_samples_neither_hide_nor_teach() {
    let learn = Threshold { learn: true, ..Threshold::packets(Class::UdpFlood, 40_000.0) };
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(vec![learn]));
    // A flood of a host as a new agent tells it, and a carpet over its prefix as a good one does.
    for sample in 0..20_000u64 {
        let now = SECOND + sample * SECOND / 4_000;
        let told = udp(anybody(&mut random), host(7), (53, 4_000), 1_000);
        detector.sample(&Sighting { word: Word::New, ..sighting(now, "10.0.0.9", 1_000.0, told) });
        let carpet = udp(anybody(&mut random), host(random.number(0..256) as u32), (9, 9), 400);
        detector.sample(&sighting(now, "10.0.0.1", 1_000.0, carpet));
        alive(&mut detector, "10.0.0.1", now);
        detector.tick(now, 0);
    }
    let findings = detector.take_findings();
    let is_good = |one: &&&Detection| one.doubts.is_empty();
    let told = floods(&findings);
    assert!(
        told.iter().filter(is_good).any(|one| one.target.prefix.to_string() == "10.1.0.0/24"),
        "{:?}",
        standing(&findings)
    );
    let (hosts, _) = detector.in_force("web").unwrap();
    assert!(hosts > 100, "{hosts}: what is usual is known of all that a good one tells");
    assert_eq!(detector.traffic(IpNet::from(host(7)), &Rule::to(host(7).into())).packets.round() as u64 / 100_000, 0);
}

#[test]
fn while_nobody_who_told_of_it_is_heard_it_is_not_over() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(udp_alone()));
    flood(&mut detector, &mut random, (SECOND, 2.0), (400_000.0, 1_000.0), |random| {
        udp(anybody(random), host(7), (53, 4_000), 1_000)
    });
    (0..600).for_each(|tick| detector.tick(3 * SECOND + tick * SECOND / 10, 0));
    assert_eq!(standing(&detector.take_findings()).len(), 1, "the agent is silent");
    alive(&mut detector, "10.0.0.2", 63 * SECOND);
    detector.tick(63 * SECOND, 0);
    assert!(detector.take_findings().iter().all(|finding| !matches!(finding, Finding::Over { .. })));
    (64..66).for_each(|second| alive(&mut detector, "10.0.0.1", second * SECOND));
    detector.tick(65 * SECOND, 0);
    let findings = detector.take_findings();
    assert!(matches!(findings[..], [Finding::Over { last, .. }] if last < 4 * SECOND), "{findings:?}");
}

/// A flood is told by good samples until its agent, or its interface, is contested; then by nobody for a while, by doubted samples, and by
/// good ones again.
#[test]
fn a_doubt_stands_until_a_good_sample_comes() {
    let (agent, other) = (ip("10.0.0.1"), ip("10.0.0.2"));
    let doubted = |agent, why, point| Contested { time: 3 * SECOND, agent, point, why };
    let own = Some(point("10.0.0.1"));
    for (contested, is_meant) in [
        (doubted(agent, Why::Counters, own), true),
        (doubted(agent, Why::Clock, None), true),
        (doubted(agent, Why::Short, own), false),
        (doubted(agent, Why::Counters, Some(Point { agent, index: 2 })), false),
        (doubted(other, Why::Clock, None), false),
    ] {
        let word = if is_meant { contested.word() } else { Word::Good };
        let mut random = Source::drawn();
        let mut detector = Detector::new(settings(udp_alone()));
        // A flood is told once a second: also in the half second without a sample.
        for sample in 0..400 * 8u64 {
            let now = SECOND + sample * SECOND / 400;
            if now == contested.time {
                detector.contested(&contested);
            }
            let word = match now {
                _ if now < 3 * SECOND => Some(Word::Good),
                _ if now < 3 * SECOND + SECOND / 2 => None,
                _ if now < 6 * SECOND => Some(word),
                _ => Some(Word::Good),
            };
            if let Some(word) = word {
                let packet = udp(anybody(&mut random), host(7), (53, 4_000), 1_000);
                detector.sample(&Sighting { word, ..sighting(now, "10.0.0.1", 1_000.0, packet) });
            }
            alive(&mut detector, "10.0.0.1", now);
            detector.tick(now, 0);
            let doubt = is_meant && (3 * SECOND..6 * SECOND).contains(&now);
            for told in floods(&detector.take_findings()) {
                let doubts: Vec<Doubt> =
                    Doubt::of(point("10.0.0.1"), contested.word()).filter(|_| doubt).into_iter().collect();
                assert_eq!(told.doubts, doubts, "{contested:?} at {now}");
            }
        }
    }
}

#[test]
fn an_agent_that_contradicts_itself_is_told_of_as_it_comes() {
    let mut detector = Detector::new(settings(udp_alone()));
    let contested = Contested { time: SECOND, agent: ip("10.0.0.1"), point: None, why: Why::Content };
    detector.contested(&contested);
    assert_eq!(detector.take_findings(), [Finding::Contested(contested)]);
}
