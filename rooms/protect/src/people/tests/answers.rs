//! What is answered to those who may ask.

use std::fs;
use std::io::BufRead;

use serde_json::json;

use super::*;
use crate::people::page;

#[test]
fn what_is_asked_is_answered() {
    let scene = Scene::new();
    let get = |target: &str| scene.of(BOB, "GET", target, "");
    let rows = get("/protect/attacks").json();
    assert_eq!(rows[1]["id"], 17);
    assert_eq!((&rows[1]["target"], &rows[1]["class"]), (&json!("192.0.2.7/32"), &json!("udp_amplification")));
    assert_eq!((&rows[1]["phase"], &rows[1]["action"]), (&json!("pending"), &json!("drop")));
    assert_eq!(rows[1]["curve"].as_array().unwrap().len(), 60);
    assert_eq!(get("/protect/attacks?most=1").json().as_array().unwrap().len(), 1);
    let whole = get("/protect/attacks/17").json();
    assert_eq!(whole["decision_ms"], 40.0);
    assert_eq!(whole["evidence"]["top_source_ports"], json!([{"value": "udp/53", "share": 0.98}]));
    assert_eq!(whole["routes_are"][0]["text"], "drop: udp to 192.0.2.7/32, from port 53, 500 to 65535 bytes");
    assert_eq!(whole["routes_are"][0]["route"]["action"], "drop");
    let doubted = get("/protect/attacks/18").json();
    assert_eq!(doubted["doubts_are"][0]["doubt"], "uncounted");
    assert_eq!(doubted["doubts_are"][0]["text"], "no counters of interface 1 of agent 10.0.0.9 have come of late");
    assert_eq!((&doubted["doubt"], &rows[1]["doubt"]), (&doubted["doubts_are"][0]["text"], &json!(null)));
    assert_eq!(doubted["refusal"]["limit"], "max_routes");
    assert_eq!(get("/protect/history").json()[0]["id"], 3);
    assert_eq!(get("/protect/attacks/3").json()["phase"], "over");
    assert_eq!(get("/protect/groups").json()[0]["thresholds"][0]["packets"], 40_000.0);
    let state = get("/protect/state").json();
    assert_eq!((&state["attacks"]["pending"], &state["attacks"]["seen"]), (&json!(1), &json!(1)));
    assert_eq!(state["speaker"]["neighbours"][0]["state"], "Established");
    assert_eq!(state["counts"]["doubted"], json!({"uncounted": 1}));
    assert_eq!(get("/protect/journal").json()[0]["event"], "detected");
    assert_eq!(get("/protect/journal?before=1").json(), json!([]));
    // What others have put into it is escaped on its way, and the same.
    assert!(!whole.to_string().is_empty() && !get("/protect/attacks/17").body.contains('\u{1b}'));
}

