//! The page, in a real browser: a script of `web/test` looks at what is on the screen, and says what the server is to do.

use std::path::Path;
use std::process::{Command, Stdio};

use weir_testbed::{Started, program, skip};

use super::*;
use crate::model::Stopped;
use crate::people::fixture::at;

#[test]
fn the_page_shows_what_is_and_acts_for_who_may() {
    look("");
}

#[test]
#[ignore = "long: 25 s"]
fn the_page_is_usable_by_all() {
    look("yes");
}

/// Looks at it, briefly unless `long` says something.
fn look(long: &str) {
    let (Some(node), Some(chromium)) = (program("node"), program("chromium")) else { return };
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    if !web.join("node_modules/playwright-core").exists() {
        return skip("needs what web/package.json names (make deps)");
    }
    let mut scene = Scene::new();
    let address = scene.serving.local_addr();
    let mut command = Command::new(node);
    command.arg("test/protect.mjs").current_dir(web).stdin(Stdio::piped());
    command
        .env("HTTP", address.to_string())
        .env("CHROMIUM", chromium)
        .env("ALICE", ALICE)
        .env("BOB", BOB)
        .env("LONG", long);
    let mut script = Started::spawn(command);
    let mut orders = script.stdin();
    while let Some(line) = script.next_line() {
        println!("{line}");
        match line.strip_prefix("do: ") {
            None => continue,
            Some("empty") => scene.guard.change(|board| {
                board.attacks.clear();
                board.history.clear();
                board.speaker = None;
            }),
            Some("silent") => scene.guard.change(|board| {
                board.stopped = Some(Stopped { by: "alice".into(), since: at(40) });
                board.counts.switch_unwritten = true;
                let speaker = board.speaker.as_mut().unwrap();
                (speaker.connected, speaker.settled, speaker.standing) = (false, false, Some(3));
            }),
            Some("answers") => scene.guard.change(|board| {
                board.counts.switch_unwritten = false;
                let speaker = board.speaker.as_mut().unwrap();
                (speaker.connected, speaker.settled, speaker.standing) = (true, true, Some(0));
                board.stopped = None;
            }),
            Some("gone") => {
                // Connections end with the server; another one takes its place elsewhere.
                scene.serving = serve(&scene.people, Ground::default(), "127.0.0.1:0".parse().unwrap());
            }
            Some("back") => scene.serving = serve(&scene.people, Ground::default(), address),
            Some("revoke") => scene.people.adopt(tokens(&[("bob", "read", BOB)])),
            Some(other) => panic!("{other}"),
        }
        writeln!(orders, "done").unwrap();
    }
    let ended = script.wait();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
}
