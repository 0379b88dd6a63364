//! The page, in a real browser: `web/test/monitor.mjs` looks at two servers of one feed that is known sample by sample.

use std::f64::consts::TAU;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_monitor::api::{
    Acknowledged, Alarm, Event, NotAcknowledged, Server, Serving, Settings, Severity, Shown, State,
};
use weir_signal::history::{Bounds, ChannelId, History};
use weir_testbed::{Started, program, skip};
use weir_wire::signal::{Block, Cause, Channel, Element, Gap, Limits, Rate, Values};

#[test]
fn the_page_shows_every_peak_and_no_line_across_a_gap() {
    run(false);
}

mod alone {
    /// All of it, frames of 64 plots, and memory.
    #[test]
    #[ignore = "long: 80 s"]
    fn the_page_keeps_up_with_64_signals() {
        super::run(true);
    }
}

/// Runs the script, which ends with 0 if all that it looks at holds.
#[track_caller]
fn run(is_long: bool) {
    let (Some(node), Some(chromium)) = (program("node"), program("chromium")) else { return };
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    if !web.join("node_modules/playwright-core").exists() {
        skip("needs what web/package.json names (make deps)");
        return;
    }
    let rig = Rig::new();
    let mut servers = Servers::start(&rig);
    let feeding = {
        let rig = rig.clone();
        thread::spawn(move || rig.feed())
    };
    let mut command = Command::new(node);
    command.arg("test/monitor.mjs").current_dir(web).env("CHROMIUM", chromium);
    command.env("SERVERS", servers.addresses.map(|address| address.to_string()).join(","));
    command.env("CHANNELS", CHANNELS.to_string());
    command.env("LONG", if is_long { "yes" } else { "" }).stdin(Stdio::piped());
    let mut script = Started::spawn(command);
    let mut input = script.stdin();
    while let Some(line) = script.next_line() {
        match line.strip_prefix("do: ") {
            Some(order) => {
                servers.carry_out(order, &rig);
                // Whoever has ended reads no more.
                let _ = input.write_all(b"done\n");
            }
            None => println!("{line}"),
        }
    }
    let ended = script.wait();
    rig.ended.store(true, Ordering::Relaxed);
    feeding.join().unwrap();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
}

/// Signals of one station, 1 kHz each; and one of another, whose names are hostile.
const CHANNELS: usize = 64;
const PERIOD_NS: i64 = 1_000_000;

/// What is fed.
struct Rig {
    history: History,
    keys: Vec<ChannelId>,
    /// Time of the sample of index 0.
    begin: i64,
    /// Each server's own.
    states: [Mutex<Vec<State>>; 2],
    events: Mutex<Vec<Event>>,
    paused: AtomicBool,
    ended: AtomicBool,
}

/// A sample, as the script knows it: a slow sine, its phase and frequency the channel's, and once a second a peak of one sample.
fn sample(channel: usize, index: u64) -> f32 {
    let seconds = index as f64 / 1000.0;
    if index % 1000 == 500 { 3.0 } else { (TAU * (0.5 + 0.1 * (channel % 8) as f64) * seconds).sin() as f32 }
}

/// Gaps: of 100 samples and of 3, in each four seconds.
fn gap(index: u64) -> Option<(u64, Cause)> {
    match index % 4000 {
        1000..1100 => Some((1100 - index % 4000, Cause::Network)),
        2700..2703 => Some((2703 - index % 4000, Cause::Socket)),
        _ => None,
    }
}

impl Rig {
    fn new() -> Arc<Self> {
        let history = History::new(Bounds::default());
        let mut writing = history.write();
        let limits = Limits { display_low: Some(-1.2), display_high: Some(1.2), high: Some(2.0), ..Limits::default() };
        let rate = Rate::hertz(1000);
        let mut keys: Vec<ChannelId> = (0..CHANNELS)
            .map(|number| {
                let limits = if number % 2 == 0 { limits } else { Limits::default() };
                let unit = match number {
                    62.. => "",
                    _ if number % 3 == 0 => "kA",
                    _ => "V",
                };
                let channel = Channel {
                    name: format!("coil {number:02}"),
                    unit: unit.into(),
                    limits,
                    rate,
                    ..Channel::default()
                };
                writing.channel("magnetics", "display", &channel).unwrap()
            })
            .collect();
        let hostile = Channel {
            name: "<img src=x onerror=alert(1)>\u{1b}[2J\u{202e}gnp".into(),
            unit: "</script>".into(),
            description: "\"><script>alert(2)</script>".into(),
            rate,
            ..Channel::default()
        };
        keys.push(writing.channel("<b>bold", "display", &hostile).unwrap());
        let made = Channel { name: "made".into(), rate, derived: true, ..Channel::default() };
        keys.push(writing.channel("derived", "derived", &made).unwrap());
        drop(writing);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let states = keys.iter().map(|&ChannelId { key, .. }| {
            let (alarm, stale, unacknowledged) = match key {
                2 => (Alarm::VeryHigh, false, Alarm::VeryHigh),
                4 => (Alarm::High, false, Alarm::None),
                5 => (Alarm::None, true, Alarm::None),
                6 => (Alarm::None, false, Alarm::High),
                _ => (Alarm::None, false, Alarm::None),
            };
            State { key, alarm, stale, since_ns: now, unacknowledged, acknowledged: None }
        });
        let states: Vec<State> = states.collect();
        let event = Event {
            id: 1,
            time_ns: now,
            severity: Severity::Major,
            station: "magnetics".into(),
            channel: "coil 02".into(),
            kind: "alarm",
            text: "3.1 is above very high 3".into(),
            remedy: None,
        };
        let gap = Event {
            id: 2,
            // It is told late.
            time_ns: now - 2_000_000_000,
            severity: Severity::Minor,
            channel: String::new(),
            kind: "gap",
            text: "100 samples lost in the network".into(),
            remedy: Some("weir monitor check".into()),
            ..event.clone()
        };
        let rig = Self {
            // A minute and a half is there already.
            begin: (now / PERIOD_NS - 90_000) * PERIOD_NS,
            states: [Mutex::new(states.clone()), Mutex::new(states)],
            events: Mutex::new(vec![event, gap]),
            keys,
            history,
            paused: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        rig.append(0, 90_000);
        Arc::new(rig)
    }

    /// Appends samples as they come: 5 ms at a time.
    fn feed(&self) {
        let (begin, mut at) = (Instant::now(), 90_000);
        while !self.ended.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
            let due = 90_000 + begin.elapsed().as_millis() as u64;
            if !self.paused.load(Ordering::Relaxed) {
                self.append(at, due);
                at = due;
            }
        }
    }

