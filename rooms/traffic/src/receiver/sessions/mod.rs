//! The ledgers of all senders and sessions.

mod intervals;
mod session;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_program::clock::{Nanos, nanos};
use weir_stats::DelayRecorder;
use weir_wire::probe::{Kind, Probe};

use self::intervals::Intervals;
use self::session::{Counted, Session};
use crate::reverse::OtherWay;
use crate::{Exchange, Flight, Interval, ReceiveReport, ReceiverSettings, SequenceSet, SessionReport};

/// All sessions of a receiver, up to a limit. Beyond it the longest silent one is evicted.
pub(crate) struct Sessions<'a> {
    exchange: &'a Exchange,
    settings: &'a ReceiverSettings,
    list: Vec<Session>,
    places: HashMap<Key, usize>,
    /// The last arrival of each place, earliest first, as of the last check: later arrivals are newer.
    heard: BinaryHeap<Reverse<(Nanos, usize)>>,
    serial: u64,
    latest: usize,
    delivered: u64,
    last_arrival: Option<Nanos>,
    /// Sessions that have neither announced their end nor been evicted.
    open: u64,
    intervals: Option<Intervals>,
    /// Number of messages whose times may still be kept.
    room: usize,
    other_way: Option<Arc<OtherWay>>,
    report: ReceiveReport,
}

/// Identifies the messages of one run of a sender. A session is its incarnation, whatever its address; only for short
/// messages, which carry none, is it the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    session: u16,
    incarnation: u32,
    peer: Option<SocketAddr>,
}

impl<'a> Sessions<'a> {
    pub(crate) fn new(settings: &'a ReceiverSettings, exchange: &'a Exchange) -> Self {
        Self {
            exchange,
            settings,
            list: Vec::new(),
            places: HashMap::new(),
            heard: BinaryHeap::new(),
            serial: 0,
            latest: 0,
            delivered: 0,
            last_arrival: None,
            open: 0,
            intervals: None,
            room: settings.keep_flights,
            other_way: None,
            report: ReceiveReport::default(),
        }
    }

    /// The same, with the reverse direction.
    pub(crate) fn beside(self, other_way: Arc<OtherWay>) -> Self {
        Self { other_way: Some(other_way), ..self }
    }

    /// Reports each interval as soon as it is over.
    pub(crate) fn tell(&mut self, every: Duration, to: Sender<Interval>) {
        self.intervals = Some(Intervals::new(nanos(every), to));
    }

    /// Counts a message of `length` bytes that was received at the time `at`.
    pub(crate) fn count(&mut self, probe: &Probe, length: usize, peer: SocketAddr, at: Nanos) {
        let Some(place) = self.place(probe, peer, at) else { return };
        let session = &mut self.list[place];
        let (was_open, expected) = (session.is_open(), session.expected());
        session.report.peer = peer;
        let counted = session.count(probe, length, at);
        self.last_arrival = Some(at);
        self.open += u64::from(session.is_open());
        self.open -= u64::from(was_open);
        if let Some(intervals) = &mut self.intervals {
            intervals.count(at, counted, length, session.expected() - expected);
        }
        if let Counted::New { number, .. } = counted {
            self.delivered += 1;
            self.exchange.set_delivered(self.delivered);
            if self.room > 0 {
                self.room -= 1;
                let intended = probe.extension.map_or(probe.sent, |extension| extension.intended);
                session.report.flights.push(Flight { number, intended, sent: probe.sent, received: at });
            }
        }
    }

    /// The latest session of this number and incarnation, or without one from this address.
    pub(crate) fn find(&self, peer: SocketAddr, session: u16, incarnation: u32) -> Option<&SessionReport> {
        let reports = self.list.iter().map(|of| (of.serial, &of.report));
        let ours = reports.filter(|(_, of)| {
            (of.session, of.incarnation) == (session, incarnation) && (incarnation != 0 || of.peer == peer)
        });
        ours.max_by_key(|(serial, _)| *serial).map(|(_, report)| report)
    }

    /// Counts a datagram that is not one of our messages.
    pub(crate) fn count_foreign(&mut self) {
        self.report.foreign += 1;
    }

    /// Messages of all sessions, without duplicates.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When the last message of a session came, the last reverse flow ended, or a request for one was refused.
    pub(crate) fn last_arrival(&self) -> Option<Nanos> {
        self.last_arrival.max(self.other_way.as_ref().and_then(|other| other.last()))
    }

    /// The reverse direction. `None`: not allowed.
    pub(super) fn other_way(&self) -> Option<&OtherWay> {
        self.other_way.as_deref()
    }

    /// Whether every session has announced its end.
    pub(super) fn all_announced(&self) -> bool {
        self.open == 0 && self.report.evicted_total.open == 0
    }

