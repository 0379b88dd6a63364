//! Signals sent on to viewers: out of the history, thinned to what a screen needs, with every gap and its cause.
//!
//! Two servers of one feed send the same channels, with origins; viewers follow the one of the least priority that lives
//! ([`Follow`](weir_signal::receive::Follow)). Indices here count periods since 1970, so that servers agree on them however late each has
//! begun.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use weir_program::clock::{Nanos, nanos};
use weir_program::pulse::Pulse;
use weir_program::stop::Stop;
use weir_wire::signal::{Block, Cause, Channel, Rate};

use super::ledger::SentCount;
use super::open::Open;
use super::settings::Publish;
use weir_signal::history::{Cursor, Listed};
use weir_signal::seal::Sealer;
use weir_signal::send::{Counts, Group, Lane, Outlets, Sender, Stream};

/// What was sent on.
#[derive(Debug, Default)]
pub(super) struct Sent(Mutex<SentCount>);

impl Sent {
    pub(super) fn count(&self) -> SentCount {
        // It is replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends signals on.
pub(super) struct Publisher {
    settings: Publish,
    sender: Sender<Outlets>,
    lines: HashMap<u32, Line>,
    sent: Arc<Sent>,
}

/// A channel that is sent on.
struct Line {
    listed: Arc<Listed>,
    cursor: Cursor,
    /// What is added to indices; `None`: nothing has been sent.
    offset: Option<i64>,
    /// When something of it came last; `None`: nothing of it waits for more.
    heard: Option<Nanos>,
}

impl Publisher {
    /// Opens its sockets. `sealer`: what protects what it sends.
    pub(super) fn open(settings: &Publish, sealer: Sealer) -> Result<Self> {
        let group = |&address: &std::net::SocketAddr| Group {
            address,
            interface: settings.interface.clone().filter(|_| address.ip().is_multicast()),
        };
        let groups: Vec<Group> = settings.to.iter().map(group).collect();
        let stream = Stream {
            station: settings.name.clone(),
            name: settings.feed.clone(),
            sealer,
            most_bytes: Outlets::most_bytes(settings.to.iter().copied()),
            fault: Cause::Server,
        };
        let sender = Sender::new(stream, Outlets::open(&groups, settings.ttl, 0)?);
        Ok(Self { settings: settings.clone(), sender, lines: HashMap::new(), sent: Arc::default() })
    }

    pub(super) fn sent(&self) -> Arc<Sent> {
        self.sent.clone()
    }

    /// Sends until the stop is set, and then what there is, and that it ends.
    pub(super) fn run(&mut self, open: &Open, stop: &Stop, pulse: &Pulse) {
        let began = Instant::now();
        loop {
            let stopped = stop.is_set();
            pulse.wait();
            stop.wait(Instant::now() + self.settings.delay);
            pulse.work();
            let now = nanos(began.elapsed());
            for listed in open.history.catalog().iter() {
                self.follow(listed, open, now);
            }
            self.sender.outlet.clear_errors();
            self.sender.step(now, 0);
            if stopped {
                return self.sender.end(now, thread::sleep);
            }
            self.count();
        }
    }

    /// Sends what is new of a channel.
    fn follow(&mut self, listed: &Arc<Listed>, open: &Open, now: Nanos) {
        let Ok(id) = u16::try_from(listed.key) else { return };
        let channel = channel(&self.settings, listed, id);
        let line = self.lines.entry(listed.key).or_insert_with(|| {
            let cursor = open.history.cursor(listed.id(), i64::MIN);
            Line { listed: listed.clone(), cursor, offset: None, heard: None }
        });
        if !Arc::ptr_eq(&line.listed, listed) {
            match line.listed.id() == listed.id() {
                true => self.sender.describe(channel.clone()),
                false => self.sender.redefine(channel.clone(), now),
            }
            (line.listed, line.cursor.id) = (listed.clone(), listed.id());
        }
        let Self { settings, sender, .. } = self;
        while open.history.read(&mut line.cursor, |block| {
            line.heard = Some(now);
            let offset = *line.offset.get_or_insert_with(|| {
                let offset = periods(block.time, block.rate).wrapping_sub_unsigned(block.first);
                let first = block.first.wrapping_add_signed(offset);
                sender.add(Lane::new(channel.clone(), first, block.time, settings.bucket(block.rate)));
                offset
            });
            // From here on by the indices that are sent: buckets begin at multiples of those, at every server of a feed.
            let block = Block { channel: id, first: block.first.wrapping_add_signed(offset), ..block };
            if let Some(lane) = sender.lanes.get_mut(&id).filter(|lane| lane.rate != block.rate) {
                lane.set_bucket(settings.bucket(block.rate));
            }
            sender.push_block(&block, now);
        }) {}
        if line.heard.take_if(|heard| now >= *heard + OPEN).is_some() {
            // Its station has ended, or is silent: nobody waits for the rest of a bucket.
            sender.flush(id, now);
        }
    }

    fn count(&self) {
        let Counts { data, heartbeats, metadata, ends, bytes, .. } = self.sender.counts;
        let refused = |outlet: &weir_signal::send::OutletCount| outlet.dropped.values().sum::<u64>();
        let not_taken = self.sender.outlet.counts().iter().map(refused).sum();
        let count = SentCount { datagrams: data + heartbeats + metadata + ends, bytes, not_taken };
        *self.sent.0.lock().unwrap_or_else(PoisonError::into_inner) = count;
    }
}

/// A channel as it is sent on.
fn channel(settings: &Publish, listed: &Listed, id: u16) -> Channel {
    let Listed { station, stream, channel, .. } = listed;
    let bucket = if channel.bucket == 0 { 0 } else { channel.bucket.max(settings.bucket(channel.rate)) };
    let (origin, origin_stream) = (station.clone(), stream.clone());
    let (priority, limits) = (settings.priority, listed.limits);
    Channel { id, origin, origin_stream, priority, bucket, limits, ..channel.clone() }
}

/// Periods from 1970 to a time, to the nearest.
fn periods(time: i64, rate: Rate) -> i64 {
    let half = rate.nanos(1) / 2;
    i64::try_from(rate.samples(i128::from(time) + half)).unwrap_or(0)
}

/// How long a bucket waits for its next samples.
const OPEN: Nanos = 50_000_000;
