//! What caps, harm and those who are never hit forbid.

use super::*;
use crate::config::values::Community;

fn scene(caps: &str) -> Scene {
    Scene::new(&format!("{AUTOMATIC}\n[caps]\n{caps}\n"))
}

#[test]
fn caps_hold_and_what_they_refused_follows_when_there_is_room() {
    let mut scene = scene("routes = 3");
    for host in 1..=5 {
        scene.flood(detection(&format!("192.0.2.{host}/32"), 900e3));
    }
    assert_eq!(scene.wanted().len(), 3);
    let refused = scene.entries.iter().filter(|entry| entry.what == What::Refused).collect::<Vec<_>>();
    assert_eq!((refused.len(), refused[0].limit.as_deref()), (2, Some("max_routes")));
    assert_eq!(refused[0].why, "4 routes would be announced, caps.routes is 3");
    scene.over("192.0.2.1/32");
    scene.pass(62.0);
    assert_eq!(scene.wanted().len(), 3);
    let mut few = self::scene("prefixes = 1");
    few.flood(detection("192.0.2.1/32", 900e3));
    few.flood(detection("192.0.2.2/32", 900e3));
    assert_eq!(few.wanted().len(), 1);
}

/// Of 256 addresses 5 % are 12.
#[test]
fn no_more_than_a_share_of_the_space_is_cut_off() {
    let text =
        AUTOMATIC.replace("action = \"limit\"\n    rate = \"10mbit\"", "action = \"blackhole\"\n    harm = \"100%\"");
    let text = text.replace(", \"2001:db8::/48\"", "");
    let mut scene = Scene::new(&text);
    for host in 0..40 {
        scene.flood(detection(&format!("192.0.2.{host}/32"), 900e3));
    }
    assert_eq!(scene.wanted().len(), 12);
    assert!(scene.wanted()[0].starts_with("Blackhole 192.0.2.0/32"));
    let route = &scene.guard.wanted()[0];
    assert_eq!(
        (route.next_hop, &route.communities[..]),
        (Some("198.51.100.1".parse().unwrap()), &[Community::Standard(65535, 666)][..])
    );
    // Narrow rules cut nothing off; a prefix of the whole group is too much.
    scene.flood(detection("192.0.2.128/25", 900e3));
    assert_eq!(scene.wanted().len(), 12);
    // Fewer are permitted from now on: the newest go.
    scene.adopt(&format!("{text}\n[caps]\nshare = \"2%\"\n"));
    assert_eq!(scene.wanted().len(), 5);
}

#[test]
fn what_hits_too_many_others_is_refused_until_a_person_approves() {
    let mut scene = scene("harm = \"20%\"");
    scene.harm = 0.3;
    scene.flood(detection("192.0.2.7/32", 900e3));
    assert_eq!((scene.wanted().len(), scene.limit()), (0, Some("harm")));
    let why = scene.attack().refusal.unwrap().why;
    // Of both rules, the narrow one is told.
    assert!(
        why.starts_with("it would hit 30.0 % of the target's other traffic (300 packets/s), at most 20.0 %"),
        "{why}"
    );
    scene.ask(&Command::Approve { id: 1 }).unwrap();
    assert_eq!(scene.wanted(), ["Limit { bytes_per_s: 1250000.0 } 192.0.2.7/32 narrow"]);
    // Harm that was less when it was asked again.
    let mut scene = self::scene("harm = \"20%\"");
    scene.harm = 0.3;
    scene.flood(detection("192.0.2.7/32", 900e3));
    scene.harm = 0.1;
    scene.pass(2.0);
    assert_eq!(scene.wanted().len(), 1);
}

#[test]
fn who_is_never_hit_is_not_though_a_person_asks() {
    let text = format!(
        "{}\n[allow]\ndestinations = [\"192.0.2.53\", \"10.0.0.1\"]\nsources = [\"203.0.113.0/24\"]\n",
        AUTOMATIC.replace("\"192.0.2.0/24\"", "\"192.0.2.0/24\", \"10.0.0.0/24\"")
    );
    let mut scene = Scene::new(&text);
    for (prefix, what) in [
        ("192.0.2.53/32", "192.0.2.53/32 touches 192.0.2.53/32"),
        ("192.0.2.48/28", "192.0.2.48/28 touches 192.0.2.53/32"),
        ("10.0.0.1/32", "10.0.0.1/32 touches 10.0.0.1/32"),
        ("192.0.0.0/16", "192.0.0.0/16 touches 192.0.2.53/32"),
        ("198.51.100.1/32", "198.51.100.1/32 is not within the group's networks"),
    ] {
        scene.flood(detection(prefix, 900e3));
        let id = scene.guard.board(Vec::new(), None, Counts::default(), scene.now).attacks[0].id;
        let denied = scene.ask(&Command::Approve { id }).unwrap_err();
        assert!(denied.contains(what), "{denied}");
        assert!(scene.wanted().is_empty(), "{prefix}");
        scene.over(prefix);
        scene.pass(61.0);
    }
    let mut of_one = detection("192.0.2.7/32", 900e3);
    of_one.rules[1].source = Some("203.0.113.7/32".parse().unwrap());
    of_one.rules.remove(0);
    scene.flood(of_one);
    assert!(scene.wanted().is_empty() && scene.limit() == Some("protected"));
}

