//! What the room that protects is told: packets to protected addresses, counters of interfaces, and what is wrong with agents.

use std::net::IpAddr;

use weir_protect::evidence::{Counts, Heard, Sign, Trouble};
use weir_protect::model::{Point, Sighting, Stream};
use weir_protect::room::Outlet;
use weir_wire::sflow::{DataSource, FlowSample, Interface};

use super::contents::{Contents, Sent};
use super::course::Course;
use super::standstill::{Arrival, Gathering, Standstill};
use crate::agents::{self, Agent, Identity, Placed, SECOND, SILENCE, Step, StreamId, Verdict};
use crate::counters::{Block, Counters};
use crate::flows::Packet;

/// The shard's end of the queue, and what went through it of agents.
#[derive(Debug)]
pub(super) struct Protecting {
    outlet: Outlet,
    /// By the agent's slot: its streams, few of them, the newest last.
    told: Vec<Vec<Told>>,
    contents: Contents,
    /// How many streams there were.
    runs: u32,
    /// That of the datagram at hand.
    stream: Stream,
    /// For how long its samples may have been kept, and how long ago they were taken, most likely.
    kept: u64,
    ago: [u64; 2],
    /// Whether later ones of its stream came before it.
    is_late: bool,
    standstill: Standstill,
    /// A stream in which two speak, as the datagram at hand shows.
    disputed: Option<StreamId>,
    /// When a datagram that has no agent was last told of.
    stranger: u64,
}

/// What was told of a stream last.
#[derive(Clone, Debug)]
struct Told {
    agent: IpAddr,
    from: IpAddr,
    /// Which it is, and how often it began again.
    id: (StreamId, u16),
    stream: Stream,
    trouble: Option<Trouble>,
    at: u64,
    gathering: Gathering,
    course: Course,
    /// One more whenever its uptime leapt.
    era: u16,
}

