//! One stream of datagrams: a sequence, and a clock that goes with it.

use serde::{Deserialize, Serialize};

use super::sequence::{Ledger, Sequence, Step};
use super::{Nanos, Pauses, SECOND};

/// A stream, by a number that no other one of this table had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId(pub u32);

/// How far apart network and agent may put datagrams out of order, ms.
pub(super) const LATENESS: i64 = 5_000;
/// Datagrams that an agent sends in a millisecond, at most; more are missing only if they are somebody else's.
const FASTEST: i64 = 50;
/// Datagrams that may be missing in no time.
const BURST: i64 = 4_096;
/// Clocks that differ by more than one part in so many are not believed.
const DRIFT: i64 = 50;
/// Datagrams missing at once that are a great leap: what comes then from where it began is too late to be known.
const LEAP: u32 = 64;
/// Longest wait in a queue, ms: what is later than that is slow.
const QUEUE: i64 = 120_000;
/// What agents count that do not count milliseconds, ms.
const UNITS: [i64; 3] = [10, 100, 1_000];
/// A day, ms.
const DAY: i64 = 86_400_000;
/// A stream that was heard within this time may go on, ns: counters come every 10 to 60 s.
pub const SILENCE: Nanos = 120 * SECOND;
/// Pauses of a stream in which its own next datagram comes: one may be lost.
const PAUSES: Nanos = 2;
/// How long that is waited for, at most, of an agent that says that it has begun again, ns: it is nothing rare.
const BEGINNING: Nanos = 10 * SECOND;
/// Trust in an uptime that was never wrong.
const TRUSTED: u8 = 8;

/// Datagrams of one process of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Which.
    pub id: StreamId,
    sequence: Sequence,
    /// Of the datagram that is furthest ahead, ms.
    uptime: u32,
    /// When that came.
    heard: Nanos,
    /// Uptime and arrival from which on they are compared.
    start: (u32, Nanos),
    /// How long it is silent between two datagrams.
    #[serde(skip)]
    pauses: Pauses,
    /// How far uptimes went with the time at which they came.
    trust: u8,
    /// The greatest common divisor of all uptimes, ms: some agents count whole seconds.
    granule: u32,
    /// Runs: one more after each restart and discontinuity.
    epoch: u16,
    /// One more whenever the uptime stops being comparable to those before.
    era: u16,
    /// Restarts: uptime and sequence began again.
    pub restarts: u64,
    /// Sequences that went on elsewhere, without a restart.
    pub discontinuities: u64,
    /// Uptimes that jumped while the sequence went on.
    pub uptime_jumps: u64,
    /// Whether its datagrams come from where the agent is not, as far as that is known: no others continue it.
    #[serde(skip)]
    pub is_foreign: bool,
    /// When it was heard first; 0: before the program began.
    #[serde(skip)]
    pub since: Nanos,
    /// What it was before it began again, as long as that may have been somebody else.
    #[serde(skip)]
    former: Option<Box<Stream>>,
    /// Whether somebody else has begun again in its name: it has to be silent before that is believed once more.
    #[serde(skip)]
    is_contested: bool,
    /// Number, uptime and arrival of the datagram before the last great leap, of the numbers ahead or of the clock, and before the first one of
    /// late: who leaps twice hides none.
    #[serde(skip)]
    leapt_from: [Option<(u32, u32, Nanos)>; 2],
    /// From when until when it showed that two speak in this one, or that another one goes on where this leapt from.
    #[serde(skip)]
    disputed: Option<(Nanos, Nanos)>,
    /// Whether it has run into another one.
    #[serde(skip)]
    pub(super) has_met: bool,
}

/// When a datagram was sent and came, as counters need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// When it came.
    pub now: Nanos,
    /// The agent's uptime, ms.
    pub uptime: u32,
    /// Uptimes of one stream in different eras have nothing to do with one another.
    pub era: u16,
    /// Totals of different epochs have nothing to do with one another.
    pub epoch: u16,
    /// In what steps the uptime goes, ms; 0: it does not go, or not with the time.
    pub granule: u32,
    /// Whether later datagrams came before.
    pub late: bool,
}