#[test]
fn a_thousand_targets_at_once_are_a_thousand_routes() {
    let text = AUTOMATIC.replace("192.0.2.0/24", "172.16.0.0/16");
    let mut scene = Scene::new(&format!("{text}\n[caps]\nprefixes = 1000\n"));
    let begin = std::time::Instant::now();
    for number in 0..1_100 {
        scene.flood(detection(&format!("172.16.{}.{}/32", number / 256, number % 256), 900e3));
    }
    scene.pass(1.0);
    assert_eq!(scene.guard.wanted().len(), 1_000);
    // A bound that no machine misses, for what must not be quadratic.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn no_more_attacks_are_followed_than_there_is_room_for() {
    let mut scene =
        Scene::new(&format!("{}\n[caps]\nroutes = 1\n", AUTOMATIC.replace("192.0.2.0/24", "172.16.0.0/16")));
    for number in 0..9_000 {
        scene.flood(detection(&format!("172.16.{}.{}/32", number / 256, number % 256), 900e3));
    }
    let board = scene.guard.board(Vec::new(), None, Counts::default(), scene.now);
    assert_eq!((board.attacks.len(), scene.wanted()[0].contains(" 172.16.0.0/32")), (8_192, true));
    assert_eq!((board.counts.evicted["attacks"], board.history.len()), (9_000 - 8_192, 0));
}

#[test]
fn two_attacks_with_one_rule_are_one_route_of_the_stronger_action() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection("192.0.2.7/32", 900e3));
    scene.pass(5.0);
    scene.flood(Detection { class: Class::IpFlood, ..detection("192.0.2.7/32", 900e3) });
    assert_eq!(scene.wanted().len(), 1);
    scene.flood(detection("192.0.2.7/32", 900e3));
    scene.pass(6.0);
    assert_eq!(scene.wanted(), ["Drop 192.0.2.7/32 narrow"]);
}

/// What alerts look at is there from the start: the first of its kind is one more than none.
#[test]
fn all_limits_and_doubts_are_counted_from_the_start() {
    let scene = Scene::new(AUTOMATIC);
    let counts = scene.guard.board(Vec::new(), None, Counts::default(), scene.now).counts;
    for limit in ["harm", "max_prefixes", "max_routes", "max_share", "next_hop", "protected", "rule"] {
        assert!(counts.refused[limit] == 0, "{limit}: {:?}", counts.refused);
    }
    for doubt in Doubt::NAMES {
        assert!(counts.doubted[doubt] == 0, "{doubt}: {:?}", counts.doubted);
    }
}

/// In mode `manual` a person is asked anyway: whom it would hit is said, and keeps nobody from being asked.
#[test]
fn what_would_do_harm_waits_for_a_person_where_persons_decide() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens");
    std::fs::write(&tokens, "anna act 0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let access = format!("[access]\ntokens = {tokens:?}\n");
    for (mode, phase, limit) in [("manual", Phase::Pending, None), ("automatic", Phase::Seen, Some("harm"))] {
        let mut scene = Scene::new(&(AUTOMATIC.replace("automatic", mode) + &access));
        scene.harm = 1.0;
        for _ in 0..3 {
            scene.flood(detection("192.0.2.7/32", 900e3));
            scene.pass(1.0);
        }
        assert_eq!((scene.attack().phase, scene.limit()), (phase, limit));
        assert_eq!((scene.attack().harm.share, scene.wanted().len()), (Some(1.0), 0));
        let told = if mode == "manual" { What::Pending } else { What::Refused };
        let told: Vec<_> = scene.entries.iter().filter(|entry| entry.what == told).collect();
        assert!(told.len() == 1 && told[0].why.contains("100.0 % of the target's other traffic"), "{told:?}");
        scene.ask(&Command::Approve { id: 1 }).unwrap();
        assert_eq!(scene.wanted().len(), 1);
    }
    // No approval lifts a cap: nobody is asked in vain.
    let mut scene = Scene::new(&(AUTOMATIC.replace("automatic", "manual") + &access + "[caps]\nroutes = 1\n"));
    scene.harm = 1.0;
    scene.flood(detection("192.0.2.8/32", 900e3));
    scene.ask(&Command::Approve { id: 1 }).unwrap();
    scene.flood(detection("192.0.2.7/32", 900e3));
    let attack = scene.guard.attack(2).unwrap();
    assert_eq!((attack.phase, attack.refusal.as_ref().unwrap().limit), (Phase::Seen, "max_routes"));
}
