//! What is done where something speaks against an attack, and where routers have no route.

use std::net::IpAddr;

use super::*;

const HOST: &str = "192.0.2.7/32";
const AGENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// A flood that these agents tell of.
fn told_by(agents: &[IpAddr], word: Word) -> Detection {
    let mut found = detection(HOST, 900e3);
    found.evidence.points = agents.iter().map(|&agent| Spot { point: Point { agent, index: 1 }, word }).collect();
    found
}

fn contest(scene: &mut Scene, agent: IpAddr, point: Option<Point>) {
    let contested = Contested { time: scene.now.nanos, agent, point, why: Why::Content };
    scene.guard.finding(Finding::Contested(contested), &Usual(scene.harm), scene.now);
    scene.pass(0.0);
}

fn doubt(word: Word) -> Doubt {
    Doubt::of(Point { agent: AGENT, index: 4 }, word).unwrap()
}

#[test]
fn a_doubted_attack_waits_for_a_person_who_may_approve() {
    let doubts = [
        doubt(Word::New),
        doubt(Word::Contested),
        doubt(Word::Uncounted),
        doubt(Word::Counters),
        Doubt::witnesses(1, 2),
    ];
    for doubt in doubts {
        let mut scene = Scene::new(AUTOMATIC);
        // Whom it hits is for the person who is asked, too.
        scene.harm = 0.5;
        for _ in 0..3 {
            scene.flood(Detection { doubts: vec![doubt.clone()], ..detection(HOST, 900e3) });
            scene.pass(30.0);
        }
        assert_eq!((scene.wanted().len(), scene.attack().phase, scene.limit()), (0, Phase::Pending, None));
        assert_eq!(scene.whats(), [What::Detected, What::Pending], "told once");
        let why = &scene.entries[1].why;
        assert!(why.contains(&doubt.text) && why.contains("50.0 %"), "{why}");
        let counts = scene.guard.board(Vec::new(), None, Counts::default(), scene.now).counts;
        assert!(counts.doubted[doubt.name] == 1, "{counts:?}");
        scene.ask(&Command::Approve { id: 1 }).unwrap();
        scene.go_on(&Detection { doubts: vec![doubt.clone()], ..detection(HOST, 900e3) }, 1_000.0);
        assert_eq!((scene.wanted().len(), scene.attack().phase), (1, Phase::Active), "{doubt:?}");
    }
}

#[test]
fn what_speaks_against_it_no_longer_waits_no_longer() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(Detection { doubts: vec![doubt(Word::New)], ..detection(HOST, 900e3) });
    scene.flood(detection(HOST, 900e3));
    assert_eq!(scene.wanted().len(), 1);
    // Less evidence is none against it: what is announced is renewed.
    scene.go_on(&Detection { doubts: vec![doubt(Word::Uncounted)], ..detection(HOST, 900e3) }, 601.0);
    assert_eq!((scene.wanted().len(), scene.whats().last()), (1, Some(&What::Extended)));
}

/// What is older than `settle` stays until its time is over, and is not renewed.
#[test]
fn contested_agents_take_back_what_is_young() {
    let contested = |agents: &[IpAddr], seconds: f64, whom: IpAddr, point: Option<Point>| {
        let mut scene = Scene::new(AUTOMATIC);
        scene.flood(told_by(agents, Word::Good));
        scene.pass(seconds);
        contest(&mut scene, whom, point);
        (scene.wanted().len(), scene.attack().phase)
    };
    let (there, elsewhere) = (Point { agent: AGENT, index: 1 }, Point { agent: AGENT, index: 2 });
    for (agents, seconds, whom, point, expected) in [
        (&[AGENT][..], 5.0, AGENT, None, Phase::Pending),
        (&[AGENT], 59.0, AGENT, None, Phase::Pending),
        (&[AGENT], 61.0, AGENT, None, Phase::Active),
        (&[AGENT], 5.0, OTHER, None, Phase::Active),
        (&[AGENT, OTHER], 5.0, AGENT, None, Phase::Active),
        (&[AGENT], 5.0, AGENT, Some(there), Phase::Pending),
        (&[AGENT], 5.0, AGENT, Some(elsewhere), Phase::Active),
        // Known from before: nobody knows who told.
        (&[], 5.0, AGENT, None, Phase::Active),
    ] {
        let wanted = usize::from(expected == Phase::Active);
        assert_eq!(
            contested(agents, seconds, whom, point),
            (wanted, expected),
            "{agents:?} {seconds} {whom} {point:?}"
        );
    }
    // Both are contested, one after the other.
    let mut scene = Scene::new(AUTOMATIC);
    let mut found = told_by(&[AGENT, OTHER], Word::Good);
    found.evidence.points[1].word = Word::Contested;
    scene.flood(found);
    contest(&mut scene, AGENT, None);
    assert_eq!(scene.attack().phase, Phase::Pending);
    // What fades is over.
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(told_by(&[AGENT], Word::Good));
    scene.over(HOST);
    contest(&mut scene, AGENT, None);
    assert!(scene.wanted().is_empty() && scene.guard.lives.is_empty());
    // What is older is not renewed.
    let mut scene = Scene::new(AUTOMATIC);
    scene.go_on(&told_by(&[AGENT], Word::Good), 100.0);
    scene.go_on(&Detection { doubts: vec![doubt(Word::Contested)], ..detection(HOST, 900e3) }, 499.0);
    assert_eq!(scene.wanted().len(), 1);
    scene.pass(2.0);
    assert_eq!((scene.wanted().len(), scene.attack().phase), (0, Phase::Pending));
    // A person has taken it upon themselves.
    scene.ask(&Command::Approve { id: 1 }).unwrap();
    contest(&mut scene, AGENT, None);
    assert_eq!(scene.attack().phase, Phase::Active);
}

