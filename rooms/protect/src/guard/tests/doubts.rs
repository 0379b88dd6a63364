//! What is done where evidence is not believed, or no longer.

use super::*;

const HOST: &str = "192.0.2.7/32";

#[test]
fn a_doubt_that_comes_later_withdraws_and_no_approval_lifts_it() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    let point = Point { agent: "10.0.0.1".parse().unwrap(), index: 4 };
    // Less evidence is none against it.
    scene.flood(Detection { doubts: vec![Doubt::Uncounted { point }], ..detection(HOST, 900e3) });
    assert_eq!(scene.wanted().len(), 1);
    let doubts = vec![Doubt::Uncounted { point }, Doubt::Speed { point, bits: 2e9, speed: 1e9 }];
    scene.flood(Detection { doubts: doubts.clone(), ..detection(HOST, 900e3) });
    assert_eq!((scene.wanted().len(), scene.limit(), scene.attack().phase), (0, Some("doubt"), Phase::Seen));
    assert!(scene.ask(&Command::Approve { id: 1 }).unwrap_err().contains("no counters of 10.0.0.1, interface 4"));
    scene.flood(Detection { doubts, ..detection(HOST, 900e3) });
    scene.pass(100.0);
    assert!(scene.wanted().is_empty());
    assert_eq!(scene.whats().iter().filter(|what| **what == What::Doubted).count(), 1, "told once");
    // Believed again, it is stopped again.
    scene.flood(detection(HOST, 900e3));
    assert_eq!(scene.wanted().len(), 1);
}

#[test]
fn nobody_ends_a_route_by_speaking_in_the_agents_name() {
    let of_speaker = || vec![Doubt::Sequence { agent: [10, 0, 0, 1].into(), what: "two contents".into() }];
    let mut scene = Scene::new(&AUTOMATIC.replace("[groups.web]", "[ttl]\nfirst = \"60s\"\n[groups.web]"));
    scene.flood(detection(HOST, 900e3));
    // He may have told of it himself: his first datagrams show it.
    scene.pass(5.0);
    scene.flood(Detection { doubts: of_speaker(), ..detection(HOST, 900e3) });
    assert_eq!((scene.wanted().len(), scene.limit()), (0, Some("doubt")));
    scene.flood(detection(HOST, 900e3));
    scene.pass(15.0);
    // Later nothing changes, not the rules either, and it is told once.
    let doubted = |scene: &Scene| scene.whats().iter().filter(|what| **what == What::Doubted).count();
    let (before, told) = (scene.wanted(), doubted(&scene));
    for _ in 0..20 {
        let found = detection(HOST, 100e3);
        scene.flood(Detection { doubts: of_speaker(), rules: vec![found.rules[0].clone()], ..found });
        scene.pass(1.0);
    }
    assert_eq!((scene.wanted(), doubted(&scene)), (before, told + 1), "{:?}", scene.attack().refusal);
    // Until its time is over, which doubted evidence does not renew: nothing is in force then, and that is told as it is.
    scene.pass(120.0);
    assert!(scene.wanted().is_empty());
    let attack = scene.attack();
    assert_eq!((attack.phase, scene.limit(), attack.installed.len()), (Phase::Seen, Some("doubt"), 0));
    assert!(attack.refusal.unwrap().why.starts_with("its time is over"));
}

/// The agent's own next datagram shows that somebody else spoke: whatever has become of the flood that he told of.
#[test]
fn what_was_told_in_the_name_of_an_agent_that_is_found_out_is_withdrawn() {
    let agent = |last: u8| IpAddr::from([10, 0, 0, last]);
    let point = Point { agent: agent(1), index: 4 };
    let found = || {
        let mut found = detection(HOST, 900e3);
        found.evidence.points = vec![point];
        found
    };
    let of_speaker = |last| Doubt::Sequence { agent: agent(last), what: "two contents".into() };
    let rate = Rate::default();
    let counters = Doubt::Counters { point, samples: rate, counters: rate };
    let elsewhere = Doubt::Counters { point: Point { index: 5, ..point }, samples: rate, counters: rate };
    type Then = fn(&mut Scene);
    let goes_on: Then = |_| {};
    let over: Then = |scene| scene.over(HOST);
    let ebbs: Then = |scene| {
        let Detection { target, class, .. } = detection(HOST, 0.0);
        let none = Rate::default();
        let ebbing = Finding::Ebbing { target, class, packets: none, bits: none, is_hearsay: false };
        scene.guard.finding(ebbing, &Usual(0.0), scene.now);
    };
    let unheard: Then = |scene| {
        let Detection { target, class, .. } = detection(HOST, 0.0);
        scene.guard.finding(Finding::Unheard { target, class }, &Usual(0.0), scene.now);
    };
    // What speaks against it, since how many seconds, and whether it is withdrawn; it was announced 19 s ago.
    for (doubt, since, is_withdrawn) in [
        (of_speaker(1), 40, true),
        (of_speaker(1), 20, true),
        (of_speaker(1), 18, false),
        (of_speaker(2), 40, false),
        (counters, 60, true),
        (elsewhere, 60, false),
    ] {
        for then in [goes_on, over, ebbs, unheard] {
            let mut scene = Scene::new(AUTOMATIC);
            scene.pass(100.0);
            scene.flood(found());
            scene.pass(11.0);
            then(&mut scene);
            scene.pass(8.0);
            assert_eq!(scene.wanted().len(), 1);
            let since = scene.now.nanos - since * SECOND;
            let discredited = Finding::Discredited { doubt: doubt.clone(), since };
            scene.guard.finding(discredited, &Usual(0.0), scene.now);
            scene.pass(0.1);
            assert_eq!(scene.wanted().is_empty(), is_withdrawn, "{doubt:?}, {since}");
            let is_told = scene.entries.iter().any(|entry| entry.limit.as_deref() == Some("doubt"));
            assert_eq!(is_told, is_withdrawn, "{doubt:?}, {since}");
            scene.over(HOST);
            scene.pass(100.0);
            assert!(scene.wanted().is_empty() && !scene.guard.is_busy());
        }
    }
    // As long as another agent told it, too, its word is enough.
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(Detection { seconds: vec![agent(2)], ..found() });
    scene.over(HOST);
    for (last, left) in [(1, 1), (3, 1), (2, 0)] {
        let discredited = Finding::Discredited { doubt: of_speaker(last), since: 0 };
        scene.guard.finding(discredited, &Usual(0.0), scene.now);
        assert_eq!(scene.wanted().len(), left, "{last}");
    }
}

