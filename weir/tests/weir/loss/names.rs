//! Names that others choose, in everything that is printed.

use std::os::unix::fs::symlink;
use std::process::Stdio;

use weir_testbed::{Ended, Started};

use super::account::path;
use super::{Scene, WEIR, weir};

/// ESC, BEL, a newline and a mark that turns the direction, in the name of a program that receives and of an interface.
#[test]
fn no_name_steers_a_terminal() {
    let Some(scene) = Scene::set() else { return };
    let directory = tempfile::tempdir().unwrap();
    let evil = directory.path().join("\u{1b}[2J\u{7}\n\u{202e}x");
    symlink(&*WEIR, &evil).unwrap();
    let port = scene.port.to_string();
    let listen = scene.to().to_string();
    let mut receiver = scene.receiver.program(&evil).args(["recv", "--listen", &listen, "--duration", "120s"]);
    receiver = receiver.stdout(Stdio::null()).stderr(Stdio::null());
    let mut receiver = receiver.spawn().unwrap();
    scene.receiver.await_port(scene.port, &mut receiver);
    scene.ip(&scene.receiver, "link add name v\u{1b}[2J\u{7} type veth peer name w\u{1b}[1m");
    let netns = path(&scene.receiver.ns);
    let runs: [&[&str]; 7] = [
        &["account", "--duration", "1s", "--port", &port],
        &["account", "--duration", "1s", "--port", &port, "--json"],
        &["watch", "--duration", "1s", "--port", &port],
        &["watch", "--duration", "1s", "--port", &port, "--json"],
        &["check", "--port", &port],
        &["check", "--port", &port, "--json"],
        &["check", "--rate", "500k/s", "--payload", "1400B", "--stall", "5s", "--port", &port],
    ];
    let mut named = 0;
    let programs = runs.map(|flags| Started::spawn(weir(&[&["loss"], flags, &["--netns", &netns]].concat())));
    let source = scene.source();
    for (flags, mut program) in runs.into_iter().zip(programs) {
        for _ in 0..20 {
            source.send_to(b"a", scene.to()).unwrap();
        }
        let Ended { stdout, stderr, .. } = program.wait();
        for text in [stdout, stderr] {
            let bad: Vec<char> = text.chars().filter(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}')).collect();
            assert!(bad.is_empty(), "{flags:?}: {bad:?} in {text}");
            assert!(text.lines().all(|line| !line.starts_with('x')), "{flags:?}: a name begins a line: {text}");
            named += usize::from(text.contains("\\u{202e}") || text.contains("\\u202e"));
        }
    }
    assert!(named >= 4, "the name is not in {named}");
}
