//! What speaks against a flood.

use super::*;
use crate::evidence::{Sign, Trouble};
use crate::model::Doubt;

fn thresholds() -> Vec<Threshold> {
    vec![Threshold::packets(Class::UdpFlood, 40_000.0)]
}

fn attack(detector: &mut Detector, from: u64) -> Vec<Finding> {
    let mut random = Source::drawn();
    flood(detector, &mut random, (from, 3.0), (400_000.0, 1000.0), |random| udp(anybody(random), host(7), (9, 9), 400));
    detector.take_findings()
}

#[test]
fn an_agent_that_was_never_heard_has_no_word() {
    let mut detector = Detector::new(settings(thresholds()));
    let findings = attack(&mut detector, 0);
    let doubts = &floods(&findings)[0].doubts;
    let agent = ip("10.0.0.1");
    assert_eq!(doubts[..], [Doubt::Stranger { agent, from: ip("0.0.0.0") }]);
    assert!(floods(&findings).iter().all(|one| one.is_hearsay));
}

#[test]
fn samples_without_counters_are_doubted_until_counters_come_and_agree() {
    let mut detector = Detector::new(settings(thresholds()));
    detector.agent(&Heard {
        time: 0,
        agent: ip("10.0.0.1"),
        stream: Stream::default(),
        from: ip("10.0.0.1"),
        trouble: None,
        pause: 0,
        is_known: false,
    });
    let findings = attack(&mut detector, 0);
    assert!(floods(&findings).iter().all(|one| matches!(one.doubts[..], [Doubt::Uncounted { .. }])));
    trust(&mut detector, "10.0.0.1", 3 * SECOND);
    let findings = attack(&mut detector, 3 * SECOND);
    assert!(floods(&findings).last().unwrap().doubts.is_empty());
}

#[test]
fn counters_that_contradict_are_told_at_once() {
    let mut detector = believed(settings(thresholds()));
    let mut findings = Vec::new();
    (0..8).for_each(|round| findings = attack(&mut detector, round * 3 * SECOND));
    assert!(floods(&findings).iter().all(|one| one.doubts.is_empty()));
    // What came in at that interface: next to nothing.
    let (from, to) = (0, 24 * SECOND);
    detector.counters(&Counts {
        point: point("10.0.0.1"),
        stream: Stream::default(),
        from,
        to,
        packets: [500.0; 2],
        bits: [5e5; 2],
        speed: None,
    });
    detector.tick(24 * SECOND + 1, 0);
    let findings = detector.take_findings();
    let doubts = &floods(&findings)[0].doubts;
    assert!(
        matches!(doubts[..], [Doubt::Counters { samples, counters, .. }] if samples.low > counters.high),
        "{doubts:?}"
    );
}

#[test]
fn an_agent_in_trouble_is_doubted_at_once() {
    let mut detector = believed(settings(thresholds()));
    assert!(floods(&attack(&mut detector, 0)).iter().all(|one| one.doubts.is_empty()));
    let (agent, from) = (ip("10.0.0.1"), ip("10.0.0.1"));
    detector.agent(&Heard {
        time: 3 * SECOND,
        agent,
        stream: Stream::default(),
        from,
        trouble: Some(Trouble::Streams(2)),
        pause: 0,
        is_known: false,
    });
    detector.tick(3 * SECOND + 1, 0);
    let findings = detector.take_findings();
    assert!(matches!(floods(&findings)[0].doubts[..], [Doubt::Sequence { .. }]), "{findings:?}");
}

#[test]
fn what_strangers_tell_neither_hides_nor_joins_what_agents_do() {
    let mut random = Source::drawn();
    let mut detector = believed(settings(thresholds()));
    // A stranger tells of a carpet over the whole /16, and of ten times as much.
    for tick in 0..3_000u64 {
        let now = tick * SECOND / 1000;
        let target = host(random.bits() as u32 % 65_536);
        show(&mut detector, now, "172.16.0.9", 1e6, udp(anybody(&mut random), target, (9, 9), 400));
        if tick >= 1_000 && random.uniform() < 0.4 {
            show(&mut detector, now, "10.0.0.1", 1000.0, udp(anybody(&mut random), host(7), (9, 9), 400));
        }
        if tick % 100 == 0 {
            detector.tick(now, 0);
        }
    }
    let findings = detector.take_findings();
    let told = floods(&findings);
    let strangers = told.iter().filter(|one| one.target.prefix == "10.1.0.0/16".parse::<IpNet>().unwrap());
    assert!(strangers.clone().count() > 0);
    assert!(strangers.into_iter().all(|one| matches!(one.doubts[0], Doubt::Stranger { .. })));
    let own: Vec<_> = told.iter().filter(|one| one.target.prefix == IpNet::from(host(7))).collect();
    assert!(!own.is_empty() && own.iter().all(|one| one.doubts.is_empty()), "{own:?}");
}

