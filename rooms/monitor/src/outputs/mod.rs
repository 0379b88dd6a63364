//! Signals to tools that there are: PlotJuggler, InfluxDB or Telegraf, Prometheus. What they draw is for a look; the archive has all.
//!
//! ```text
//! History -> points: at most so many a second of a channel, each with least and greatest -> lines -> datagrams, on a thread of its own
//!         -> the latest values, when Prometheus asks
//! ```
//!
//! None of these formats has a gap. What is missing is told beside, as a point of its own: how many samples, and the cause.

mod influx;
pub mod latest;
mod plotjuggler;
mod points;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_dgram::{Options, Outgoing, Socket};
use weir_program::ledger;
use weir_program::ledger::Shared;
use weir_program::stop::Stop;
use weir_service::pulse::Pulse;
use weir_wire::signal::Block;

use crate::serve::settings::matches;
use points::Point;
use weir_signal::history::{Cursor, History, Listed, Readers};
use weir_signal::thin::BlockThinner;

/// An output, validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Where it goes.
    pub to: SocketAddr,
    /// As what.
    pub format: Format,
    /// Channels by name or by `station/stream/name`, `*` for any characters; empty: all.
    pub channels: Vec<String>,
    /// Most points of a channel a second.
    pub most: f64,
}

/// How points are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// PlotJuggler's UDP server, message protocol JSON: objects with a top-level `timestamp` in seconds.
    PlotJuggler,
    /// The line protocol of InfluxDB, which Telegraf reads, too; times in ns.
    Influx,
}

ledger! {
    /// What became of points.
    pub struct OutputCount by to {
        /// Where they went.
        to: String,
        /// Points made for an output.
        points: Shared => Counter "weir_monitor_output" ["points"] {to},
        /// Datagrams of an output given to the network.
        datagrams: Shared => Counter "weir_monitor_output" ["datagrams"] {to},
        /// Datagrams of an output that the network did not take, or that the receiver's machine refused.
        refused: Shared => Counter "weir_monitor_output_refused" ["datagrams"] {to},
    }
}

/// Outputs that run.
#[derive(Debug)]
pub struct Outputs {
    started: Vec<Started>,
    told: Told,
}

/// An output with its thread.
#[derive(Debug)]
struct Started {
    output: Output,
    stop: Stop,
    /// `None`: it has ended.
    thread: Option<JoinHandle<()>>,
    counts: Arc<OutputCount>,
}

/// What becomes of the points of outputs, for whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Told(Arc<Mutex<Entries>>);

type Entries = Vec<Arc<OutputCount>>;

impl Outputs {
    /// Starts a thread an output; each begins with what comes from now on.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        outputs: &[Output],
        history: &Arc<History>,
        mut pulse: impl FnMut(String) -> Pulse,
    ) -> io::Result<Self> {
        let mut all = Self { started: Vec::new(), told: Told::default() };
        all.change(outputs, history, &mut pulse)?;
        Ok(all)
    }

    /// These from now on: what is the same goes on, others send what they have and end, new ones begin with what comes.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn change(
        &mut self,
        outputs: &[Output],
        history: &Arc<History>,
        mut pulse: impl FnMut(String) -> Pulse,
    ) -> io::Result<()> {
        self.started.retain(|started| outputs.contains(&started.output));
        for output in outputs {
            if !self.started.iter().any(|started| started.output == *output) {
                let pulse = pulse(format!("output {}", output.to));
                self.started.push(Started::start(output, history, pulse)?);
            }
        }
        let told = self.started.iter().map(|started| started.counts.clone());
        *self.told.all() = told.collect();
        Ok(())
    }

    /// To be asked by others.
    pub fn told(&self) -> Told {
        self.told.clone()
    }

    /// Sends what is there and ends.
    pub fn end(self) {
        self.started.iter().for_each(|started| started.stop.set());
    }
}

impl Started {
    fn start(output: &Output, history: &Arc<History>, pulse: Pulse) -> io::Result<Self> {
        let count = OutputCount { to: output.to.to_string(), ..OutputCount::default() };
        let (stop, counts) = (Stop::new()?, Arc::new(count));
        let stopped = stop.clone();
        // What is there already is passed over here and now.
        let running = Running::new(output.clone(), history.clone(), counts.clone());
        let thread = thread::Builder::new().name("output".into()).spawn(move || running.run(&stopped, &pulse))?;
        Ok(Self { output: output.clone(), stop, thread: Some(thread), counts })
    }
}

impl Told {
    /// What became of points so far, by output.
    pub fn counts(&self) -> Vec<OutputCount> {
        self.all().iter().map(|count| OutputCount::clone(count)).collect()
    }

