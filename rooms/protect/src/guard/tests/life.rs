//! An attack from its detection to its end.

use super::*;

const HOST: &str = "192.0.2.7/32";

#[test]
fn an_attack_is_announced_at_once_and_withdrawn_when_it_is_over() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    assert_eq!(scene.wanted(), ["Limit { bytes_per_s: 1250000.0 } 192.0.2.7/32 narrow"]);
    assert_eq!((scene.attack().phase, scene.attack().id), (Phase::Active, 1));
    let [found, announced] = [0, 1].map(|at| scene.entries[at].why.clone());
    let rates = "900000 packets/s (810000 to 990000), 0 bit/s (0 to 0)";
    assert!(found.contains(rates) && found.ends_with(": a first estimate"), "{found}");
    assert!(announced.contains(rates), "{announced}");
    assert_eq!(scene.attack().expires, Some(scene.now.wall + Duration::from_secs(600)));
    scene.pass(5.0);
    scene.over(HOST);
    assert_eq!(scene.attack().phase, Phase::Fading);
    scene.pass(59.0);
    assert_eq!(scene.wanted().len(), 1);
    scene.pass(2.0);
    assert!(scene.wanted().is_empty() && scene.guard.lives.is_empty());
    assert_eq!(scene.whats(), [What::Detected, What::Announced, What::Withdrawn, What::Over]);
    let board = scene.guard.board(Vec::new(), None, Counts::default(), scene.now);
    assert_eq!((board.history[0].phase, board.caps.routes, board.counts.withdrawn), (Phase::Over, 0, 1));
}

/// Its agents are silent: it is neither told of nor told to be over.
#[test]
fn what_nobody_is_heard_of_stays_until_its_time_is_over() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.pass(599.0);
    assert_eq!((scene.wanted().len(), scene.attack().phase), (1, Phase::Active));
    assert_eq!(scene.whats(), [What::Detected, What::Announced, What::Doubted]);
    scene.pass(2.0);
    assert!(scene.wanted().is_empty() && scene.guard.lives.is_empty());
    let why = &scene.entries[3].why;
    assert_eq!(why, "its time is over, and none of the agents that told of it is heard");
    // Heard again, it tells that it goes on, or is over.
    scene.flood(detection(HOST, 900e3));
    assert_eq!((scene.wanted().len(), scene.attack().id), (1, 2));
    scene.over(HOST);
    scene.pass(121.0);
    assert!(scene.wanted().is_empty());
}

#[test]
fn what_flickers_stays_announced() {
    let mut scene = Scene::new(AUTOMATIC);
    for _ in 0..10 {
        scene.flood(detection(HOST, 900e3));
        scene.pass(1.0);
        scene.over(HOST);
        scene.pass(30.0);
        assert_eq!(scene.wanted().len(), 1);
    }
    // The second time, the first step has not helped.
    assert_eq!(scene.whats(), [What::Detected, What::Announced, What::Announced]);
}

#[test]
fn what_comes_back_lives_twice_as_long_until_the_bound() {
    let mut scene = Scene::new(&format!("{AUTOMATIC}\n[ttl]\nfirst = \"10m\"\nmost = \"35m\"\nhysteresis = \"60s\"\n"));
    let mut held = Vec::new();
    for _ in 0..7 {
        scene.flood(detection(HOST, 900e3));
        let live = scene.attack().expires.unwrap().duration_since(scene.now.wall).unwrap().as_secs();
        scene.over(HOST);
        let mut seconds = 0;
        while !scene.wanted().is_empty() {
            scene.pass(1.0);
            seconds += 1;
        }
        held.push((live / 60, seconds / 60));
    }
    assert_eq!(held, [(10, 1), (20, 2), (35, 4), (35, 8), (35, 16), (35, 32), (35, 35)]);
    // Whoever has been quiet for as long as anything may live begins anew.
    scene.pass(36.0 * 60.0);
    scene.flood(detection(HOST, 900e3));
    assert_eq!(scene.attack().expires, Some(scene.now.wall + Duration::from_secs(600)));
}

#[test]
fn what_goes_on_is_renewed_and_what_a_person_extends_stays() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.go_on(&detection(HOST, 900e3), 601.0);
    assert_eq!((scene.wanted().len(), scene.whats().last()), (1, Some(&What::Extended)));
    assert_eq!(scene.ask(&Command::Extend { id: 1, seconds: 3_600 }), Ok(()));
    scene.over(HOST);
    scene.pass(3_590.0);
    assert_eq!(scene.wanted().len(), 1);
    scene.pass(20.0);
    assert!(scene.wanted().is_empty());
    let denied = scene.ask(&Command::Extend { id: 1, seconds: 60 }).unwrap_err();
    assert_eq!(denied, "there is no attack 1 (it may be over: see the history)");
}

