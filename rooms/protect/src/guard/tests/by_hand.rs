//! What a person has blackholed.

use super::restarts::again;
use super::*;
use crate::config::values::Community;

const HOST: &str = "192.0.2.7/32";

fn add(scene: &mut Scene, prefix: &str, seconds: u64) -> Result<(), String> {
    scene.ask(&Command::Add { prefix: prefix.parse().unwrap(), seconds })
}

fn has_blackhole(scene: &Scene) -> bool {
    scene.wanted() == [format!("Blackhole {HOST}")]
}

#[test]
fn what_a_person_adds_lives_as_long_as_he_says_whatever_is_found() {
    let mut scene = Scene::new(AUTOMATIC);
    add(&mut scene, HOST, 600).unwrap();
    assert!(has_blackhole(&scene));
    let attack = scene.attack();
    assert_eq!((attack.by.as_deref(), attack.by_hand, attack.phase), (Some("anna"), true, Phase::Active));
    let told = &scene.entries[0];
    assert_eq!((told.what, told.who.as_str(), told.ttl_s, told.by_hand), (What::Announced, "anna", Some(600), true));
    assert_eq!((told.class, attack.class()), (None, "by_hand"), "of no class: nothing was found");
    assert_eq!(
        told.to_string(),
        "attack 1 on 192.0.2.7/32, by hand: announced by anna: blackhole 192.0.2.7/32 by 198.51.100.1"
    );
    let route = &scene.guard.wanted()[0];
    let communities = [Community::Standard(65_535, 666)];
    assert_eq!((route.next_hop, &route.communities[..]), (Some([198, 51, 100, 1].into()), &communities[..]));
    // The same host is attacked, and that is over: an attack of its own.
    let found = Detection { class: Class::IpFlood, ..detection(HOST, 900e3) };
    scene.flood(found.clone());
    assert_eq!(scene.wanted().len(), 2);
    let Detection { target, class, .. } = found;
    let over = Finding::Over { target, class, last: scene.now.nanos };
    scene.guard.finding(over, &Usual(0.0), scene.now);
    scene.pass(598.0);
    assert!(has_blackhole(&scene));
    scene.pass(3.0);
    assert!(scene.wanted().is_empty() && scene.guard.lives.is_empty());
    // It does not count as an attack that comes back.
    let mut scene = Scene::new(AUTOMATIC);
    add(&mut scene, HOST, 10).unwrap();
    scene.pass(11.0);
    scene.flood(Detection { class: Class::IpFlood, ..detection(HOST, 900e3) });
    let left = scene.attack().expires.unwrap().duration_since(scene.now.wall).unwrap();
    assert_eq!(left.as_secs(), 600);
}

#[test]
fn it_is_extended_and_withdrawn_by_its_number() {
    let mut scene = Scene::new(AUTOMATIC);
    add(&mut scene, HOST, 60).unwrap();
    assert!(add(&mut scene, HOST, 60).unwrap_err().ends_with("attack 1 has it already: extend that one"));
    scene.ask(&Command::Extend { id: 1, seconds: 3_600 }).unwrap();
    scene.pass(300.0);
    assert!(has_blackhole(&scene) && scene.ask(&Command::Approve { id: 1 }).is_err());
    scene.ask(&Command::Withdraw { id: 1 }).unwrap();
    assert!(scene.wanted().is_empty() && scene.guard.lives.is_empty());
    add(&mut scene, HOST, 60).unwrap();
    scene.ask(&Command::Stop).unwrap();
    assert!(scene.wanted().is_empty() && scene.guard.lives.is_empty());
}

#[test]
fn nobody_adds_what_must_not_be_announced() {
    let limits = "[allow]\ndestinations = [\"192.0.2.53\"]\n[caps]\nroutes = 2\n[groups.web]";
    let mut scene = Scene::new(&AUTOMATIC.replace("[groups.web]", limits));
    for (prefix, seconds, why) in [
        ("198.51.100.7/32", 60, "it is within no protected group"),
        ("192.0.0.0/16", 60, "it is within no protected group"),
        ("192.0.2.53/32", 60, "for which nothing is ever announced"),
        ("192.0.2.0/25", 60, "for which nothing is ever announced"),
        ("192.0.2.128/25", 60, "of the protected"),
        ("2001:db8::7/128", 60, "has no next_hop_v6 for a blackhole"),
        (HOST, 86_401, "86401 s is more than ttl.most, 86400 s"),
    ] {
        let denied = add(&mut scene, prefix, seconds).unwrap_err();
        assert!(denied.starts_with(prefix) && denied.contains(why), "{denied}");
    }
    (1..3).for_each(|last| add(&mut scene, &format!("192.0.2.{last}/32"), 60).unwrap());
    assert!(add(&mut scene, HOST, 60).unwrap_err().contains("routes"));
    scene.ask(&Command::Stop).unwrap();
    assert!(add(&mut scene, HOST, 60).unwrap_err().contains("everything was stopped by anna: resume first"));
    let mut observed = Scene::new(&AUTOMATIC.replace("automatic", "observe"));
    assert!(add(&mut observed, HOST, 60).unwrap_err().contains("group `web` is only observed"));
    assert!(scene.wanted().is_empty() && observed.wanted().is_empty());
}

#[test]
fn it_outlives_a_restart_for_what_is_left_of_its_time() {
    let mut scene = Scene::new(AUTOMATIC);
    add(&mut scene, HOST, 600).unwrap();
    // Beside it an attack of the same host and class, which is not seen again.
    scene.flood(Detection { class: Class::IpFlood, ..detection(HOST, 900e3) });
    scene.pass(100.0);
    let mut next = again(&scene, AUTOMATIC, 10);
    assert_eq!(next.wanted().len(), 2);
    next.pass(300.0);
    assert!(has_blackhole(&next), "longer than the hysteresis: {:?}", next.wanted());
    // And another, from what a new journal begins with.
    let mut last = Scene::new(AUTOMATIC);
    last.now = Now { nanos: 5 * SECOND, wall: next.now.wall };
    last.guard.restore(next.guard.carried(next.now), last.now);
    last.pass(180.0);
    assert!(has_blackhole(&last));
    last.pass(20.0);
    assert!(last.wanted().is_empty() && last.guard.lives.is_empty());
}
