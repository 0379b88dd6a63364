//! An archive as datagrams again: at any speed, as sessions of our own, gaps as gaps.

use std::collections::HashMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow};
use weir_dgram::{Outgoing, Socket};
use weir_program::stop::Stop;
use weir_wire::signal::{
    Block, Cause, Channel, Clock, Form, Gap, Header, Kind, MOST_BYTES_V4, MOST_BYTES_V6, Metadata, Packer, Position,
    Values, encode,
};

use super::merge::Merge;
use super::{Damage, Head, time_of};

/// What is replayed, and how.
#[derive(Debug)]
pub struct Settings {
    /// Files of `weir monitor record`.
    pub files: Vec<PathBuf>,
    /// As many times as fast as it was; 0: as fast as it goes.
    pub speed: f64,
    /// Whether samples have the times that they had; else the first has the present.
    pub keep_times: bool,
    /// Where it goes.
    pub to: SocketAddr,
}

/// What was sent.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Samples.
    pub samples: u64,
    /// Samples in gaps.
    pub missing: u64,
    /// Datagrams of data.
    pub datagrams: u64,
    /// Datagrams that the kernel refused: a gap at the receiver.
    pub refused: u64,
    /// Files that are damaged, and were sent up to there.
    pub damaged: Vec<(PathBuf, Damage)>,
}