/// As long as it goes on its time is longer each time; how long it stays once it is over is as for a short one.
#[test]
fn a_long_attack_is_withdrawn_as_soon_as_a_short_one() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.go_on(&detection(HOST, 900e3), 40.0 * 60.0);
    assert_eq!(scene.whats().iter().filter(|what| **what == What::Extended).count(), 2);
    let mut next = restarts::again(&scene, AUTOMATIC, 5);
    scene.over(HOST);
    // Over a restart, too.
    for scene in [&mut scene, &mut next] {
        scene.pass(59.0);
        assert_eq!(scene.wanted().len(), 1);
        scene.pass(3.0);
        assert!(scene.wanted().is_empty() && scene.guard.lives.is_empty());
        // Hit again it was announced once before, however often that was renewed.
        scene.flood(detection(HOST, 900e3));
        assert_eq!(scene.attack().expires, Some(scene.now.wall + Duration::from_secs(1_200)));
        scene.over(HOST);
        scene.pass(119.0);
        assert_eq!(scene.wanted().len(), 1);
        scene.pass(2.0);
        assert!(scene.wanted().is_empty());
    }
}

#[test]
fn the_next_step_is_taken_when_the_last_one_does_not_help() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.pass(9.0);
    scene.flood(detection(HOST, 900e3));
    assert!(scene.wanted()[0].starts_with("Limit"));
    scene.pass(2.0);
    assert_eq!(scene.wanted(), ["Drop 192.0.2.7/32 narrow"]);
    assert_eq!(scene.attack().level.number, 1);
    // Of one that has helped, it is not.
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.pass(9.0);
    scene.flood(detection(HOST, 300e3));
    scene.pass(30.0);
    assert!(scene.wanted()[0].starts_with("Limit"));
    // Nor of one of which nothing has been heard since.
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.pass(30.0);
    assert!(scene.wanted()[0].starts_with("Limit"));
}

#[test]
fn other_packets_have_other_rules() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    let mut other = detection(HOST, 900e3);
    other.rules[1].source_ports = vec![Ports(123, 123)];
    scene.flood(other.clone());
    assert_eq!(scene.guard.wanted()[0].rule.source_ports, [Ports(53, 53)], "not so soon");
    scene.pass(3.0);
    scene.flood(other);
    assert_eq!(scene.guard.wanted()[0].rule.source_ports, [Ports(123, 123)]);
    assert_eq!(scene.guard.wanted().len(), 1);
}

/// An attack that is over and found again has another number: whoever names the first is told the second.
#[test]
fn whoever_names_an_attack_that_is_over_is_told_which_continues_it() {
    let mut scene = Scene::new(&AUTOMATIC.replace("automatic", "observe"));
    for _ in 0..3 {
        scene.flood(detection(HOST, 900e3));
        scene.over(HOST);
    }
    assert!(scene.ask(&Command::Approve { id: 1 }).unwrap_err().starts_with("there is no attack 1"));
    scene.flood(detection(HOST, 900e3));
    let told = "attack 2 is over, and attack 4 continues it: name that one";
    assert_eq!(scene.ask(&Command::Approve { id: 2 }), Err(told.into()));
    assert_eq!(scene.ask(&Command::Withdraw { id: 2 }), Err(told.into()));
}

#[test]
fn in_manual_mode_a_person_decides_each_step() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    std::fs::write(&tokens, "anna act 0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = AUTOMATIC.replace("automatic", "manual") + &format!("[access]\ntokens = {tokens:?}\n");
    let mut scene = Scene::new(&text);
    scene.flood(detection(HOST, 900e3));
    scene.pass(30.0);
    assert_eq!((scene.attack().phase, scene.wanted().len()), (Phase::Pending, 0));
    assert_eq!(scene.attack().level.routes.len(), 1, "what would be announced is shown");
    scene.ask(&Command::Approve { id: 1 }).unwrap();
    assert!(scene.wanted()[0].starts_with("Limit"));
    assert_eq!(scene.attack().by.as_deref(), Some("anna"));
    scene.flood(detection(HOST, 900e3));
    scene.pass(30.0);
    assert!(scene.wanted()[0].starts_with("Limit"), "no step by itself");
    scene.ask(&Command::Approve { id: 1 }).unwrap();
    assert!(scene.wanted()[0].starts_with("Drop"));
    assert_eq!(scene.ask(&Command::Approve { id: 1 }), Err("attack 1: its last step is announced already".into()));
    // Withdrawn, nothing more is done until it is over.
    scene.ask(&Command::Withdraw { id: 1 }).unwrap();
    scene.flood(detection(HOST, 900e3));
    assert_eq!((scene.wanted().len(), scene.limit()), (0, Some("withdrawn")));
    scene.ask(&Command::Approve { id: 1 }).unwrap();
    assert_eq!(scene.wanted().len(), 1);
    scene.over(HOST);
    scene.pass(3_600.0);
    assert!(scene.guard.lives.is_empty());
}

