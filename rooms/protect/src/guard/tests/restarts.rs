//! What a journal brings back.

use super::*;

const HOST: &str = "192.0.2.7/32";

/// Another life, so much later by the clock that people set.
pub(super) fn again(scene: &Scene, text: &str, later: i64) -> Scene {
    let mut next = Scene::new(text);
    let span = Duration::from_secs(later.unsigned_abs());
    let wall = if later < 0 { scene.now.wall - span } else { scene.now.wall + span };
    next.now = Now { nanos: 7 * SECOND, wall };
    // Through text, as in a file.
    let lines = scene.entries.iter().map(|entry| serde_json::to_string(entry).unwrap());
    let entries = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    next.guard.restore(entries, next.now);
    next.settle();
    next
}

#[test]
fn what_was_active_is_wanted_again_and_ids_go_on() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection("192.0.2.1/32", 900e3));
    scene.over("192.0.2.1/32");
    scene.flood(detection(HOST, 900e3));
    let wanted = scene.guard.wanted();
    scene.pass(62.0);
    let mut next = again(&scene, AUTOMATIC, 5);
    assert_eq!(next.guard.wanted(), [wanted[1].clone()]);
    assert_eq!((next.attack().id, next.attack().phase), (2, Phase::Fading));
    // Seen again it goes on, as the same.
    next.go_on(&detection(HOST, 900e3), 120.0);
    assert_eq!((next.wanted().len(), next.attack().id), (1, 2));
    next.flood(detection("192.0.2.9/32", 900e3));
    assert!(next.entries.iter().any(|entry| entry.attack == Some(3)));
}

#[test]
fn what_is_not_seen_again_is_withdrawn_after_the_hysteresis() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    let mut next = again(&scene, AUTOMATIC, 5);
    next.pass(59.0);
    assert_eq!(next.wanted().len(), 1);
    next.pass(3.0);
    assert!(next.wanted().is_empty() && next.guard.lives.is_empty());
}

#[test]
fn what_a_person_extended_stays_so_long_over_restarts() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.ask(&Command::Extend { id: 1, seconds: 3_600 }).unwrap();
    scene.over(HOST);
    let mut next = again(&scene, AUTOMATIC, 5);
    next.pass(300.0);
    assert_eq!((next.wanted().len(), next.attack().by.as_deref()), (1, Some("anna")), "longer than the hysteresis");
    // And another, from what a new journal begins with.
    next.entries = next.guard.carried(next.now);
    let mut last = again(&next, AUTOMATIC, 5);
    last.pass(3_200.0);
    assert_eq!(last.wanted().len(), 1);
    last.pass(100.0);
    assert!(last.wanted().is_empty() && last.guard.lives.is_empty());
    // Whoever stops everything ends that, too.
    scene.ask(&Command::Stop).unwrap();
    scene.ask(&Command::Resume).unwrap();
    assert!(again(&scene, AUTOMATIC, 5).wanted().is_empty());
}

#[test]
fn a_clock_that_was_set_meanwhile_keeps_nothing_for_ever() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.ask(&Command::Extend { id: 1, seconds: 3_600 }).unwrap();
    // Its time was over long ago.
    assert!(again(&scene, AUTOMATIC, 86_400).wanted().is_empty());
    // A clock that was set back does not make it longer than it was to be.
    let mut next = again(&scene, AUTOMATIC, -1_000_000);
    assert_eq!(next.wanted().len(), 1);
    next.pass(3_700.0);
    assert!(next.wanted().is_empty());
}

#[test]
fn a_stop_outlives_a_restart() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.ask(&Command::Stop).unwrap();
    let mut next = again(&scene, AUTOMATIC, 5);
    next.flood(detection(HOST, 900e3));
    assert_eq!((next.wanted().len(), next.limit()), (0, Some("stopped")));
    next.entries.splice(0..0, scene.entries);
    next.ask(&Command::Resume).unwrap();
    assert_eq!(next.wanted().len(), 1);
    assert_eq!(again(&next, AUTOMATIC, 5).wanted().len(), 1);
}

#[test]
fn what_a_person_withdrew_stays_so() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.ask(&Command::Withdraw { id: 1 }).unwrap();
    let mut next = again(&scene, AUTOMATIC, 5);
    next.flood(detection(HOST, 900e3));
    assert_eq!((next.wanted().len(), next.limit(), next.attack().id), (0, Some("withdrawn"), 1));
}

