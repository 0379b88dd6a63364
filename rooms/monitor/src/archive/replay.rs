//! An archive as datagrams again: at any speed, as sessions of our own, gaps as gaps.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow};
use weir_dgram::Socket;
use weir_program::clock::{Nanos, nanos};
use weir_program::stop::Stop;
use weir_wire::signal::{Block, Cause, Channel, Gap, Values};

use super::merge::Merge;
use super::{Damage, Head};
use weir_signal::seal::Sealer;
use weir_signal::send::{Lane, Outlets, Patient, Sender, Stream};

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
    if player.streams.is_empty() {
        let first = settings.files.first().map_or_else(String::new, |file| file.display().to_string());
        return Err(anyhow!("{first}: no signal in it"));
    }
    while !stop.is_set()
        && let Some((head, block)) = merge.next()?
    {
        player.play(&head, &block);
    }
    Ok(Replayed { damaged: merge.damaged, ..player.end() })
}

struct Player<'a> {
    settings: &'a Settings,
    socket: &'a Socket,
    stop: &'a Stop,
    streams: Vec<Played<'a>>,
    /// By session and number: which stream, which of its channels.
    places: HashMap<(u64, u16), (usize, u16)>,
    began: Instant,
    /// When the first block was sent, and which time it has.
    first: Option<(Instant, i64)>,
    /// What is added to times.
    shift: i64,
    stepped: Nanos,
}

/// A stream of a station.
struct Played<'a> {
    sender: Sender<Patient<'a>>,
    channels: Vec<Stands>,
}

/// Where a channel stands.
#[derive(Clone, Copy, Default)]
struct Stands {
    next: u64,
    /// After its last sample: its session, and the recorded time.
    last: Option<(u64, i64)>,
}

impl<'a> Player<'a> {
    fn new(settings: &'a Settings, socket: &'a Socket, stop: &'a Stop) -> Self {
        let (streams, places, began) = (Vec::new(), HashMap::new(), Instant::now());
        Self { settings, socket, stop, streams, places, began, first: None, shift: 0, stepped: 0 }
    }

    /// Sessions that followed one another are one here; what was due between them is a gap.
    fn know(&mut self, head: &Arc<Head>) {
        let key = (head.session, head.channel.id);
        if self.places.contains_key(&key) {
            return;
        }
        let same = |played: &Played<'_>| played.sender.station() == head.station && played.sender.name() == head.stream;
        let at = self.streams.iter().position(same).unwrap_or_else(|| {
            let stream = Stream {
                station: head.station.clone(),
                name: head.stream.clone(),
                sealer: Sealer::default(),
                most_bytes: Outlets::most_bytes([self.settings.to]),
                fault: Cause::Station,
            };
            let sender = Sender::new(stream, Patient::new(self.socket, self.stop));
            self.streams.push(Played { sender, channels: Vec::new() });
            self.streams.len() - 1
        });
        let Played { sender, channels, .. } = &mut self.streams[at];
        // What a server sends on is of several stations, whose channels may have one name.
        let is_it = |lane: &Lane| lane.channel.name == head.channel.name && lane.channel.origin == head.channel.origin;
        let known = sender.lanes.values().find(|lane| is_it(lane)).map(|lane| lane.channel.id);
        let id = known.unwrap_or_else(|| {
            let id = u16::try_from(channels.len()).unwrap_or(u16::MAX);
            sender.add(Lane::new(Channel { id, ..head.channel.clone() }, 0, 0, 1));
            channels.push(Stands::default());
            id
        });
        self.places.insert(key, (at, id));
    }

    fn play(&mut self, head: &Arc<Head>, block: &Block<'_>) {
        let Some(&(at, channel)) = self.places.get(&(head.session, head.channel.id)) else { return };
        self.wait(block);
        let now = self.now();
        let Played { sender, channels, .. } = &mut self.streams[at];
        let Stands { next, last } = &mut channels[usize::from(channel)];
        // What was due between sessions; within one the merge has gaps for what is missing.
        if let Some((session, time)) = *last
            && session != head.session
        {
            let samples = block.rate.samples(i128::from(block.time) - i128::from(time));
            let values = Values::Gap(Gap { samples, cause: Cause::Restart });
            let time = time.saturating_add(self.shift);
            sender.push_block(&Block { channel, first: *next, time, rate: block.rate, values }, now);
            *next += samples;
        }
        let time = block.time.saturating_add(self.shift);
        sender.push_block(&Block { channel, first: *next, time, ..*block }, now);
        *next += block.samples();
        *last = Some((head.session, block.time_of(block.end())));
    }

    /// Until the last sample of a block is due; meanwhile what waits is sent.
    fn wait(&mut self, block: &Block<'_>) {
        let end = block.time_of(block.end());
        let (start, zero) = *self.first.get_or_insert_with(|| {
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
                self.step();
                self.stop.wait(due.min(Instant::now() + STEPS_APART));
            }
        }
        if self.now() >= self.stepped + nanos(STEPS_APART) || self.stepped == 0 {
            self.step();
        }
    }

    /// Sends what waits, descriptions and heartbeats: before the first block all channels are described.
    fn step(&mut self) {
        self.stepped = self.now().max(1);
        for Played { sender, .. } in &mut self.streams {
            sender.step(self.stepped, 0);
            while sender.due(0) == 0 {
                sender.step(self.stepped, 0);
            }
        }
    }

    fn now(&self) -> Nanos {
        nanos(self.began.elapsed())
    }

    fn end(mut self) -> Replayed {
        let (now, share) = (self.now(), self.streams.len().max(1) as u32);
        let mut replayed = Replayed::default();
        for Played { sender, .. } in &mut self.streams {
            sender.end(now, |apart| {
                self.stop.wait(Instant::now() + apart / share);
            });
            for lane in sender.lanes.values() {
                replayed.samples += lane.sent;
                replayed.missing += lane.gaps.iter().sum::<u64>();
            }
            replayed.datagrams += sender.counts.data;
            replayed.refused += sender.counts.not_taken;
        }
        replayed
    }
}

/// What is due so soon goes now.
const SLACK: Duration = Duration::from_millis(1);

/// Heartbeats are as far apart.
const STEPS_APART: Duration = Duration::from_millis(50);

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
        assert_eq!((player.streams.len(), player.streams[0].sender.station()), (1, "control"));
        let lanes = player.streams[0].sender.lanes.values();
        let origins: Vec<_> = lanes.map(|lane| lane.channel.origin.as_str()).collect();
        assert_eq!(origins, ["alpha", "beta"]);
        assert_eq!(player.places.values().collect::<std::collections::HashSet<_>>().len(), 2);
    }
}
