//! The flows of one definition in one shard: by data source and key, each with its smoothed sum.
//!
//! What every packet reads and changes is one line of the processor's cache ([`Rate`]); the rest lies apart ([`History`]). What is
//! dear is waiting for memory: it is asked for before it is needed ([`Table::foresee`], [`Table::guess`]).
//! The number of flows is bounded. A new flow takes the place of the smallest of a few that the hand of a clock comes by, if it
//! is larger itself; so a heavy flow stays, whatever number of small ones arrives. What has been silent for the active timeout
//! is forgotten by [`Table::expire`].

mod index;
mod key;

#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use index::Index;
use key::Kept;
pub(super) use key::{Key, Piece};

use super::decay::Instant;
use crate::sys::prefetch;

/// What a packet is compared with, and changes.
#[derive(Debug)]
#[repr(align(64))]
struct Rate {
    key: Kept,
    sum: f64,
    squares: f64,
    epoch: u32,
    /// The data source, by its place in the shard; [`NOBODY`]: this place is free.
    source: u32,
    /// When the last packet came, in tenths of a second since the start.
    last: u32,
    /// Samples, as far as can be counted.
    samples: u32,
}

/// What hardly anybody asks for.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    /// When the flow began, or was told of last, in seconds.
    first: f64,
    /// What its packets since then stand for, not smoothed.
    total: f64,
}

/// A packet on its way into a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update<'a> {
    pub(super) source: u32,
    pub(super) key: Key,
    /// All bytes of it, if it is long.
    pub(super) long: &'a [u8],
    /// What it adds to the value.
    pub(super) amount: f64,
    /// What it adds to further sums, in the order of the table.
    pub(super) further: &'a [f64],
    pub(super) now: f64,
    pub(super) at: Instant,
}

/// A flow that is told of: it began, or it is over, or it goes on and has been silent about it for long enough.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) source: u32,
    pub(super) key: Box<[u8]>,
    pub(super) first: f64,
    pub(super) last: f64,
    pub(super) total: f64,
    pub(super) samples: u32,
}

/// When flows are told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Telling {
    #[default]
    Never,
    AtStart,
    AtEnd,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    rates: Vec<Rate>,
    histories: Vec<History>,
    /// Long keys, by the places of their flows; none behind the last.
    long: Vec<Box<[u8]>>,
    /// `stride` of them a flow.
    further: Vec<f64>,
    stride: usize,
    index: Index,
    free: Vec<u32>,
    hasher: RandomState,
    /// Where the next look for what is small begins.
    hand: usize,
    /// Where the next look for what is silent begins.
    swept: usize,
    timeout: f64,
    telling: Telling,
    told: Vec<Told>,
    /// Flows that made room for larger ones, and packets of new flows for which no smaller one made room.
    pub(super) evicted: u64,
}

impl Table {
    /// A table whose flows have `stride` sums besides the first, and are forgotten after `timeout` seconds of silence.
    pub(super) fn new(stride: usize, timeout: f64, telling: Telling) -> Table {
        Table { stride, timeout, telling, ..Table::default() }
    }

    /// Number of flows.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Where a flow would be looked for.
    #[inline]
    pub(super) fn hash(&self, source: u32, key: Key, long: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        key.words().into_iter().for_each(|word| hasher.write_u128(word));
        if key.is_long() {
            hasher.write(long);
        }
        hasher.write_u32(source);
        hasher.finish()
    }

    /// Asks for the place where a flow is looked for.
    #[inline]
    pub(super) fn foresee(&self, hash: u64) {
        self.index.foresee(hash);
    }

