//! One stream of datagrams: the numbers, the clock and the standing of one sender.

use std::collections::HashMap;
use std::net::SocketAddr;

use foldhash::quality::RandomState;
use serde::{Deserialize, Serialize};
use weir_detect::model::Why;
use weir_wire::sflow::DataSource;

use super::exposure::Exposure;
use super::sequence::{Ledger, Sequence, Step};
use super::standing::Standing;
use super::{Nanos, SECOND};

/// A stream, by a number that no other one of this table had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId(pub u32);

/// By how much a clock may be off for what network and agent do, ms.
const LATENESS: i64 = 5_000;
/// After so long it shows whether an uptime goes with the time: by 2 % besides.
const LONG: Nanos = 20 * SECOND;
const DRIFT: i64 = 50;
/// Uptimes in a row that are whole seconds, after which they are no clock: 1 s is 5 % of a poll of 20 s, sysUpTime's 10 ms are 0.05 %.
const ROUND: u8 = 8;
/// Datagrams in a row whose numbers are far away, after which the agent counts on there.
const ELSEWHERE: u8 = 8;
/// A sender that has been silent for so long may go on from another address or port, with one of its next numbers.
const MOVING: Nanos = 10 * SECOND;
const NEAR: i32 = 4_096;
/// A number that was overtaken so long ago is somebody else's, ms.
const OVERTAKEN: u32 = 1_000;
/// A day, ms.
const DAY: i64 = 86_400_000;
/// A stream that was heard within this time may go on, ns: counters come every 10 to 60 s.
pub const SILENCE: Nanos = 120 * SECOND;

/// Datagrams of one sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Which.
    pub id: StreamId,
    /// From where it comes.
    pub peer: SocketAddr,
    sequence: Sequence,
    /// Of the datagram that is furthest ahead, ms.
    uptime: u32,
    /// When that came.
    heard: Nanos,
    /// Uptime and arrival from which on they are compared, and whether they went on alike.
    start: (u32, Nanos),
    agrees: bool,
    /// Uptimes in a row that were whole seconds.
    round: u8,
    /// Runs: one more after each restart and discontinuity.
    epoch: u16,
    /// One more whenever the uptime stops being comparable to those before; never 0.
    era: u16,
    /// Datagrams in a row with numbers from elsewhere.
    elsewhere: u8,
    /// Restarts: uptime and sequence began again.
    pub restarts: u64,
    pub(super) standing: Standing,
    #[serde(skip)]
    pub(super) exposure: Exposure,
    /// Of the last numbers, by their last bits: what was in the datagram, hashed, and when it came, ms. 0: nobody knows.
    #[serde(skip)]
    recent: Vec<(u32, u32)>,
    /// The slots of its data sources.
    #[serde(skip)]
    pub(super) sources: HashMap<DataSource, u32, RandomState>,
}

/// What a datagram tells of itself.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Its number.
    pub number: u32,
    /// The agent's uptime, ms.
    pub uptime: u32,
    /// A hash of all of it.
    pub content: u32,
}

/// When a datagram was sent and came, as counters need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// When it came.
    pub now: Nanos,
    /// The agent's uptime, ms.
    pub uptime: u32,
    /// Uptimes of one stream with the same clock can be compared; 0: with none.
    pub clock: u16,
    /// Totals of different epochs have nothing to do with one another.
    pub epoch: u16,
    /// Whether later datagrams came before.
    pub late: bool,
}