#[test]
fn a_stop_withdraws_all_until_somebody_resumes() {
    let mut scene = Scene::new(AUTOMATIC);
    for host in 1..=20 {
        scene.flood(detection(&format!("192.0.2.{host}/32"), 900e3));
    }
    assert_eq!(scene.wanted().len(), 20);
    scene.ask(&Command::Stop).unwrap();
    assert!(scene.wanted().is_empty());
    scene.flood(detection("192.0.2.99/32", 900e3));
    scene.pass(60.0);
    assert!(scene.wanted().is_empty());
    assert_eq!(
        scene.ask(&Command::Approve { id: 1 }),
        Err("attack 1: everything was stopped by anna: resume first".into())
    );
    assert!(scene.ask(&Command::Stop).is_err());
    scene.ask(&Command::Resume).unwrap();
    assert_eq!(scene.wanted().len(), 21);
}

/// What is withdrawn is in force for nobody who looks at it.
#[test]
fn what_is_withdrawn_is_told_as_not_in_force_by_the_same_line() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    let withdrawn = |scene: &Scene| scene.whats().contains(&What::Withdrawn);
    scene.guard.withdraw(1, "anna", "to see", scene.now);
    scene.pass(0.0);
    assert!(withdrawn(&scene));
    assert_eq!((scene.attack().phase, scene.attack().installed.len()), (Phase::Seen, 0));
}

#[test]
fn nothing_is_announced_that_is_only_observed() {
    let mut scene = Scene::new(&AUTOMATIC.replace("automatic", "observe"));
    scene.flood(detection(HOST, 900e3));
    assert_eq!((scene.wanted().len(), scene.limit()), (0, Some("observe")));
    assert_eq!(scene.attack().level.routes.len(), 1, "what would have been is shown");
    let denied = "attack 1: group `web` is only observed: set its mode to \"manual\" in the configuration first";
    assert_eq!(scene.ask(&Command::Approve { id: 1 }), Err(denied.into()));
    // A reload to another mode is another decision, and back.
    scene.adopt(AUTOMATIC);
    assert_eq!(scene.wanted().len(), 1);
    scene.adopt(&AUTOMATIC.replace("automatic", "observe"));
    assert!(scene.wanted().is_empty());
    scene.adopt(&AUTOMATIC.replace("groups.web", "groups.other"));
    assert_eq!(scene.limit(), Some("protected"));
}

#[test]
fn a_step_of_the_clock_that_people_set_changes_nothing() {
    for step in [-86_400_i64, 86_400] {
        let mut scene = Scene::new(AUTOMATIC);
        scene.flood(detection(HOST, 900e3));
        let span = Duration::from_secs(step.unsigned_abs());
        scene.now.wall = if step < 0 { scene.now.wall - span } else { scene.now.wall + span };
        scene.pass(1.0);
        scene.over(HOST);
        scene.pass(59.0);
        assert_eq!(scene.wanted().len(), 1);
        scene.pass(2.0);
        assert!(scene.wanted().is_empty());
    }
}

/// What a person withdraws and approves, or stops and resumes, is not hit again meanwhile.
#[test]
fn what_people_do_in_between_makes_no_attack_another_one() {
    let mut scene = Scene::new(AUTOMATIC);
    let live = |scene: &Scene| scene.attack().expires.unwrap().duration_since(scene.now.wall).unwrap().as_secs();
    scene.flood(detection(HOST, 900e3));
    for _ in 0..3 {
        scene.ask(&Command::Withdraw { id: 1 }).unwrap();
        scene.ask(&Command::Approve { id: 1 }).unwrap();
        scene.ask(&Command::Stop).unwrap();
        scene.ask(&Command::Resume).unwrap();
        assert_eq!(live(&scene), 600);
    }
    scene.over(HOST);
    scene.pass(61.0);
    assert!(scene.guard.lives.is_empty(), "held no longer than for the first time");
    scene.flood(detection(HOST, 900e3));
    assert_eq!(live(&scene), 1_200, "hit again");
    // Withdrawn, and over since: the next time is another one all the same.
    scene.ask(&Command::Withdraw { id: 2 }).unwrap();
    scene.over(HOST);
    scene.flood(detection(HOST, 900e3));
    assert_eq!(live(&scene), 2_400);
}

/// An attack has the rates of when it was last found; when it is over, its highest.
#[test]
fn the_rate_sinks_with_the_flood_and_the_history_has_its_highest() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    let target = detection(HOST, 0.0).target;
    scene.flood(detection(HOST, 100e3));
    scene.pass(2.0);
    let attack = scene.attack();
    assert_eq!((attack.detection.evidence.packets.value, attack.peak.0.value), (100e3, 900e3));
    assert_eq!(attack.curve, [900e3, 100e3], "the second in which it was high is drawn as high");
    // It was last above its threshold ten seconds before that was sure: the hysteresis counts from then.
    let last = scene.now.nanos;
    scene.pass(10.0);
    let over = Finding::Over { target, class: Class::UdpFlood, last };
    scene.guard.finding(over, &Usual(0.0), scene.now);
    assert_eq!(scene.attack().detection.evidence.packets.value, 0.0);
    scene.pass(49.0);
    assert_eq!(scene.wanted().len(), 1);
    scene.pass(2.0);
    assert!(scene.wanted().is_empty());
    let board = scene.guard.board(Vec::new(), None, Counts::default(), scene.now);
    assert_eq!(board.history[0].detection.evidence.packets.value, 900e3);
}