    /// Time since which there is nothing to wait for: enough sessions or reverse flows have come, and each has
    /// announced its end, or all have hung up. `None`: not yet.
    pub(super) fn over_since(&self, senders: u64, hung_up: bool) -> Option<Nanos> {
        let seen = self.serial.max(self.other_way().map_or(0, OtherWay::begun));
        let over = seen >= senders.max(1) && (hung_up || self.all_announced());
        self.last_arrival().filter(|_| over)
    }

    /// Reports an interval that is over. Returns the end of the present one. `None`: none are wanted, or none has
    /// begun.
    pub(super) fn tick(&mut self, at: Nanos) -> Option<Nanos> {
        let intervals = self.intervals.as_mut()?;
        intervals.set_sent(self.other_way.as_ref().map_or(0, |other| other.sent()), at);
        intervals.tick(at, || {
            let heard = self.list.iter_mut().filter_map(Session::jitter_of_interval);
            let (sum, n) = heard.fold((0.0, 0), |(sum, n), jitter| (sum + jitter, n + 1));
            (n > 0).then(|| sum / f64::from(n))
        });
        intervals.next()
    }

    pub(crate) fn into_report(mut self) -> ReceiveReport {
        let last = self.last_arrival();
        if let Some(intervals) = &mut self.intervals {
            let last = last.unwrap_or(0);
            intervals.set_sent(self.other_way.as_ref().map_or(0, |other| other.sent()), last);
            intervals.finish(last);
        }
        self.list.sort_by_key(|session| session.serial);
        let sessions = self.list.into_iter().map(|session| session.report).collect();
        ReceiveReport { sessions, ..self.report }
    }

    /// The session's place in the list. `None`: it is not wanted, which is counted.
    fn place(&mut self, probe: &Probe, peer: SocketAddr, at: Nanos) -> Option<usize> {
        if self.settings.session.is_some_and(|only| only != probe.session) {
            self.report.foreign += 1;
            return None;
        }
        let incarnation = probe.extension.map_or(0, |extension| extension.incarnation);
        let key = Key { session: probe.session, incarnation, peer: (incarnation == 0).then_some(peer) };
        let known = match self.list.get(self.latest) {
            Some(session) if session.key == key => Some(self.latest),
            _ => self.places.get(&key).copied(),
        };
        if let Some(place) = known.filter(|&place| !self.list[place].is_over_before(probe)) {
            self.latest = place;
            return Some(place);
        }
        if !self.settings.admits(peer) {
            self.report.foreign += 1;
            return None;
        }
        // Anybody can announce the end of a session without messages: it proves no sender.
        if probe.kind == Kind::End {
            self.report.ends_alone += 1;
            return None;
        }
        let place = self.free_place();
        let window = self.exchange.window();
        // Delays are divided into batches of this length if no sender of this process sets a window.
        let assumed = self.settings.until.duration.unwrap_or(Duration::from_secs(60));
        let length = window.map_or(assumed, |window| Duration::from_nanos(window.end - window.start));
        let mut report = SessionReport {
            incarnation,
            before: if self.report.evicted > 0 { u64::MAX } else { 0 },
            ..SessionReport::new(peer, probe.session, at, length)
        };
        if place >= OF_LONG_MEMORY {
            report.numbers = SequenceSet::with_span(SHORT_SPAN);
            report.delays = DelayRecorder::coarse(length);
        }
        self.serial += 1;
        let session = Session::new(key, report, window, self.serial);
        if place == self.list.len() {
            self.list.push(session);
        } else {
            self.list[place] = session;
        }
        self.heard.push(Reverse((at, place)));
        self.places.insert(key, place);
        self.latest = place;
        Some(place)
    }

    /// A place for another session; the longest silent one may be evicted for it.
    fn free_place(&mut self) -> usize {
        if self.list.len() < self.settings.sessions.get() {
            return self.list.len();
        }
        // Each place is in it once.
        while let Some(Reverse((heard, place))) = self.heard.pop() {
            let old = &self.list[place];
            if old.last_heard > heard {
                self.heard.push(Reverse((old.last_heard, place)));
                continue;
            }
            self.report.evicted += 1;
            self.report.evicted_messages += old.received();
            self.report.evicted_total.add(&old.report);
            self.open -= u64::from(old.is_open());
            if self.places.get(&old.key) == Some(&place) {
                self.places.remove(&old.key);
            }
            return place;
        }
        0
    }
}

/// Sessions with a long memory: 128 KiB of sequence numbers each, and delays to three digits. Further ones remember
/// [`SHORT_SPAN`] numbers, and delays to two digits: with many senders none of them is fast.
const OF_LONG_MEMORY: usize = 64;

/// 4 KiB.
const SHORT_SPAN: u64 = 1 << 15;

#[cfg(test)]
mod tests;