impl Stream {
    pub(super) fn new(id: StreamId, peer: SocketAddr, now: Nanos, told: &Told) -> Self {
        let mut stream = Self {
            id,
            peer,
            sequence: Sequence::default(),
            uptime: told.uptime,
            heard: now,
            start: (told.uptime, now),
            agrees: false,
            round: 0,
            epoch: 0,
            era: 1,
            elsewhere: 0,
            restarts: 0,
            standing: Standing::default(),
            exposure: Exposure::default(),
            recent: Vec::new(),
            sources: HashMap::default(),
        };
        stream.sequence.restart(told.number);
        stream.remember(now, told);
        stream
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

    /// Whether a datagram from elsewhere goes on where this one has fallen silent.
    pub(super) fn goes_on(&self, now: Nanos, told: &Told) -> bool {
        let is_next = self.sequence.ahead(told.number).is_some_and(|ahead| (1..=NEAR).contains(&ahead));
        let clock = -LATENESS..=2 * millis(now, self.heard) + LATENESS;
        now >= self.heard + MOVING && is_next && clock.contains(&since(self.uptime, told.uptime))
    }

    /// Comes from there from now on.
    pub(super) fn go_to(&mut self, peer: SocketAddr, now: Nanos) {
        self.peer = peer;
        self.standing.begin_again(now);
    }

    /// Takes a datagram; what its number is.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos, told: &Told) -> Step {
        let ahead = self.sequence.ahead(told.number).unwrap_or(1);
        let is_known = ahead <= 0 && self.sequence.has(told.number);
        let content = self.recent.get(place(told.number)).map_or(0, |(content, _)| *content);
        let is_same = is_known && (content == 0 || content == told.content | 1);
        if ahead != 1 && !is_same && since(self.uptime, told.uptime) < -LATENESS {
            self.restarts += 1;
            self.begin_again(now, told);
            return Step::Jump;
        }
        if ahead > Sequence::GAP || ahead <= -Sequence::WINDOW {
            self.elsewhere += 1;
            if self.elsewhere < ELSEWHERE {
                self.standing.contradict(now, Why::Overtaken);
                return Step::Stale;
            }
            self.begin_again(now, told);
            return Step::Jump;
        }
        self.elsewhere = 0;
        let step = self.sequence.advance(told.number);
        match step {
            Step::Next | Step::Lost(_) => self.tick(now, told.uptime),
            Step::Duplicate if is_same => return step,
            Step::Duplicate => self.standing.contradict(now, Why::Content),
            _ if self.was_overtaken(now, told.number) => self.standing.contradict(now, Why::Overtaken),
            _ => {}
        }
        self.remember(now, told);
        if step == Step::Duplicate { Step::Late } else { step }
    }

    /// Compares the uptime with the time that has passed.
    fn tick(&mut self, now: Nanos, uptime: u32) {
        let (passed, gone) = (millis(now, self.heard), since(self.uptime, uptime));
        let arrived = millis(now, self.start.1);
        let lag = arrived - since(self.start.0, uptime);
        // What was held up comes at once, and its uptimes are right.
        if gone < -LATENESS || gone > passed + LATENESS && lag < -LATENESS {
            if self.agrees {
                self.standing.contradict(now, Why::Clock);
            }
            self.compare_from(now, uptime);
        } else if now >= self.start.1 + LONG {
            let did_agree = std::mem::replace(&mut self.agrees, lag.abs() <= LATENESS + arrived / DRIFT);
            match (did_agree, self.agrees) {
                (true, false) => self.compare_from(now, uptime),
                (false, false) => self.start = (uptime, now),
                _ if arrived > DAY => self.start = (uptime, now),
                _ => {}
            }
        }
        self.round = if uptime.is_multiple_of(1_000) { (self.round + 1).min(ROUND) } else { 0 };
        (self.uptime, self.heard) = (uptime, now);
    }

    fn compare_from(&mut self, now: Nanos, uptime: u32) {
        (self.start, self.agrees) = ((uptime, now), false);
        self.era = self.era.wrapping_add(1).max(1);
    }

    /// Whether a later number has been here for long.
    fn was_overtaken(&self, now: Nanos, number: u32) -> bool {
        let behind = self.sequence.ahead(number).unwrap_or(0).unsigned_abs();
        let later = (1..=behind).map(|by| number.wrapping_add(by)).filter(|&later| self.sequence.has(later));
        let now = (now / 1_000_000) as u32;
        let is_long_ago = |&(content, came): &(u32, u32)| content != 0 && now.wrapping_sub(came) > OVERTAKEN;
        later.filter_map(|later| self.recent.get(place(later))).any(is_long_ago)
    }

    fn remember(&mut self, now: Nanos, told: &Told) {
        self.recent.resize(Sequence::WINDOW as usize, (0, 0));
        self.recent[place(told.number)] = (told.content | 1, (now / 1_000_000) as u32);
    }

    /// Begins again with another run of the same agent.
    fn begin_again(&mut self, now: Nanos, told: &Told) {
        self.sequence.restart(told.number);
        (self.uptime, self.heard, self.elsewhere, self.round) = (told.uptime, now, 0, 0);
        self.epoch = self.epoch.wrapping_add(1);
        self.compare_from(now, told.uptime);
        self.standing.begin_again(now);
        self.remember(now, told);
    }

    #[inline]
    pub(super) fn moment(&self, now: Nanos, uptime: u32, step: Step) -> Moment {
        let clock = if self.agrees && self.round < ROUND { self.era } else { 0 };
        Moment { now, uptime, clock, epoch: self.epoch, late: step == Step::Late }
    }
}

/// Where a number is remembered.
fn place(number: u32) -> usize {
    number as usize % Sequence::WINDOW as usize
}

/// How far an uptime is ahead of another, ms, over its wrap after 49.7 days.
fn since(earlier: u32, later: u32) -> i64 {
    i64::from(later.wrapping_sub(earlier) as i32)
}

fn millis(now: Nanos, earlier: Nanos) -> i64 {
    (now.saturating_sub(earlier) / 1_000_000) as i64
}