#[test]
fn a_second_agent_on_the_path_has_to_see_it_where_that_is_asked() {
    for (witnesses, sees, alone) in [(1, false, false), (2, true, false), (2, false, true)] {
        let mut random = Source::drawn();
        let mut settings = settings(thresholds());
        settings.evidence.witnesses = witnesses;
        let mut detector = believed(settings);
        // Both usually see all of it.
        for tick in 0..3000u64 {
            for agent in ["10.0.0.1", "10.0.0.2"] {
                let packet = udp(anybody(&mut random), host(7), (443, 443), 400);
                show(&mut detector, tick * SECOND / 10, agent, 1000.0, packet);
            }
        }
        ["10.0.0.1", "10.0.0.2"].iter().for_each(|agent| trust(&mut detector, agent, 300 * SECOND));
        for tick in 0..1200u64 {
            let now = 300 * SECOND + tick * SECOND / 400;
            for agent in ["10.0.0.1", "10.0.0.2"].iter().take(1 + usize::from(sees)) {
                show(&mut detector, now, agent, 1000.0, udp(anybody(&mut random), host(7), (9, 9), 400));
            }
            if tick % 40 == 0 {
                detector.tick(now, 0);
            }
        }
        let findings = detector.take_findings();
        let last = floods(&findings).into_iter().last().unwrap();
        let found = last.doubts == [Doubt::Alone { agent: ip("10.0.0.1"), other: ip("10.0.0.2") }];
        assert_eq!(found, alone, "{witnesses} {sees}: {:?}", last.doubts);
        assert!(found || last.doubts.is_empty(), "{:?}", last.doubts);
    }
}

/// Counters of an interface of 10.0.0.1 that allow for anything, of 20 s.
fn count(detector: &mut Detector, index: u32, second: u64, speed: Option<f64>) {
    let (from, to) = (second.saturating_sub(20) * SECOND, second * SECOND);
    let point = Point { agent: ip("10.0.0.1"), index };
    detector.counters(&Counts {
        point,
        stream: Stream::default(),
        from,
        to,
        packets: [1e9; 2],
        bits: [1e13; 2],
        speed,
    });
}

/// A flood of three seconds at an interface of an agent; the doubts of what is told last.
fn seen_at(detector: &mut Detector, second: u64, points: &[(&str, u32)]) -> Vec<Doubt> {
    let mut random = Source::drawn();
    for tick in 0..1200 {
        let time = second * SECOND + tick * SECOND / 400;
        for &(agent, index) in points {
            let packet = udp(anybody(&mut random), host(7), (9, 9), 400);
            let point = Point { agent: ip(agent), index };
            detector.sample(&Sighting {
                time,
                kept: 0,
                ago: [0; 2],
                point,
                stream: Stream::default(),
                ingress: Some(true),
                frames: 1000.0,
                packet,
                header: &[],
            });
        }
        if tick % 40 == 0 {
            detector.tick(time, 0);
        }
    }
    let findings = detector.take_findings();
    detector.tick((second + 15) * SECOND, 0);
    detector.take_findings();
    floods(&findings).into_iter().last().unwrap().doubts.clone()
}

#[test]
fn an_interface_that_is_new_beside_its_agent_needs_a_history_or_a_second_agent() {
    let mut detector = believed(settings(thresholds()));
    let forged = Point { agent: ip("10.0.0.1"), index: 7 };
    (0..10).for_each(|round| count(&mut detector, 1, round * 20, None));
    // Its own counters fit, from the first on.
    (10..15).for_each(|round| count(&mut detector, 7, round * 20, None));
    assert_eq!(seen_at(&mut detector, 290, &[("10.0.0.1", 7)]), [Doubt::Uncounted { point: forged }]);
    trust(&mut detector, "10.0.0.2", 300 * SECOND);
    assert_eq!(seen_at(&mut detector, 320, &[("10.0.0.1", 7), ("10.0.0.2", 1)]), []);
    (15..45).for_each(|round| count(&mut detector, 7, round * 20, None));
    assert_eq!(seen_at(&mut detector, 890, &[("10.0.0.1", 7)]), []);
}

