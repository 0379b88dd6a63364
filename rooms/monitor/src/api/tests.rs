//! The page's server, over real sockets, by a client that shares no code with it.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::{Value, json};
use weir_testbed::{await_that, http};
use weir_wire::signal::{Block, Body, Cause, Channel, Datagram, Element, Gap, Rate, Values};

use super::*;
use weir_signal::history::{Bounds, History};

struct Small {
    history: History,
    acknowledged: AtomicBool,
}

impl Shown for Small {
    fn history(&self) -> &History {
        &self.history
    }

    fn states(&self) -> Vec<State> {
        let by = Acknowledged { by: "jo".into(), time_ns: 6_000_000 };
        let acknowledged = self.acknowledged.load(Relaxed);
        vec![State {
            alarm: Alarm::High,
            since_ns: 5_000_000,
            unacknowledged: if acknowledged { Alarm::None } else { Alarm::High },
            acknowledged: acknowledged.then(|| Arc::new(by)),
            ..State::default()
        }]
    }

    fn events_since(&self, id: u64) -> Vec<Event> {
        let event = Event {
            id: 1,
            time_ns: 7_500_000,
            severity: Severity::Major,
            station: "s".into(),
            channel: "\u{202e}".into(),
            kind: "gap",
            text: "lost".into(),
            remedy: None,
        };
        if id < 1 { vec![event] } else { Vec::new() }
    }

    fn ledger(&self) -> Value {
        json!({"received": 7})
    }

    fn peers(&self) -> Vec<String> {
        vec!["http://other:5180".into()]
    }

    fn acknowledge(&self, channel: [&str; 3], seen: Option<Alarm>, by: &str) -> Result<Alarm, NotAcknowledged> {
        match (channel, seen) {
            (["s", "display", "I"], Some(Alarm::Low)) => Err(NotAcknowledged::Worse(Alarm::High)),
            (["s", "display", "I"], _) if self.acknowledged.swap(true, Relaxed) => Err(NotAcknowledged::Nothing),
            (["s", "display", "I"], _) => {
                assert_eq!(by, "jo r");
                Ok(Alarm::High)
            }
            _ => Err(NotAcknowledged::Unknown),
        }
    }
}

const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };

fn serve(samples: u64) -> (Arc<Small>, Serving) {
    serve_with(samples, Settings::default())
}

fn serve_with(samples: u64, settings: Settings) -> (Arc<Small>, Serving) {
    let small = Arc::new(Small { history: History::new(Bounds::default()), acknowledged: AtomicBool::new(false) });
    let channel = Channel { name: "I".into(), rate: RATE, ..Channel::default() };
    assert_eq!(small.history.write().channel("s", "display", &channel).unwrap().key, 0);
    append(&small, 0, samples);
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let serving = server.serve(small.clone(), settings).unwrap();
    (small, serving)
}

/// Sample i is i, but of each hundred the last seven are missing.
fn append(small: &Small, from: u64, to: u64) {
    let id = small.history.catalog()[0].id();
    let mut writing = small.history.write();
    let mut at = from;
    while at < to {
        let end = if at % 100 < 93 { at - at % 100 + 93 } else { at - at % 100 + 100 }.min(to);
        let bytes: Vec<u8> = (at..end).flat_map(|index| (index as f64).to_le_bytes()).collect();
        let values = match at % 100 < 93 {
            true => Values::Samples(Element::F64, &bytes),
            false => Values::Gap(Gap { samples: end - at, cause: Cause::Socket }),
        };
        writing.append(id, &Block { channel: 0, first: at, time: at as i64 * 1_000_000, rate: RATE, values });
        at = end;
    }
}

/// A WebSocket as RFC 6455 has it, or the status that was answered.
fn follow(serving: &Serving, headers: &str) -> Result<BufReader<TcpStream>, u16> {
    let headers = format!(
        "{headers}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    let asked = http::ask(serving.local_addr(), "GET", "/live", &headers, "");
    // The example of the RFC, 1.3.
    assert!(asked.status != 101 || asked.head.contains("s3pplmbitxaq9kygzzhzrbk+xoo="), "{}", asked.head);
    if asked.status == 101 { Ok(asked.body) } else { Err(asked.status) }
}

/// A frame: opcode and contents.
fn frame(reader: &mut BufReader<TcpStream>) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    reader.read_exact(&mut head).unwrap();
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            reader.read_exact(&mut length).unwrap();
            u16::from_be_bytes(length).into()
        }
        127 => {
            let mut length = [0; 8];
            reader.read_exact(&mut length).unwrap();
            u64::from_be_bytes(length)
        }
        length => u64::from(length),
    };
    let mut contents = vec![0; length as usize];
    reader.read_exact(&mut contents).unwrap();
    assert_eq!(head[0] & 0x80, 0x80, "whole");
    (head[0] & 0x0f, contents)
}

