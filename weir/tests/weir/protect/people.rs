//! What people do by `weir protect`.

use serde_json::Value;
use weir_testbed::Ended;

use super::{FLOOD, HOST, Scene, is_on};
use crate::sflow::serve::{File, Serve};
use crate::weir;

#[test]
fn a_person_approves_extends_withdraws_and_stops_all() {
    let mut scene = Scene::new("manual", "\"192.0.2.0/24\"", "");
    let flood = [(HOST, FLOOD)];
    let attack = scene.play(&flood, |attack| attack["phase"] == "pending");
    let id = attack["id"].to_string();
    assert_eq!(scene.serve.ledger()["protect"]["announced"], 0);
    let asked = |scene: &Scene, arguments: &[&str]| {
        let (status, said) = scene.protect(arguments);
        assert!(status == 0 && said.lines().count() == 1, "{arguments:?}: {said}");
    };
    asked(&scene, &["approve", &id]);
    let attack = scene.play(&flood, |attack| attack["phase"] == "unreachable");
    assert_eq!((&attack["by"], &attack["routes"]), (&"anna".into(), &1.into()), "{attack:#}");
    let before = attack["expires_ms"].as_f64().unwrap();
    asked(&scene, &["extend", &id, "2h"]);
    scene.play(&flood, |attack| attack["expires_ms"].as_f64().unwrap_or(0.0) > before + 3_600e3);
    asked(&scene, &["withdraw", &id]);
    scene.play(&flood, |attack| attack["refused"] == "withdrawn");
    asked(&scene, &["approve", &id]);
    scene.play(&flood, |attack| attack["phase"] == "unreachable");
    // gobgpd does not answer: nobody knows what stands.
    let (status, said) = scene.protect(&["stop"]);
    assert!(status == 1 && said.contains("asked; gobgpd does not answer"), "{said}");
    scene.play(&flood, |attack| attack["refused"] == "stopped");
    let (_, said) = scene.protect(&["list"]);
    assert!(said.contains("everything was stopped by anna: `weir protect resume` goes on"), "{said}");
    asked(&scene, &["resume"]);
    // By hand, whatever is found.
    asked(&scene, &["add", "192.0.2.99", "30m"]);
    let added = scene.play(&flood, |attack| attack["by_hand"] == true);
    assert_eq!((&added["phase"], &added["target"]), (&"unreachable".into(), &"192.0.2.99/32".into()), "{added:#}");
    assert_eq!(added["class"], "by_hand", "nothing was found: {added:#}");
    let (_, said) = scene.protect(&["list"]);
    let line = said.lines().find(|line| line.contains("192.0.2.99/32")).unwrap();
    assert!(line.contains("by hand") && !line.contains("flood"), "{said}");
    asked(&scene, &["withdraw", &added["id"].to_string()]);
    let (status, said) = scene.protect(&["add", "198.51.100.7", "30m"]);
    assert!(status == 1 && said.contains("198.51.100.7/32: it is within no protected group"), "{said}");
    scene.play(&flood, |attack| attack["phase"] == "pending");
    // All of it, by whom.
    let by = |lines: &[Value]| {
        let count = |what: &str| lines.iter().filter(|line| line["what"] == what && line["who"] == "anna").count();
        ["announced", "extended", "withdrawn", "stopped", "resumed"].map(count)
    };
    let lines = scene.await_journal(|lines| by(lines).iter().sum::<usize>() >= 9);
    assert_eq!(by(&lines), [3, 1, 3, 1, 1], "{lines:#?}");
}

#[test]
fn who_is_not_known_learns_nothing_and_mistakes_are_one_line() {
    let scene = Scene::new("observe", "\"192.0.2.0/24\"", "");
    let server = scene.serve.rest().to_string();
    let bare = File::new("user = \"root\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n");
    let bare = Serve::start(&["-c", &bare.path()]);
    let open = scene.file.dir.path().join("open");
    std::fs::write(&open, "0123456789abcdef0123456789abcdef").unwrap();
    let open = open.to_str().unwrap();
    let run = |arguments: &[&str], token: Option<&str>| {
        let mut command = weir(arguments);
        command.env_remove("WEIR_TOKEN");
        if let Some(token) = token {
            command.env("WEIR_TOKEN", token);
        }
        let ended = Ended::of(&mut command);
        (ended.status.unwrap(), ended.stderr)
    };
    let list = ["protect", "list", "--server", &server];
    for (arguments, token, status, expected) in [
        (&list[..], None, 2, "no token: name a file that has it, --token-file FILE, or set WEIR_TOKEN"),
        (&list, Some("ffffffffffffffffffffffffffffffff"), 1, "token"),
        (&list, Some("two words"), 2, "white space"),
        (&list, Some(""), 2, "WEIR_TOKEN is empty"),
        (&[&list[..], &["--token-file", open]].concat(), None, 2, "others can read it (mode 644): chmod 600 it"),
        (
            &["protect", "list", "--server", "127.0.0.1:1"],
            Some("0123456789abcdef0123456789abcdef"),
            1,
            "Connection refused",
        ),
        (
            &["protect", "list", "--server", &bare.rest().to_string()],
            Some("0123456789abcdef"),
            1,
            "write [protect.access]",
        ),
        (&["protect", "list", "--server", "https://localhost"], Some("0123456789abcdef"), 2, "no TLS is spoken"),
        (&["protect", "approve", "77", "--server", &server], Some("0123456789abcdef0123456789abcdef"), 1, "attack 77"),
    ] {
        let (code, said) = run(arguments, token);
        assert!(
            code == status && said.lines().count() == 1 && said.contains(expected),
            "{arguments:?}: {code}: {said}"
        );
    }
    assert!(scene.list().iter().all(|attack| !is_on("192.0.2.7/32")(attack)));
}
