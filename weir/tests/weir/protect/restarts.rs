//! Weir killed in the midst of it.

use serde_json::Value;

use super::{FLOOD, HOST, Scene};
use crate::sflow::serve::Serve;

/// Kills it, and starts it again.
fn again(scene: Scene) -> Scene {
    scene.replaced(|file| Serve::start(&["-c", &file.path(), "--workers", "1"]))
}

/// Waits until this is in the journal: the page tells before.
fn await_line(scene: &Scene, what: &str) {
    scene.await_journal(|lines| lines.iter().any(|line| line["what"] == what));
}

#[test]
fn what_was_announced_is_wanted_again_by_its_number() {
    let mut scene = Scene::new("automatic", "\"192.0.2.0/24\"", "");
    let flood = [(HOST, FLOOD)];
    scene.play(&flood, |attack| attack["phase"] == "unreachable");
    scene.play(&flood, |_| true);
    await_line(&scene, "announced");
    let mut scene = again(scene);
    let known = scene.list();
    assert_eq!((known.len(), &known[0]["id"], &known[0]["routes"]), (1, &1.into(), &1.into()), "{known:#?}");
    // It goes on, and is the same. Until counters have come twice, nobody believes what samples tell of it.
    scene.play(&flood, |attack| attack["id"] == 1 && attack["packets"].as_f64().unwrap_or(0.0) > 1e5);
    // A stop is known after a kill, too.
    let (status, said) = scene.protect(&["stop"]);
    assert_eq!(status, 1, "gobgpd does not answer: {said}");
    await_line(&scene, "stopped");
    let mut scene = again(scene);
    let (_, said) = scene.protect(&["list"]);
    assert!(said.contains("everything was stopped by anna"), "{said}");
    let attack = scene.play(&flood, |attack| attack["refused"] == "stopped");
    assert_eq!(attack["id"], 1, "it goes on, by its number: {attack:#}");
    assert_eq!(scene.serve.ledger()["protect"]["announced"], 0);
}

/// Under a service that runs: first somebody puts the journal aside, then he deletes it.
#[test]
fn a_journal_that_is_taken_away_begins_anew_with_what_is_in_force() {
    let mut scene = Scene::new("automatic", "\"192.0.2.0/24\"", "");
    scene.play(&[(HOST, FLOOD)], |attack| attack["phase"] == "unreachable");
    // For as long as this may take.
    let extend = |scene: &Scene, span: &str| {
        let (status, said) = scene.protect(&["extend", "1", span]);
        assert_eq!(status, 0, "{said}");
        await_line(scene, "extended");
    };
    extend(&scene, "2h");
    let path = scene.file.dir.path().join("journal");
    let aside = scene.file.dir.path().join("journal-20260101");
    for is_kept in [true, false] {
        if is_kept {
            std::fs::rename(&path, &aside).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        // Nothing happens meanwhile of which there would be a line: it is written all the same.
        let is_new =
            |lines: &[Value]| ["rotated", "announced"].map(|what| lines.iter().any(|line| line["what"] == what));
        let lines = scene.await_journal(|lines| is_new(lines) == [true; 2]);
        let [rotated, announced] =
            ["rotated", "announced"].map(|what| lines.iter().find(|line| line["what"] == what).unwrap());
        let why = rotated["why"].as_str().unwrap();
        assert_eq!(why, "what stands now", "{lines:#?}");
        assert_eq!((&announced["attack"], announced["routes"].as_array().unwrap().len()), (&1.into(), 1), "{lines:#?}");
    }
    // What is done then is written there, and a restart knows all of it.
    extend(&scene, "3h");
    let put_aside = std::fs::read_to_string(&aside).unwrap();
    assert_eq!(put_aside.matches("\"extended\"").count(), 1, "{put_aside}");
    let scene = again(scene);
    let known = scene.list();
    assert_eq!((known.len(), &known[0]["id"], &known[0]["routes"]), (1, &1.into(), &1.into()), "{known:#?}");
}

/// A line that a kill cut off, and one of somebody's editor.
#[test]
fn a_damaged_journal_is_told_and_passed_over() {
    let mut scene = Scene::new("automatic", "\"192.0.2.0/24\"", "");
    scene.play(&[(HOST, FLOOD)], |attack| attack["phase"] == "unreachable");
    await_line(&scene, "announced");
    let path = scene.file.dir.path().join("journal");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("oops\n{text}{}", &text[..20])).unwrap();
    let mut scene = again(scene);
    assert_eq!(scene.list()[0]["id"], 1);
    let told: Vec<_> =
        scene.serve.said().iter().filter(|line| line.contains("(passed over; 2 such lines in all)")).collect();
    assert!(told.len() == 1 && told[0].contains("journal:1: "), "{told:#?}");
    assert_eq!(scene.serve.end().status, Some(0));
}
