//! Signals sent on to viewers: out of the history, thinned to what a screen needs, with every gap and its cause.
//!
//! Two servers of one feed send the same channels, with origins; viewers follow the one of the least priority that lives
//! ([`Follow`](crate::receive::Follow)). Indices here count periods since 1970, so that servers agree on them however late each has
//! begun.

use std::collections::HashMap;
use std::io::IoSlice;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_dgram::{Address, Inbox, Options, Outgoing, Socket};
use weir_program::stop::Stop;
use weir_service::pulse::Pulse;
use weir_wire::signal::{
    Block, Body, Channel, Clock, ClockSource, Datagram, Element, Flags, Form, Header, Kind, MOST_BYTES_V4,
    MOST_BYTES_V6, Metadata, OwnedBlock, Packer, Position, Rate, Request, Values, encode,
};

use super::ledger::SentCount;
use super::open::Open;
use super::settings::Publish;
use super::tell::{Due, Telling};
use crate::history::Listed;
use crate::seal::{Hearing, Sealer};
use crate::thin::{Thinned, Thinner};

/// What was sent on.
#[derive(Debug, Default)]
pub(super) struct Sent {
    datagrams: AtomicU64,
    bytes: AtomicU64,
    not_taken: AtomicU64,
}

impl Sent {
    pub(super) fn count(&self) -> SentCount {
        let [datagrams, bytes, not_taken] =
            [&self.datagrams, &self.bytes, &self.not_taken].map(|counter| counter.load(Ordering::Relaxed));
        SentCount { datagrams, bytes, not_taken }
    }
}

/// Sends signals on.
pub(super) struct Publisher {
    settings: Publish,
    outlets: Vec<Outlet>,
    lines: HashMap<u32, Line>,
    packer: Packer,
    sealer: Sealer,
    hearing: Hearing,
    most: usize,
    session: u64,
    sequence: u64,
    began: Instant,
    /// When something was sent.
    beat: Duration,
    telling: Telling,
    inbox: Inbox,
    scratch: Vec<u8>,
    sent: Arc<Sent>,
}

struct Outlet {
    socket: Socket,
    to: Address,
}

/// A channel that is sent on.
struct Line {
    listed: Arc<Listed>,
    /// Whether its name was told: nothing of it is sent before.
    is_named: bool,
    /// Where it stands in the history.
    at: u64,
    /// What is added to indices; `None`: nothing has been sent.
    offset: Option<i64>,
    thinner: Thinner,
    element: Element,
    rate: Rate,
    /// When something of it came last, since the start.
    heard: Duration,
    /// The newest block, by which indices have times: its first index as it is sent, and when that was.
    anchor: (u64, i64),
}

impl Publisher {
    /// Opens its sockets. `sealer`: what protects what it sends.
    pub(super) fn open(settings: &Publish, sealer: Sealer, hearing: Hearing, session: u64) -> Result<Self> {
        let outlets = settings.to.iter().map(|&to| Outlet::open(to, settings)).collect::<Result<Vec<_>>>()?;
        let v6 = settings.to.iter().any(SocketAddr::is_ipv6);
        let most = if v6 { MOST_BYTES_V6 } else { MOST_BYTES_V4 } - sealer.overhead();
        Ok(Self {
            settings: settings.clone(),
            outlets,
            lines: HashMap::new(),
            packer: Packer::new(most),
            sealer,
            hearing,
            most,
            session,
            sequence: 0,
            began: Instant::now(),
            beat: Duration::ZERO,
            telling: Telling::new(),
            inbox: Inbox::new(8, 2048),
            scratch: Vec::new(),
            sent: Arc::default(),
        })
    }

    pub(super) fn sent(&self) -> Arc<Sent> {
        self.sent.clone()
    }

    /// Sends until the stop is set, and then what there is, and that it ends.
    pub(super) fn run(&mut self, open: &Open, stop: &Stop, pulse: &Pulse) {
        // Who hears the beginning knows where every channel stands.
        self.beat();
        loop {
            let stopped = stop.is_set();
            pulse.wait();
            self.wait(stop);
            pulse.work();
            self.step(open);
            if stopped {
                break;
            }
        }
        self.flush_open();
        self.positions(Kind::End);
        // Whoever does not hear it knows of no gap at the end.
        for pause in ENDS_APART {
            std::thread::sleep(pause);
            self.positions(Kind::End);
        }
    }