#[test]
fn who_may_act_acts_and_is_named() {
    let scene = Scene::new();
    let post = |target: &str, body: &str| scene.of(ALICE, "POST", target, body);
    let reply = post("/protect/attacks/17/approve", "");
    assert_eq!((reply.status, reply.json()), (200, json!({"done": "1 route of attack 17 is announced"})));
    let attack = scene.of(ALICE, "GET", "/protect/attacks/17", "").json();
    assert_eq!((&attack["phase"], &attack["by"]), (&json!("active"), &json!("alice")));
    assert_eq!(attack["routes_are"][0]["installed"], "yes");
    // It makes no sense twice, and the reason is told.
    let reply = post("/protect/attacks/17/approve", "");
    assert_eq!((reply.status, &*reply.error()), (409, "attack 17: its last step is announced already"));
    assert_eq!(post("/protect/attacks/17/extend", r#"{"seconds": 3600}"#).status, 200);
    assert_eq!(post("/protect/attacks/17/withdraw", "").status, 200);
    assert_eq!(post("/protect/stop", "").status, 200);
    assert_eq!(scene.of(ALICE, "GET", "/protect/state", "").json()["stopped"]["by"], "alice");
    assert_eq!(post("/protect/resume", "").status, 200);
    assert_eq!(scene.of(ALICE, "GET", "/protect/state", "").json()["stopped"], json!(null));
    assert_eq!(scene.of(BOB, "GET", "/protect/journal", "").json()[0]["by"], "alice");
}

#[test]
fn mistakes_are_told_in_one_line() {
    let scene = Scene::new();
    let extend = "/protect/attacks/17/extend";
    for (verb, target, body, status, expected) in [
        ("GET", "/protect/attacks/99", "", 404, "there is no attack 99; /protect/attacks lists"),
        ("POST", "/protect/attacks/99/approve", "", 404, "there is no attack 99"),
        (
            "GET",
            "/protect/atacks",
            "",
            404,
            "there is no path \"/protect/atacks\"; /protect/attacks is near; / lists all",
        ),
        ("GET", "/protect/attacks/x", "", 404, "there is no attack \"x\""),
        ("GET", "/protect/attacks/17/approve", "", 405, "GET is not for this path: it takes POST, OPTIONS"),
        ("DELETE", "/protect/attacks/17", "", 405, "DELETE is not for this path: it takes GET, HEAD, OPTIONS"),
        ("GET", "/protect/attacks?n=1", "", 400, "unknown parameter \"n\": this path takes most"),
        ("GET", "/protect/state?n=1", "", 400, "unknown parameter \"n\": this path takes none"),
        ("GET", "/protect/attacks?most=0", "", 400, "most=0: is to be a whole number from 1 to 10000"),
        ("POST", extend, "", 400, "the body is empty; an example: {\"seconds\""),
        ("POST", extend, "{\"seconds\": 0}", 400, "body: invalid value: integer `0`, expected a nonzero u64"),
        ("POST", extend, "{\"seconds\": 1, \"x\": 2}", 400, "body: unknown field `x`"),
        ("POST", "/protect/routes", "{\"prefix\": \"192.0.2.7\"}", 400, "body: missing field `seconds`"),
        (
            "POST",
            "/protect/routes",
            "{\"prefix\": \"web\", \"seconds\": 60}",
            400,
            "body: `web`: write a network or an address",
        ),
        (
            "POST",
            "/protect/routes",
            "{\"prefix\": \"203.0.113.9/31\", \"seconds\": 60}",
            400,
            "prefix: 203.0.113.9/31 has bits after its prefix: write \"203.0.113.8/31\", or \"203.0.113.9\" alone",
        ),
        (
            "POST",
            "/protect/routes",
            "{\"prefix\": \"::/0\", \"seconds\": 0}",
            400,
            "body: invalid value: integer `0`, expected a nonzero u64",
        ),
    ] {
        let reply = scene.of(ALICE, verb, target, body);
        let error = reply.error();
        assert!(reply.status == status && error.starts_with(expected) && !error.contains('\n'), "{target}: {reply:?}");
    }
}

#[test]
fn a_stream_tells_what_changes_until_its_reader_is_no_longer_known() {
    let scene = Scene::new();
    let mut asked = scene.ask("GET", "/protect/live?attack=17", &[bearer(BOB)], "");
    assert!(asked.status == 200 && asked.head.contains("text/event-stream"), "{asked:?}");
    let mut frame = || {
        let mut line = String::new();
        while !line.starts_with("data: ") {
            line.clear();
            if asked.body.read_line(&mut line).unwrap() == 0 {
                return None;
            }
        }
        Some(serde_json::from_str::<Value>(&line["data: ".len()..]).unwrap())
    };
    let first = frame().unwrap();
    assert_eq!((&first["you"], &first["role"]), (&json!("bob"), &json!("read")));
    assert_eq!((&first["attack"]["id"], first["attacks"].as_array().unwrap().len()), (&json!(17), 2));
    assert!(first["state"]["now_ms"].as_f64() > first["state"]["time_ms"].as_f64());
    scene.guard.change(|board| board.attacks.clear());
    while !frame().unwrap()["attacks"].as_array().unwrap().is_empty() {}
    // It goes on though nothing changes; then Bob's token is taken from the file.
    assert!(frame().is_some());
    scene.people.adopt(tokens(&[("alice", "act", ALICE)]));
    while frame().is_some() {}
    assert_eq!(scene.of(BOB, "GET", "/protect/state", "").status, 401);
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir-protect rest_table` writes it anew.
#[test]
fn rest_table_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protect-rest.md");
    let written = fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- REST: made from the code -->\n\n", "\n<!-- end of REST -->");
    let (before, rest) = written.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let made = format!("{before}{begin}{}{end}{after}", page());
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(path, &made).unwrap();
    }
    assert!(
        made == fs::read_to_string(path).unwrap(),
        "the table of docs/protect-rest.md is out of date: WEIR_WRITE_DOCS=1"
    );
}
