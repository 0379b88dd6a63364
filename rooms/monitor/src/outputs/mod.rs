//! Signals to tools that there are: PlotJuggler, InfluxDB or Telegraf, Prometheus. What they draw is for a look; the archive has all.
//!
//! ```text
//! History -> points: at most so many a second of a channel, each with least and greatest -> lines -> datagrams, on a thread of their own
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

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_dgram::{Options, Outgoing, Socket};
use weir_program::ledger;
use weir_program::pulse::Pulse;
use weir_program::stop::Stop;
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
        points: u64 => Counter "weir_monitor_output" ["points"] {to},
        /// Datagrams of an output given to the network.
        datagrams: u64 => Counter "weir_monitor_output" ["datagrams"] {to},
        /// Datagrams of an output that the network did not take, or that the receiver's machine refused.
        refused: u64 => Counter "weir_monitor_output_refused" ["datagrams"] {to},
    }
}

/// Outputs that run.
#[derive(Debug, Default)]
pub struct Outputs(Mutex<Vec<Running>>);

impl Outputs {
    /// These from now on: what is the same goes on, others send what they have and end, new ones begin with what comes.
    pub fn change(&self, outputs: &[Output], history: &History) {
        let mut all = self.all();
        all.retain_mut(|running| {
            let stays = outputs.contains(&running.output);
            if !stays {
                running.look(history, true);
            }
            stays
        });
        for output in outputs {
            if !all.iter().any(|running| running.output == *output) {
                all.push(Running::new(output.clone(), history));
            }
        }
    }

    /// Sends what is new; `ended`: also what waits for more to come.
    pub fn look(&self, history: &History, ended: bool) {
        self.all().iter_mut().for_each(|running| running.look(history, ended));
    }

    /// Sends what is new until the stop is set.
    pub fn run(&self, history: &History, stop: &Stop, pulse: &Pulse) {
        while !stop.is_set() {
            pulse.wait();
            stop.wait(Instant::now() + LOOKS_APART);
            pulse.work();
            self.look(history, false);
        }
    }

    /// What became of points so far, by output.
    pub fn counts(&self) -> Vec<OutputCount> {
        self.all().iter().map(|running| running.count.clone()).collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Running>> {
        // What a look that panicked had made is lost, and nothing else.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An output at work.
#[derive(Debug)]
struct Running {
    output: Output,
    count: OutputCount,
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
    fn new(output: Output, history: &History) -> Self {
        let mut running = Self {
            count: OutputCount { to: output.to.to_string(), ..OutputCount::default() },
            output,
            socket: None,
            retry: Instant::now(),
            readers: Readers::default(),
            points: Vec::new(),
            text: String::new(),
            datagram: String::new(),
        };
        running.read(history, i64::MAX, false);
        running
    }

    fn look(&mut self, history: &History, ended: bool) {
        self.read(history, i64::MIN, ended);
        self.count.points += self.points.len() as u64;
        for (listed, point) in std::mem::take(&mut self.points) {
            self.write(&listed, &point);
        }
        self.send();
    }

    /// Makes points of what is new: of channels that are new from a time on.
    fn read(&mut self, history: &History, from: i64, ended: bool) {
        let Self { readers, output, points, .. } = self;
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
        let count = if sent { &mut self.count.datagrams } else { &mut self.count.refused };
        *count += 1;
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

    fn give(&mut self) -> bool {
        let pieces = [IoSlice::new(self.datagram.as_bytes())];
        let message = Outgoing { pieces: &pieces, segment: None, to: None };
        self.socket.as_ref().is_some_and(|socket| {
            let progress = socket.send(&[message]);
            // The kernel tells of a datagram before that nobody took.
            self.count.refused += u64::from(progress.icmp);
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