    /// Where a flow probably is, and asks for it.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> u32 {
        let guess = self.index.guess(hash);
        if let Some(rate) = self.rates.get(guess as usize) {
            prefetch(rate);
            self.further.get(guess as usize * self.stride).into_iter().for_each(prefetch);
            self.long.get(guess as usize).into_iter().for_each(prefetch);
        }
        guess
    }

    /// The place of a flow, which was guessed a while ago; `None`: there is none.
    #[inline]
    fn find(&self, hash: u64, guess: u32, update: &Update<'_>) -> Option<usize> {
        let is_it = |at: u32| {
            let rate = &self.rates[at as usize];
            let is_alike = rate.source == update.source && rate.key.key() == update.key;
            is_alike && (!update.key.is_long() || *self.long[at as usize] == *update.long)
        };
        if (guess as usize) < self.rates.len() && is_it(guess) {
            return Some(guess as usize);
        }
        self.index.find(hash, is_it).map(|at| at as usize)
    }

    /// Counts a packet, and tells the place of its flow; a new one has a place if there are fewer than `limit`.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, guess: u32, update: &Update<'_>, limit: usize) -> Option<usize> {
        match self.find(hash, guess, update) {
            Some(at) => {
                self.count(at, update);
                Some(at)
            }
            None => self.insert(hash, update, limit),
        }
    }

    #[inline]
    fn count(&mut self, at: usize, update: &Update<'_>) {
        if self.telling != Telling::Never {
            self.count_told(at, update);
        }
        let (rate, weight) = (&mut self.rates[at], update.at.weight);
        let further = &mut self.further[at * self.stride..][..self.stride];
        if rate.epoch != update.at.epoch {
            let carry = update.at.carry(rate.epoch);
            (rate.sum, rate.squares, rate.epoch) = (rate.sum * carry, rate.squares * carry * carry, update.at.epoch);
            further.iter_mut().for_each(|sum| *sum *= carry);
        }
        let amount = update.amount * weight;
        rate.sum += amount;
        rate.squares += amount * amount;
        rate.last = tenths(update.now);
        rate.samples = rate.samples.saturating_add(1);
        for (sum, value) in further.iter_mut().zip(update.further) {
            *sum += value * weight;
        }
    }

    fn count_told(&mut self, at: usize, update: &Update<'_>) {
        if self.telling == Telling::AtEnd && update.now - self.histories[at].first >= self.timeout {
            self.tell(at);
            self.histories[at] = History { first: update.now, total: 0.0 };
        }
        self.histories[at].total += update.amount;
    }

    fn insert(&mut self, hash: u64, update: &Update<'_>, limit: usize) -> Option<usize> {
        let room = if self.index.len() < limit { Some(self.place()) } else { self.make_room(update) };
        let Some(at) = room else {
            self.evicted += 1;
            return None;
        };
        let (source, epoch) = (update.source, update.at.epoch);
        self.rates[at] = Rate { key: update.key.keep(), epoch, source, ..Rate::FREE };
        if update.key.is_long() {
            self.long.resize(self.long.len().max(at + 1), Box::default());
            self.long[at] = update.long.into();
        }
        self.histories[at] = History { first: update.now, total: 0.0 };
        self.further[at * self.stride..][..self.stride].fill(0.0);
        self.index.insert(hash, at as u32);
        self.count(at, update);
        if self.telling == Telling::AtStart {
            self.tell(at);
        }
        Some(at)
    }

    /// A free place.
    fn place(&mut self) -> usize {
        if let Some(at) = self.free.pop() {
            return at as usize;
        }
        self.rates.push(Rate::FREE);
        self.histories.push(History::default());
        self.further.resize(self.rates.len() * self.stride, 0.0);
        self.rates.len() - 1
    }

    /// The place of the smallest flow of those that the hand comes by, if the new one is larger.
    fn make_room(&mut self, update: &Update<'_>) -> Option<usize> {
        let mut smallest: Option<(f64, usize)> = None;
        for _ in 0..CANDIDATES.min(self.rates.len()) {
            let at = turn(&mut self.hand, self.rates.len());
            let rate = &self.rates[at];
            let sum = rate.sum * update.at.carry(rate.epoch);
            if rate.source != NOBODY && smallest.is_none_or(|(least, _)| sum < least) {
                smallest = Some((sum, at));
            }
        }
        // The next ones that the hand comes by.
        self.rates.iter().skip(self.hand).take(CANDIDATES).for_each(prefetch);
        let (_, at) = smallest.filter(|&(sum, _)| sum < update.amount * update.at.weight)?;
        self.evicted += 1;
        self.remove(at);
        self.free.pop().map(|at| at as usize)
    }

    /// Forgets what has been silent, looking at the next so many places.
    pub(super) fn expire(&mut self, now: f64, places: usize) {
        let oldest = tenths((now - self.timeout).max(0.0));
        for _ in 0..places.min(self.rates.len()) {
            let at = turn(&mut self.swept, self.rates.len());
            let Rate { source, last, .. } = self.rates[at];
            if source != NOBODY && last < oldest {
                self.remove(at);
            }
        }
    }

    fn remove(&mut self, at: usize) {
        if self.telling == Telling::AtEnd {
            self.tell(at);
        }
        let rate = &self.rates[at];
        let long = self.long.get_mut(at).map(std::mem::take).unwrap_or_default();
        self.index.remove(self.hash(rate.source, rate.key.key(), &long), at as u32);
        self.rates[at] = Rate::FREE;
        self.free.push(at as u32);
    }

    fn tell(&mut self, at: usize) {
        if self.told.len() == MAX_TOLD {
            return;
        }
        let (source, total, (samples, first, last)) =
            (self.rates[at].source, self.histories[at].total, self.history(at));
        self.told.push(Told { source, key: self.key(at).into(), first, last, total, samples });
    }

    /// What there is to tell since the last time.
    pub(super) fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Forgets the flows of data sources that are no more, looking at all flows.
    pub(super) fn forget(&mut self, gone: impl Fn(u32) -> bool) {
        for at in 0..self.rates.len() {
            if self.rates[at].source != NOBODY && gone(self.rates[at].source) {
                self.remove(at);
            }
        }
    }

    /// Number of places; those of flows that are gone are empty.
    pub(super) fn places(&self) -> usize {
        self.rates.len()
    }

    /// The smoothed sum at a place, in the epoch of `at`, and whose it is.
    #[inline]
    pub(super) fn sum(&self, place: usize, at: &Instant) -> Option<(f64, u32)> {
        let rate = &self.rates[place];
        (rate.source != NOBODY).then(|| (rate.sum * at.carry(rate.epoch), rate.source))
    }

    /// The sum of squares at a place.
    pub(super) fn squares(&self, place: usize, at: &Instant) -> f64 {
        let carry = at.carry(self.rates[place].epoch);
        self.rates[place].squares * carry * carry
    }

    /// A further sum at a place.
    pub(super) fn further(&self, place: usize, number: usize, at: &Instant) -> f64 {
        self.further[place * self.stride + number] * at.carry(self.rates[place].epoch)
    }

    pub(super) fn key(&self, place: usize) -> &[u8] {
        let kept = &self.rates[place].key;
        if kept.key().is_long() { &self.long[place] } else { kept.as_bytes() }
    }

    /// Samples, and when the first and the last came, in seconds.
    pub(super) fn history(&self, place: usize) -> (u32, f64, f64) {
        let (rate, history) = (&self.rates[place], &self.histories[place]);
        // The last is known to a tenth.
        (rate.samples, history.first, (f64::from(rate.last) / 10.0).max(history.first))
    }
}

impl Rate {
    const FREE: Rate = Rate { key: Kept::EMPTY, sum: 0.0, squares: 0.0, epoch: 0, source: NOBODY, last: 0, samples: 0 };
}

/// The place at a hand, which goes on to the next.
fn turn(hand: &mut usize, places: usize) -> usize {
    let at = if *hand < places { *hand } else { 0 };
    *hand = at + 1;
    at
}

fn tenths(seconds: f64) -> u32 {
    (seconds * 10.0) as u32
}

const NOBODY: u32 = u32::MAX;

/// Flows among which the smallest makes room.
const CANDIDATES: usize = 8;

/// Tellings that wait to be fetched.
const MAX_TOLD: usize = 10_000;