    /// Until it is time, or somebody asks, or the stop is set.
    fn wait(&mut self, stop: &Stop) {
        let fds = self.outlets.iter().map(|outlet| outlet.socket.as_fd()).chain([stop.as_fd()]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let until = PollTimeout::try_from(self.settings.delay).unwrap_or(PollTimeout::from(10_u8));
        let woken = poll(&mut fds, until).unwrap_or(0);
        if woken == 0 {
            return;
        }
        for outlet in &self.outlets {
            if self.inbox.receive(&outlet.socket).is_err() {
                continue;
            }
            for bytes in self.inbox.payloads() {
                let mut scratch = Vec::new();
                let Some(opened) = self.hearing.open(bytes, self.session, &mut scratch) else { continue };
                let Ok(Datagram { header, body: Body::Request(fields) }) = Datagram::parse(opened) else { continue };
                let request = Request::parse(fields).unwrap_or_default();
                if header.session == self.session && request.metadata {
                    self.telling.ask();
                }
            }
        }
    }

    fn step(&mut self, open: &Open) {
        let catalog = open.history.catalog();
        for listed in catalog.iter() {
            self.follow(listed, open);
        }
        // What it is goes out before what it measures.
        let is_whole = self.tell();
        for listed in catalog.iter() {
            self.send_on(listed.key, open);
        }
        self.flush();
        // Whoever comes now knows where slow channels stand, too.
        if is_whole || self.began.elapsed() >= self.beat + BEATS_APART {
            self.beat();
        }
    }

    /// A channel is new, or what is known of it is.
    fn follow(&mut self, listed: &Arc<Listed>, open: &Open) {
        match self.lines.get_mut(&listed.key) {
            Some(line) if Arc::ptr_eq(&line.listed, listed) => return,
            Some(line) => {
                // What it was measured as goes out before what it is measured as now.
                if line.listed.id() != listed.id() {
                    self.close(listed.key);
                }
                let Some(line) = self.lines.get_mut(&listed.key) else { return };
                line.is_named &= line.listed.id() == listed.id();
                line.listed = listed.clone();
            }
            None if u16::try_from(listed.key).is_ok() => {
                let at = open.history.extent(listed.key).unwrap_or_default().begin;
                let line = Line {
                    listed: listed.clone(),
                    is_named: false,
                    at,
                    offset: None,
                    thinner: Thinner::new(1),
                    element: listed.channel.element,
                    rate: listed.channel.rate,
                    heard: Duration::ZERO,
                    anchor: (at, 0),
                };
                self.lines.insert(listed.key, line);
            }
            None => return,
        }
        self.telling.change(listed.key);
    }

    /// Sends what is open of a channel.
    fn close(&mut self, key: u32) {
        let Some(mut line) = self.lines.remove(&key) else { return };
        let mut thinned = Vec::new();
        line.thinner.flush(|bucket| thinned.push(bucket));
        self.put_buckets(&line, &thinned);
        self.lines.insert(key, line);
        self.flush();
    }

    fn send_on(&mut self, key: u32, open: &Open) {
        if self.lines.get(&key).is_none_or(|line| !line.is_named) {
            return;
        }
        let Some(mut line) = self.lines.remove(&key) else { return };
        // The receiving thread waits meanwhile.
        let mut blocks = Vec::new();
        line.at =
            open.history.read(line.listed.id(), line.at, MOST_BYTES, |block| blocks.push(OwnedBlock::new(&block)));
        let now = self.began.elapsed();
        if !blocks.is_empty() {
            line.heard = now;
        } else if now >= line.heard + OPEN && line.thinner.open().is_some() {
            // Its station has ended, or is silent: nobody waits for the rest of a bucket.
            let mut thinned = Vec::new();
            line.thinner.flush(|bucket| thinned.push(bucket));
            self.put_buckets(&line, &thinned);
        }
        for kept in blocks {
            let block = Block { channel: key as u16, ..kept.block() };
            line.offset.get_or_insert_with(|| periods(block.time, block.rate).wrapping_sub_unsigned(block.first));
            // From here on by the indices that are sent: buckets begin at multiples of those, at every server of a feed.
            let block = Block { first: line.published(block.first), ..block };
            self.send_block(&mut line, &block);
        }
        self.lines.insert(key, line);
    }

    fn send_block(&mut self, line: &mut Line, block: &Block<'_>) {
        let mut thinned = Vec::new();
        let known = match block.values {
            Values::Gap(gap) => {
                line.thinner.flush(|bucket| thinned.push(bucket));
                self.put_buckets(line, &thinned);
                line.rate = block.rate;
                line.anchor = (block.first, block.time);
                let position = (block.channel, block.first, block.time);
                if self.packer.room(Element::F32, Form::Gap) == 0 {
                    self.flush();
                }
                self.packer.gap(position, block.rate, gap);
                return;
            }
            Values::Samples(element, _) => (element, 1),
            Values::Buckets(element, bucket, _) => (element, bucket),
        };
        let wanted = self.settings.bucket(block.rate);
        // What is thinner already stays as it is.
        let bucket = if known.1 >= wanted { 1 } else { wanted };
        let changed = line.element != known.0 || line.rate != block.rate || line.thinner.bucket() != bucket;
        if changed {
            line.thinner.flush(|bucket| thinned.push(bucket));
            self.put_buckets(line, &thinned);
            thinned.clear();
            line.thinner = Thinner::new(bucket);
            (line.element, line.rate) = (known.0, block.rate);
        }
        line.anchor = (block.first, block.time);
        if bucket == 1 {
            self.put_values(line, block);
        } else {
            line.thinner.push_block(block, |bucket| thinned.push(bucket));
            self.put_buckets(line, &thinned);
        }
    }

    /// Samples or buckets as they are.
    fn put_values(&mut self, line: &Line, block: &Block<'_>) {
        let (element, bucket, mut bytes) = match block.values {
            Values::Samples(element, bytes) => (element, 1, bytes),
            Values::Buckets(element, bucket, bytes) => (element, bucket, bytes),
            Values::Gap(_) => return,
        };
        let form = block.values.form();
        let each = form.size(element);
        let mut first = block.first;
        while !bytes.is_empty() {
            let count = self.room(element, form).min(bytes.len() / each);
            let (now, later) = bytes.split_at(count * each);
            let position = (block.channel, first, line.time(first));
            self.packer.block(position, block.rate, (element, form), count as u16).extend_from_slice(now);
            first += count as u64 * u64::from(bucket);
            bytes = later;
        }
    }

    /// Buckets of one size are a block.
    fn put_buckets(&mut self, line: &Line, thinned: &[Thinned]) {
        let channel = line.listed.key as u16;
        for mut run in thinned.chunk_by(|one, next| one.samples == next.samples && one.end() == next.first) {
            while let Some(head) = run.first() {
                let form = Form::Buckets(head.samples);
                let count = self.room(line.element, form).min(run.len());
                let (now, later) = run.split_at(count);
                let position = (channel, head.first, line.time(head.first));
                let bytes = self.packer.block(position, line.rate, (line.element, form), count as u16);
                for Thinned { bucket, .. } in now {
                    [bucket.least, bucket.greatest, bucket.first, bucket.last]
                        .into_iter()
                        .for_each(|value| line.element.write(value, bytes));
                }
                run = later;
            }
        }
    }

    /// How many fit into the datagram, at least one: else another is begun.
    fn room(&mut self, element: Element, form: Form) -> usize {
        if self.packer.room(element, form) == 0 {
            self.flush();
        }
        self.packer.room(element, form).max(1)
    }

    /// Buckets that are not full go out as they are: nothing comes behind them.
    fn flush_open(&mut self) {
        for (key, mut line) in std::mem::take(&mut self.lines) {
            let mut thinned = Vec::new();
            line.thinner.flush(|bucket| thinned.push(bucket));
            self.put_buckets(&line, &thinned);
            self.lines.insert(key, line);
        }
        self.flush();
    }

    fn flush(&mut self) {
        if self.packer.is_empty() {
            return;
        }
        let header = self.header(Kind::Data);
        self.sequence += 1;
        self.scratch.clear();
        self.scratch.extend_from_slice(self.packer.finish(header));
        self.packer.clear();
        self.send();
    }

    fn beat(&mut self) {
        self.positions(Kind::Heartbeat);
    }

    fn positions(&mut self, kind: Kind) {
        // Of a bucket that is open nothing has been sent.
        let position = |line: &Line| Position {
            channel: line.listed.key as u16,
            next: line.thinner.open().map_or_else(|| line.published(line.at), |open| open.first),
        };
        let positions: Vec<Position> = self.lines.values().filter(|line| line.offset.is_some()).map(position).collect();
        let mut datagrams = Vec::new();
        let mut bytes = Vec::new();
        encode::positions(self.header(kind), &positions, self.most, &mut bytes, |bytes| datagrams.push(bytes.to_vec()));
        self.send_all(datagrams);
    }

    /// Metadata that is due; whether everybody has been told of all channels with it.
    fn tell(&mut self) -> bool {
        let Some(Due { keys, is_whole }) = self.telling.due(self.began.elapsed()) else { return false };
        for key in &keys {
            if let Some(line) = self.lines.get_mut(key) {
                line.is_named = true;
            }
        }
        let lines = keys.iter().filter_map(|key| self.lines.get(key));
        let channel = |line: &Line| {
            let Listed { key, station, stream, channel, .. } = &*line.listed;
            let bucket = if channel.bucket == 0 { 0 } else { channel.bucket.max(self.settings.bucket(channel.rate)) };
            let (id, origin, priority) = (*key as u16, station.clone(), self.settings.priority);
            Channel { id, origin, origin_stream: stream.clone(), priority, bucket, ..channel.clone() }
        };
        let metadata = Metadata {
            station: self.settings.name.clone(),
            stream: self.settings.feed.clone(),
            software: concat!("weir ", env!("CARGO_PKG_VERSION")).into(),
            channels: lines.map(channel).collect(),
        };
        let mut datagrams = Vec::new();
        let mut bytes = Vec::new();
        let header = self.header(Kind::Metadata);
        encode::metadata(header, &metadata, self.most, &mut bytes, |bytes| datagrams.push(bytes.to_vec()));
        self.send_all(datagrams);
        is_whole
    }

    fn send_all(&mut self, datagrams: Vec<Vec<u8>>) {
        for datagram in datagrams {
            self.scratch = datagram;
            self.send();
        }
    }

    /// What is in `scratch`, to every group.
    fn send(&mut self) {
        // It is a datagram of ours.
        if self.sealer.seal(&mut self.scratch).is_err() {
            return;
        }
        for outlet in &self.outlets {
            let pieces = [IoSlice::new(&self.scratch)];
            let message = Outgoing { pieces: &pieces, segment: None, to: Some(&outlet.to) };
            let mut tries = 0;
            while outlet.socket.send(&[message]).messages == 0 {
                tries += 1;
                if tries > TRIES {
                    self.sent.not_taken.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                let mut fds = [PollFd::new(outlet.socket.as_fd(), PollFlags::POLLOUT)];
                let _ = poll(&mut fds, PollTimeout::from(1_u8));
            }
        }
        self.sent.datagrams.fetch_add(1, Ordering::Relaxed);
        self.sent.bytes.fetch_add(self.scratch.len() as u64, Ordering::Relaxed);
        self.beat = self.began.elapsed();
    }

    fn header(&self, kind: Kind) -> Header {
        // Times are the stations'; what their clocks are worth is not this server's to say.
        let clock = Clock { source: ClockSource::Unknown, error: None };
        Header { kind, flags: Flags::default(), clock, count: 0, session: self.session, sequence: self.sequence }
    }
}

impl Line {
    /// The index under which one of the history is sent.
    fn published(&self, index: u64) -> u64 {
        index.wrapping_add_signed(self.offset.unwrap_or(0))
    }

    fn time(&self, index: u64) -> i64 {
        let (first, time) = self.anchor;
        let apart = self.rate.nanos(index.abs_diff(first));
        let at = i128::from(time) + if index < first { -apart } else { apart };
        i64::try_from(at).unwrap_or(time)
    }
}

impl Outlet {
    fn open(to: SocketAddr, settings: &Publish) -> Result<Self> {
        let options = Options {
            multicast_ttl: Some(settings.ttl),
            multicast_interface: settings.interface.clone(),
            send_buffer: Some(SEND_BUFFER),
            ..Options::default()
        };
        let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = Socket::bind(SocketAddr::new(any, 0), &options)?;
        Ok(Self { socket, to: to.into() })
    }
}

/// Periods from 1970 to a time, to the nearest.
fn periods(time: i64, rate: Rate) -> i64 {
    let half = rate.nanos(1) / 2;
    i64::try_from(rate.samples(i128::from(time) + half)).unwrap_or(0)
}

/// Bytes of a channel that are sent at once: the history is locked while they are copied.
const MOST_BYTES: usize = 256 << 10;

const SEND_BUFFER: usize = 1 << 20;

/// How long a bucket waits for its next samples.
const OPEN: Duration = Duration::from_millis(50);

/// While nothing else is sent.
const BEATS_APART: Duration = Duration::from_millis(50);

/// From one end to the next: three in all.
const ENDS_APART: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(40)];

/// How often a datagram is offered to the kernel.
const TRIES: u32 = 5;