#[test]
fn an_impossible_rate_is_neither_believed_nor_remembered() {
    // One sample a 50 ms: each stands for more than 100 Gbit/s carry in 6 s.
    for frames in [9e8, 2e8] {
        let mut random = Source::drawn();
        let mut detector = believed(settings(thresholds()));
        count(&mut detector, 1, 20, Some(1e11));
        for tick in 0..100 {
            let now = 21 * SECOND + tick * SECOND / 20;
            show(&mut detector, now, "10.0.0.1", frames, udp(anybody(&mut random), host(7), (9, 9), 400));
            detector.tick(now, 0);
        }
        // What is usual comes afterwards, and goes on.
        flood(&mut detector, &mut random, (26 * SECOND, 80.0), (20_000.0, 1000.0), |random| {
            udp(anybody(random), host(7), (9, 9), 400)
        });
        let findings = detector.take_findings();
        let undoubted: Vec<_> = floods(&findings).into_iter().filter(|one| one.doubts.is_empty()).collect();
        assert!(undoubted.is_empty(), "{frames}: {:?}", undoubted[0]);
        assert!(detector.statistics().totals.impossible > 50, "{frames}");
    }
}

/// Samples of 400 packets/ms to a host, told in a stream; what was found.
fn told_in(detector: &mut Detector, second: u64, streams: &[(&str, Stream)]) -> Vec<Finding> {
    let mut random = Source::drawn();
    for tick in 0..1200 {
        let time = second * SECOND + tick * SECOND / 400;
        for &(agent, stream) in streams {
            let packet = udp(anybody(&mut random), host(7), (9, 9), 400);
            let (point, ingress, frames, ago) = (point(agent), Some(true), 1000.0, [0; 2]);
            detector.sample(&Sighting { time, kept: 0, ago, point, stream, ingress, frames, packet, header: &[] });
        }
        if tick % 40 == 0 {
            detector.tick(time, 0);
        }
    }
    detector.take_findings()
}

#[test]
fn strangers_do_not_switch_protection_off() {
    let mut detector = believed(settings(thresholds()));
    let agent = ip("10.0.0.1");
    let own = Stream::default();
    let forged = Stream { sub_agent: 0, run: 7 };
    for second in 0..5 {
        let heard = Heard {
            time: second * SECOND,
            agent,
            stream: own,
            from: agent,
            trouble: Some(Trouble::Stranger),
            pause: 0,
            is_known: false,
        };
        detector.agent(&heard);
        detector.agent(&Heard { from: ip("192.0.2.66"), ..heard });
        // They continue one another: from its own address beside its stream, and from elsewhere.
        detector.agent(&Heard { stream: forged, trouble: Some(Trouble::Streams(2)), ..heard });
        let elsewhere = Stream { run: 8, ..forged };
        detector.agent(&Heard { stream: elsewhere, from: ip("192.0.2.66"), trouble: None, ..heard });
    }
    assert_eq!(detector.statistics().strangers, 10);
    // They tell of the same flood, and of counters that speak against it.
    let (from, to) = (0, 5 * SECOND);
    let none = Counts {
        point: point("10.0.0.1"),
        stream: forged,
        from,
        to,
        packets: [0.0; 2],
        bits: [0.0; 2],
        speed: Some(1e6),
    };
    detector.counters(&none);
    let findings = told_in(&mut detector, 5, &[("10.0.0.1", own), ("10.0.0.1", forged)]);
    let (hearsay, known): (Vec<_>, Vec<_>) = floods(&findings).into_iter().partition(|one| one.is_hearsay);
    assert!(!known.is_empty() && known.iter().all(|one| one.doubts.is_empty()), "{known:?}");
    assert!(!hearsay.is_empty() && hearsay.iter().all(|one| matches!(one.doubts[..], [Doubt::Sequence { .. }])));
    // What was believed until now, and is in trouble, is doubted all the same.
    detector.agent(&Heard {
        time: 8 * SECOND,
        agent,
        stream: own,
        from: agent,
        trouble: Some(Trouble::Streams(2)),
        pause: 0,
        is_known: false,
    });
    detector.tick(8 * SECOND + 1, 0);
    let findings = detector.take_findings();
    let known = floods(&findings).into_iter().find(|one| !one.is_hearsay).unwrap();
    assert!(matches!(known.doubts[..], [Doubt::Sequence { .. }]), "{known:?}");
}

