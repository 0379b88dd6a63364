//! `weir monitor serve`, on the loopback interface, fed by an encoder and read by a decoder that share no code with it.

use std::net::{SocketAddr, UdpSocket};
use std::ops::{Deref, DerefMut};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;
use weir_testbed::{PATIENCE, Started, http};

use crate::service::Machine;
use crate::weir;

/// A server that is ready.
pub(super) struct Serve {
    started: Started,
    page: SocketAddr,
    /// Where it receives.
    pub(super) listening: SocketAddr,
}

impl Deref for Serve {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.started
    }
}

impl DerefMut for Serve {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.started
    }
}

impl Serve {
    #[track_caller]
    pub(super) fn start(flags: &[&str]) -> Self {
        let flags = [&["monitor", "serve", "--json", "--http", "127.0.0.1:0"], flags].concat();
        let mut started = Started::ready(weir(&flags));
        let [page, listening] = ["page: http://", "listening: "].map(|words| {
            let line = started.line(words);
            line.split_once(words).unwrap().1.trim_end_matches('/').parse().unwrap()
        });
        Self { started, page, listening }
    }

    /// With this file, and an address to send to.
    pub(super) fn configured(text: &str) -> (Self, TempDir) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("monitor.toml");
        std::fs::write(&path, format!("{text}\n[[listen]]\naddress = \"127.0.0.1:0\"\n")).unwrap();
        (Self::start(&["-c", path.to_str().unwrap()]), dir)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        http::get(self.page, path).json()
    }

    pub(super) fn stop(self) -> Value {
        self.started.stop()
    }

    /// Waits for an event of this kind.
    #[track_caller]
    fn await_event(&self, kind: &str) -> Value {
        self.await_event_while(kind, || {})
    }

    /// Likewise, while something goes on.
    #[track_caller]
    fn await_event_while(&self, kind: &str, mut go_on: impl FnMut()) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let events = self.get("/events");
            let all = events.as_array().or_else(|| events["events"].as_array()).unwrap();
            if let Some(event) = all.iter().find(|event| event["kind"] == kind) {
                return event.clone();
            }
            assert!(Instant::now() < until, "no {kind} in {events:#}");
            go_on();
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A station of one channel at 1 kHz, f32, whose sample i is i; written by hand from the description of the format.
pub(super) struct Station {
    socket: UdpSocket,
    name: &'static str,
    session: u64,
    sequence: u64,
    pub(super) index: u64,
    /// Time of sample 0.
    began: i64,
}

impl Station {
    pub(super) fn new(to: SocketAddr, name: &'static str, session: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(to).unwrap();
        Self { socket, name, session, sequence: 0, index: 0, began: now() }
    }