/// Samples that tell of less than counters take nothing back; where that is, is shown while it goes on, and logged once.
#[test]
fn samples_that_tell_of_less_are_told_and_doubt_no_attack() {
    let mut scene = Scene::new(AUTOMATIC);
    let point = Point { agent: AGENT, index: 1 };
    scene.flood(told_by(&[AGENT], Word::Good));
    for (seconds, shown) in [(0.0, true), (60.0, true), (121.0, false)] {
        scene.pass(seconds);
        if shown {
            let time = scene.now.nanos;
            let short = Contested { time, agent: AGENT, point: Some(point), why: Why::Short };
            scene.guard.finding(Finding::Contested(short), &Usual(scene.harm), scene.now);
            scene.pass(0.0);
        }
        let board = scene.guard.board(Vec::new(), None, Counts::default(), scene.now);
        assert_eq!(board.short, Vec::from_iter(shown.then_some(point)), "{seconds}");
        assert_eq!(board.counts.doubted["counters"], if seconds == 0.0 { 1 } else { 2 });
    }
    assert_eq!(scene.attack().detection.doubts, []);
    let told: Vec<_> = scene.entries.iter().filter(|entry| entry.attack.is_none()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].why.starts_with("agent 10.0.0.1, interface 1 is contested: its samples tell of less"), "{told:?}");
}

/// A speaker that says this of every route.
struct Says(Installed, bool);

impl Announcer for Says {
    fn want(&mut self, _: &[Route]) {}

    fn installed(&self, _: &Route) -> Installed {
        self.0.clone()
    }

    fn speaking(&self) -> Speaking {
        let neighbours = vec![Neighbour { address: [192, 0, 2, 254].into(), asn: 65_002, state: "Established" }];
        Speaking { connected: self.1, neighbours, ..Speaking::default() }
    }

    fn has_changed(&mut self) -> bool {
        true
    }
}

/// One row a sentence: what the speaker says, where the attack stands then, and what is told.
#[test]
fn an_attack_is_active_where_routers_have_its_routes() {
    let mut scene = Scene::new(AUTOMATIC);
    let yes = || Says(Installed::Yes { since: UNIX_EPOCH }, true);
    let no = |why: &str| Says(Installed::No { why: why.into() }, true);
    scene.guard.look(&Says(Installed::Waiting, true), scene.now);
    scene.flood(detection(HOST, 900e3));
    assert_eq!(scene.attack().phase, Phase::Unreachable);
    for (says, phase, told) in [
        (Says(Installed::Waiting, true), Phase::Unreachable, None),
        (no("unreachable by BGP: neighbour is Idle"), Phase::Unreachable, Some(What::Unreachable)),
        (no("unreachable by BGP: neighbour is Active"), Phase::Unreachable, None),
        (yes(), Phase::Active, Some(What::Installed)),
        (yes(), Phase::Active, None),
        (no("unreachable by BGP: neighbour is Idle"), Phase::Unreachable, Some(What::Unreachable)),
        (yes(), Phase::Active, Some(What::Installed)),
        (Says(Installed::Waiting, false), Phase::Unreachable, Some(What::Unreachable)),
        (Says(Installed::Waiting, false), Phase::Unreachable, None),
        (Says(Installed::Waiting, true), Phase::Unreachable, None),
        (yes(), Phase::Active, Some(What::Installed)),
    ] {
        let before = scene.entries.len();
        scene.now.nanos += SECOND;
        scene.guard.look(&says, scene.now);
        scene.pass(0.0);
        let news: Vec<_> = scene.whats().split_off(before);
        assert_eq!((scene.attack().phase, news), (phase, Vec::from_iter(told)), "{:?}", says.0);
    }
    let entry = scene.entries.iter().find(|entry| entry.what == What::Unreachable).unwrap();
    assert_eq!(entry.why, "unreachable by BGP: neighbour is Idle");
    let installed = scene.entries.iter().filter(|entry| entry.what == What::Installed).map(|entry| &*entry.why);
    let after = ["4000.0", "1000.0", "3000.0"].map(|after| format!("{after} ms after it was wanted or lost"));
    assert_eq!(Vec::from_iter(installed), after);
    scene.over(HOST);
    assert_eq!(scene.attack().phase, Phase::Fading);
    // Nothing is announced for a neighbour.
    scene.flood(detection("192.0.2.254/32", 900e3));
    assert!(scene.guard.wanted().iter().all(|route| route.rule.destination.to_string() == HOST));
}