/// Whoever looks at an attack sees what speaks against it, whatever has become of it: found out is found out.
#[test]
fn a_doubt_is_told_with_every_attack_that_it_is_about() {
    let agent = |last: u8| IpAddr::from([10, 0, 0, last]);
    let doubt = Doubt::Sequence { agent: agent(1), what: "a leap".into() };
    let found = |scene: &Scene, last: u8| {
        let mut found = detection(HOST, 900e3);
        found.evidence.points = vec![Point { agent: agent(last), index: 4 }];
        found.decided = scene.now.nanos;
        found
    };
    let discredit = |scene: &mut Scene, ago: u64| {
        let since = scene.now.nanos - ago * SECOND;
        scene.guard.finding(Finding::Discredited { doubt: doubt.clone(), since }, &Usual(0.0), scene.now);
    };
    let shown = |scene: &Scene| {
        let board = scene.guard.board(Vec::new(), None, Counts::default(), scene.now);
        let attack = board.attacks.first().or(board.history.first()).unwrap();
        (attack.phase, attack.detection.doubts.len(), attack.was_announced)
    };
    // Over before anybody knew.
    let observed = AUTOMATIC.replace("automatic", "observe");
    for (ago, last, doubts) in [(40, 1, 1), (5, 1, 0), (40, 2, 0)] {
        let mut scene = Scene::new(&observed);
        scene.pass(100.0);
        scene.flood(found(&scene, last));
        scene.over(HOST);
        scene.pass(10.0);
        discredit(&mut scene, ago);
        assert_eq!(shown(&scene), (Phase::Over, doubts, false), "{ago} s, agent {last}");
    }
    // Only observed, and there still.
    let mut scene = Scene::new(&observed);
    scene.pass(100.0);
    scene.flood(found(&scene, 1));
    discredit(&mut scene, 10);
    assert_eq!((shown(&scene), scene.limit()), ((Phase::Seen, 1, false), Some("doubt")));
    // Announced, and fading by then: it is over at once.
    let mut scene = Scene::new(AUTOMATIC);
    scene.pass(100.0);
    scene.flood(found(&scene, 1));
    scene.over(HOST);
    discredit(&mut scene, 10);
    assert_eq!((shown(&scene), scene.wanted().len()), ((Phase::Over, 1, true), 0));
    // What stood before stands, and the doubt is seen.
    let mut scene = Scene::new(AUTOMATIC);
    scene.pass(100.0);
    scene.flood(found(&scene, 1));
    scene.pass(30.0);
    discredit(&mut scene, 10);
    assert_eq!((shown(&scene), scene.wanted().len()), ((Phase::Active, 1, true), 1));
}

/// What waits for a person is not to be approved on the word of somebody else.
#[test]
fn what_waits_is_doubted_when_its_agent_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    std::fs::write(&tokens, "anna act 0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = AUTOMATIC.replace("automatic", "manual") + &format!("[access]\ntokens = {tokens:?}\n");
    let mut scene = Scene::new(&text);
    let mut found = detection(HOST, 900e3);
    let agent = IpAddr::from([10, 0, 0, 1]);
    found.evidence.points = vec![Point { agent, index: 4 }];
    scene.flood(found.clone());
    assert_eq!(scene.attack().phase, Phase::Pending);
    let doubt = Doubt::Sequence { agent, what: "two contents".into() };
    scene.guard.finding(Finding::Discredited { doubt, since: 0 }, &Usual(0.0), scene.now);
    assert_eq!(scene.limit(), Some("doubt"));
    assert!(scene.ask(&Command::Approve { id: 1 }).is_err());
    scene.flood(found);
    assert_eq!(scene.attack().phase, Phase::Pending, "believed again");
}