fn say(reader: &mut BufReader<TcpStream>, text: &str) {
    // Masked with zeros.
    let mut bytes = vec![0x81, 0x80 | 126];
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(text.as_bytes());
    reader.get_mut().write_all(&bytes).unwrap();
}

fn get(serving: &Serving, target: &str) -> (u16, String) {
    ask(serving, "GET", target, "")
}

fn ask(serving: &Serving, method: &str, target: &str, headers: &str) -> (u16, String) {
    let answer = http::ask(serving.local_addr(), method, target, headers, "").answer();
    (answer.status, answer.body)
}

/// Every sample once, as itself or in a bucket whose extremes are its own, or in a gap; from the past into the present.
#[test]
fn a_client_has_each_sample_or_a_gap_for_it_once() {
    for columns in [100, 16_000] {
        let (small, serving) = serve(50_000);
        let mut reader = follow(&serving, "").unwrap();
        say(&mut reader, &format!(r#"{{"ask":3,"watch":[0],"columns":{columns},"span_ms":60000}}"#));
        let (mut next, mut whole, mut bucketed) = (0, false, 0);
        while next < 50_333 {
            let (opcode, contents) = frame(&mut reader);
            if opcode == 1 {
                let text: Value = serde_json::from_slice(&contents).unwrap();
                if text["whole"]["keys"] == json!([0]) {
                    assert_eq!((next, &text["whole"]["ask"]), (50_000, &json!(3)));
                    whole = true;
                    append(&small, 50_000, 50_333);
                }
                continue;
            }
            if opcode != 2 {
                continue;
            }
            let Body::Data(blocks) = Datagram::parse(&contents).unwrap().body else { panic!("no data") };
            for block in blocks {
                assert_eq!((block.first, block.time), (next, next as i64 * 1_000_000));
                for (index, value) in (next..).zip(block.each()) {
                    assert_eq!(value, index as f64);
                }
                if let Values::Buckets(_, each, _) = block.values {
                    for (number, (_, bucket)) in (0..).zip(block.buckets()) {
                        let first = (next + number * u64::from(each)) as f64;
                        let last = first + f64::from(each) - 1.0;
                        assert_eq!(
                            [bucket.least, bucket.greatest, bucket.first, bucket.last],
                            [first, last, first, last]
                        );
                        bucketed += 1;
                    }
                }
                if let Values::Gap(gap) = block.values {
                    assert_eq!((gap.cause, next % 100), (Cause::Socket, 93));
                }
                next = block.end();
            }
        }
        assert!(whole);
        // Of 600 samples a column, 512 are in a bucket; of 3.75, 2.
        assert!(bucketed > 0, "{columns}");
    }
}

#[test]
fn strangers_pages_do_not_follow() {
    let (_, serving) = serve(10);
    let status = |headers: &str| follow(&serving, headers).err().unwrap_or(101);
    for (headers, expected) in [
        ("", 101),
        ("Host: localhost:1\r\nOrigin: http://localhost:1\r\n", 101),
        ("Origin: http://other:5180\r\n", 101),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Host: evil.example\r\n", 421),
    ] {
        assert_eq!(status(headers), expected, "{headers:?}");
    }
}

#[test]
fn who_is_one_too_many_or_says_nonsense_is_told() {
    let (_, serving) = serve(10);
    let mut all: Vec<_> = (0..PLACES).map(|_| follow(&serving, "").unwrap()).collect();
    assert_eq!(follow(&serving, "").err(), Some(503));
    for (at, (text, expected)) in [
        ("{", "EOF while parsing"),
        (r#"{"ask":1,"watch":[0],"columns":0,"span_ms":1}"#, "columns is to be 1 to"),
        (r#"{"ask":1,"watch":[0],"columns":1,"span_ms":1,"x":1}"#, "unknown field `x`"),
    ]
    .into_iter()
    .enumerate()
    {
        say(&mut all[at], text);
        let close = std::iter::repeat_with(|| frame(&mut all[at])).find(|(opcode, _)| *opcode == 8).unwrap().1;
        assert_eq!(u16::from_be_bytes([close[0], close[1]]), 1008);
        let reason = String::from_utf8(close[2..].to_vec()).unwrap();
        assert!(reason.starts_with("this cannot be understood: ") && reason.contains(expected), "{reason}");
    }
    let page: Value = serde_json::from_str(&get(&serving, "/ledger").1).unwrap();
    assert_eq!((&page["page"]["refused_full"], &page["page"]["ended_mistaken"]), (&json!(1), &json!(3)));
    assert_eq!(page["server"]["received"], 7);
}

/// What a screen has is of what the channel was: it gets the new from its beginning, and is told before it comes.
#[test]
fn what_is_measured_otherwise_begins_anew_for_its_clients() {
    let (small, serving) = serve(90);
    let mut reader = follow(&serving, "").unwrap();
    say(&mut reader, r#"{"ask":4,"watch":[0],"columns":1000,"span_ms":1000}"#);
    let (mut heard, mut is_changed) = (Vec::new(), false);
    while heard.last().is_none_or(|last: &String| last != "first 90") {
        let (opcode, contents) = frame(&mut reader);
        if opcode == 2 {
            let Body::Data(blocks) = Datagram::parse(&contents).unwrap().body else { panic!("no data") };
            heard.extend(blocks.map(|block| format!("first {}", block.first)));
        }
        let text: Value = if opcode == 1 { serde_json::from_slice(&contents).unwrap() } else { Value::Null };
        if let Some(unit) = text["channels"][0]["unit"].as_str() {
            heard.push(format!("unit {unit}"));
        }
        if let Some(first) = text["begin"]["feeds"][0]["first"].as_u64() {
            heard.push(format!("begin {first}"));
        }
        if text["whole"]["keys"] == json!([0]) && !is_changed {
            is_changed = true;
            heard.push("whole".to_owned());
            let channel = Channel { name: "I".into(), unit: "kA".into(), rate: RATE, ..Channel::default() };
            assert_eq!(small.history.write().channel("s", "display", &channel).unwrap().key, 0);
            append(&small, 90, 93);
        }
    }
    assert_eq!(heard, ["unit ", "begin 0", "first 0", "whole", "unit kA", "begin 90", "first 90"]);
    let rows: Value = serde_json::from_str(&get(&serving, "/history?key=0&from=0").1).unwrap();
    assert_eq!((&rows["unit"], &rows["rows"][0][1]), (&json!("kA"), &json!(90)));
}

#[test]
fn garbage_is_counted_and_who_just_goes_is_not() {
    let (_, serving) = serve(10);
    let page = || serde_json::from_str::<Value>(&get(&serving, "/ledger").1).unwrap()["page"].clone();
    // There is no frame of this kind.
    let mut reader = follow(&serving, "").unwrap();
    reader.get_mut().write_all(&[0x83, 0x80, 0, 0, 0, 0]).unwrap();
    // Whatever it is told, until it is ended.
    let _ = reader.read_to_end(&mut Vec::new());
    assert_eq!(page()["ended_mistaken"], 1);
    let mut reader = follow(&serving, "").unwrap();
    frame(&mut reader);
    drop(reader);
    await_that("it to be gone", || page()["clients_now"] == 0);
    assert_eq!((&page()["ended_mistaken"], &page()["clients"]), (&json!(1), &json!(2)));
}

/// Each is a WebSocket's that asks for one too late.
#[test]
fn connections_that_make_room_for_newer_ones_are_counted() {
    let (_, serving) = serve(10);
    let idle: Vec<_> = (0..300).map(|_| TcpStream::connect(serving.local_addr()).unwrap()).collect();
    let ledger: Value = serde_json::from_str(&get(&serving, "/ledger").1).unwrap();
    let page = &ledger["page"];
    assert!(page["connections_ended_full"].as_u64() > Some(0), "{page:#}");
    assert_eq!(page["refused_full"], 0, "{page:#}");
    drop(idle);
}

/// What a client does not take is held for it: one message, whatever there is to be told.
#[test]
fn messages_and_texts_have_a_greatest_length() {
    let (small, serving) = serve(200_000);
    let channels = 4000;
    let mut writing = small.history.write();
    for number in 1..channels {
        // Each byte of it takes six.
        let (name, description) = (number.to_string(), "\u{1}".repeat(255));
        let channel = Channel { name, description, rate: RATE, ..Channel::default() };
        let key = writing.channel("s", "display", &channel).unwrap();
        let values = Values::Samples(Element::F32, &[0; 4]);
        writing.append(key, &Block { channel: 0, first: 0, time: 0, rate: RATE, values });
    }
    drop(writing);
    let mut reader = follow(&serving, "").unwrap();
    let watched: Vec<usize> = (0..256).collect();
    say(&mut reader, &json!({"ask": 1, "watch": watched, "columns": 16_384, "span_ms": 2e5}).to_string());
    let (mut told, mut whole, mut longest) = (0, 0, [0, 0]);
    while whole < 256 {
        let (opcode, contents) = frame(&mut reader);
        if opcode == 2 {
            longest[1] = longest[1].max(contents.len());
            continue;
        }
        if opcode != 1 {
            continue;
        }
        longest[0] = longest[0].max(contents.len());
        let text: Value = serde_json::from_slice(&contents).unwrap();
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        told += count(&text["channels"]);
        whole += count(&text["whole"]["keys"]);
    }
    assert_eq!(told, channels);
    assert!(longest[0] <= 140_000 && longest[1] <= 1_250_000, "{longest:?} bytes");
}

/// Who reads nothing has what the kernel holds, and nobody else waits for it.
#[test]
fn who_does_not_read_holds_up_nobody() {
    let (small, serving) = serve(400_000);
    let ask = r#"{"ask":1,"watch":[0],"columns":16000,"span_ms":400000}"#;
    let mut stuck: Vec<_> = (0..20).map(|_| follow(&serving, "").unwrap()).collect();
    stuck.iter_mut().for_each(|reader| say(reader, ask));
    let mut reader = follow(&serving, "").unwrap();
    say(&mut reader, ask);
    while !String::from_utf8_lossy(&frame(&mut reader).1).contains("\"whole\"") {}
    append(&small, 400_000, 400_050);
    assert_eq!(std::iter::repeat_with(|| frame(&mut reader)).find(|(opcode, _)| *opcode == 2).map(|_| ()), Some(()));
}

#[test]
fn rest_tells_the_past() {
    let (_, serving) = serve(1000);
    let json = |target: &str| serde_json::from_str::<Value>(&get(&serving, target).1).unwrap();
    let channels = json("/channels");
    assert_eq!(
        (&channels[0]["name"], &channels[0]["end"], &channels[0]["alarm"]),
        (&json!("I"), &json!(1000), &json!("high"))
    );
    let rows = json("/history?key=0&columns=100000");
    assert_eq!(rows["rows"].as_array().unwrap().len(), 930 + 10);
    assert_eq!(rows["rows"][93], json!([93.0, 93, 7, null, null, null, null, "socket"]));
    // Of 10 samples a row, 8 are in one.
    let thinned = json("/history?key=0&columns=100");
    assert_eq!((&thinned["bucket"], &thinned["rows"][1]), (&json!(8), &json!([8.0, 8, 8, 8.0, 15.0, 8.0, 15.0, null])));
    let part = json("/history?key=0&from=-10&columns=100000");
    assert_eq!(
        part["rows"],
        json!([
            [990.0, 990, 1, 990.0, 990.0, 990.0, 990.0, null],
            [991.0, 991, 1, 991.0, 991.0, 991.0, 991.0, null],
            [992.0, 992, 1, 992.0, 992.0, 992.0, 992.0, null],
            [993.0, 993, 7, null, null, null, null, "socket"]
        ])
    );
    // 0 is 1970, not the end.
    assert_eq!(json("/history?key=0&from=0&columns=100000")["rows"], rows["rows"]);
    assert_eq!(json("/history?key=0&from=0&to=93&columns=100000")["rows"].as_array().unwrap().len(), 93);
    let csv = get(&serving, "/history?key=0&from=-8&format=csv").1;
    let wanted = ask(&serving, "GET", "/history?key=0&from=-8", "Accept: text/html;q=0.5, text/csv\r\n");
    assert_eq!(wanted, (200, csv.clone()));
    let first = "\"first of s/display/I []\"";
    assert_eq!(
        csv,
        format!(
            "time_ms,index,samples,{},{},{first},{},cause\r\n992.000000,992,1,992,992,992,992,\r\n993.000000,993,7,,,,,socket\r\n",
            first.replace("first of", "least of"),
            first.replace("first of", "greatest of"),
            first.replace("first of", "last of")
        )
    );
    // All there is, by any program's zero; a browser or curl asks for a table likewise.
    assert_eq!(json("/history?key=0&from=0&columns=100000"), rows);
    assert_eq!(ask(&serving, "GET", "/history?key=0&from=-8", "Accept: text/csv;q=0.9, */*;q=0.1\r\n").1, csv);
    assert!(get(&serving, "/events").1.contains("\\u202e"));
    assert_eq!(json("/events?since=1"), json!([]));
    for (target, status, error) in [
        ("/history", 400, "key: this path needs it"),
        ("/history?key=7", 404, "there is no channel 7; /channels lists those that there are"),
        ("/history?key=0&columns=0", 400, "columns=0: is to be a whole number from 1 to 100000"),
        ("/history?key=0&format=xml", 400, "format=xml: is to be json, csv"),
        ("/history?key=0&fro=1", 400, "unknown parameter \"fro\": this path takes key, from, to, columns, format"),
        ("/nowhere", 404, "there is no path \"/nowhere\"; / lists all"),
    ] {
        let (told, body) = get(&serving, target);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((told, body["error"].as_str()), (status, Some(error)), "{target}");
    }
    assert!(get(&serving, "/").1.contains("/history?key="));
}

/// By REST, by the rules of whatever changes something.
#[test]
fn an_alarm_is_acknowledged_once_and_by_nobody_elses_page() {
    let (_, serving) = serve(10);
    let target = "/acknowledge?station=s&stream=display&channel=I&by=jo+r";
    let post = |target: &str, headers: &str| {
        let (status, body) = ask(&serving, "POST", target, headers);
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let told = || serde_json::from_str::<Value>(&get(&serving, "/channels").1).unwrap()[0].clone();
    assert_eq!((&told()["unacknowledged"], &told()["acknowledged"]), (&json!("high"), &json!(null)));
    for (target, headers, status, error) in [
        (target, "Origin: https://evil.example\r\n", 403, "pages of \"https://evil.example\" may not change anything"),
        (target, "Sec-Fetch-Site: cross-site\r\n", 403, "pages of \"cross-site\" may not change anything"),
        (&format!("{target}&alarm=low"), "", 409, "it is worse than that by now: high"),
        (&format!("{target}&alarm=red"), "", 400, "alarm=red: is to be very_low, low, high, very_high"),
        (&target.replace("jo+r", "+"), "", 400, "by: is to be 1 to 60 bytes, none of them a control character"),
        (&target.replace("jo", "jo%1b"), "", 400, "by: is to be 1 to 60 bytes, none of them a control character"),
        (&target.replace("channel=I", "channel=J"), "", 404, "there is no such channel"),
        ("/acknowledge?station=s", "", 400, "stream: this path needs it"),
        (&target.replace("/acknowledge", "/channels"), "", 405, "POST is not for this path: it takes GET"),
    ] {
        let (told, body) = post(target, headers);
        assert!(told == status && body["error"].as_str().unwrap().starts_with(error), "{target} {told} {body}");
    }
    // A link is no word.
    assert_eq!(get(&serving, target).0, 405);
    assert_eq!(post(target, ""), (200, json!({"acknowledged": "high", "by": "jo r"})));
    assert_eq!(
        (&told()["unacknowledged"], &told()["acknowledged"]),
        (&json!("none"), &json!({"by": "jo", "time_ms": 6.0}))
    );
    // A page of the other server of this feed says it here, too.
    let (status, body) = post(target, "Origin: http://other:5180\r\n");
    assert_eq!((status, body["error"].as_str()), (409, Some("there is nothing to acknowledge")));
}

#[test]
fn who_may_only_read_acknowledges_nothing() {
    let (small, serving) = serve_with(10, Settings { read_only: true, ..Settings::default() });
    let (status, body) = ask(&serving, "POST", "/acknowledge?station=s&stream=display&channel=I&by=jo+r", "");
    assert!(status == 403 && body.contains("read only"), "{status} {body}");
    assert!(!small.acknowledged.load(Relaxed));
    let mut reader = follow(&serving, "").unwrap();
    let hello: Value = serde_json::from_slice(&frame(&mut reader).1).unwrap();
    assert_eq!(hello["hello"]["read_only"], true);
}