/// Replays until the end or the stop.
///
/// # Errors
/// A file cannot be opened or is not an MCAP file.
pub fn replay(settings: &Settings, socket: &Socket, stop: &Stop) -> Result<Replayed> {
    let mut player = Player::new(settings, socket, stop);
    // A channel's metadata must be known before its first sample: the files are read for them first.
    let mut merge = Merge::new(&settings.files, |head, _| {
        player.know(head);
        if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if player.senders.is_empty() {
        let first = settings.files.first().map_or_else(String::new, |file| file.display().to_string());
        return Err(anyhow!("{first}: no signal in it"));
    }
    player.tell();
    while !stop.is_set()
        && let Some((head, block)) = merge.next()?
    {
        player.play(&head, &block);
    }
    player.end();
    Ok(Replayed { damaged: merge.damaged, ..player.replayed })
}

struct Player<'a> {
    settings: &'a Settings,
    socket: &'a Socket,
    stop: &'a Stop,
    senders: Vec<Sender>,
    /// By session and number: which sender, which of its channels.
    places: HashMap<(u64, u16), (usize, usize)>,
    /// When it began, and with which time.
    begun: Option<(Instant, i64)>,
    /// What is added to times.
    shift: i64,
    beat: Instant,
    told: Instant,
    bytes: Vec<u8>,
    replayed: Replayed,
}

/// A stream of a station.
struct Sender {
    session: u64,
    sequence: u64,
    metadata: Metadata,
    packer: Packer,
    channels: Vec<Played>,
}

/// Where a channel stands.
#[derive(Clone, Copy)]
struct Played {
    next: u64,
    /// After its last sample: its session, and the recorded time.
    last: Option<(u64, i64)>,
}

impl<'a> Player<'a> {
    fn new(settings: &'a Settings, socket: &'a Socket, stop: &'a Stop) -> Self {
        let now = Instant::now();
        Self {
            settings,
            socket,
            stop,
            senders: Vec::new(),
            places: HashMap::new(),
            begun: None,
            shift: 0,
            beat: now,
            told: now,
            bytes: Vec::new(),
            replayed: Replayed::default(),
        }
    }

    /// Sessions that followed one another are one here; what was due between them is a gap.
    fn know(&mut self, head: &Arc<Head>) {
        let key = (head.session, head.channel.id);
        if self.places.contains_key(&key) {
            return;
        }
        let same = |sender: &Sender| sender.metadata.station == head.station && sender.metadata.stream == head.stream;
        let at = self.senders.iter().position(same).unwrap_or_else(|| {
            let metadata = Metadata {
                station: head.station.clone(),
                stream: head.stream.clone(),
                software: concat!("weir ", env!("CARGO_PKG_VERSION"), " replay").into(),
                channels: Vec::new(),
            };
            let packer = Packer::new(most(self.settings.to));
            self.senders.push(Sender { session: random(), sequence: 0, metadata, packer, channels: Vec::new() });
            self.senders.len() - 1
        });
        let sender = &mut self.senders[at];
        // What a server sends on is of several stations, whose channels may have one name.
        let is_it = |known: &Channel| known.name == head.channel.name && known.origin == head.channel.origin;
        let known = sender.metadata.channels.iter().position(is_it);
        let channel = known.unwrap_or_else(|| {
            let id = u16::try_from(sender.metadata.channels.len()).unwrap_or(u16::MAX);
            sender.metadata.channels.push(Channel { id, ..head.channel.clone() });
            sender.channels.push(Played { next: 0, last: None });
            sender.channels.len() - 1
        });
        self.places.insert(key, (at, channel));
    }

    fn play(&mut self, head: &Arc<Head>, block: &Block<'_>) {
        let Some(&(at, channel)) = self.places.get(&(head.session, head.channel.id)) else { return };
        self.wait(block);
        let sender = &mut self.senders[at];
        let Played { mut next, last } = sender.channels[channel];
        // What was due between sessions; within one the merge has gaps for what is missing.
        if let Some((session, time)) = last
            && session != head.session
        {
            let missing = block.rate.samples(i128::from(block.time) - i128::from(time));
            if missing > 0 {
                let values = Values::Gap(Gap { samples: missing, cause: Cause::Restart });
                let time = time.saturating_add(self.shift);
                let gap = Block { channel: channel as u16, first: next, time, rate: block.rate, values };
                self.put(at, &gap);
                next += missing;
            }
        }
        let time = block.time.saturating_add(self.shift);
        self.put(at, &Block { channel: channel as u16, first: next, time, ..*block });
        let last = Some((head.session, time_of(block, block.end())));
        self.senders[at].channels[channel] = Played { next: next + block.samples(), last };
    }

    /// Until the last sample of a block is due; meanwhile what waits is sent.
    fn wait(&mut self, block: &Block<'_>) {
        let end = time_of(block, block.end());
        let (start, zero) = *self.begun.get_or_insert_with(|| {
            if !self.settings.keep_times {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                self.shift = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(block.time);
            }
            (Instant::now(), block.time)
        });
        if self.settings.speed > 0.0 {
            let after = end.saturating_sub(zero).max(0) as f64 / self.settings.speed;
            let due = start + Duration::from_nanos(after as u64);
            while Instant::now() + SLACK < due && !self.stop.is_set() {
                self.flush();
                self.beat();
                self.stop.wait(due.min(Instant::now() + BEATS_APART));
            }
        }
        if self.told.elapsed() >= TOLD_APART {
            self.tell();
        }
    }

    fn put(&mut self, at: usize, block: &Block<'_>) {
        match block.values {
            Values::Gap(gap) => self.replayed.missing += gap.samples,
            _ => self.replayed.samples += block.samples(),
        }
        let (element, form, values) = match block.values {
            Values::Samples(element, values) => (element, Form::Samples, values),
            Values::Buckets(element, bucket, values) => (element, Form::Buckets(bucket), values),
            Values::Gap(_) => {
                if !self.senders[at].packer.copy(block) {
                    self.send(at);
                    self.senders[at].packer.copy(block);
                }
                return;
            }
        };
        // Of others' archives a message may have more than a datagram.
        let (each, mut rest, mut done) = (form.size(element), values, 0);
        while !rest.is_empty() {
            let room = self.senders[at].packer.room(element, form);
            if room == 0 {
                self.send(at);
                continue;
            }
            let (part, left) = rest.split_at((room * each).min(rest.len()));
            let count = part.len() / each;
            let first = block.first + done;
            let position = (block.channel, first, time_of(block, first));
            let bytes = self.senders[at].packer.block(position, block.rate, (element, form), count as u16);
            bytes.extend_from_slice(part);
            done += count as u64 * if let Form::Buckets(bucket) = form { u64::from(bucket) } else { 1 };
            rest = left;
        }
    }

    fn flush(&mut self) {
        for at in 0..self.senders.len() {
            if !self.senders[at].packer.is_empty() {
                self.send(at);
            }
        }
    }

    fn send(&mut self, at: usize) {
        let sender = &mut self.senders[at];
        let header = sender.header(Kind::Data);
        let sent = give(self.socket, self.stop, sender.packer.finish(header));
        sender.packer.clear();
        sender.sequence += 1;
        self.replayed.datagrams += 1;
        self.replayed.refused += u64::from(!sent);
        self.beat = Instant::now();
    }

    fn beat(&mut self) {
        if self.beat.elapsed() >= BEATS_APART {
            self.positions(Kind::Heartbeat);
        }
    }

    fn positions(&mut self, kind: Kind) {
        self.beat = Instant::now();
        for sender in &self.senders {
            let positions: Vec<Position> = sender
                .channels
                .iter()
                .zip(0..)
                .map(|(played, channel)| Position { channel, next: played.next })
                .collect();
            encode::positions(sender.header(kind), &positions, most(self.settings.to), &mut self.bytes, |bytes| {
                give(self.socket, self.stop, bytes);
            });
        }
    }

    fn tell(&mut self) {
        self.told = Instant::now();
        for sender in &self.senders {
            encode::metadata(
                sender.header(Kind::Metadata),
                &sender.metadata,
                most(self.settings.to),
                &mut self.bytes,
                |bytes| {
                    give(self.socket, self.stop, bytes);
                },
            );
        }
    }

    /// The end is sent three times, as one may be lost.
    fn end(&mut self) {
        self.flush();
        for _ in 0..3 {
            self.positions(Kind::End);
        }
    }
}

impl Sender {
    fn header(&self, kind: Kind) -> Header {
        let (session, sequence) = (self.session, self.sequence);
        Header { kind, flags: Default::default(), clock: Clock::default(), count: 0, session, sequence }
    }
}

/// Sends a datagram, and waits while the socket has no room; `false`: it was not sent.
fn give(socket: &Socket, stop: &Stop, bytes: &[u8]) -> bool {
    let pieces = [IoSlice::new(bytes)];
    loop {
        let progress = socket.send(&[Outgoing { pieces: &pieces, segment: None, to: None }]);
        match progress.error {
            None => return true,
            Some(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if stop.wait(Instant::now() + SLACK) {
                    return false;
                }
            }
            Some(_) => return false,
        }
    }
}

fn most(to: SocketAddr) -> usize {
    if to.is_ipv4() { MOST_BYTES_V4 } else { MOST_BYTES_V6 }
}

/// A session's number.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// What is due so soon goes now.
const SLACK: Duration = Duration::from_millis(1);

const BEATS_APART: Duration = Duration::from_millis(50);

const TOLD_APART: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use weir_dgram::Options;

    use super::*;

    #[test]
    fn channels_of_one_name_that_a_server_sends_on_stay_apart_with_their_origins() {
        let settings = Settings { files: Vec::new(), speed: 0.0, keep_times: true, to: "127.0.0.1:9".parse().unwrap() };
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        let stop = Stop::new().unwrap();
        let mut player = Player::new(&settings, &socket, &stop);
        for (id, origin) in [(0, "alpha"), (1, "beta")] {
            let channel = Channel { id, name: "temp".into(), origin: origin.into(), ..Channel::default() };
            player.know(&Arc::new(Head { session: 7, station: "control".into(), stream: "view".into(), channel }));
        }
        assert_eq!((player.senders.len(), player.senders[0].metadata.station.as_str()), (1, "control"));
        let origins: Vec<_> = player.senders[0].metadata.channels.iter().map(|told| told.origin.as_str()).collect();
        assert_eq!(origins, ["alpha", "beta"]);
        assert_eq!(player.places.values().collect::<std::collections::HashSet<_>>().len(), 2);
    }
}