#[test]
fn what_is_unheard_since_its_agents_are_in_doubt_stays_until_its_time_is_over() {
    let mut scene = Scene::new(&AUTOMATIC.replace("[groups.web]", "[ttl]\nfirst = \"60s\"\n[groups.web]"));
    scene.flood(detection(HOST, 900e3));
    let target = detection(HOST, 0.0).target;
    let unheard = Finding::Unheard { target, class: Class::UdpFlood };
    scene.guard.finding(unheard.clone(), &Usual(0.0), scene.now);
    scene.pass(50.0);
    assert_eq!((scene.wanted().len(), scene.whats().last()), (1, Some(&What::Doubted)));
    // Heard again it is renewed; unheard it is not.
    scene.flood(detection(HOST, 900e3));
    scene.pass(20.0);
    assert_eq!((scene.wanted().len(), scene.whats().last()), (1, Some(&What::Extended)));
    scene.guard.finding(unheard, &Usual(0.0), scene.now);
    scene.pass(200.0);
    assert!(scene.wanted().is_empty());
    scene.over(HOST);
    assert!(!scene.guard.is_busy());
}

#[test]
fn what_an_agent_that_began_again_still_tells_of_does_not_end_before_it_is_believed() {
    let mut scene = Scene::new(&AUTOMATIC.replace("[groups.web]", "[ttl]\nfirst = \"20s\"\n[groups.web]"));
    let target = detection(HOST, 0.0).target;
    let goes_on = Finding::GoesOn { target: target.clone(), class: Class::UdpFlood };
    // Nothing begins by that.
    scene.guard.finding(goes_on.clone(), &Usual(0.0), scene.now);
    assert!(scene.wanted().is_empty() && !scene.guard.is_busy());
    scene.flood(detection(HOST, 900e3));
    let unheard = Finding::Unheard { target, class: Class::UdpFlood };
    scene.guard.finding(unheard, &Usual(0.0), scene.now);
    let doubts = vec![Doubt::Sequence { agent: [10, 0, 0, 1].into(), what: "it began again".into() }];
    for _ in 0..60 {
        scene.guard.finding(goes_on.clone(), &Usual(0.0), scene.now);
        scene.flood(Detection { is_hearsay: true, doubts: doubts.clone(), ..detection(HOST, 900e3) });
        scene.pass(1.0);
        assert_eq!((scene.wanted().len(), scene.attack().id), (1, 1));
    }
    assert_eq!(scene.whats().iter().filter(|what| **what == What::Extended).count(), 1);
    scene.flood(detection(HOST, 900e3));
    assert_eq!((scene.wanted().len(), scene.attack().id), (1, 1));
    // Who says it no more ends it.
    let unheard = Finding::Unheard { target: detection(HOST, 0.0).target, class: Class::UdpFlood };
    scene.guard.finding(unheard, &Usual(0.0), scene.now);
    scene.pass(30.0);
    assert!(scene.wanted().is_empty());
}

#[test]
fn an_agent_that_is_inconsistent_is_told_without_an_attack() {
    let mut scene = Scene::new(AUTOMATIC);
    let (agent, what) = ([10, 0, 0, 1].into(), "one datagram came with two contents".to_owned());
    scene.guard.finding(Finding::Inconsistent { agent, what }, &Usual(0.0), scene.now);
    scene.pass(1.0);
    let told: Vec<_> = scene.entries.iter().map(|entry| (entry.what, entry.why.as_str(), entry.attack)).collect();
    let why = "evidence inconsistent: agent 10.0.0.1: one datagram came with two contents";
    assert_eq!(told, [(What::Doubted, why, None)]);
}

#[test]
fn hearsay_of_a_target_changes_nothing_about_it() {
    let mut scene = Scene::new(AUTOMATIC);
    let doubts = vec![Doubt::Sequence { agent: [10, 0, 0, 1].into(), what: "2 streams at once".into() }];
    let hearsay = Detection { is_hearsay: true, doubts, ..detection(HOST, 900e3) };
    let over = |scene: &mut Scene| {
        let target = hearsay.target.clone();
        let over =
            Finding::Over { target, class: hearsay.class, last: scene.now.nanos, is_hearsay: true, widened: None };
        scene.guard.finding(over, &Usual(0.0), scene.now);
    };
    // It is the same attack, whichever comes first, and nothing of it counts.
    for first in [true, false] {
        if first {
            scene.flood(hearsay.clone());
            assert!(scene.wanted().is_empty() && scene.attack().phase == Phase::Seen);
        }
        scene.flood(detection(HOST, 900e3));
        scene.flood(hearsay.clone());
        scene.pass(1.0);
        assert!(scene.attack().detection.doubts.is_empty() && !scene.attack().detection.is_hearsay);
        assert_eq!(scene.wanted(), ["Limit { bytes_per_s: 1250000.0 } 192.0.2.7/32 narrow"]);
        over(&mut scene);
        scene.pass(100.0);
        assert_eq!((scene.wanted().len(), scene.attack().phase), (1, Phase::Active));
        scene.over(HOST);
        scene.pass(200.0);
        assert!(scene.wanted().is_empty() && !scene.guard.is_busy());
    }
}
