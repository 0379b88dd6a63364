//! What is kept of those with evidence: recent packets, where they were seen, rates; and of floods how many samples, sources and hosts.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use super::classes::{Classes, bit};
use super::distinct::Distinct;
use super::groups::Span;
use super::headers::Headers;
use super::rates::Rates;
use super::table::Key;
use crate::model::{Class, Contested, Packet, Rate, Sighting, Spot, Word};

/// No dossier.
pub(super) const NONE: u32 = u32::MAX;

/// Packets that are kept.
const PACKETS: usize = 96;
/// Points that are kept.
const SPOTS: usize = 8;
/// log2 of how many hosts a prefix is taken to have at most.
const MOST: u8 = 16;
/// Newest packets that are taken to have come at the same time, however slowly they came.
const AT_ONCE: usize = 32;

/// A packet, and what it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub(super) time: u64,
    pub(super) frames: f32,
    pub(super) classes: Classes,
    pub(super) packet: Packet,
}

/// What is kept of one.
#[derive(Debug, Default)]
pub(super) struct Dossier {
    /// Whose; `None`: nobody's.
    pub(super) key: Option<Key>,
    last: u64,
    /// Its newest packets, the oldest first.
    ring: VecDeque<Noted>,
    rates: [Rates; Class::ALL.len()],
    spots: Vec<Spot>,
    headers: Headers,
    /// Of each flood that goes on.
    parts: Vec<Part>,
    /// Of a prefix: packets that were noted, and different hosts that got them.
    noted: u64,
    hosts: Distinct,
    /// Which tests were full since that was looked at, and since when.
    pub(super) full: u32,
    pub(super) fired: u64,
    /// How full the fullest bucket was, as of the last sample.
    share: f32,
}

/// What came of a flood since it was first too much.
#[derive(Debug)]
pub(super) struct Part {
    class: Class,
    pub(super) samples: u64,
    pub(super) sources: Distinct,
    pub(super) hosts: Distinct,
}

/// All dossiers.
#[derive(Debug, Default)]
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
        Self { limit: limit.max(1), ..Self::default() }
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
                self.all.push(Dossier::default());
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
        let least = few.filter(|&at| !self.all[at].is_flood()).min_by(|&a, &b| {
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
            dossier.parts.clear();
            self.free.push(at);
        }
    }

    /// Closes those to whom nothing came since a time, of a few at once.
    pub(super) fn expire(&mut self, oldest: u64) {
        for _ in 0..self.all.len().min(64) {
            self.hand = (self.hand + 1) % self.all.len();
            let dossier = &self.all[self.hand];
            if dossier.key.is_some() && !dossier.is_flood() && dossier.last < oldest {
                self.close(self.hand as u32);
            }
        }
    }

    /// Notes a packet, of a burst that was taken since a time.
    #[inline]
    pub(super) fn note(&mut self, at: u32, sighting: &Sighting<'_>, classes: Classes, (share, since): (f32, u64)) {
        let Some(dossier) = self.all.get_mut(at as usize) else { return };
        let Sighting { time, frames, packet, point, word, header, .. } = *sighting;
        let noted = Noted { time, frames: frames as f32, classes, packet };
        if dossier.ring.len() == PACKETS {
            dossier.ring.pop_front();
        }
        dossier.ring.push_back(noted);
        if !header.is_empty() {
            dossier.headers.note(header, time, classes);
        }
        (dossier.last, dossier.share) = (time, share);
        match dossier.spots.iter().position(|spot| spot.point == point) {
            Some(at) => dossier.spots[at].word = word,
            None if dossier.spots.len() < SPOTS => dossier.spots.push(Spot { point, word }),
            None => {}
        }
        let bits = bits(sighting);
        for (_, rates) in dossier.rates.iter_mut().enumerate().filter(|(at, _)| classes & 1 << at != 0) {
            rates.add((since, time), frames, bits);
        }
        if dossier.key.is_some_and(|key| !key.span.is_host()) {
            dossier.noted += 1;
            dossier.hosts.add(self.hasher.hash_one(packet.destination));
        }
        for part in dossier.parts.iter_mut().filter(|part| classes & bit(part.class) != 0) {
            part.note(&self.hasher, &packet);
        }
    }

    /// What these points have told is doubted, until they tell of it anew.
    pub(super) fn contest(&mut self, contested: &Contested) {
        let spots = self.all.iter_mut().flat_map(|dossier| &mut dossier.spots);
        spots.filter(|spot| contested.means(&spot.point)).for_each(|spot| spot.word = contested.word());
    }

    /// A flood of a class was first too much at this time: what is told of it is of its packets since.
    pub(super) fn attribute(&mut self, at: u32, class: Class, since: u64) {
        let Some(dossier) = self.all.get_mut(at as usize) else { return };
        let mut part = Part { class, samples: 0, sources: Distinct::default(), hosts: Distinct::default() };
        dossier.packets(class, since).for_each(|noted| part.note(&self.hasher, &noted.packet));
        dossier.rates[class as usize].begin(since);
        dossier.parts.push(part);
    }

    /// The flood is over.
    pub(super) fn release(&mut self, at: u32, class: Class) {
        if let Some(dossier) = self.all.get_mut(at as usize) {
            dossier.parts.retain(|part| part.class != class);
            dossier.rates[class as usize].end();
        }
    }
}