#[test]
fn another_configuration_takes_over_what_it_permits() {
    let mut scene = Scene::new(AUTOMATIC);
    for host in 1..=5 {
        scene.flood(detection(&format!("192.0.2.{host}/32"), 900e3));
    }
    assert_eq!(again(&scene, AUTOMATIC, 5).wanted().len(), 5);
    assert_eq!(again(&scene, &format!("{AUTOMATIC}\n[caps]\nroutes = 2\n"), 5).wanted().len(), 2);
    assert_eq!(again(&scene, &AUTOMATIC.replace("automatic", "observe"), 5).wanted().len(), 0);
    assert_eq!(again(&scene, &AUTOMATIC.replace("192.0.2.0/24", "192.0.2.4/31"), 5).wanted().len(), 2);
    let allowed = format!("{AUTOMATIC}\n[allow]\ndestinations = [\"192.0.2.4/31\"]\n");
    assert_eq!(again(&scene, &allowed, 5).wanted().len(), 3);
}

#[test]
fn a_rotated_journal_leads_to_the_same() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.flood(detection("192.0.2.8/32", 900e3));
    scene.ask(&Command::Withdraw { id: 2 }).unwrap();
    scene.ask(&Command::Extend { id: 1, seconds: 3_600 }).unwrap();
    scene.flood(detection("192.0.2.9/32", 900e3));
    scene.over("192.0.2.9/32");
    scene.pass(100.0);
    let wanted = scene.guard.wanted();
    scene.entries = scene.guard.carried(scene.now);
    let who = |what| scene.entries.iter().find(|entry| entry.what == what).map(|entry| &*entry.who);
    assert_eq!(
        (who(What::Announced), who(What::Withdrawn)),
        (Some("weir"), Some("anna")),
        "who extends approves nothing"
    );
    let mut next = again(&scene, AUTOMATIC, 1);
    assert_eq!((next.guard.wanted(), wanted.len()), (wanted, 1));
    next.flood(detection("192.0.2.8/32", 900e3));
    next.flood(detection("192.0.2.10/32", 900e3));
    assert_eq!(next.wanted().len(), 2);
    assert!(next.entries.iter().any(|entry| entry.attack == Some(4)));
}

/// Attacks, a stop, a kill, a resume, a kill, and the traffic has ended meanwhile.
#[test]
fn what_is_not_seen_again_ends_whatever_was_decided_of_it() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    scene.flood(detection("192.0.2.8/32", 900e3));
    scene.ask(&Command::Withdraw { id: 2 }).unwrap();
    scene.ask(&Command::Stop).unwrap();
    let mut next = again(&scene, AUTOMATIC, 5);
    next.flood(detection(HOST, 900e3));
    next.ask(&Command::Resume).unwrap();
    // Nobody withdrew this one: it goes on, by its number.
    assert_eq!(next.wanted(), ["Limit { bytes_per_s: 1250000.0 } 192.0.2.7/32 narrow"]);
    assert!(next.entries.iter().any(|entry| entry.what == What::Announced && entry.attack == Some(1)));
    next.entries.splice(0..0, scene.entries);
    let mut last = again(&next, AUTOMATIC, 5);
    last.pass(62.0);
    assert!(last.wanted().is_empty() && last.guard.lives.is_empty());
    let board = last.guard.board(Vec::new(), None, Counts::default(), last.now);
    assert!(board.history.len() == 2 && board.history.iter().all(|attack| attack.ended.is_some()));
    last.entries.splice(0..0, next.entries);
    assert!(again(&last, AUTOMATIC, 5).guard.lives.is_empty(), "the journal knows that they are over");
}

#[test]
fn a_target_has_one_attack_of_a_class_after_a_restart() {
    let mut scene = Scene::new(AUTOMATIC);
    scene.flood(detection(HOST, 900e3));
    let mut twice = scene.entries.clone();
    twice.iter_mut().for_each(|entry| entry.attack = Some(2));
    scene.entries.extend(twice);
    let mut next = again(&scene, AUTOMATIC, 5);
    assert_eq!((next.attack().id, next.wanted().len()), (2, 1));
    next.flood(detection(HOST, 900e3));
    assert_eq!(next.attack().id, 2);
}
