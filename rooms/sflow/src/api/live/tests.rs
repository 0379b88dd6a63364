//! The stream of the page, over a real connection.

use std::io::BufRead;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::api::Settings;
use crate::api::fixture::{Asked, Small, ask, get, serve_with};
use weir_service::http::Serving;

fn follow(serving: &Serving, questions: &[&str]) -> Asked {
    let mut query = form_urlencoded::Serializer::new(String::new());
    questions.iter().for_each(|question| _ = query.append_pair("ask", question));
    ask(serving, "GET", &format!("/live/stream?{}", query.finish()), "", "")
}

/// The next answer of a stream.
fn next(asked: &mut Asked) -> Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(asked.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[test]
fn every_question_is_answered_in_turn_again_and_again() {
    let (_, serving) = serve_with(Small::default(), Settings::default());
    let questions =
        ["summary", "agents?count=1&sort=traffic", "agent?agent=10.0.0.1", "heat", "flows?name=tcp&count=1", "events"];
    let mut asked = follow(&serving, &questions);
    assert!(asked.head().starts_with("http/1.1 200"));
    for _ in 0..2 {
        let answers: Vec<Value> = questions.iter().map(|_| next(&mut asked)).collect();
        for (answer, question) in answers.iter().zip(questions) {
            assert_eq!(answer["ask"], question);
        }
        let of = |index: usize| &answers[index]["answer"];
        assert_eq!((&of(0)["sum"]["agents"], &of(0)["sum"]["silent"]), (&3.into(), &1.into()));
        assert_eq!((&of(1)["matched"], &of(1)["rows"][0]["host"]), (&3.into(), &"leaf1".into()));
        assert_eq!((&of(2)["interfaces"], &of(2)["ports"][1]["name"]), (&2.into(), &"swp4".into()));
        assert_eq!(of(3)["rows"][0]["ports"][1]["ifinutilization"], 10.0);
        assert_eq!(of(4)["flows"][0]["keys"], serde_json::json!(["10.9.0.1", "10.0.0.5"]));
        assert_eq!((&of(4)["others"]["flows"], &of(4)["others"]["value"]), (&2.into(), &4_001_000.0.into()));
        assert_eq!(of(5)["events"][0]["eventID"], 7);
    }
}

/// What a page looks at begins with the question; one that makes no sense is told in the stream, and the others go on.
#[test]
fn definitions_begin_with_the_question_and_mistakes_are_told_in_their_place() {
    let (small, serving) = serve_with(Small::default(), Settings::default());
    let mut asked =
        follow(&serving, &["flows?keys=ipsource,ipdestination&filter=vlan%3C1", "flows?keys=ipsource,ipdestination"]);
    let (wrong, right) = (next(&mut asked), next(&mut asked));
    assert_eq!((&wrong["problem"]["key"], &wrong["problem"]["offset"]), (&"filter".into(), &4.into()), "{wrong}");
    assert_eq!(right["answer"]["flows"][0]["keys"][1], "10.0.0.5", "{right}");
    // The first number went to the one that is refused.
    assert_eq!(small.flows(), ["page/1", "tcp"]);
    assert!(right["answer"]["definition"].get("fs").is_none(), "{right}");
}

#[test]
fn what_is_no_question_is_refused_and_so_are_foreign_pages() {
    let (small, serving) = serve_with(Small::default(), Settings::default());
    for wrong in ["/live/stream", "/live/stream?ask=weather", "/live/stream?ask=agent", "/live/search?text="] {
        let reply = get(&serving, wrong);
        assert_eq!(reply.status, 400, "{wrong}: {reply:?}");
        assert_eq!(reply.error().lines().count(), 1);
    }
    let target = "/live/stream?ask=flows?keys=ipsource";
    let foreign = ask(&serving, "GET", target, "Sec-Fetch-Site: cross-site\r\n", "").reply();
    assert_eq!(foreign.status, 403, "{foreign:?}");
    assert_eq!(small.flows().len(), 1);
}

#[test]
fn who_asks_the_same_shares_the_answer() {
    let (small, serving) = serve_with(Small::default(), Settings::default());
    let mut clients: Vec<Asked> = (0..8).map(|_| follow(&serving, &["flows?name=tcp"])).collect();
    clients.iter_mut().for_each(|client| _ = next(client));
    let ranked = small.ranked.load(Ordering::Relaxed);
    assert!(ranked < 8, "{ranked} answers for 8 clients");
}

#[test]
fn what_is_called_so_is_found() {
    let (_, serving) = serve_with(Small::default(), Settings::default());
    let found = |text: &str| get(&serving, &format!("/live/search?text={text}")).json();
    assert_eq!(found("LEAF")["agents"]["rows"][0]["agent"], "10.0.0.1");
    assert_eq!(found("swp4")["interfaces"]["rows"][0]["dataSource"], "4");
    assert_eq!(found("10.9.0.1")["flows"]["rows"][0]["keys"][0], "10.9.0.1");
    assert_eq!(found("nobody")["agents"]["rows"], serde_json::json!([]));
}

#[test]
fn browsers_get_the_page_and_others_the_index() {
    let (_, serving) = serve_with(Small::default(), Settings::default());
    assert!(get(&serving, "/").body.contains("GET    /agents/json"));
    let page = ask(&serving, "GET", "/", "Accept: text/html,*/*\r\n", "").reply();
    assert!(page.body.contains("/page/page.js") && page.head.contains("content-type: text/html"), "{page:?}");
    assert!(page.head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{}", page.head);
    for header in ["x-content-type-options: nosniff", "cache-control: no-cache", "vary: accept, accept-encoding"] {
        assert!(page.head.contains(header), "{header} in {}", page.head);
    }
    let tag = page.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().replace("w/", "W/");
    let again = ask(&serving, "GET", "/", &format!("Accept: text/html\r\nIf-None-Match: {tag}\r\n"), "").reply();
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(get(&serving, "/page/nothing.js").status, 404);
}

/// Everything that a browser loads, as it goes over the network.
#[test]
fn the_page_is_small() {
    let (_, serving) = serve_with(Small::default(), Settings::default());
    let size = |file: &str| {
        let mut asked = ask(&serving, "GET", &format!("/page/{file}"), "Accept-Encoding: br, gzip\r\n", "");
        let head = asked.head();
        assert!(head.contains("content-encoding: gzip"), "{file}: {head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        length.trim().parse::<usize>().unwrap()
    };
    let all: usize = ["index.html", "page.js", "worker.js", "page.css"].map(size).iter().sum();
    assert!((10_000..150_000).contains(&all), "{all} bytes");
}
