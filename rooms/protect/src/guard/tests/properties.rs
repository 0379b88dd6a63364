//! Whatever comes in whatever order.

use proptest::prelude::*;

use super::*;
use crate::guard::caps::addresses;

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    Flood { host: u8, packets: u32, doubted: bool, narrow: bool },
    Carpet { packets: u32 },
    Over { host: u8 },
    Ask(Command),
    Pass { tenths: u16 },
    Harm(u8),
    Adopt(usize),
    Restart { later: i32 },
    Step { seconds: i32 },
}

/// Modes and caps of a configuration.
const CONFIGURATIONS: [(&str, &str); 4] = [
    ("automatic", "routes = 6\nshare = \"3%\"\nprefixes = 4"),
    ("observe", "routes = 6"),
    ("automatic", "routes = 2\nshare = \"1%\""),
    ("automatic", "routes = 100\nprefixes = 100\nshare = \"100%\""),
];

fn text(which: usize) -> String {
    let (mode, caps) = CONFIGURATIONS[which];
    let blackhole = "[[groups.web.levels]]\naction = \"blackhole\"\nafter = \"20s\"\nharm = \"100%\"";
    let text = AUTOMATIC.replace("automatic", mode).replace(", \"2001:db8::/48\"", "");
    format!("{text}\n{blackhole}\n[caps]\n{caps}\n[allow]\ndestinations = [\"192.0.2.3\"]\n")
}

fn event() -> impl Strategy<Value = Event> {
    let id = 1..8_u64;
    prop_oneof![
        6 => (0..12_u8, 50_000..2_000_000_u32, prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(host, packets, doubted, narrow)| Event::Flood { host, packets, doubted, narrow }),
        1 => (50_000..2_000_000_u32).prop_map(|packets| Event::Carpet { packets }),
        3 => (0..13_u8).prop_map(|host| Event::Over { host }),
        1 => id.clone().prop_map(|id| Event::Ask(Command::Approve { id })),
        1 => id.clone().prop_map(|id| Event::Ask(Command::Withdraw { id })),
        1 => (id, 0..200_000_u64).prop_map(|(id, seconds)| Event::Ask(Command::Extend { id, seconds })),
        1 => any::<bool>().prop_map(|stop| Event::Ask(if stop { Command::Stop } else { Command::Resume })),
        6 => (1..900_u16).prop_map(|tenths| Event::Pass { tenths }),
        1 => (0..100_u8).prop_map(Event::Harm),
        1 => (0..CONFIGURATIONS.len()).prop_map(Event::Adopt),
        1 => (-5_000..5_000_i32).prop_map(|later| Event::Restart { later }),
        1 => (-100_000..100_000_i32).prop_map(|seconds| Event::Step { seconds }),
    ]
}

fn prefix(host: u8) -> String {
    if host == 12 { "192.0.2.0/26".into() } else { format!("192.0.2.{host}/32") }
}

fn shift(wall: SystemTime, seconds: i64) -> SystemTime {
    let span = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { wall - span } else { wall + span }
}

fn happen(scene: &mut Scene, event: &Event, which: &mut usize) {
    match *event {
        Event::Flood { host, packets, doubted, narrow } => {
            let mut found = detection(&prefix(host), f64::from(packets));
            if !narrow {
                found.rules.truncate(1);
            }
            if doubted {
                found.doubts.extend(Doubt::of(Point { agent: [10, 0, 0, 9].into(), index: 1 }, Word::New));
            }
            scene.flood(found);
        }
        Event::Carpet { packets } => scene.flood(detection(&prefix(12), f64::from(packets))),
        Event::Over { host } => scene.over(&prefix(host)),
        Event::Ask(ref command) => drop(scene.ask(&command.clone())),
        Event::Pass { tenths } => scene.pass(f64::from(tenths) / 10.0),
        Event::Harm(percent) => scene.harm = f64::from(percent) / 100.0,
        Event::Adopt(next) => {
            *which = next;
            scene.adopt(&text(next));
        }
        Event::Restart { later } => {
            let mut next = Scene::new(&text(*which));
            next.now = Now { nanos: SECOND, wall: shift(scene.now.wall, later.into()) };
            next.harm = scene.harm;
            next.guard.restore(scene.entries.clone(), next.now);
            next.entries = std::mem::take(&mut scene.entries);
            *scene = next;
            scene.settle();
        }
        Event::Step { seconds } => scene.now.wall = shift(scene.now.wall, seconds.into()),
    }
}

/// What holds at every moment.
fn hold(scene: &Scene, which: usize) -> Result<(), TestCaseError> {
    let (mode, _) = CONFIGURATIONS[which];
    let wanted = scene.guard.wanted();
    let board = scene.guard.board(Vec::new(), None, Counts::default(), scene.now);
    let caps = &scene.guard.settings.caps;
    prop_assert!(wanted.len() <= caps.routes as usize && board.caps.routes <= caps.routes as usize, "{:?}", board.caps);
    let mut prefixes: Vec<_> = wanted.iter().map(|route| route.rule.destination).collect();
    prefixes.sort();
    prefixes.dedup();
    prop_assert!(prefixes.len() <= caps.prefixes as usize);
    let cut = |route: &&Route| match route.action {
        Action::Blackhole => true,
        Action::Drop => route.rule.is_bare(),
        _ => false,
    };
    let off: Vec<_> = wanted.iter().filter(cut).map(|route| route.rule.destination).collect();
    let off = IpNet::aggregate(&off);
    prop_assert!(off.iter().map(addresses).sum::<f64>() <= caps.share.fraction() * 256.0, "{off:?}");
    prop_assert!(mode != "observe" && board.stopped.is_none() || wanted.is_empty());
    let touched = "192.0.2.3/32".parse::<IpNet>().unwrap();
    prop_assert!(wanted.iter().all(|route| !route.rule.destination.contains(&touched)));
    for route in &wanted {
        let of = |attack: &&Arc<Attack>| {
            matches!(attack.phase, Phase::Active | Phase::Fading) && attack.level.routes.contains(route)
        };
        let attack = board.attacks.iter().find(of);
        prop_assert!(attack.is_some_and(|attack| attack.expires.is_some()), "{route:?} of none in {board:#?}");
        prop_assert!(attack.is_some_and(|attack| attack.was_announced));
    }
    for attack in &board.attacks {
        let is_announced = matches!(attack.phase, Phase::Active | Phase::Fading);
        prop_assert_eq!(is_announced, !attack.installed.is_empty(), "{:?}", attack);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn caps_hold_nothing_is_observed_into_being_and_everything_ends(
        events in prop::collection::vec(event(), 1..60),
        first in 0..CONFIGURATIONS.len(),
    ) {
        let (mut scene, mut which) = (Scene::new(&text(first)), first);
        for event in &events {
            happen(&mut scene, event, &mut which);
            hold(&scene, which)?;
        }
        // Ids only grow.
        let ids: Vec<u64> = scene.entries.iter().filter(|entry| entry.what == What::Detected).filter_map(|entry| entry.attack).collect();
        prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        // Nobody attacks any more: the longest that anything may live, and a little.
        (0..13).for_each(|host| scene.over(&prefix(host)));
        for _ in 0..90 {
            scene.now.nanos += 1_000 * SECOND;
            scene.pass(0.1);
        }
        prop_assert!(scene.guard.wanted().is_empty() && scene.guard.lives.is_empty());
    }
}
