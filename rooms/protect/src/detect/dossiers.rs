//! What is kept of those with evidence: recent packets, how many sources, rates.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use super::classes::{Classes, bit};
use super::distinct::Distinct;
use super::flow::{self, Flow};
use super::groups::Span;
use super::headers::Headers;
use super::table::Key;
use crate::estimate;
use crate::model::{Class, Packet, Rate, Sighting, Spot};

/// No dossier.
pub(super) const NONE: u32 = u32::MAX;

/// Packets that are kept.
const PACKETS: usize = 96;
/// Points that are kept.
const SPOTS: usize = 8;
/// How long hosts are waited for, ns.
const PATIENCE: u64 = 10_000_000_000;
/// log2 of how many hosts a prefix is taken to have at most.
const MOST: u8 = 16;
/// Newest packets that are taken to have come at the same time, however slowly they came.
const AT_ONCE: usize = 32;
/// ns.
const MILLISECOND: u64 = 1_000_000;
/// A dossier that was opened so shortly before a flood began was opened for it, ns.
const OPENED: u64 = 1_000_000_000;
/// Packets that were taken since nearly the same time are of one batch, ns.
const TOGETHER: u64 = 10_000_000;
/// Samples that say how much a flood is.
const ENOUGH: f64 = 8.0;

/// A packet, and what it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub(super) time: u64,
    /// How long before it came it was taken: the oldest that it may be, and the newest, ms.
    ago: [u32; 2],
    pub(super) frames: f32,
    pub(super) classes: Classes,
    pub(super) packet: Packet,
}

/// What is kept of one.
#[derive(Debug)]
pub(super) struct Dossier {
    /// Whose; `None`: nobody's.
    pub(super) key: Option<Key>,
    since: u64,
    last: u64,
    /// Packets that were noted so far; of a flood, since it began.
    pub(super) samples: u64,
    ring: Vec<Noted>,
    /// Which of them is the oldest, once all places are taken.
    next: usize,
    /// Since when those were taken that were there last, and how many those were: what is left of a batch is not all of it.
    gone: (u64, u32),
    /// Of which class the flood is that goes on: what is told is of its packets alone.
    class: Option<Class>,
    sources: Distinct,
    targets: Distinct,
    flows: [Flow; Class::ALL.len()],
    spots: Vec<Spot>,
    headers: Headers,
    /// Until when it need not be looked at again whether it is a flood.
    pub(super) wait: u64,
    /// Whether that is for want of sources, and which tests were full meanwhile: then it is looked at again when the time has come.
    pub(super) is_unsure: bool,
    pub(super) full: u32,
    /// When it first was above a threshold.
    pub(super) fired: Option<u64>,
    /// How full the fullest bucket was, as of the last sample.
    share: f32,
    /// Whether it is part of a flood: it stays.
    pub(super) flood: bool,
}

/// All dossiers.
#[derive(Debug)]
pub(super) struct Dossiers {
    all: Vec<Dossier>,
    free: Vec<u32>,
    limit: usize,
    hand: usize,
    hasher: RandomState,
    /// How many were given up for others with more evidence, or refused to one with less.
    pub(super) evicted: u64,
}

