//! Those who may not ask, and pages of others that make a browser do it.

use super::*;

/// Every path, with a verb that it takes.
const ALL: [(&str, &str); 13] = [
    ("GET", "/protect/state"),
    ("GET", "/protect/attacks"),
    ("GET", "/protect/attacks/17"),
    ("GET", "/protect/history"),
    ("GET", "/protect/groups"),
    ("GET", "/protect/journal"),
    ("GET", "/protect/live"),
    ("POST", "/protect/attacks/17/approve"),
    ("POST", "/protect/attacks/17/withdraw"),
    ("POST", "/protect/attacks/17/extend"),
    ("POST", "/protect/stop"),
    ("POST", "/protect/resume"),
    // What there is not is not told either.
    ("GET", "/protect/nothing"),
];

#[test]
fn nothing_is_told_without_a_token() {
    let scene = Scene::new();
    let wrong = [
        Vec::new(),
        vec!["Authorization: Bearer".to_owned()],
        vec!["Authorization: Bearer ".to_owned()],
        vec![bearer(&ALICE[1..])],
        vec![bearer(&ALICE.to_uppercase())],
        vec![format!("Authorization: Basic {ALICE}")],
        vec![format!("Cookie: token={ALICE}")],
    ];
    let mut count = 0;
    for (verb, target) in ALL {
        for head in &wrong {
            let reply = scene.reply(verb, target, head, "");
            count += 1;
            assert_eq!(reply.status, 401, "{verb} {target} {head:?}: {reply:?}");
            assert!(!reply.body.contains("192.0.2.7"), "{reply:?}");
            assert!(reply.head.contains("www-authenticate: bearer"), "{reply:?}");
        }
    }
    // In the address, where logs and histories keep it, it is none.
    assert_eq!(scene.reply("GET", &format!("/protect/state?token={ALICE}"), &[], "").status, 401);
    assert_eq!(scene.people.unknown(), count + 1);
    // Who has the right one is not locked out by those who have not.
    assert_eq!(scene.of(ALICE, "GET", "/protect/state", "").status, 200);
    // Nor is anything done.
    assert_eq!(scene.of(ALICE, "GET", "/protect/attacks/17", "").json()["phase"], "pending");
}

#[test]
fn who_may_look_may_not_act() {
    let scene = Scene::new();
    for (verb, target) in ALL.iter().filter(|(verb, _)| *verb == "POST") {
        let reply = scene.of(BOB, verb, target, r#"{"seconds": 1}"#);
        assert_eq!((reply.status, &*reply.error()), (403, "bob may look, not act: give that token the role act"));
    }
    assert_eq!(scene.of(ALICE, "GET", "/protect/journal", "").json().as_array().unwrap().len(), 1);
}

#[test]
fn pages_of_others_do_nothing_even_with_a_token() {
    let scene = Scene::new();
    let asked = |verb: &str, target: &str, line: &str| scene.reply(verb, target, &[bearer(ALICE), line.to_owned()], "");
    assert_eq!(asked("POST", "/protect/stop", "Origin: http://evil.example").status, 403);
    assert_eq!(asked("POST", "/protect/stop", "Sec-Fetch-Site: cross-site").status, 403);
    assert_eq!(asked("GET", "/protect/state", "Host: evil.example").status, 421);
    assert_eq!(asked("GET", "/protect", "Host: evil.example").status, 421);
    // A browser asks before it sends a token to another origin, and is told nothing that would let it.
    let preflight = scene.reply("OPTIONS", "/protect/stop", &["Origin: http://evil.example".to_owned()], "");
    assert!(preflight.status >= 400 && !preflight.head.contains("access-control"), "{preflight:?}");
    assert_eq!(scene.of(ALICE, "GET", "/protect/state", "").json()["stopped"], Value::Null);
    let read_only = Scene::with(Ground { read_only: true, ..Ground::default() });
    assert_eq!(read_only.of(ALICE, "POST", "/protect/stop", "").status, 403);
}

/// The page is of the program alone: who it is is asked there.
#[test]
fn the_page_is_for_everybody() {
    let scene = Scene::new();
    let html = "Accept: text/html".to_owned();
    for target in ["/protect", "/protect/"] {
        let page = scene.reply("GET", target, std::slice::from_ref(&html), "");
        assert!(page.status == 200 && page.body.starts_with("<!doctype html>"), "{page:?}");
        assert!(page.head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{page:?}");
        let index = scene.reply("GET", target, &[], "").body;
        for (verb, target) in &ALL[..12] {
            let path = target.replace("17", "{id}");
            assert!(
                index.lines().any(|line| line
                    .split(['?', ' '])
                    .filter(|word| !word.is_empty())
                    .take(2)
                    .eq([*verb, &*path])),
                "{index}"
            );
        }
    }
    assert_eq!(scene.reply("GET", "/protect/page/page.js", &[], "").status, 200);
    assert_eq!(scene.reply("GET", "/protect/page/tokens", &[], "").status, 404);
    assert_eq!(scene.reply("POST", "/protect", &[], "").status, 405);
    assert_eq!(scene.people.unknown(), 0);
}