    fn all(&self) -> MutexGuard<'_, Entries> {
        // It is replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It sends what it has.
impl Drop for Started {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

/// An output at work.
struct Running {
    output: Output,
    history: Arc<History>,
    counts: Arc<OutputCount>,
    socket: Option<Socket>,
    /// When it is tried again to have a socket.
    retry: Instant,
    /// `None`: it is not wanted.
    readers: Readers<Option<(Cursor, BlockThinner)>>,
    points: Vec<(Arc<Listed>, Point)>,
    text: String,
    datagram: String,
}

impl Running {
    fn new(output: Output, history: Arc<History>, counts: Arc<OutputCount>) -> Self {
        let mut running = Self {
            output,
            history,
            counts,
            socket: None,
            retry: Instant::now(),
            readers: Readers::default(),
            points: Vec::new(),
            text: String::new(),
            datagram: String::new(),
        };
        running.read(i64::MAX, false);
        running
    }

    fn run(mut self, stop: &Stop, pulse: &Pulse) {
        loop {
            pulse.wait();
            let ended = stop.wait(Instant::now() + LOOKS_APART);
            pulse.work();
            self.look(ended);
            if ended {
                return;
            }
        }
    }

    /// Sends what is new; `ended`: also what waits for more to come.
    fn look(&mut self, ended: bool) {
        self.read(i64::MIN, ended);
        self.counts.points.add(self.points.len() as u64);
        for (listed, point) in std::mem::take(&mut self.points) {
            self.write(&listed, &point);
        }
        self.send();
    }

    /// Makes points of what is new: of channels that are new from a time on.
    fn read(&mut self, from: i64, ended: bool) {
        let Self { readers, history, output, points, .. } = self;
        let mut add = |listed: &Arc<Listed>, block: &Block<'_>| {
            let made = Point::of(block, (listed.channel.scale, listed.channel.offset));
            points.extend(made.map(|point| (listed.clone(), point)));
        };
        let readers = readers.follow(history, |listed, before| {
            // What is left of a channel as it was.
            if let Some((before, Some((_, mut thinner)))) = before {
                thinner.flush(|block| add(&before, &block));
            }
            let is_wanted = output.wants(listed);
            is_wanted.then(|| (history.cursor(listed.id(), from), BlockThinner::new(1)))
        });
        for (listed, reader) in readers {
            let Some((cursor, thinner)) = reader else { continue };
            while history.read(cursor, |block| {
                let each = (block.rate.per_s() / output.most).ceil().clamp(1.0, f64::from(u32::MAX)) as u32;
                thinner.set_bucket(each, |block| add(listed, &block));
                thinner.push(&block, |block| add(listed, &block));
            }) {}
            if ended {
                thinner.flush(|block| add(listed, &block));
            }
        }
    }

    /// Adds a point to the datagram, behind which another begins where it is full.
    fn write(&mut self, listed: &Listed, point: &Point) {
        self.text.clear();
        let between = match self.output.format {
            Format::PlotJuggler => {
                plotjuggler::write(listed, point, &mut self.text);
                ","
            }
            Format::Influx => {
                influx::write(listed, point, &mut self.text);
                "\n"
            }
        };
        if self.datagram.len() + self.text.len() + FRAME > MOST_BYTES {
            self.send();
        }
        if !self.datagram.is_empty() {
            self.datagram.push_str(between);
        }
        self.datagram.push_str(&self.text);
    }

    fn send(&mut self) {
        if self.datagram.is_empty() {
            return;
        }
        if self.output.format == Format::PlotJuggler {
            self.datagram.insert(0, '[');
            self.datagram.push(']');
        }
        let sent = self.open() && self.give();
        let count = if sent { &self.counts.datagrams } else { &self.counts.refused };
        count.add(1);
        self.datagram.clear();
    }

    /// Whether there is a socket: a network may come later than we do.
    fn open(&mut self) -> bool {
        if self.socket.is_none() && Instant::now() >= self.retry {
            self.retry = Instant::now() + RETRIES_APART;
            self.socket = Socket::connect(None, self.output.to, &Options::default()).ok();
        }
        self.socket.is_some()
    }

    fn give(&self) -> bool {
        let pieces = [IoSlice::new(self.datagram.as_bytes())];
        let message = Outgoing { pieces: &pieces, segment: None, to: None };
        self.socket.as_ref().is_some_and(|socket| {
            let progress = socket.send(&[message]);
            // The kernel tells of a datagram before that nobody took.
            self.counts.refused.add(progress.icmp.into());
            progress.error.is_none()
        })
    }
}

impl Output {
    fn wants(&self, listed: &Listed) -> bool {
        let Listed { station, stream, channel, .. } = listed;
        let long = format!("{station}/{stream}/{}", channel.name);
        self.channels.is_empty()
            || self.channels.iter().any(|pattern| matches(pattern, &channel.name) || matches(pattern, &long))
    }
}

/// One Ethernet frame, over IPv6, too.
const MOST_BYTES: usize = 1452;

/// Brackets, and what stands between two points.
const FRAME: usize = 3;

/// From one look to the next: later than that nothing is.
const LOOKS_APART: Duration = Duration::from_millis(20);

const RETRIES_APART: Duration = Duration::from_secs(1);