    fn append(&self, from: u64, to: u64) {
        let mut writing = self.history.write();
        for (number, &key) in self.keys.iter().enumerate() {
            // The last but one has stood still for ten seconds.
            let to = if number == 5 { to.min(80_000) } else { to };
            let mut at = from;
            while at < to {
                let time = self.begin + at as i64 * PERIOD_NS;
                let mut bytes = Vec::new();
                let values = match gap(at) {
                    Some((left, cause)) => Values::Gap(Gap { samples: left.min(to - at), cause }),
                    None => {
                        let end =
                            (at..to.min(at + 300)).find(|&index| gap(index).is_some()).unwrap_or(to.min(at + 300));
                        (at..end).for_each(|index| bytes.extend(sample(number, index).to_le_bytes()));
                        Values::Samples(Element::F32, &bytes)
                    }
                };
                let block = Block { channel: 0, first: at, time, rate: Rate::hertz(1000), values };
                writing.append(key, &block);
                at = block.end();
            }
        }
    }
}

/// One of the servers.
struct Feed {
    rig: Arc<Rig>,
    number: usize,
    peers: Vec<String>,
}

impl Shown for Feed {
    fn history(&self) -> &History {
        &self.rig.history
    }

    fn states(&self) -> Vec<State> {
        self.rig.states[self.number].lock().unwrap().clone()
    }

    fn events_since(&self, id: u64) -> Vec<Event> {
        self.rig.events.lock().unwrap().iter().filter(|event| event.id > id).cloned().collect()
    }

    fn ledger(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn peers(&self) -> Vec<String> {
        self.peers.clone()
    }

    fn acknowledge(&self, [_, _, name]: [&str; 3], seen: Option<Alarm>, by: &str) -> Result<Alarm, NotAcknowledged> {
        let catalog = self.rig.history.catalog();
        let key = catalog.iter().find(|listed| listed.channel.name == name).ok_or(NotAcknowledged::Unknown)?.key;
        let mut states = self.rig.states[self.number].lock().unwrap();
        let state = states.iter_mut().find(|state| state.key == key).ok_or(NotAcknowledged::Unknown)?;
        let before = std::mem::take(&mut state.unacknowledged);
        if before == Alarm::None {
            return Err(NotAcknowledged::Nothing);
        }
        assert_eq!(seen, Some(before));
        let word = Acknowledged { by: by.to_owned(), time_ns: 0 };
        state.acknowledged = (state.alarm != Alarm::None).then(|| Arc::new(word));
        Ok(before)
    }
}

struct Servers {
    addresses: [SocketAddr; 2],
    serving: [Option<Serving>; 2],
}

impl Servers {
    fn start(rig: &Arc<Rig>) -> Self {
        let bound = [(); 2].map(|()| Server::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        let addresses = [bound[0].local_addr(), bound[1].local_addr()];
        let mut servers = Self { addresses, serving: [None, None] };
        for (number, server) in bound.into_iter().enumerate() {
            servers.serve(number, server, rig);
        }
        servers
    }

    fn serve(&mut self, number: usize, server: Server, rig: &Arc<Rig>) {
        let peers = vec![format!("http://{}", self.addresses[1 - number])];
        let serving = server.serve(Arc::new(Feed { rig: rig.clone(), number, peers }), Settings::default()).unwrap();
        self.serving[number] = Some(serving);
    }

    /// `stop 0`, `start 0`, `pause`, `go on`.
    fn carry_out(&mut self, order: &str, rig: &Arc<Rig>) {
        match order.split_once(' ') {
            Some(("stop", number)) => self.serving[number.parse::<usize>().unwrap()] = None,
            Some(("start", number)) => {
                let number = number.parse().unwrap();
                let server = Server::bind(self.addresses[number]).unwrap();
                self.serve(number, server, rig);
            }
            _ => rig.paused.store(order == "pause", Ordering::Relaxed),
        }
    }
}