impl Dossiers {
    pub(super) fn new(limit: usize) -> Self {
        let hasher = RandomState::default();
        Self { all: Vec::new(), free: Vec::new(), limit: limit.max(1), hand: 0, hasher, evicted: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Dossier> {
        self.all.get(at as usize)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Dossier> {
        self.all.get_mut(at as usize)
    }

    /// A dossier for somebody, if there is room, or another with less evidence.
    pub(super) fn open(&mut self, key: Key, now: u64, share: f32) -> u32 {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.all.len() < self.limit => {
                self.all.push(Dossier::new());
                self.all.len() as u32 - 1
            }
            None => match self.less(share) {
                Some(at) => at,
                None => return NONE,
            },
        };
        self.all[at as usize].begin(key, now);
        at
    }

    /// Among a few, one with less evidence than this.
    #[cold]
    fn less(&mut self, share: f32) -> Option<u32> {
        self.evicted += 1;
        let few = (0..8).map(|step| (self.hand + step) % self.all.len());
        let least = few.filter(|&at| !self.all[at].flood).min_by(|&a, &b| {
            let share = |at: usize| self.all[at].share;
            share(a).total_cmp(&share(b))
        });
        self.hand = (self.hand + 8) % self.all.len();
        least.filter(|&at| self.all[at].share < share).map(|at| at as u32)
    }

    /// Nobody has it any more.
    pub(super) fn close(&mut self, at: u32) {
        if let Some(dossier) = self.all.get_mut(at as usize)
            && dossier.key.take().is_some()
        {
            dossier.flood = false;
            self.free.push(at);
        }
    }

    /// Closes those to whom nothing came since a time, of a few at once.
    pub(super) fn expire(&mut self, oldest: u64) {
        for _ in 0..self.all.len().min(64) {
            self.hand = (self.hand + 1) % self.all.len();
            let dossier = &self.all[self.hand];
            if dossier.key.is_some() && !dossier.flood && dossier.last < oldest {
                self.close(self.hand as u32);
            }
        }
    }

    /// Notes a packet.
    #[inline]
    pub(super) fn note(&mut self, at: u32, sighting: &Sighting<'_>, classes: Classes, share: f32) {
        let Some(dossier) = self.all.get_mut(at as usize) else { return };
        let [source, target] = [sighting.packet.source, sighting.packet.destination].map(|ip| self.hasher.hash_one(ip));
        if dossier.is_of_flood(classes) {
            dossier.sources.add(source);
            dossier.targets.add(target);
        }
        dossier.note(sighting, classes, share);
    }
}

impl Dossiers {
    /// A flood of a class began at this time: what is told from now on is of its packets, not of what came before, nor of what else comes.
    pub(super) fn attribute(&mut self, at: u32, class: Class, since: u64) {
        let Some(dossier) = self.all.get_mut(at as usize) else { return };
        let hash = |dossier: &mut Dossier| {
            dossier.sources.clear();
            dossier.targets.clear();
            for noted in dossier.ring.iter().filter(|noted| noted.classes & bit(class) != 0) {
                dossier.sources.add(self.hasher.hash_one(noted.packet.source));
                dossier.targets.add(self.hasher.hash_one(noted.packet.destination));
            }
        };
        // Of one that was opened for it, all that came is of that time: there may have been more than there is room for.
        let is_its_own = dossier.since + OPENED >= since;
        dossier.attribute(class, since);
        if !is_its_own {
            dossier.samples = dossier.packets(class).count() as u64;
            hash(dossier);
        }
    }

    /// A flood is of a wider class from now on. How much of that there is was summed up all along; sources and hosts are those of recent packets, too.
    pub(super) fn widen(&mut self, at: u32, class: Class) {
        let Some(dossier) = self.all.get_mut(at as usize).filter(|dossier| dossier.flood) else { return };
        dossier.class = Some(class);
        dossier.samples = dossier.samples.max(dossier.packets(class).count() as u64);
        for noted in dossier.ring.iter().filter(|noted| noted.classes & bit(class) != 0) {
            dossier.sources.add(self.hasher.hash_one(noted.packet.source));
            dossier.targets.add(self.hasher.hash_one(noted.packet.destination));
        }
    }

    /// The flood is over.
    pub(super) fn release(&mut self, at: u32) {
        if let Some(dossier) = self.all.get_mut(at as usize) {
            // What else is decided of the same host was not what it was opened for.
            (dossier.flood, dossier.class, dossier.since) = (false, None, 0);
        }
    }
}

/// Bits that a sample stands for. No frame is longer than an IP packet and what is around it, whatever is told.
#[inline]
pub(super) fn bits(sighting: &Sighting<'_>) -> f64 {
    sighting.frames * f64::from(sighting.packet.length.min(LONGEST)) * 8.0
}

/// Bytes of the longest frame.
const LONGEST: u32 = 65_536 + 64;

impl Dossier {
    fn new() -> Self {
        Self {
            key: None,
            since: 0,
            last: 0,
            samples: 0,
            ring: Vec::with_capacity(PACKETS),
            next: 0,
            gone: (0, 0),
            class: None,
            sources: Distinct::default(),
            targets: Distinct::default(),
            flows: Default::default(),
            spots: Vec::with_capacity(SPOTS),
            headers: Headers::default(),
            wait: 0,
            is_unsure: false,
            full: 0,
            fired: None,
            share: 0.0,
            flood: false,
        }
    }

    fn begin(&mut self, key: Key, now: u64) {
        (self.key, self.since, self.last, self.samples) = (Some(key), now, now, 0);
        (self.wait, self.fired, self.share, self.flood) = (0, None, 0.0, false);
        (self.is_unsure, self.full) = (false, 0);
        (self.next, self.gone, self.class) = (0, (0, 0), None);
        self.ring.clear();
        self.spots.clear();
        self.headers.clear();
        self.sources.clear();
        self.targets.clear();
        self.flows = Default::default();
    }

    /// Whether packets of these classes are what is told.
    #[inline]
    fn is_of_flood(&self, classes: Classes) -> bool {
        self.class.is_none_or(|class| classes & bit(class) != 0)
    }

    /// What came before is forgotten but for where it was seen; rates begin with what came since.
    fn attribute(&mut self, class: Class, since: u64) {
        (self.flood, self.class) = (true, Some(class));
        let all = self.ring.len();
        self.ring.retain(|noted| noted.time >= since);
        self.ring.sort_by_key(|noted| noted.time);
        self.next = self.ring.len() % PACKETS;
        self.headers.keep(since, bit(class));
        // What came before a dossier was opened is not here: the time that rates are of begins with what is. A time that begins with a
        // sample would have that one whatever the rate is: it says when, and not how much.
        let first = self.ring.iter().position(|noted| noted.classes & bit(class) != 0);
        let span = first.map_or([since; 2], |at| self.ring[at].span());
        // Of a batch the first ones may be gone, or have filled no bucket; what follows a pause in it may be as old as they are.
        let earliest = first.and_then(|at| None::<u64>).unwrap_or(span[0]);
        self.flows = [Flow::since(span).or_since(earliest); Class::ALL.len()];
        for noted in self.ring.iter().enumerate().filter(|(at, _)| Some(*at) != first).map(|(_, noted)| noted) {
            for (_, flow) in self.flows.iter_mut().enumerate().filter(|(at, _)| noted.classes & 1 << at != 0) {
                flow.add(noted.time, noted.ago(), noted.frames, noted.bits());
            }
        }
        // More came since than there was room for: of what was taken with the first that is left, some is gone.
        let (gone, count) = self.gone;
        let is_full = all == PACKETS && self.ring.len() == PACKETS;
        if let Some(noted) = first.map(|at| &self.ring[at]).filter(|_| is_full && span[0].abs_diff(gone) <= TOGETHER) {
            for (_, flow) in self.flows.iter_mut().enumerate().filter(|(at, _)| noted.classes & 1 << at != 0) {
                flow.miss(count as f32, noted.frames, noted.bits());
            }
        }
    }

    #[inline]
    fn note(&mut self, sighting: &Sighting<'_>, classes: Classes, share: f32) {
        let Sighting { time, exposure, frames, packet, point, word, header, .. } = *sighting;
        let ago = [exposure.unwrap_or_default(), 0];
        let millis = |nanos: u64| u32::try_from(nanos / MILLISECOND).unwrap_or(u32::MAX);
        let noted = Noted { time, ago: ago.map(millis), frames: frames as f32, classes, packet };
        match self.ring.len() {
            PACKETS => {
                let gone = std::mem::replace(&mut self.ring[self.next], noted).taken();
                let (since, count) = self.gone;
                let is_one = gone.abs_diff(since) <= TOGETHER;
                self.gone = if is_one { (since, count.saturating_add(1)) } else { (gone, 1) };
            }
            _ => self.ring.push(noted),
        }
        self.next = (self.next + 1) % PACKETS;
        if self.is_of_flood(classes) {
            self.samples += 1;
            if !header.is_empty() {
                self.headers.note(header, time, classes);
            }
        }
        self.last = time.max(self.last);
        self.share = share;
        match self.spots.iter().position(|spot| spot.point == point) {
            Some(at) => self.spots[at].word = word,
            None if self.spots.len() < SPOTS => self.spots.push(Spot { point, word }),
            None => {}
        }
        let bits = bits(sighting);
        for (at, flow) in self.flows.iter_mut().enumerate() {
            if classes & 1 << at != 0 {
                flow.add(time, ago, frames as f32, bits as f32);
            }
        }
    }

    /// Packets and bits a second of a class.
    pub(super) fn rates(&self, class: Class, now: u64) -> (Rate, Rate) {
        self.flows[class as usize].rates(now, self.shortest(), estimate::Z95)
    }

    /// Packets and bits a second as people are told: the interval has the truth in it, also where nobody knows yet when the flood began, or
    /// how much of a batch is still to come.
    pub(super) fn told(&self, class: Class, now: u64) -> (Rate, Rate) {
        let flow = &self.flows[class as usize];
        let times = flow.times(now);
        let least = flow.least(now, self.shortest(), estimate::Z95);
        let wide = |rate: Rate, least: f64| Rate {
            low: rate.low.min(least),
            high: rate.high.map(|high| high * times),
            ..rate
        };
        let (packets, bits) = self.rates(class, now);
        (wide(packets, least.0), wide(bits, least.1))
    }

    fn shortest(&self) -> f64 {
        if self.flood { flow::SHORTEST_OF_FLOOD } else { flow::SHORTEST }
    }

    /// Recent packets of a class, in no order.
    pub(super) fn packets(&self, class: Class) -> impl Iterator<Item = &Noted> + Clone {
        self.ring.iter().filter(move |noted| noted.classes & bit(class) != 0)
    }

    /// Packets of a class that came at the same time: in the last second, or the newest ones where fewer came.
    pub(super) fn at_once(&self, class: Class, now: u64) -> impl Iterator<Item = &Noted> + Clone {
        let mut times: Vec<u64> = self.packets(class).map(|noted| noted.time).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let last = times.get(AT_ONCE - 1).or(times.last()).copied().unwrap_or(now);
        let oldest = last.min(now.saturating_sub(1_000_000_000));
        self.packets(class).filter(move |noted| noted.time >= oldest)
    }

    /// How many different sources there were.
    pub(super) fn sources(&self) -> usize {
        self.sources.count()
    }

    /// How many different hosts got it.
    pub(super) fn targets(&self) -> usize {
        self.targets.count()
    }

    /// Whether few hosts of a prefix get it, or nobody knows yet: they are given time to be found by themselves.
    pub(super) fn is_sparse(&self, span: Span, now: u64) -> bool {
        if self.fired.is_some_and(|fired| now.saturating_sub(fired) > PATIENCE) {
            return false;
        }
        // Of n samples to N hosts alike, N (1 - exp(-n/N)) hosts are seen. With as many samples as the root of all hosts, there are
        // eight hosts seen twice if a sixteenth gets all.
        let (samples, hosts) = (self.samples as f64, f64::from(span.size().min(MOST)).exp2());
        let fewest = hosts / 16.0;
        samples < hosts.sqrt() || (self.targets.count() as f64) < fewest * -(-samples / fewest).exp_m1()
    }

    /// Where it was seen.
    pub(super) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// First bytes of a few packets.
    pub(super) fn headers(&self) -> impl Iterator<Item = &[u8]> {
        self.headers.iter()
    }
}

impl Noted {
    /// Since when it may have been taken.
    fn taken(&self) -> u64 {
        self.span()[0]
    }

    /// Since when, and until when.
    fn span(&self) -> [u64; 2] {
        self.ago().map(|ago| self.time.saturating_sub(ago))
    }

    fn ago(&self) -> [u64; 2] {
        self.ago.map(|ms| u64::from(ms) * MILLISECOND)
    }

    fn bits(&self) -> f32 {
        (f64::from(self.frames) * f64::from(self.packet.length.min(LONGEST)) * 8.0) as f32
    }
}
