//! What the room that protects would have done about a capture: of sFlow datagrams, or of plain packets as if they had been sampled.
//!
//! Time is the capture's. Nothing is announced, nothing is written.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use weir_protect::config::values::Exporter;
use weir_protect::guard::Now as Moment;
use weir_protect::journal::Entry;
use weir_protect::model::{Alive, Board, Counts as Counted, Point, Sighting, Word};
use weir_protect::room::{Engine, Inlet, Outlet, queue};
use weir_wire::frame::{Frame, Start};
use weir_wire::pcap::Packet as Captured;
use weir_wire::sflow::DataSource;

use crate::atlas::Atlas;
use crate::config::Settings;
use crate::decode::{self, Packets};
use crate::flows::Packet;
use crate::names::{AgentId, Nameless};
use crate::shard::{Names, Now, Shards};

/// A room in the time of a capture.
pub struct Rehearsal {
    shards: Shards,
    engine: Engine,
    inlet: Inlet,
    /// One in so many packets is sampled; `None`: the capture is of sFlow.
    sampling: Option<Plain>,
    /// The capture's time, and when the engine was asked last.
    now: Option<Now>,
    asked: u64,
    /// What was in the capture.
    pub totals: Totals,
}

/// What was in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Of them, those that were analysed: sFlow datagrams, or IP packets that were sampled.
    pub taken: u64,
    /// Of them, sFlow datagrams, whether they were analysed as such or sampled as packets.
    pub sflow: u64,
    /// When the first was captured, and the last; ns since 1970.
    pub span: Option<(u64, u64)>,
}

/// Plain packets, as an agent would have told of them.
struct Plain {
    one_in: u32,
    outlet: Outlet,
    random: u64,
    /// When it was told last that the agent is heard.
    alive: u64,
}

impl Rehearsal {
    /// As the configuration has it, but that nobody speaks and nothing is written; `sampling`: plain packets are sampled, one in so
    /// many, by an agent that is believed.
    ///
    /// # Errors
    /// Nothing is protected; a file of names cannot be read.
    pub fn new(settings: &Settings, sampling: Option<u32>) -> Result<Self> {
        let protect =
            settings.protect.as_ref().ok_or_else(|| anyhow!("nothing is protected: write [protect] first"))?;
        let mut protect = weir_protect::settings::Settings::clone(protect);
        if sampling.is_some() {
            protect.document.agents = vec![Exporter { agent: AGENT.into(), from: None }];
            (protect.ingress, protect.document.witnesses) = (Vec::new(), 1);
        }
        let mut settings = settings.clone();
        settings.carrier.workers = 1;
        let shards = Shards::new(&settings, Names::read(&settings)?);
        let (mut outlet, inlet) = queue(PLACES, &protect.protected(), Arc::default());
        outlet.listen(Arc::new(protect.listed()));
        let mut engine = Engine::new(Arc::new(protect));
        engine.set_atlas(Atlas::of(&shards.lookups()));
        let sampling = match sampling {
            None => {
                shards.protect(vec![outlet]);
                None
            }
            Some(one_in) => Some(Plain { one_in: one_in.max(1), outlet, random: SEED, alive: 0 }),
        };
        Ok(Self { shards, engine, inlet, sampling, now: None, asked: 0, totals: Totals::default() })
    }

    /// Takes a packet of the capture; what happened by then.
    pub fn packet(&mut self, packet: &Captured<'_>) -> Vec<Entry> {
        self.totals.packets += 1;
        let Some(stamp) = packet.stamp else { return Vec::new() };
        // Captures of several interfaces are a little out of order: time only goes forward.
        let nanos = self.now.map_or(stamp, |now| now.nanos.max(stamp));
        let now = Now { nanos, unix_ms: nanos / 1_000_000 };
        self.now = Some(now);
        let first = self.totals.span.map_or(nanos, |(first, _)| first);
        self.totals.span = Some((first, nanos));
        let mut told = self.step(nanos);
        let datagram = decode::datagram(packet, &mut Packets::default()).map(|from| (from.source, from.payload));
        let is_sflow = datagram.is_some_and(|(_, bytes)| is_sflow(bytes));
        self.totals.sflow += u64::from(is_sflow);
        let is_taken = match &mut self.sampling {
            None => {
                if let Some((source, bytes)) = datagram {
                    self.shards.work(0).datagram(bytes, source, now);
                }
                is_sflow
            }
            Some(plain) => plain.packet(nanos, packet),
        };
        self.totals.taken += u64::from(is_taken);
        self.inlet.take(PLACES, u64::MAX, |news| self.engine.take(news));
        if nanos >= self.asked + ASKED_APART {
            told.extend(self.ask(nanos));
        }
        told
    }

