//! The accounts of all senders and sessions.

mod deliveries;
mod eviction;
mod intervals;
mod session;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, SyncSender};
use std::time::Duration;

use weir_program::clock::{Nanos, nanos};
use weir_stats::DelayRecorder;
use weir_wire::probe::{Kind, Probe};

use self::deliveries::Deliveries;
use self::eviction::Newcomers;
pub(super) use self::eviction::PROVEN;
use self::intervals::Intervals;
use self::session::{Counted, Session};
use crate::{
    Delivery, Exchange, Flights, Interval, ReceiveReport, ReceiverSettings, SequenceSet, SessionReport, Transport,
};

/// All sessions of a receiver: at most so many, of which those that least look like senders give way to others.
pub(crate) struct Sessions<'a> {
    exchange: &'a Exchange,
    only: Option<u16>,
    /// What to cut into batches where no sender of this process tells its window.
    assumed: Duration,
    keep_flights: usize,
    most: usize,
    /// Announced ends that are waited for.
    senders: u64,
    /// Whether an address proves nothing.
    unproven: bool,
    list: Vec<Session>,
    places: HashMap<Key, usize>,
    newcomers: Newcomers,
    latest: usize,
    delivered: u64,
    last_arrival: Option<Nanos>,
    /// When messages were last asked for and not granted.
    last_refused: Option<Nanos>,
    announcing: Announcing,
    intervals: Option<Intervals>,
    deliveries: Option<Deliveries>,
    /// Flows that were asked for here, and when the last of them ended.
    reverse: u64,
    reverse_ended: Nanos,
    report: ReceiveReport,
}

/// What tells the messages of one run of a sender from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    peer: SocketAddr,
    session: u16,
    /// 0: unknown, as that of messages without extension.
    incarnation: u32,
}

/// How far the sessions have told that they are over.
#[derive(Debug, Default)]
struct Announcing {
    /// Those that have not announced their end.
    open: usize,
    /// Those that have, and of which messages are missing.
    incomplete: usize,
    /// Those that have, or had when they gave way.
    ended: u64,
    /// Those of which nothing but an end has come, likewise.
    empty: u64,
    /// When the last one did, and the last stranger.
    last: Nanos,
    last_stranger: Nanos,
    /// When as many had as are waited for; `None`: they have not.
    all_ended: Option<Nanos>,
    /// When the last message came that found no place in the list.
    last_unlisted: Option<Nanos>,
    /// The open ones are not all silent before then.
    silent_not_before: Nanos,
}

impl<'a> Sessions<'a> {
    pub(crate) fn new(settings: &ReceiverSettings, exchange: &'a Exchange) -> Self {
        Self {
            exchange,
            only: settings.session,
            assumed: settings.until.duration.unwrap_or(Duration::from_secs(60)),
            keep_flights: settings.keep_flights,
            most: settings.sessions.get(),
            senders: settings.until.senders.max(1),
            unproven: settings.transport == Transport::Udp,
            list: Vec::new(),
            places: HashMap::new(),
            newcomers: Newcomers::default(),
            latest: 0,
            delivered: 0,
            last_arrival: None,
            last_refused: None,
            announcing: Announcing::default(),
            intervals: None,
            deliveries: None,
            reverse: 0,
            reverse_ended: 0,
            report: ReceiveReport::default(),
        }
    }

    /// Tells of each interval what came in it, as soon as it is over.
    pub(crate) fn tell(&mut self, every: Duration, started: Nanos, to: Sender<Interval>) {
        self.intervals = Some(Intervals::new(nanos(every), started, to));
    }

    /// Hands over every message.
    pub(crate) fn deliver(&mut self, to: SyncSender<Vec<Delivery>>) {
        self.deliveries = Some(Deliveries::new(to));
    }