impl Protecting {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            told: Vec::new(),
            contents: Contents::default(),
            runs: 0,
            stream: Stream::default(),
            kept: 0,
            ago: [0; 2],
            is_late: false,
            standstill: Standstill::default(),
            disputed: None,
            stranger: 0,
        }
    }

    pub(super) fn outlet(&mut self) -> &mut Outlet {
        &mut self.outlet
    }

    /// Whether an agent that is listed does not speak from there.
    #[inline]
    pub(super) fn is_foreign(&self, agent: IpAddr, from: IpAddr) -> bool {
        self.outlet.is_foreign(agent, from)
    }

    /// A packet was sampled. What comes late may be somebody else's, who has seen which datagrams were lost and fills in their numbers: it is not
    /// looked at, and what is in order counts for it.
    #[inline]
    pub(super) fn packet(
        &mut self,
        time: u64,
        agent: IpAddr,
        sample: &FlowSample<'_>,
        packet: &Packet<'_>,
        frames: f64,
    ) {
        let Some(sighted) = packet.sighted().filter(|packet| self.outlet.protects(packet.destination)) else { return };
        if self.is_late {
            return self.outlet.late();
        }
        let here = Interface::Index(sample.source.index);
        let ingress = match () {
            () if sample.source.class != DataSource::IF_INDEX => None,
            () if sample.input == here => Some(true),
            () if sample.output == here => Some(false),
            () => None,
        };
        let point = Point { agent, index: sample.source.index };
        let (stream, kept, ago, header) = (self.stream, self.kept, self.ago, packet.first_bytes());
        self.outlet.sample(&Sighting { time, kept, ago, point, stream, ingress, frames, packet: sighted, header });
    }

    /// Counters of a data source came.
    pub(super) fn counters(&mut self, agent: IpAddr, source: DataSource, counters: &Counters, placed: &Placed) {
        if source.class != DataSource::IF_INDEX {
            return;
        }
        let of_interface = |block: &&Block| u32::from(block.structure.format) == 1 && block.moment == placed.moment;
        let Some(block) = counters.blocks().iter().find(of_interface) else { return };
        if let Some(counts) = counts(Point { agent, index: source.index }, self.stream, block) {
            self.outlet.counts(counts);
        }
    }

    /// A datagram of an agent was placed; `from`: where it came from. What is in it is told as of this stream.
    #[inline]
    pub(super) fn placed(
        &mut self,
        now: u64,
        placed: &Placed,
        agent: Option<&Agent>,
        (sent, from): (&Sent<'_>, IpAddr),
    ) {
        self.is_late = placed.step == Step::Late;
        let Some(agent) = agent else { return };
        let slot = placed.agent() as usize;
        let stream = agent.streams().iter().find(|stream| stream.id == placed.stream);
        let (is_known, is_foreign) = stream.map_or((false, false), |stream| (stream.since == 0, stream.is_foreign));
        // Of agents that are made up by the thousand nothing is remembered, nor is what others send.
        if agent.proven && !is_foreign {
            self.contents.note(slot, sent);
        }
        if slot >= self.told.len() {
            self.told.resize(slot + 1, Vec::new());
        }
        let id = (placed.stream, placed.moment.epoch);
        let Identity { address, sub_agent } = agent.identity;
        let streams = &mut self.told[slot];
        let at = streams.iter().position(|told| (told.agent, told.from, told.id) == (address, from, id));
        let of_it = at.map(|at| &mut streams[at]);
        let trouble = match placed.step {
            Step::Jump if placed.restarted => Some(Trouble::Restart),
            Step::Jump => Some(Trouble::Jump),
            _ => sign(placed, (agent, of_it), sent, now)
                .map(Trouble::Speakers)
                .or_else(|| rivals(agent, placed.stream, now).map(Trouble::Streams)),
        };
        if matches!(trouble, Some(Trouble::Speakers(_))) {
            self.disputed = Some(placed.stream);
        }
        let Some(told) = at.map(|at| &mut streams[at]) else {
            self.runs = self.runs.wrapping_add(1);
            let gathering = Gathering::new(sent.uptime, now);
            self.stream = Stream { sub_agent, run: self.runs };
            (self.kept, self.ago) = (gathering.kept(), gathering.ago());
            if streams.len() == TOLD {
                // Nobody pushes out the one that was there first, as long as it goes on.
                let goes_on = now.saturating_sub(streams[0].gathering.heard()) <= SILENCE;
                let silent = (usize::from(goes_on)..TOLD).min_by_key(|&at| streams[at].gathering.heard()).unwrap_or(0);
                streams.remove(silent);
            }
            let course = Course::new(sent.number, sent.uptime, now);
            let (stream, pause, era) = (self.stream, 0, placed.moment.era);
            streams.push(Told { agent: address, from, id, stream, trouble, at: now, gathering, course, era });
            self.outlet.heard(Heard { time: now, agent: address, stream, from, trouble, pause, is_known });
            return;
        };
        told.gathering.hear(now);
        if !self.is_late {
            let (uptime, granule) = (sent.uptime, placed.moment.granule);
            let waited = told.course.waited(uptime, now);
            self.standstill.enter(&mut told.gathering, Arrival { now, uptime, granule, waited });
        }
        (self.stream, self.kept, self.ago) = (told.stream, told.gathering.kept(), told.gathering.ago());
        let apart = if trouble.is_some() { SECOND } else { AGAIN };
        if told.trouble != trouble && trouble.is_some() || now >= told.at + apart {
            (told.trouble, told.at) = (trouble, now);
            let (stream, pause) = (told.stream, told.gathering.pause());
            self.outlet.heard(Heard { time: now, agent: address, stream, from, trouble, pause, is_known });
        }
    }

    /// The stream in which two speak, if the datagram that was told of last shows that of one.
    #[inline]
    pub(super) fn take_disputed(&mut self) -> Option<StreamId> {
        self.disputed.take()
    }

    /// Some twenty times a second.
    pub(super) fn tick(&mut self, now: u64) {
        self.standstill.tick(now);
    }

    /// A datagram was not taken since one of its number was there before; whether that one had another content. Then two speak, and nobody
    /// knows which is the agent: what is in it is told as of their stream, which is not believed.
    #[cold]
    pub(super) fn repeated(
        &mut self,
        now: u64,
        (slot, holder): (u32, Option<StreamId>),
        (sent, from): (&Sent<'_>, IpAddr),
    ) -> bool {
        let slot = slot as usize;
        if !self.contents.differs(slot, sent) {
            return false;
        }
        let streams = self.told.get_mut(slot).map(Vec::as_mut_slice).unwrap_or_default();
        let of_it = streams.iter_mut().filter(|told| told.from == from && Some(told.id.0) == holder);
        let Some(told) = of_it.max_by_key(|told| told.gathering.heard()) else { return false };
        (self.stream, self.is_late) = (told.stream, false);
        (self.kept, self.ago) = (told.gathering.kept(), told.gathering.ago());
        self.disputed = Some(told.id.0);
        tell(&mut self.outlet, told, Sign::Content, now);
        true
    }

    /// A datagram was not taken since it is too late to know whether it was here before: whoever is ahead of the agent makes it so.
    #[cold]
    pub(super) fn stale(
        &mut self,
        now: u64,
        (slot, holder): (u32, Option<StreamId>),
        (sent, from): (&Sent<'_>, IpAddr),
    ) {
        let streams = self.told.get_mut(slot as usize).map(Vec::as_mut_slice).unwrap_or_default();
        let numbered = (sent.number, sent.uptime);
        let is_of_two = |told: &&mut Told| {
            told.from == from && Some(told.id.0) == holder && told.course.is_sent_later(numbered, now)
        };
        if let Some(told) = streams.iter_mut().find(is_of_two) {
            self.disputed = Some(told.id.0);
            tell(&mut self.outlet, told, Sign::Clock, now);
        }
    }

    /// Whether a datagram that continues none was sent after those that it is numbered before: of an agent that is seldom heard, from which another
    /// one has run away meanwhile.
    #[cold]
    pub(super) fn overtaken(&mut self, now: u64, slot: u32, (sent, from): (&Sent<'_>, IpAddr)) -> bool {
        let streams = self.told.get_mut(slot as usize).map(Vec::as_mut_slice).unwrap_or_default();
        let numbered = (sent.number, sent.uptime);
        let is_of_two = |told: &&mut Told| {
            told.from == from && told.course.covers(sent.number) && told.course.is_sent_later(numbered, now)
        };
        let Some(told) = streams.iter_mut().find(is_of_two) else { return false };
        self.disputed = Some(told.id.0);
        tell(&mut self.outlet, told, Sign::Clock, now);
        true
    }

    /// A datagram was not taken that goes on where a stream was before it leapt: one of the two is somebody else's, and what was told
    /// since the leap may be. The stream begins again with the next such datagram, under another number: by then nobody would know whose it was.
    #[cold]
    pub(super) fn left(&mut self, now: u64, slot: u32, stream: StreamId, from: IpAddr) {
        let streams = self.told.get_mut(slot as usize).map(Vec::as_mut_slice).unwrap_or_default();
        let of_it = streams.iter_mut().filter(|told| told.from == from && told.id.0 == stream);
        if let Some(told) = of_it.max_by_key(|told| told.gathering.heard()) {
            self.disputed = Some(told.id.0);
            tell(&mut self.outlet, told, Sign::Leap, now);
        }
    }

    /// Samples of the datagram at hand are not of the one who sent those before.
    #[cold]
    pub(super) fn broken(&mut self, now: u64, slot: u32) {
        let streams = self.told.get_mut(slot as usize).map(Vec::as_mut_slice).unwrap_or_default();
        let stream = self.stream;
        if let Some(told) = streams.iter_mut().find(|told| told.stream == stream) {
            self.disputed = Some(told.id.0);
            tell(&mut self.outlet, told, Sign::Samples, now);
        }
    }

    /// A datagram was not taken.
    #[cold]
    pub(super) fn refused(&mut self, now: u64, verdict: &Verdict, agent: IpAddr, from: IpAddr) {
        let trouble = match verdict {
            Verdict::Stranger => Trouble::Stranger,
            Verdict::Probation => Trouble::Probation,
            _ => return,
        };
        // Of floods of such datagrams some are enough.
        if now >= self.stranger + STRANGERS_APART {
            self.stranger = now;
            let stream = Stream::default();
            let trouble = Some(trouble);
            self.outlet.heard(Heard { time: now, agent, stream, from, trouble, pause: 0, is_known: false });
        }
    }
}

/// Tells that two speak in a stream.
#[cold]
fn tell(outlet: &mut Outlet, told: &mut Told, sign: Sign, now: u64) {
    let trouble = Some(Trouble::Speakers(sign));
    if told.trouble != trouble || now >= told.at + SECOND {
        (told.trouble, told.at) = (trouble, now);
        let Told { agent, stream, from, .. } = *told;
        let pause = told.gathering.pause();
        outlet.heard(Heard { time: now, agent, stream, from, trouble, pause, is_known: false });
    }
}

/// What shows that a datagram is somebody else's, or that one before it was.
#[inline]
fn sign(placed: &Placed, (agent, told): (&Agent, Option<&mut Told>), sent: &Sent<'_>, now: u64) -> Option<Sign> {
    let Told { course, era, gathering, .. } = told?;
    let has_leapt = std::mem::replace(era, placed.moment.era) != placed.moment.era;
    let (numbered, granule) = ((sent.number, sent.uptime), placed.moment.granule);
    match placed.step {
        Step::Late => {
            (is_sent_later(agent, placed, sent) || course.is_sent_later(numbered, now)).then_some(Sign::Clock)
        }
        Step::Next | Step::Lost(_) => {
            let is_leap = matches!(placed.step, Step::Lost(lost) if lost >= LEAP);
            let is_ahead = (is_leap || has_leapt) && course.is_ahead(sent.uptime, now);
            let is_set = has_leapt && (is_ahead || course.is_back(sent.uptime));
            course.forward(numbered, (granule, gathering.pause()), now);
            match (is_ahead && is_leap, is_set) {
                (true, _) => Some(Sign::Ahead),
                // Of clocks that are set nobody knows who set them.
                (_, true) => Some(Sign::Uptime),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a datagram that is behind others by its number was sent after them by its uptime: those were somebody else's.
fn is_sent_later(agent: &Agent, placed: &Placed, sent: &Sent<'_>) -> bool {
    let Some(stream) = agent.streams().iter().find(|stream| stream.id == placed.stream) else { return false };
    let later = sent.uptime.wrapping_sub(stream.uptime()) as i32;
    placed.moment.granule > 0 && i64::from(later) > UNEVEN + i64::from(placed.moment.granule)
}

/// How many streams go on behind an identity, where another one than this was there first; `None`: this was. Of streams that began at nearly
/// the same time nobody knows.
fn rivals(agent: &Agent, own: StreamId, now: u64) -> Option<usize> {
    let streams = agent.streams();
    if streams.len() < 2 {
        return None;
    }
    let this = streams.iter().find(|stream| stream.id == own)?;
    let agents::Stream { since, is_foreign, .. } = *this;
    let is_rival = |stream: &&agents::Stream| {
        let silent = now.saturating_sub(stream.heard());
        let is_elder = stream.id < own && silent <= SILENCE;
        let is_twin = stream.id > own && since > 0 && stream.since <= since + AT_ONCE && silent <= AT_ONCE;
        is_elder || is_twin || stream.id != own && silent <= SILENCE && this.is_disputed_by(stream)
    };
    // What others send from elsewhere speaks against nothing that comes from where the agent is.
    let rivals = streams.iter().filter(|stream| stream.is_foreign == is_foreign).filter(is_rival).count();
    (rivals > 0).then_some(rivals + 1)
}

/// What an interface carried since its counters came before; `None`: they came for the first time, or began again.
fn counts(point: Point, stream: Stream, block: &Block) -> Option<Counts> {
    let rate = |name: &str| block.rate(block.field(name)?).ok();
    let sum = |names: [&str; 3]| {
        // An agent that does not count multicasts apart says so by all ones.
        let [unicast, multicast, broadcast] = names.map(rate);
        Some(unicast? + multicast.unwrap_or(0.0) + broadcast.unwrap_or(0.0))
    };
    let to = block.moment.now;
    let from = to.saturating_sub((f64::from(block.interval) * 1e9) as u64);
    Some(Counts {
        point,
        stream,
        from,
        to,
        packets: [
            sum(["ifInUcastPkts", "ifInMulticastPkts", "ifInBroadcastPkts"])?,
            sum(["ifOutUcastPkts", "ifOutMulticastPkts", "ifOutBroadcastPkts"])?,
        ],
        bits: [8.0 * rate("ifInOctets")?, 8.0 * rate("ifOutOctets")?],
        speed: block.field("ifSpeed").and_then(|field| block.value(field)).filter(|speed| *speed > 0.0),
    })
}

/// By how much datagrams may be sent in another order than they are numbered in, ms.
const UNEVEN: i64 = 100;

/// Datagrams that are missing at once where somebody may have leapt ahead: fewer the agent itself has soon reached.
const LEAP: u32 = 8;

/// Streams of an agent that are remembered.
const TOLD: usize = 8;

/// From one time that a stream is told of that goes on to the next.
const AGAIN: u64 = 10 * SECOND;

/// Streams of one name that begin within this time may all be the agent's.
const AT_ONCE: u64 = 30 * SECOND;

/// From one datagram without a place that is told of to the next.
const STRANGERS_APART: u64 = SECOND / 100;