/// How well a datagram continues a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// Not at all.
    None,
    /// By its sequence, not by its uptime.
    Sequence,
    /// By both.
    Both,
    /// As above, and it is the next one.
    Next,
}

impl Stream {
    pub(super) fn new(id: StreamId, now: Nanos, number: u32, uptime: u32) -> Self {
        let mut sequence = Sequence::default();
        sequence.restart(number);
        Self {
            id,
            sequence,
            uptime,
            heard: now,
            start: (uptime, now),
            pauses: Pauses::default(),
            trust: TRUSTED / 2,
            granule: uptime,
            epoch: 0,
            era: 0,
            restarts: 0,
            discontinuities: 0,
            uptime_jumps: 0,
            is_foreign: false,
            since: now,
            former: None,
            is_contested: false,
            leapt_from: [None; 2],
            disputed: None,
            has_met: false,
        }
    }

    /// When the datagram that is furthest ahead came.
    pub fn heard(&self) -> Nanos {
        self.heard
    }

    /// Uptime of that datagram, ms.
    pub fn uptime(&self) -> u32 {
        self.uptime
    }

    /// What came of its datagrams.
    pub fn ledger(&self) -> &Ledger {
        self.sequence.ledger()
    }

    #[inline]
    pub(super) fn fit(&self, now: Nanos, number: u32, uptime: u32) -> Fit {
        let Some(ahead) = self.sequence.ahead(number) else { return Fit::None };
        let clock = plausible(self.uptime, uptime, millis(now, self.heard));
        match i64::from(ahead) {
            1 if clock => Fit::Next,
            // A clock that was set: whoever goes on counting is the same.
            1 => Fit::Sequence,
            ahead if ahead <= 0 && self.began_again(now, uptime) => Fit::None,
            ahead if ahead > 1 && ahead <= BURST + FASTEST * millis(now, self.heard) => self.both(clock),
            ahead if ahead <= 0 && ahead > -i64::from(Sequence::WINDOW) => self.both(clock),
            // Too late to be known, as its uptime says. Without that, counting began again.
            ahead if ahead <= 0 && ahead > -i64::from(Sequence::STALE) => {
                let behind = since(self.uptime, uptime);
                if self.trust > 0 && (-LATENESS..0).contains(&behind) { Fit::Both } else { Fit::None }
            }
            _ => Fit::None,
        }
    }

    /// Whether the agent began again after this stream was last heard, as its uptime says: young processes' uptimes are close to one
    /// another, and so are their numbers.
    fn began_again(&self, now: Nanos, uptime: u32) -> bool {
        let behind = since(self.uptime, uptime);
        // Of a clock that has never moved, nothing can be said.
        let back = behind < 0 || behind == 0 && self.uptime != self.start.0;
        self.trust > 0 && back && i64::from(uptime) <= millis(now, self.heard)
    }

    /// An uptime that was never right cannot speak against a datagram.
    fn both(&self, clock: bool) -> Fit {
        match (clock, self.trust) {
            (true, _) => Fit::Both,
            (false, 0) => Fit::Sequence,
            (false, _) => Fit::None,
        }
    }

    /// Whether a datagram that is none of its numbers may be its next all the same: the agent counts on elsewhere.
    pub(super) fn may_jump(&self, now: Nanos, number: u32, uptime: u32) -> bool {
        let near = self.sequence.ahead(number).is_some_and(|ahead| (1..=BURST).contains(&i64::from(ahead)));
        near || self.trust == 0 || plausible(self.uptime, uptime, millis(now, self.heard))
    }

    /// Whether an agent that was last heard as this stream, and began again, can have this uptime by now.
    pub(super) fn may_restart(&self, now: Nanos, uptime: u32) -> bool {
        uptime < self.uptime && i64::from(uptime) <= millis(now, self.heard) + 1_000
    }