    /// Counts a message of `length` bytes that was received at the time `at`.
    pub(crate) fn count(&mut self, probe: &Probe, length: usize, peer: SocketAddr, at: Nanos) {
        if self.only.is_some_and(|only| only != probe.session) {
            self.report.foreign += 1;
            return;
        }
        let Some(place) = self.place(probe, peer, at) else {
            self.last_arrival = Some(at);
            match probe.kind {
                Kind::Message => self.report.unlisted += 1,
                Kind::End | Kind::Hello => self.report.unlisted_announcements += 1,
            }
            self.announcing.last_unlisted = Some(at);
            return;
        };
        let session = &mut self.list[place];
        let (before, was_empty, expected) = (session.progress(), session.is_empty(), session.report.numbers.end());
        let counted = session.count(probe, length, at);
        let (after, is_empty, is_stranger) = (session.progress(), session.is_empty(), session.is_stranger());
        let ended = after != Progress::Open && !is_empty;
        if ended && !session.listed_as_ended {
            session.listed_as_ended = true;
            self.newcomers.add_ended(place, session.serial);
        }
        if !is_empty {
            self.last_arrival = Some(at);
        }
        self.announcing.moved(before, after);
        self.announcing.empty += u64::from(is_empty);
        self.announcing.empty -= u64::from(was_empty);
        match (before != Progress::Open && !was_empty, ended) {
            (false, true) => self.announcing.has_ended(is_stranger, self.senders, at),
            (true, false) => self.announcing.goes_on(self.senders),
            _ => {}
        }
        let session = &self.list[place];
        if let Some(intervals) = &mut self.intervals {
            intervals.count(at, counted, length, session.report.numbers.end().saturating_sub(expected));
        }
        if let Counted::New { number, .. } = counted {
            self.delivered += 1;
            self.exchange.set_delivered(self.delivered);
            if let Some(deliveries) = &mut self.deliveries {
                let incarnation = session.report.incarnation;
                let intended = probe.extension.map(|extension| extension.intended);
                let session = probe.session;
                let (sent, received) = (probe.sent, at);
                deliveries.add(Delivery { peer, session, incarnation, number, intended, sent, received });
            }
        }
    }

    /// Whether messages of this session are not asked for.
    pub(crate) fn are_foreign(&self, session: u16) -> bool {
        self.only.is_some_and(|only| only != session)
    }

    /// A flow was asked for, and begins. As a sender would, it keeps the receiver from its end.
    pub(crate) fn expect_reverse(&mut self) {
        self.reverse += 1;
    }

    /// No flow goes on.
    pub(crate) fn reverse_ended(&mut self, at: Nanos) {
        self.reverse_ended = at;
    }

    /// A flow was asked for, and not granted: who asked may ask for less, or never come again.
    pub(crate) fn refuse_reverse(&mut self, at: Nanos) {
        self.last_refused = Some(at);
    }

    /// So many messages were sent the other way, in all.
    pub(crate) fn set_sent(&mut self, sent: u64) {
        if let Some(intervals) = &mut self.intervals {
            intervals.set_sent(sent);
        }
    }

    /// The latest run of this session that has announced its end, and is complete or has had the time to become so.
    pub(crate) fn settled(&self, peer: Option<SocketAddr>, session: u16, at: Nanos) -> Option<&SessionReport> {
        let ours = |of: &&Session| of.key.session == session && peer.is_none_or(|peer| of.key.peer == peer);
        let latest = self.list.iter().filter(ours).max_by_key(|of| of.serial)?;
        latest.is_settled(at).then_some(&latest.report)
    }

    /// The only session's report, as far as it has come.
    pub(crate) fn first(&self) -> Option<&SessionReport> {
        self.list.first().map(|session| &session.report)
    }

    /// Counts what is not one of our messages.
    pub(crate) fn count_foreign(&mut self) {
        self.report.foreign += 1;
    }