#[test]
fn a_sub_agent_that_comes_beside_another_has_no_word() {
    for (sub_agent, second) in [(5, 1), (5, 100)] {
        let mut detector = believed(settings(thresholds()));
        let agent = ip("10.0.0.1");
        let forged = Stream { sub_agent, run: 7 };
        detector.agent(&Heard {
            time: second * SECOND,
            agent,
            stream: forged,
            from: agent,
            trouble: None,
            pause: 0,
            is_known: false,
        });
        let point = point("10.0.0.1");
        let (from, to) = ((second - 1) * SECOND, second * SECOND);
        let counts = Counts { point, stream: forged, from, to, packets: [1e9; 2], bits: [1e13; 2], speed: None };
        detector.counters(&counts);
        let findings = told_in(&mut detector, second, &[("10.0.0.1", forged)]);
        let told = floods(&findings);
        assert!(!told.is_empty() && told.iter().all(|one| one.is_hearsay), "{second}");
        assert!(told.iter().all(|one| matches!(one.doubts[..], [Doubt::Sequence { .. }])), "{second}");
        // It has taken nobody's word either, once it is known who was there first.
        if second > 30 {
            trust(&mut detector, "10.0.0.1", (second + 20) * SECOND);
            let findings = told_in(&mut detector, second + 20, &[("10.0.0.1", Stream::default())]);
            let mut told = floods(&findings);
            told.retain(|one| !one.is_hearsay);
            assert!(!told.is_empty() && told.iter().all(|one| one.doubts.is_empty()), "{told:?}");
        }
    }
}

/// Between what a line carries and what no sample may tell: a misjudged sampling rate.
#[test]
fn what_is_more_than_the_line_carries_is_never_told_without_a_doubt() {
    // Bits that a sample stands for, in seconds of the line; and times its speed.
    for (weight, times) in [(1.0, 20.0), (0.3, 6.0), (0.03, 3.0), (0.001, 2.0)] {
        for seed in 0..10 {
            let mut random = Source(seed * 7 + 1);
            let mut detector = believed(settings(thresholds()));
            count(&mut detector, 1, 20, Some(1e10));
            let frames = weight * 1e10 / (400.0 * 8.0);
            let packet = |random: &mut Source| udp(anybody(random), host(7), (9, 9), 400);
            show(&mut detector, 20 * SECOND, "10.0.0.1", frames, packet(&mut random));
            flood(&mut detector, &mut random, (21 * SECOND, 3.0), (times * 1e10 / 3200.0, frames), packet);
            let findings = detector.take_findings();
            let told = floods(&findings);
            let sure: Vec<_> = told.iter().filter(|one| one.doubts.is_empty()).collect();
            assert!(sure.is_empty(), "{weight} s, {times} times, seed {seed}: {:?}", sure[0]);
        }
    }
}

/// What fills its line is told all the same, and soon.
#[test]
fn a_flood_that_fills_the_line_is_told_within_half_a_second() {
    let mut late = 0;
    for seed in 0..20 {
        let mut random = Source(seed * 7 + 1);
        let mut detector = believed(settings(thresholds()));
        count(&mut detector, 1, 20, Some(1e10));
        let packet = |random: &mut Source| udp(anybody(random), host(7), (9, 9), 1500);
        show(&mut detector, 20 * SECOND, "10.0.0.1", 1000.0, packet(&mut random));
        flood(&mut detector, &mut random, (21 * SECOND, 1.0), (1e10 / 12_000.0, 1000.0), packet);
        let findings = detector.take_findings();
        let told = floods(&findings);
        late += usize::from(told.is_empty() || !told[0].doubts.is_empty());
    }
    assert!(late <= 1, "{late} of 20");
}