    /// The capture is over; what happened by its end.
    pub fn end(&mut self) -> Vec<Entry> {
        let Some(now) = self.now else { return Vec::new() };
        self.ask(now.nanos)
    }

    /// How things stand.
    pub fn board(&self) -> Board {
        let nanos = self.now.map_or(0, |now| now.nanos);
        self.engine.board(None, Counted::default(), moment(nanos))
    }

    /// Lets time pass up to then, a tenth of a second at a time; in pauses of hours faster.
    fn step(&mut self, until: u64) -> Vec<Entry> {
        let mut told = Vec::new();
        if self.asked == 0 {
            self.asked = until;
        }
        while until.saturating_sub(self.asked) > TENTH {
            let left = until - self.asked;
            let step = if left > 600 * SECOND { 10 * SECOND } else { TENTH };
            told.extend(self.ask(self.asked + step));
        }
        told
    }

    fn ask(&mut self, nanos: u64) -> Vec<Entry> {
        self.asked = nanos;
        self.engine.step(moment(nanos), nanos);
        self.engine.guard.take_entries()
    }
}

impl Plain {
    /// Whether it was sampled.
    fn packet(&mut self, time: u64, packet: &Captured<'_>) -> bool {
        let Ok(ip) = packet.link.ip(packet.bytes) else { return false };
        let point = Point { agent: AGENT, index: 1 };
        if time >= self.alive + SECOND {
            self.alive = time;
            self.outlet.alive(Alive { time, agent: AGENT });
        }
        // By chance, and each time by the same: Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if !self.random.is_multiple_of(u64::from(self.one_in)) {
            return false;
        }
        let start = if ip[0] >> 4 == 4 { Start::Ipv4 } else { Start::Ipv6 };
        let header = &ip[..ip.len().min(HEADER)];
        let source = DataSource { class: DataSource::IF_INDEX, index: point.index };
        let (length, frame) = (packet.original_length, Frame::parse(start, header));
        let decoded = Packet::captured(AgentId(0), source, length, frame, &Nameless);
        if let Some(packet) = decoded.sighted(|address| self.outlet.protects(address)) {
            let frames = f64::from(self.one_in);
            let (stream, exposure, word, ingress) = (0, Some(0), Word::Good, Some(true));
            self.outlet.sample(&Sighting { time, stream, exposure, word, point, ingress, frames, packet, header });
        }
        true
    }
}

/// Whether a datagram begins as one of sFlow version 5, to whatever port: the version, and an agent of IPv4 or IPv6.
fn is_sflow(bytes: &[u8]) -> bool {
    bytes.len() >= SHORTEST && matches!(bytes, [0, 0, 0, 5, 0, 0, 0, 1 | 2, ..])
}

fn moment(nanos: u64) -> Moment {
    Moment { nanos, wall: UNIX_EPOCH + Duration::from_nanos(nanos) }
}

const SECOND: u64 = 1_000_000_000;
const TENTH: u64 = SECOND / 10;

/// From one decision to the next: as often as the running room decides.
const ASKED_APART: u64 = SECOND / 1_000;

/// News of one packet of the capture.
const PLACES: usize = 4_096;

/// Bytes of a packet that a sample has.
const HEADER: usize = 128;

/// Bytes of an sFlow datagram without samples, of an agent of IPv4.
const SHORTEST: usize = 28;

/// Who tells of plain packets.
const AGENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Anything but 0.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