/// Bits that a sample stands for. No frame is longer than an IP packet and what is around it, whatever is told.
pub(super) fn bits(sighting: &Sighting<'_>) -> f64 {
    sighting.frames * f64::from(sighting.packet.length.min(LONGEST)) * 8.0
}

/// Bytes of the longest frame.
const LONGEST: u32 = 65_536 + 64;

impl Dossier {
    fn begin(&mut self, key: Key, now: u64) {
        (self.key, self.last, self.full, self.share) = (Some(key), now, 0, 0.0);
        self.ring.clear();
        self.spots.clear();
        self.headers.clear();
        self.parts.clear();
        self.noted = 0;
        self.hosts.clear();
        self.rates.iter_mut().for_each(Rates::clear);
    }

    /// Whether it is part of a flood: it stays.
    fn is_flood(&self) -> bool {
        !self.parts.is_empty()
    }

    /// What came of a flood; `None`: it is none here.
    pub(super) fn part(&self, class: Class) -> Option<&Part> {
        self.parts.iter().find(|part| part.class == class)
    }

    /// Packets and bits a second of a class: see [`Rates::told`].
    pub(super) fn told(&self, class: Class, complete: u64) -> (Rate, Rate) {
        self.rates[class as usize].told(complete)
    }

    /// Recent packets of a class since a time, the oldest first.
    pub(super) fn packets(&self, class: Class, since: u64) -> impl DoubleEndedIterator<Item = &Noted> + Clone {
        self.ring.iter().filter(move |noted| noted.time >= since && noted.classes & bit(class) != 0)
    }

    /// Packets of a class that came at the same time: in the last second, or the newest ones where fewer came.
    pub(super) fn at_once(&self, class: Class, now: u64) -> impl Iterator<Item = &Noted> + Clone {
        let last = self.packets(class, 0).rev().take(AT_ONCE).last().map_or(now, |noted| noted.time);
        self.packets(class, last.min(now.saturating_sub(1_000_000_000)))
    }

    /// Whether so few hosts of a prefix get it that they are to be found by themselves, or nobody knows yet: an attack on the prefix is one on a
    /// sixteenth of its hosts at least.
    pub(super) fn is_sparse(&self, span: Span) -> bool {
        // Of n samples to N hosts alike, N (1 - exp(-n/N)) hosts are seen. With as many samples as the root of all hosts, there are
        // eight hosts seen twice if a sixteenth gets all.
        let (samples, hosts) = (self.noted as f64, f64::from(span.size().min(MOST)).exp2());
        let fewest = hosts / 16.0;
        samples < hosts.sqrt() || (self.hosts.count() as f64) < fewest * -(-samples / fewest).exp_m1()
    }

    /// Whether nothing speaks against one of those that told of it.
    pub(super) fn is_good(&self) -> bool {
        self.spots.iter().any(|spot| spot.word == Word::Good)
    }

    /// Where it was seen.
    pub(super) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// First bytes of a few packets of a class.
    pub(super) fn headers(&self, class: Class, since: u64) -> impl Iterator<Item = &[u8]> {
        self.headers.of(bit(class), since)
    }
}

impl Part {
    #[inline]
    fn note(&mut self, hasher: &RandomState, packet: &Packet) {
        self.samples += 1;
        self.sources.add(hasher.hash_one(packet.source));
        self.hosts.add(hasher.hash_one(packet.destination));
    }
}