/// Somebody else takes places in the agent's stream, so that what it tells of a flood comes no more, or is not believed.
#[test]
fn a_flood_is_not_over_because_its_agent_is_in_doubt() {
    for trouble in [Trouble::Speakers(Sign::Content), Trouble::Jump] {
        let mut detector = believed(settings(thresholds()));
        assert!(!floods(&attack(&mut detector, 0)).is_empty());
        let (agent, stream) = (ip("10.0.0.1"), Stream { sub_agent: 0, run: 2 });
        let mut findings = Vec::new();
        for second in 3..140 {
            let time = second * SECOND;
            if second < 50 {
                let trouble = Some(trouble);
                detector.agent(&Heard { time, agent, stream, from: agent, trouble, pause: 0, is_known: false });
            }
            detector.tick(time, 0);
            findings.extend(detector.take_findings().into_iter().map(|finding| (second, finding)));
        }
        let when = |is_it: fn(&Finding) -> bool| {
            findings.iter().filter(|(_, finding)| is_it(finding)).map(|(second, _)| *second).collect::<Vec<_>>()
        };
        assert_eq!(when(|finding| matches!(finding, Finding::Inconsistent { .. })), [3], "{trouble:?}");
        assert_eq!(when(|finding| matches!(finding, Finding::Unheard { .. })).len(), 1, "{trouble:?}");
        // Nor because he is believed again, and has not told of anything yet.
        assert_eq!(when(|finding| matches!(finding, Finding::Over { .. })), [120], "{trouble:?}");
    }
}

/// An agent begins again, and tells of what it told before: as hearsay first, until it is believed.
#[test]
fn what_was_hearsay_is_told_by_whoever_is_believed_alone() {
    let mut detector = believed(settings(thresholds()));
    let (agent, new) = (ip("10.0.0.1"), Stream { sub_agent: 0, run: 2 });
    let hear = |detector: &mut Detector, second: u64, trouble: Option<Trouble>| {
        let time = second * SECOND;
        detector.agent(&Heard { time, agent, stream: new, from: agent, trouble, pause: 0, is_known: false });
        let findings = told_in(detector, second, &[("10.0.0.1", new)]);
        let goes_on = findings.iter().any(|finding| matches!(finding, Finding::GoesOn { .. }));
        assert_eq!(goes_on, second < 60, "{second}");
        floods(&findings).into_iter().cloned().collect::<Vec<_>>()
    };
    let doubted = hear(&mut detector, 3, Some(Trouble::Restart));
    assert!(!doubted.is_empty() && doubted.iter().all(|one| one.is_hearsay && !one.doubts.is_empty()), "{doubted:?}");
    let doubted = hear(&mut detector, 58, None);
    assert!(!doubted.is_empty() && doubted.iter().all(|one| one.is_hearsay && !one.doubts.is_empty()), "{doubted:?}");
    let known = hear(&mut detector, 64, None);
    assert!(!known.is_empty() && known.iter().all(|one| !one.is_hearsay && one.doubts.is_empty()), "{known:?}");
}

/// Somebody else tells of very much in an agent's name, and its own address is in doubt meanwhile.
#[test]
fn what_an_agent_tells_in_doubt_is_not_hidden_by_what_others_tell_in_its_name() {
    let mut detector = believed(settings(thresholds()));
    let (agent, own, forged) = (ip("10.0.0.1"), Stream::default(), Stream { sub_agent: 0, run: 7 });
    let (time, trouble) = (SECOND, Some(Trouble::Speakers(Sign::Content)));
    let heard = Heard { time, agent, stream: own, from: agent, trouble, pause: 0, is_known: false };
    detector.agent(&heard);
    detector.agent(&Heard { stream: forged, from: ip("192.0.2.66"), trouble: None, ..heard });
    let mut random = Source::drawn();
    let packet = udp(anybody(&mut random), host(9), (9, 9), 400);
    let (point, ingress, frames) = (point("10.0.0.1"), Some(true), 1e8);
    let (time, kept, ago, stream) = (2 * SECOND, 0, [0; 2], forged);
    detector.sample(&Sighting { time, kept, ago, point, stream, ingress, frames, packet, header: &[] });
    let findings = told_in(&mut detector, 3, &[("10.0.0.1", own)]);
    let mut told = floods(&findings);
    told.retain(|one| one.target.prefix == IpNet::from(host(7)));
    assert!(!told.is_empty() && told.iter().all(|one| one.is_hearsay), "{findings:?}");
    assert!(told.iter().all(|one| matches!(one.doubts[..], [Doubt::Sequence { .. }])), "{told:?}");
}
