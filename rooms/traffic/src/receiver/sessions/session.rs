//! The account of one run of one sender.

use std::time::Duration;

use weir_program::clock::{self, Nanos};
use weir_wire::probe::{Kind, Probe};

use super::super::ending::GRACE;
use super::eviction::PROVEN;
use super::{Key, Progress};
use crate::sequence::Arrival;
use crate::{Flight, Machine, SequenceSet, SessionReport, Window};

/// A session, and what is known of it besides its report.
pub(super) struct Session {
    pub(super) report: SessionReport,
    pub(super) key: Key,
    /// Tells it from those that had its place before.
    pub(super) serial: u64,
    /// When its last message came, a duplicate or an announcement, too.
    pub(super) last_heard: Nanos,
    /// Whether its address proves nothing, so that anybody can send in its name.
    unproven: bool,
    /// Whether it came when the announced ends that are waited for had come.
    late: bool,
    /// Whether it was listed among those that have ended.
    pub(super) listed_as_ended: bool,
    window: Option<Window>,
    /// The sender's time of its announcement.
    announced_sent: Nanos,
    /// When the first one came.
    announced_at: Nanos,
    /// Receive and send time of the last new message.
    last: Option<(Nanos, Nanos)>,
    /// Whether a new message came since this was last asked.
    heard: bool,
}

/// What a message was to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// A new one; with its delay in ns where that is known.
    New {
        /// Its whole number.
        number: u64,
        /// Behind one with a higher number.
        reordered: bool,
        delay: Option<Nanos>,
    },
    /// One that had come.
    Duplicate,
    /// An announcement, a greeting, or one of which nobody knows whether it had come.
    Other,
}

impl Session {
    /// One of which nothing was counted yet.
    pub(super) fn new(key: Key, report: SessionReport, window: Option<Window>, serial: u64) -> Self {
        Self {
            last_heard: report.first_arrival,
            report,
            key,
            serial,
            unproven: false,
            late: false,
            listed_as_ended: false,
            window,
            announced_sent: 0,
            announced_at: 0,
            last: None,
            heard: false,
        }
    }

    /// The same, whose address may prove nothing, and which may have come when all that were waited for had ended.
    pub(super) fn suspected(self, unproven: bool, late: bool) -> Self {
        Self { unproven, late, ..self }
    }

    /// Everything that came of it.
    pub(super) fn messages(&self) -> u64 {
        self.received() + self.report.announcements + self.report.contradicted
    }

    /// Messages that came of it.
    pub(super) fn received(&self) -> u64 {
        let SessionReport { delivered, duplicates, stale, .. } = self.report;
        delivered + duplicates + stale
    }

    /// Whether all that came of it is an announced end: of nothing, which anybody can send, or of messages of which none
    /// came. That proves no sender.
    pub(super) fn is_empty(&self) -> bool {
        let claims = self.report.announced.is_some_and(|announced| self.unproven || announced > 0);
        claims && self.report.numbers.end() == 0
    }

    /// Whether it may be an accident or a forgery, of which nobody waits for more.
    pub(super) fn is_stranger(&self) -> bool {
        self.late && self.messages() < PROVEN
    }