    /// Whether it may have begun again by a time, as far as others have not done so in its name before.
    pub(super) fn may_be_over(&self, now: Nanos) -> bool {
        self.heard < now && (!self.is_contested || now - self.heard > SILENCE)
    }

    /// Two speak in it, as it shows now, or another one goes on where this leapt from.
    pub(super) fn dispute(&mut self, now: Nanos) {
        let lasting = self.disputed.filter(|(_, last)| now.saturating_sub(*last) <= SILENCE);
        self.disputed = Some((lasting.map_or(now, |(first, _)| first), now));
    }

    /// Whether nobody knows which of the two is the agent: they have run into streams, or the other one began when it showed that two speak in
    /// this one, as the agent does that has lost its place to somebody else.
    pub fn is_disputed_by(&self, other: &Stream) -> bool {
        let began_then = |(first, last): (Nanos, Nanos)| (first..=last.saturating_add(SILENCE)).contains(&other.since);
        self.has_met && other.has_met || self.disputed.is_some_and(began_then)
    }

    /// Whether its own next datagram may still come, though others say that it has begun again, or counts on elsewhere: who is in no hurry sends
    /// between two of an agent's.
    pub(super) fn may_go_on(&self, now: Nanos, uptime: u32) -> bool {
        let most = if self.may_restart(now, uptime) { BEGINNING } else { SILENCE };
        now.saturating_sub(self.heard) <= (PAUSES * self.pauses.longest()).min(most)
    }

    /// Whether a datagram that is another stream's is close to where this one goes on, too.
    pub(super) fn is_near(&self, now: Nanos, number: u32, uptime: u32) -> bool {
        let elapsed = now.saturating_sub(self.heard);
        let near =
            self.sequence.ahead(number).is_some_and(|ahead| i64::from(ahead).abs() < i64::from(Sequence::WINDOW));
        near && elapsed <= SILENCE && plausible(self.uptime, uptime, (elapsed / 1_000_000) as i64)
    }

    /// Whether a datagram goes on where this was before it began again: then that was somebody else.
    pub(super) fn resumes(&self, now: Nanos, number: u32, uptime: u32) -> bool {
        self.former.as_ref().is_some_and(|former| {
            let is_ahead = former.sequence.ahead(number).is_some_and(|ahead| ahead > 0);
            now.saturating_sub(former.heard) <= SILENCE && is_ahead && former.fit(now, number, uptime) >= Fit::Both
        })
    }

    /// Whether a datagram that does not fit goes on where this leapt from: then one of the two is somebody else.
    pub(super) fn has_left(&self, now: Nanos, number: u32, uptime: u32) -> bool {
        let is_behind = self.sequence.ahead(number).is_some_and(|ahead| ahead <= 0) || since(self.uptime, uptime) < 0;
        let goes_on = |&(from, told, heard): &(u32, u32, Nanos)| {
            let ahead = i64::from(number.wrapping_sub(from) as i32);
            (1..=BURST).contains(&ahead) && plausible(told, uptime, millis(now, heard))
        };
        is_behind && self.leapt_from.iter().flatten().any(goes_on)
    }

    /// Goes on where it was before it began again; what it has been since, as a stream by this number.
    pub(super) fn resume(&mut self, id: StreamId) -> Option<Stream> {
        let former = *self.former.take()?;
        let mut other = std::mem::replace(self, former);
        other.sequence.part_from(&self.sequence);
        // Totals of now have nothing to do with those that the other one has told meanwhile.
        (self.epoch, self.era) = (other.epoch.wrapping_add(1), other.era.wrapping_add(1));
        self.is_contested = true;
        (other.id, other.since) = (id, other.start.1);
        for (mine, others) in [
            (self.restarts, &mut other.restarts),
            (self.discontinuities, &mut other.discontinuities),
            (self.uptime_jumps, &mut other.uptime_jumps),
        ] {
            *others -= mine;
        }
        Some(other)
    }