    fn header(&self, kind: u8, count: u16) -> Vec<u8> {
        let mut bytes = vec![b'W', b'S', 0x10 | kind, 0, 2, 20];
        bytes.extend(count.to_le_bytes());
        bytes.extend(self.session.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes
    }

    pub(super) fn metadata(&self) {
        let mut bytes = self.header(3, 0);
        let mut put = |key: u8, value: &[u8]| {
            bytes.extend([key, value.len() as u8]);
            bytes.extend(value);
        };
        put(1, self.name.as_bytes());
        put(2, b"display");
        put(16, &7_u16.to_le_bytes());
        put(17, b"I");
        put(18, b"A");
        put(25, &500.5_f64.to_le_bytes());
        put(29, &1000_u32.to_le_bytes());
        put(30, &1_u32.to_le_bytes());
        self.socket.send(&bytes).unwrap();
    }

    /// A datagram of so many samples; unless it is to be lost, it is sent.
    pub(super) fn data(&mut self, samples: u16, lost: bool) {
        let mut bytes = self.header(0, 1);
        bytes.extend(7_u16.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(samples.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.index.to_le_bytes());
        bytes.extend((self.began + self.index as i64 * 1_000_000).to_le_bytes());
        bytes.extend(1000_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        for sample in self.index..self.index + u64::from(samples) {
            bytes.extend((sample as f32).to_le_bytes());
        }
        self.index += u64::from(samples);
        self.sequence += 1;
        if !lost {
            self.socket.send(&bytes).unwrap();
        }
    }

    pub(super) fn positions(&self, kind: u8) {
        let mut bytes = self.header(kind, 1);
        bytes.extend(7_u16.to_le_bytes());
        bytes.extend(self.index.to_le_bytes());
        self.socket.send(&bytes).unwrap();
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// On a machine of its own: whatever comes in there is known, and none of it is dropped by an interface, as foreign frames are.
#[test]
fn what_is_missing_is_counted_exactly_and_explained() {
    let Some(machine) = Machine::new() else { return };
    machine.run(|| {
        let mut serve = Serve::start(&["--listen", "127.0.0.1:0"]);
        let mut station = Station::new(serve.listening, "coil", 1);
        station.positions(1);
        station.metadata();
        for turn in 0..100 {
            station.data(10, turn % 10 == 3);
        }
        // The last two are lost: the end tells.
        station.data(10, true);
        station.data(5, true);
        station.positions(2);
        // What is received is counted beside what is known of streams.
        let has_ended = |ledger: &Value| {
            let received = &ledger["received"];
            received["by_kind"]["end"] == 1 && received["waiting"] == 0 && ledger["streams"][0]["state"] == "ended"
        };
        let ledger = serve.await_ledger(has_ended);
        let received = &ledger["received"];
        assert_eq!((&received["samples"], &received["missing"]["network"]), (&900.into(), &115.into()), "{ledger:#}");
        assert_eq!((&received["lost"], &received["in_order"]), (&12.into(), &90.into()), "{ledger:#}");
        let gap = serve.await_event("gap");
        assert!(gap["text"].as_str().unwrap().contains("lost between the machines"), "{gap}");
        assert!(gap["remedy"].as_str().unwrap().contains("weir monitor check"), "{gap}");
        let alarm = serve.await_event("alarm");
        assert_eq!((&alarm["station"], &alarm["channel"]), (&"coil".into(), &"I".into()));
        assert!(alarm["text"].as_str().unwrap().starts_with("high: "), "{alarm}");
        serve.await_event("stale");
        serve.stop();
    });
}

#[test]
fn restarts_and_twins_are_told_apart_and_hostile_datagrams_counted() {
    let mut serve = Serve::start(&["--listen", "127.0.0.1:0"]);
    let to = serve.listening;
    let mut first = Station::new(to, "coil", 1);
    first.metadata();
    first.data(10, false);
    first.positions(2);
    serve.await_event("end");
    let mut second = Station::new(to, "coil", 2);
    second.metadata();
    second.data(10, false);
    serve.await_event("restart");
    let mut third = Station::new(to, "coil", 3);
    // As long as it takes: a server that stands still hears of all at once.
    let twin = serve.await_event_while("twin", || {
        for station in [&mut second, &mut third] {
            station.metadata();
            station.data(10, false);
        }
    });
    assert_eq!(twin["station"], "coil#2");

    let mut long = third.header(0, 0);
    long.resize(1473, 0);
    let foreign: [&[u8]; 5] = [b"", b"GET / HTTP/1.0", b"WS\x20", &long, &third.header(0, 9)];
    foreign.iter().for_each(|bytes| assert_eq!(third.socket.send(bytes).unwrap(), bytes.len()));
    let ledger = serve.await_ledger(|ledger| {
        let refused = &ledger["received"]["refused"];
        [("foreign", 2), ("malformed", 2), ("long", 1)].iter().all(|(reason, count)| refused[reason] == *count)
    });
    // What the one that lost the name sent within 100 ms is missing, and what was held without a name meanwhile is undescribed.
    let received = &ledger["received"];
    let counts = [&received["samples"], &received["missing"]["unknown"], &received["undescribed"]];
    let sum: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(sum, 10 + second.index + third.index, "{ledger:#}");
    serve.stop();
}

#[test]
fn a_viewer_changes_over_when_a_server_is_killed() {
    let mut viewer = Serve::start(&["--listen", "127.0.0.1:0"]);
    let to = viewer.listening;
    let server = |name: &str, priority: u8| {
        Serve::configured(&format!("[publish]\nto = [\"{to}\"]\nname = \"{name}\"\npriority = {priority}\n"))
    };
    let ((first, _one), (second, _other)) = (server("control-1", 1), server("control-2", 2));
    let mut station = Station::new(first.listening, "coil", 1);
    let (near, far) = (first.listening, second.listening);
    let copy = station.socket.try_clone().unwrap();
    let send = |station: &mut Station| {
        // Both servers are sent the same.
        let before = (station.index, station.sequence);
        for to in [near, far] {
            (station.index, station.sequence) = before;
            copy.connect(to).unwrap();
            station.metadata();
            station.data(10, false);
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut heard = false;
    for _ in 0..1000 {
        send(&mut station);
        let servers = |ledger: &Value| {
            let streams = ledger["streams"].as_array().unwrap();
            streams.iter().filter(|stream| stream["station"].as_str().unwrap().starts_with("control-")).count()
        };
        heard = servers(&viewer.ledger()) == 2;
        if heard && station.index > 1000 {
            break;
        }
    }
    assert!(heard, "{:#}", viewer.ledger());
    drop(first);
    let killed = Instant::now();
    // Half a second more of samples can only come from the second, which was followed before if the first stood still.
    let end = |viewer: &Serve| viewer.get("/channels")[0]["end_ms"].as_f64().unwrap();
    let before = end(&viewer);
    while end(&viewer) < before + 500.0 {
        assert!(killed.elapsed() < PATIENCE, "it never changed over");
        copy.connect(far).unwrap();
        station.data(10, false);
        thread::sleep(Duration::from_millis(10));
    }
    assert!(viewer.ledger()["changes"].as_u64() > Some(0), "{:#}", viewer.ledger());
    // Nothing was lost by it: the second had sent everything.
    let events = viewer.get("/events");
    assert!(!events.to_string().contains("\"gap\""), "{events:#}");
    let ledger = viewer.ledger();
    let names: Vec<_> = ledger["streams"].as_array().unwrap().iter().map(|stream| &stream["station"]).collect();
    assert!(names.contains(&&"coil".into()), "{names:?}");
    drop(second);
}

#[test]
fn channels_are_made_of_others() {
    let text = "[[derive]]\nname = \"double\"\nunit = \"A\"\nexpression = \"2 * {coil/I} + 1\"\n\
                [[limit]]\nchannel = \"derived/double\"\nvery_high = 100.5\n";
    let (mut serve, _dir) = Serve::configured(text);
    let mut station = Station::new(serve.listening, "coil", 1);
    station.metadata();
    for _ in 0..6 {
        station.data(10, false);
    }
    serve.await_ledger(|ledger| ledger["channels"] == 2 && ledger["received"]["samples"] == 60);
    let alarm = serve.await_event("alarm");
    // The 51st sample, 50, is the first that makes more than 100.5; the block ends with 59.
    assert_eq!((&alarm["station"], &alarm["channel"]), (&"derived".into(), &"double".into()));
    assert_eq!(alarm["text"], "very high: 119 A (limit 100.5)");
}

/// What a viewer of a feed makes of its datagrams: the positions of blocks, their causes, and names.
#[derive(Default)]
struct Viewer {
    samples: u64,
    missing: u64,
    next: Option<u64>,
    names: Vec<String>,
}

impl Viewer {
    fn take(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= 1472 && &bytes[..2] == b"WS");
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let mut at = 24;
        match bytes[2] & 15 {
            0 => {
                for _ in 0..u16::from_le_bytes([bytes[6], bytes[7]]) {
                    let count = u64::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
                    let first = word(at + 8);
                    let bucket = u64::from(u32::from_le_bytes(bytes[at + 32..at + 36].try_into().unwrap()));
                    assert_eq!(*self.next.get_or_insert(first), first, "one behind another");
                    let (stands_for, length) = match bytes[at + 3] {
                        0 => (count, 4 * count),
                        1 => {
                            // A part of one is shorter.
                            assert!(bucket < 10 || bucket == 10 && first % 10 == 0, "{bucket} from {first}");
                            (count * bucket, 16 * count)
                        }
                        _ => (word(at + 36), 12),
                    };
                    *if bytes[at + 3] == 2 { &mut self.missing } else { &mut self.samples } += stands_for;
                    self.next = Some(first + stands_for);
                    at += 36 + length as usize;
                }
                assert_eq!(at, bytes.len());
            }
            3 => {
                while at < bytes.len() {
                    let value = &bytes[at + 2..at + 2 + usize::from(bytes[at + 1])];
                    if [1, 2, 17, 20].contains(&bytes[at]) {
                        self.names.push(String::from_utf8(value.to_vec()).unwrap());
                    }
                    at += 2 + value.len();
                }
            }
            _ => {}
        }
    }
}

#[test]
fn what_is_sent_on_has_every_sample_or_its_gap() {
    let viewer = UdpSocket::bind("127.0.0.1:0").unwrap();
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = viewer.local_addr().unwrap();
    let (mut serve, _dir) = Serve::configured(&format!(
        "[publish]\nto = [\"{to}\"]\nname = \"control-1\"\nrate = \"100/s\"\npriority = 4\n"
    ));
    let mut station = Station::new(serve.listening, "coil", 1);
    station.metadata();
    for turn in 0..200 {
        station.data(7, turn % 20 == 5);
    }
    station.positions(2);
    serve.await_ledger(|ledger| ledger["streams"][0]["state"] == "ended");
    let ledger = serve.stop();
    let mut seen = Viewer::default();
    let mut bytes = [0; 2000];
    // The end comes three times.
    let mut ends = 0;
    while ends < 3 {
        let length = viewer.recv(&mut bytes).unwrap();
        seen.take(&bytes[..length]);
        ends += usize::from(bytes[2] & 15 == 2);
    }
    assert_eq!((seen.samples, seen.missing), (1330, 70));
    let named = ["control-1", "view", "I", "coil"];
    assert!(seen.names.windows(4).any(|names| names == named), "{:?}", seen.names);
    assert_eq!(ledger["published"]["not_taken"], 0);
}

#[test]
fn limits_of_a_server_are_those_of_its_viewers() {
    let viewer = Serve::start(&["--listen", "127.0.0.1:0"]);
    let to = viewer.listening;
    let (serve, _dir) = Serve::configured(&format!(
        "[publish]\nto = \"{to}\"\nname = \"control-1\"\n[[limit]]\nchannel = \"coil/I\"\nvery_high = 20.5\n"
    ));
    let mut station = Station::new(serve.listening, "coil", 1);
    station.metadata();
    for _ in 0..6 {
        station.data(10, false);
    }
    for server in [&serve, &viewer] {
        let alarm = server.await_event("alarm");
        assert!(alarm["text"].as_str().unwrap().starts_with("very high: "), "{alarm}");
        let limits = &server.get("/channels")[0]["limits"];
        assert_eq!(*limits, serde_json::json!([null, null, 500.5, 20.5]));
    }
}

#[test]
#[ignore = "long: 10 s"]
fn names_that_fit_no_channel_are_told() {
    let text = "[[derive]]\nname = \"x\"\nexpression = \"{coil/nosuch} + {coil/I}\"\n\
                [[limit]]\nchannel = \"nosuch/*\"\nhigh = 1.0\n[[limit]]\nchannel = \"coil/*\"\nhigh = 1.0\n";
    let (mut serve, _dir) = Serve::configured(text);
    let mut station = Station::new(serve.listening, "coil", 1);
    station.metadata();
    station.data(10, false);
    serve.await_line("limit nosuch/*: it fits no channel so far");
    serve.await_line("derive x: there is no channel coil/nosuch so far");
    let said = serve.said().concat();
    assert!(!said.contains("limit coil/*") && !said.contains("no channel coil/I "), "{said}");
}

#[test]
fn a_window_that_is_being_filled_is_not_stale() {
    // So long that a test that stands still for a moment makes nothing stale.
    let text = "[[derive]]\nname = \"slow\"\nexpression = \"{coil/I}\"\nstatistic = \"mean\"\nwindow = \"2s\"\n";
    let (mut serve, _dir) = Serve::configured(text);
    let mut station = Station::new(serve.listening, "coil", 1);
    station.metadata();
    let began = Instant::now();
    while station.index < 2500 {
        let due = began.elapsed().as_millis() as u64;
        while station.index + 10 <= due {
            station.data(10, false);
        }
        thread::sleep(Duration::from_millis(10));
    }
    serve.await_ledger(|ledger| ledger["received"]["samples"].as_u64() >= Some(2500));
    let events = serve.get("/events").to_string();
    assert!(!events.contains("\"slow\""), "{events}");
}