    /// Counts a request for messages where none is granted, ever.
    pub(crate) fn count_not_allowed(&mut self, peer: SocketAddr) {
        self.report.not_allowed += 1;
        let askers = &mut self.report.not_allowed_to;
        if askers.len() < MOST_ASKERS && !askers.contains(&peer) {
            askers.push(peer);
        }
    }

    /// Messages of all sessions, without duplicates.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When the last message came, the last flow the other way ended, or, as long as no flow was granted, a request that was
    /// refused. An end alone, which anybody can send, is no message.
    pub(crate) fn last_arrival(&self) -> Option<Nanos> {
        let refused = self.last_refused.filter(|_| self.reverse == 0);
        // Whoever asked for it was there as long as it went.
        let flowed = Some(self.reverse_ended).filter(|&ended| self.reverse > 0 && ended > 0);
        self.last_arrival.max(refused).max(flowed)
    }

    /// Sessions so far, or flows, whichever are more: one that goes both ways is both.
    pub(super) fn seen(&self) -> u64 {
        self.senders_seen().max(self.reverse)
    }

    /// Sessions so far of which more than an end has come.
    fn senders_seen(&self) -> u64 {
        (self.list.len() as u64 + self.report.evicted).saturating_sub(self.announcing.empty)
    }

    /// Whether every session has announced its end.
    pub(super) fn all_announced(&self) -> bool {
        self.announcing.open == 0 && self.report.evicted_open == 0
    }

    /// When there is nothing to wait for any more: each session has announced its end and is complete, or has had
    /// `grace` to become so, or has been silent for the time `idle`. A time to come is to be asked about again then. `None`:
    /// not yet known.
    pub(super) fn end(&mut self, grace: Nanos, idle: Option<Nanos>, at: Nanos) -> Option<Nanos> {
        if self.senders_seen() == 0 {
            return (self.reverse > 0).then_some(self.reverse_ended);
        }
        let waiting = &mut self.announcing;
        let latest = waiting.all_ended.map_or(Nanos::MAX, |ended| ended.saturating_add(idle.unwrap_or(grace)));
        let told = waiting.last.max(waiting.last_stranger.min(latest)) + if waiting.incomplete > 0 { grace } else { 0 };
        let silent = match (waiting.open, idle) {
            (0, _) => 0,
            (_, None) => return None,
            (_, Some(_)) if at < waiting.silent_not_before => waiting.silent_not_before,
            (_, Some(idle)) => {
                let open = self.list.iter().filter(|session| session.progress() == Progress::Open);
                let ended = waiting.all_ended;
                waiting.silent_not_before = open.map(|session| session.waited_for(idle, ended)).max().unwrap_or(0);
                waiting.silent_not_before
            }
        };
        let unlisted = waiting.last_unlisted.map_or(0, |last| last.saturating_add(grace));
        Some(told.max(silent).max(unlisted))
    }

    /// Tells of an interval that is over. When the present one will be; `None`: nobody wants to know.
    pub(super) fn tick(&mut self, at: Nanos) -> Option<Nanos> {
        let intervals = self.intervals.as_mut()?;
        intervals.tick(at, || {
            let heard = self.list.iter_mut().filter_map(Session::jitter_of_interval);
            let (sum, n) = heard.fold((0.0, 0), |(sum, n), jitter| (sum + jitter, n + 1));
            (n > 0).then(|| sum / f64::from(n))
        });
        Some(intervals.next())
    }

    pub(crate) fn into_report(mut self) -> ReceiveReport {
        if let Some(intervals) = &mut self.intervals {
            let sent = Some(self.reverse_ended).filter(|&ended| ended > 0);
            intervals.finish(self.last_arrival.max(sent));
        }
        if let Some(deliveries) = self.deliveries {
            self.report.not_handed_over = deliveries.finish();
        }
        self.list.sort_by_key(|session| session.serial);
        let sessions = self.list.into_iter().map(|session| session.report).collect();
        ReceiveReport { sessions, ..self.report }
    }