    /// Takes a datagram that fits.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos, number: u32, uptime: u32) -> Step {
        let step = self.sequence.advance(number);
        let lost = match step {
            Step::Next => 0,
            Step::Lost(lost) => lost,
            _ => return step,
        };
        let is_right = plausible(self.uptime, uptime, millis(now, self.heard));
        // A clock that was set, or somebody else who knows the number and not the time: the agent goes on where it was.
        if lost >= LEAP || !is_right && self.trust > 0 {
            self.leave(now, number.wrapping_sub(lost + 1));
        }
        if is_right {
            self.trust = (self.trust + 1).min(TRUSTED);
        } else {
            self.trust = self.trust.saturating_sub(TRUSTED / 2);
            self.uptime_jumps += 1;
            self.era = self.era.wrapping_add(1);
            self.start = (uptime, now);
        }
        self.pauses.enter(now.saturating_sub(self.heard), now);
        (self.uptime, self.heard) = (uptime, now);
        if self.granule == 0 || !uptime.is_multiple_of(self.granule) {
            self.granule = gcd(uptime, self.granule);
        }
        step
    }

    /// It leaps away from this number.
    #[cold]
    fn leave(&mut self, now: Nanos, number: u32) {
        let from = (number, self.uptime, self.heard);
        let first = self.leapt_from[1].filter(|first| now.saturating_sub(first.2) <= SILENCE);
        self.leapt_from = [Some(from), first.or(Some(from))];
    }

    /// Begins again with another run of the same agent.
    pub(super) fn restart(&mut self, now: Nanos, number: u32, uptime: u32) -> bool {
        let restart = self.may_restart(now, uptime);
        // Of several that began again in a row the first was there before.
        if self.former.as_ref().is_none_or(|former| now.saturating_sub(former.heard) > SILENCE) {
            self.former = Some(Box::new(Self { former: None, ..self.clone() }));
        }
        self.restarts += u64::from(restart);
        self.discontinuities += u64::from(!restart);
        self.sequence.restart(number);
        (self.uptime, self.heard) = (uptime, now);
        self.epoch = self.epoch.wrapping_add(1);
        self.era = self.era.wrapping_add(1);
        self.start = (uptime, now);
        restart
    }

    #[inline]
    pub(super) fn moment(&mut self, now: Nanos, uptime: u32, step: Step) -> Moment {
        let (arrived, sent) = (millis(now, self.start.1), since(self.start.0, uptime));
        let (lag, tolerance) = (arrived - sent, LATENESS + arrived / DRIFT);
        let steady = lag.abs() <= tolerance;
        if arrived > DAY && steady {
            self.start = (uptime, now);
        }
        let runs = steady || waits(arrived, sent);
        let granule = if self.trust > 0 && runs { self.granule } else { 0 };
        Moment { now, uptime, era: self.era, epoch: self.epoch, granule, late: step == Step::Late }
    }
}

/// Whether what is late by its uptime waits in a queue (before a TCP connection that loses, say): uptimes are right, arrivals are
/// not. Otherwise the agent counts in another unit, or not at all.
fn waits(arrived: i64, sent: i64) -> bool {
    let counts = |unit: i64| (sent * unit - arrived).abs() <= arrived / DRIFT;
    sent > 0 && (0..=QUEUE).contains(&(arrived - sent)) && !UNITS.into_iter().any(counts)
}

/// How far an uptime is ahead of another, ms, over its wrap after 49.7 days.
pub(super) fn since(earlier: u32, later: u32) -> i64 {
    i64::from(later.wrapping_sub(earlier) as i32)
}

/// Whether an uptime can follow another after so many ms. Clocks that are slow or stand are borne, for they tell nothing.
pub(super) fn plausible(earlier: u32, later: u32, elapsed: i64) -> bool {
    (-LATENESS..=2 * elapsed + LATENESS).contains(&since(earlier, later))
}

pub(super) fn millis(now: Nanos, earlier: Nanos) -> i64 {
    (now.saturating_sub(earlier) / 1_000_000) as i64
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
