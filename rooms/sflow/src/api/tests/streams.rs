//! Those who wait, and those who follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::api::PLACES;
use crate::api::fixture::{Asked, Reply, Small, ask, get, serve, serve_at};
use crate::api::{Settings, server};
use weir_service::http::Limits;

/// The answer comes from the event, not from a tick: there is none.
#[test]
fn a_long_poll_is_answered_by_the_event() {
    let (small, serving) = serve();
    let ids = |reply: &Reply, key: &str| -> Vec<u64> {
        reply.json().as_array().unwrap().iter().map(|record| record[key].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&get(&serving, "/events/json?eventID=-1&maxEvents=3"), "eventID"), [7, 6, 5]);
    assert_eq!(ids(&get(&serving, "/events/json?thresholdID=drops"), "eventID"), [7]);
    assert!(ids(&get(&serving, "/events/json?eventID=7"), "eventID").is_empty());
    assert_eq!(ids(&get(&serving, "/flows/json?name=web"), "flowID"), [2, 1]);
    assert!(ids(&get(&serving, "/flows/json?name=dns"), "flowID").is_empty());

    let waiting: Vec<Asked> = (0..20)
        .map(|_| ask(&serving, "GET", "/events/json?eventID=7&thresholdID=wanted&timeout=600", "", ""))
        .chain([ask(&serving, "GET", "/flows/json?flowID=2&timeout=600", "", "")])
        .collect();
    // Neither the wrong threshold nor the wrong log answers them.
    small.cross("busy", 1);
    let id = small.cross("wanted", 2);
    small.complete("dns");
    let mut replies: Vec<Reply> = waiting.into_iter().map(Asked::reply).collect();
    assert_eq!(ids(&replies.pop().unwrap(), "flowID"), [3]);
    for reply in replies {
        assert_eq!(ids(&reply, "eventID"), [id]);
    }
    // A poll whose time is over has an answer, too.
    assert_eq!(get(&serving, "/events/json?eventID=9&timeout=0.01").body, "[]");
}

#[test]
fn streams_tell_each_event_once_and_go_on_where_they_were() {
    let (small, serving) = serve();
    let mut now = ask(&serving, "GET", "/events/stream", "", "");
    let mut again = ask(&serving, "GET", "/events/stream", "Last-Event-ID: 5\r\n", "");
    let mut drops = ask(&serving, "GET", "/events/stream?thresholdID=drops&eventID=-1", "", "");
    for stream in [&mut now, &mut again, &mut drops] {
        assert!(stream.head().contains("content-type: text/event-stream"));
    }
    let frame = |stream: &mut Asked| String::from_utf8(stream.chunk()).unwrap();
    let id = |frame: &str| frame.split_once("id: ").unwrap().1.split('\n').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(id(&frame(&mut again)), 6);
    assert_eq!(id(&frame(&mut again)), 7);
    assert_eq!(id(&frame(&mut drops)), 7);
    // Its head came before the event did.
    small.cross("busy", 9);
    let told = frame(&mut now);
    let (head, data) = told.split_once("data: ").unwrap();
    assert_eq!(head, "id: 8\nevent: threshold\n");
    assert_eq!(serde_json::from_str::<serde_json::Value>(data.trim_end()).unwrap()["eventID"], 8);
    assert!(told.ends_with("\n\n") && told.matches("\n\n").count() == 1, "{told:?}");
    assert_eq!(id(&frame(&mut again)), 8);

    // However soon after the head an event comes, the first frame is no sign of life: it is the event.
    for _ in 0..200 {
        let mut soon = ask(&serving, "GET", "/events/stream", "", "");
        soon.head();
        let id_told = small.cross("busy", 10);
        assert_eq!(id(&frame(&mut soon)), id_told);
    }

    let mut flows = ask(&serving, "GET", "/activeflows/leaf1/tcp/stream?interval=0.1&maxFlows=1", "", "");
    flows.head();
    for _ in 0..2 {
        let told = frame(&mut flows);
        let data = told.strip_prefix("event: flows\ndata: ").unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap()[0]["value"], 5e6);
    }
    // The stream ends with the definition.
    small.shards.remove_flow("tcp");
    while !flows.chunk().is_empty() {}
}

/// Those who wait have places; one who leaves gives its place back, and all others are served meanwhile.
#[test]
fn places_to_wait_are_bounded_and_given_back() {
    let (_, serving) = serve();
    let poll = "/events/json?eventID=7&timeout=0.01";
    let mut streams: Vec<Asked> = (0..PLACES).map(|_| ask(&serving, "GET", "/events/stream", "", "")).collect();
    streams.iter_mut().for_each(|stream| _ = stream.head());
    let reply = get(&serving, poll);
    assert_eq!((reply.status, &*reply.error()), (503, "256 clients wait or follow a stream already: try again later"));
    assert_eq!(get(&serving, "/events/json").status, 200);
    streams.pop();
    // It is noticed when the kernel has told.
    while get(&serving, poll).status == 503 {
        thread::yield_now();
    }
}

/// Frames are made as far as the client reads; who does not read at all is ended, though it waits.
#[test]
fn a_stream_that_nobody_reads_ends() {
    let server = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let limits = Limits { connections: 4, patience: Duration::from_millis(500), ..Limits::PAGE };
    let small = Arc::new(Small { wide: 4 << 20, ..Small::default() });
    let serving = serve_at(server.with(limits), small.clone(), Settings::default());
    let mut unread = ask(&serving, "GET", "/activeflows/ALL/tcp/stream?interval=0.1&maxFlows=1", "", "");
    unread.head();
    while serving.connections() > 0 {
        thread::yield_now();
    }
    // The kernel's buffers, and one in ours.
    let made = small.ranked.load(Ordering::Relaxed);
    assert!((1..8).contains(&made), "{made} frames of 4 MiB");
}

#[test]
fn equal_streams_share_their_frames() {
    const CLIENTS: usize = 8;
    let (small, serving) = serve();
    let held = small.gate.lock().unwrap();
    let target = "/activeflows/ALL/tcp/stream?interval=60";
    let mut streams: Vec<Asked> = (0..CLIENTS).map(|_| ask(&serving, "GET", target, "", "")).collect();
    for stream in &mut streams {
        stream.head();
    }
    drop(held);
    let first = streams.iter_mut().map(Asked::chunk).collect::<Vec<_>>();
    assert!(first.iter().all(|frame| *frame == first[0]));
    // Whoever came while the first was made asks for a newer one, all together.
    let made = small.ranked.load(Ordering::Relaxed);
    assert!(made < CLIENTS, "{made}");
    let reply = get(&serving, "/activeflows/ALL/tcp/stream?maxFlows=1001");
    assert!(reply.error().starts_with("maxFlows=1001: is to be a whole number from 1 to 1000"));
}