    /// Until when it is waited for if it falls silent, when all others had ended at the time `ended`. Strangers' first
    /// messages do not put that off, and a few more of each only for a while.
    pub(super) fn waited_for(&self, idle: Nanos, ended: Option<Nanos>) -> Nanos {
        let silent = self.last_heard.saturating_add(idle);
        let after = |times: Nanos| ended.map_or(Nanos::MAX, |ended| ended.saturating_add(idle.saturating_mul(times)));
        match self.messages() {
            _ if !self.is_stranger() => silent,
            0 | 1 => silent.min(after(1)),
            _ => silent.min(after(PATIENCE)),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        match self.report.announced {
            None => Progress::Open,
            Some(_) if self.is_empty() => Progress::Complete,
            // Whoever knows the address can forge an end: it is one when nothing follows.
            Some(_) if self.unproven && self.key.incarnation == 0 => Progress::Incomplete,
            Some(announced) if self.report.delivered < announced => Progress::Incomplete,
            Some(_) => Progress::Complete,
        }
    }

    /// Whether nothing more is to be expected of it at the time `at`.
    pub(super) fn is_settled(&self, at: Nanos) -> bool {
        match self.progress() {
            Progress::Open => false,
            Progress::Incomplete => at.saturating_sub(self.announced_at) >= GRACE,
            Progress::Complete => !self.is_empty() || at.saturating_sub(self.announced_at) >= GRACE,
        }
    }

    /// Whether it had announced its end before this message was sent, which then belongs to another run of the sender:
    /// unless it is the next one, for then that was no end.
    pub(super) fn is_over_before(&self, probe: &Probe) -> bool {
        let numbers = &self.report.numbers;
        let goes_on = probe.kind == Kind::Message && numbers.expand(probe.sequence) >= numbers.end().max(1);
        self.report.announced.is_some() && probe.kind != Kind::End && probe.sent > self.announced_sent && !goes_on
    }

    /// The jitter, if a message came since this was last asked.
    pub(super) fn jitter_of_interval(&mut self) -> Option<f64> {
        std::mem::take(&mut self.heard).then_some(self.report.jitter_ns)
    }

    /// Counts a message.
    pub(super) fn count(&mut self, probe: &Probe, length: usize, at: Nanos) -> Counted {
        self.last_heard = at;
        if let Some(extension) = probe.extension {
            self.report.machine = match clock::id() {
                Some(ours) if extension.clock == ours.get() => Machine::Same,
                Some(_) if extension.clock != 0 => Machine::Other,
                _ => Machine::Unknown,
            };
        }
        let number = self.report.numbers.expand(probe.sequence);
        if probe.kind != Kind::Hello && self.is_beyond_reach(number, at) {
            self.report.contradicted += 1;
            return Counted::Other;
        }
        match probe.kind {
            Kind::Hello => return Counted::Other,
            Kind::End => {
                self.announce(number, probe.sent, at);
                return Counted::Other;
            }
            Kind::Message => {}
        }
        if self.report.announced.is_some_and(|announced| number >= announced || probe.sent > self.announced_sent) {
            self.withdraw();
        }
        let report = &mut self.report;
        let reordered = match report.numbers.insert(number) {
            Arrival::New => false,
            Arrival::Reordered => true,
            Arrival::Duplicate => {
                report.duplicates += 1;
                return Counted::Duplicate;
            }
            Arrival::Stale => {
                report.stale += 1;
                return Counted::Other;
            }
        };
        report.reordered += u64::from(reordered);
        if report.delivered == 0 {
            report.first_arrival = at;
        }
        report.last_arrival = at;
        report.delivered += 1;
        report.delivered_bytes += length as u64;
        report.in_window += u64::from(self.window.is_none_or(|window| at < window.end));
        self.vary(probe.sent, at);
        let delay = if self.report.machine == Machine::Other { None } else { self.delayed(number, probe, at) };
        Counted::New { number, reordered, delay }
    }

    /// Whether a number is so far ahead that no sender can have reached it since its first message came. Whoever knows
    /// address and session can forge it where messages do not tell whose they are.
    fn is_beyond_reach(&self, number: u64, at: Nanos) -> bool {
        let report = &self.report;
        let since = at.saturating_sub(report.first_arrival);
        let reach = report.numbers.end().saturating_add(HEAD_START).saturating_add(since / FASTEST);
        self.unproven && self.key.incarnation == 0 && report.delivered > 0 && number > reach
    }

    /// Takes an announced end, if what has come does not contradict it.
    fn announce(&mut self, total: u64, sent: Nanos, at: Nanos) {
        let report = &mut self.report;
        let differs = report.announced.is_some_and(|announced| announced != total);
        // What has come as it was announced has ended, whatever is announced later.
        let complete = report.delivered > 0 && report.announced == Some(report.delivered);
        if total < report.numbers.end() || differs && complete {
            report.contradicted += 1;
            return;
        }
        if differs {
            self.withdraw();
        }
        if self.report.announced.is_none() {
            self.announced_at = at;
        }
        self.report.announced = Some(total);
        self.report.announcements += 1;
        self.announced_sent = sent;
    }

    /// What was announced was not the end.
    fn withdraw(&mut self) {
        self.report.announced = None;
        self.report.contradicted += std::mem::take(&mut self.report.announcements);
    }

    /// The delay of a message by our clock; `None`: it was received before it was sent, which is counted.
    fn delayed(&mut self, number: u64, probe: &Probe, at: Nanos) -> Option<Nanos> {
        let report = &mut self.report;
        let Some(delay) = at.checked_sub(probe.sent) else {
            report.negative += 1;
            return None;
        };
        let origin = self.window.map_or(report.first_arrival, |window| window.start);
        let since = Duration::from_nanos(at.saturating_sub(origin));
        report.delays.record(since, delay);
        if let Some(extension) = probe.extension {
            report.intended_delays.record(since, at.saturating_sub(extension.intended));
        }
        let intended = probe.extension.map_or(probe.sent, |extension| extension.intended);
        report.flights.keep(Flight { number, intended, sent: probe.sent, received: at });
        Some(delay)
    }

    /// How the time between two messages changed on the way (RFC 3550, section 6.4.1): it needs no common clock.
    fn vary(&mut self, sent: Nanos, at: Nanos) {
        if let Some((last_at, last_sent)) = self.last.replace((at, sent)) {
            let apart = |a: Nanos, b: Nanos| a.wrapping_sub(b) as i64 as f64;
            let change = (apart(at, last_at) - apart(sent, last_sent)).abs();
            self.report.jitter_ns += (change - self.report.jitter_ns) / 16.0;
        }
        self.heard = true;
    }
}

/// From one message to the next of the fastest sender, ns: 100 million a second.
const FASTEST: Nanos = 10;

/// Messages that may be ahead besides, since the first one was held up.
const HEAD_START: u64 = SequenceSet::SPAN;

/// Idle times for which strangers are waited for, all together.
const PATIENCE: Nanos = 6;