    /// The session's place in the list; `None`: the list is full of others that look no less like senders.
    fn place(&mut self, probe: &Probe, peer: SocketAddr, at: Nanos) -> Option<usize> {
        let incarnation = probe.extension.map_or(0, |extension| extension.incarnation);
        let key = Key { peer, session: probe.session, incarnation };
        let known = match self.list.get(self.latest) {
            Some(session) if session.key == key => Some(self.latest),
            _ => self.places.get(&key).copied(),
        };
        if let Some(place) = known.filter(|&place| !self.list[place].is_over_before(probe)) {
            self.latest = place;
            return Some(place);
        }
        let place = self.free_place(at)?;
        let window = self.exchange.window();
        let length = window.map_or(self.assumed, |window| Duration::from_nanos(window.end - window.start));
        let mut report = SessionReport {
            incarnation,
            flights: Flights::new(self.keep_flights),
            ..SessionReport::new(peer, probe.session, at, length)
        };
        if place >= OF_LONG_MEMORY {
            report.numbers = SequenceSet::with_span(SHORT_SPAN);
            (report.delays, report.intended_delays) = (DelayRecorder::coarse(length), DelayRecorder::coarse(length));
        }
        let late = self.announcing.all_ended.is_some();
        let session = Session::new(key, report, window, self.newcomers.add(place)).suspected(self.unproven, late);
        if place == self.list.len() {
            self.list.push(session);
        } else {
            self.list[place] = session;
        }
        self.announcing.open += 1;
        self.places.insert(key, place);
        self.latest = place;
        Some(place)
    }

    /// A place for another session, which an old one may have to give up.
    fn free_place(&mut self, at: Nanos) -> Option<usize> {
        if self.list.len() < self.most {
            return Some(self.list.len());
        }
        let place = self.newcomers.least_plausible(&self.list, at)?;
        let old = &self.list[place];
        self.report.evicted += 1;
        self.report.evicted_messages += old.received();
        self.report.evicted_total.add(&old.report);
        match old.progress() {
            Progress::Open => {
                self.announcing.open -= 1;
                self.report.evicted_open += 1;
            }
            Progress::Incomplete => self.announcing.incomplete -= 1,
            Progress::Complete => {}
        }
        if self.places.get(&old.key) == Some(&place) {
            self.places.remove(&old.key);
        }
        Some(place)
    }
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Its end was not announced.
    Open,
    /// It was, and messages are missing.
    Incomplete,
    /// Everything that was sent has come.
    Complete,
}

impl Announcing {
    /// Another one has announced its end, of which so many are waited for.
    fn has_ended(&mut self, is_stranger: bool, senders: u64, at: Nanos) {
        self.ended += 1;
        if is_stranger {
            self.last_stranger = at;
        } else {
            self.last = at;
        }
        if self.ended >= senders {
            self.all_ended.get_or_insert(at);
        }
    }

    /// One had not ended after all.
    fn goes_on(&mut self, senders: u64) {
        self.ended -= 1;
        if self.ended < senders {
            self.all_ended = None;
        }
    }

    fn moved(&mut self, before: Progress, after: Progress) {
        if before == after {
            return;
        }
        match before {
            Progress::Open => self.open -= 1,
            Progress::Incomplete => self.incomplete -= 1,
            Progress::Complete => {}
        }
        match after {
            Progress::Open => self.open += 1,
            Progress::Incomplete => self.incomplete += 1,
            Progress::Complete => {}
        }
    }
}

/// Sessions that remember as many numbers as one may, 128 KiB each, and delays to three digits. Further ones remember
/// [`SHORT_SPAN`], and delays to two digits: where there are many senders, none of them is fast.
const OF_LONG_MEMORY: usize = 64;

/// Addresses that are told of those that asked for messages in vain.
const MOST_ASKERS: usize = 8;

/// 4 KiB.
const SHORT_SPAN: u64 = 1 << 15;

#[cfg(test)]
mod tests;
