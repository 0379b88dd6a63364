//! The ledger of one run of one sender.

use std::num::NonZeroU32;
use std::time::Duration;

use weir_program::clock::{self, Nanos};
use weir_wire::probe::{Kind, Probe};

use super::Key;
use crate::sequence::Arrival;
use crate::{SessionReport, Window};

/// A session, and its state besides its report.
pub(super) struct Session {
    pub(super) report: SessionReport,
    pub(super) key: Key,
    /// Its place in the order of arrival.
    pub(super) serial: u64,
    /// When its last message came, including duplicates and announcements.
    pub(super) last_heard: Nanos,
    window: Option<Window>,
    /// The sender's time of the announcement.
    announced_sent: Nanos,
    /// Receive and send time of the last new message.
    last: Option<(Nanos, Nanos)>,
    /// Whether a new message came since the last query.
    heard: bool,
}

/// The class of a message in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// A new one, with its delay in ns if known.
    New {
        /// Its full sequence number.
        number: u64,
        /// It came after one with a higher number.
        reordered: bool,
        delay: Option<Nanos>,
    },
    /// A duplicate.
    Duplicate,
    /// An announcement, or a message too old to know whether it had come.
    Other,
}

impl Session {
    /// A session without counts.
    pub(super) fn new(key: Key, report: SessionReport, window: Option<Window>, serial: u64) -> Self {
        let last_heard = report.first_arrival;
        Self { report, key, serial, last_heard, window, announced_sent: 0, last: None, heard: false }
    }

    /// Messages expected, from its first one to the highest.
    pub(super) fn expected(&self) -> u64 {
        self.report.numbers.end().saturating_sub(self.report.before)
    }

    /// Messages received.
    pub(super) fn received(&self) -> u64 {
        let SessionReport { delivered, duplicates, stale, .. } = self.report;
        delivered + duplicates + stale
    }

    /// Whether it has messages and has not announced its end.
    pub(super) fn is_open(&self) -> bool {
        self.report.delivered > 0 && self.report.announced.is_none()
    }

    /// Whether it had announced its end before this message was sent, which then belongs to another run of the sender:
    /// only for short messages without an incarnation. The next one shows that it was not the end.
    pub(super) fn is_over_before(&self, probe: &Probe) -> bool {
        let numbers = &self.report.numbers;
        let goes_on = probe.kind == Kind::Message && numbers.expand(probe.sequence) >= numbers.end().max(1);
        let ended = self.key.incarnation == 0 && self.report.announced.is_some();
        ended && probe.kind != Kind::End && probe.sent > self.announced_sent && !goes_on
    }

    /// The jitter, if a message came since the last query.
    pub(super) fn jitter_of_interval(&mut self) -> Option<f64> {
        std::mem::take(&mut self.heard).then_some(self.report.jitter_ns)
    }

    /// Counts a message.
    pub(super) fn count(&mut self, probe: &Probe, length: usize, at: Nanos) -> Counted {
        self.last_heard = at;
        if let Some(extension) = probe.extension {
            let theirs = NonZeroU32::new(extension.clock);
            self.report.same_machine = clock::id().zip(theirs).map(|(ours, theirs)| ours == theirs);
        }
        let number = self.report.numbers.expand(probe.sequence);
        if probe.kind == Kind::End {
            self.announce(number, probe.sent);
            return Counted::Other;
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
        report.before = report.before.min(number);
        report.reordered += u64::from(reordered);
        if report.delivered == 0 {
            report.first_arrival = at;
        }
        report.last_arrival = at;
        report.delivered += 1;
        report.delivered_bytes += length as u64;
        report.in_window += u64::from(self.window.is_none_or(|window| at < window.end));
        self.vary(probe.sent, at);
        let delay = if self.report.same_machine == Some(false) { None } else { self.delayed(probe.sent, at) };
        Counted::New { number, reordered, delay }
    }

    /// Accepts an announced end, unless the messages contradict it.
    fn announce(&mut self, total: u64, sent: Nanos) {
        let report = &mut self.report;
        let differs = report.announced.is_some_and(|announced| announced != total);
        // A session whose messages match an announcement has ended, whatever is announced later.
        let complete = report.delivered > 0 && report.announced == Some(report.delivered);
        if total < report.numbers.end() || differs && complete {
            report.contradicted += 1;
            return;
        }
        if differs {
            self.withdraw();
        }
        self.report.announced = Some(total);
        self.report.announcements += 1;
        self.announced_sent = sent;
    }

    /// Withdraws the announced end.
    fn withdraw(&mut self) {
        self.report.announced = None;
        self.report.contradicted += std::mem::take(&mut self.report.announcements);
    }

    /// The delay of a message by our clock. `None`: it was received before it was sent, which is counted.
    fn delayed(&mut self, sent: Nanos, at: Nanos) -> Option<Nanos> {
        let report = &mut self.report;
        let Some(delay) = at.checked_sub(sent) else {
            report.negative += 1;
            return None;
        };
        let origin = self.window.map_or(report.first_arrival, |window| window.start);
        let since = Duration::from_nanos(at.saturating_sub(origin));
        report.delays.record(since, delay);
        Some(delay)
    }

    /// Change of the time between two messages on the way (RFC 3550, section 6.4.1): needs no common clock.
    fn vary(&mut self, sent: Nanos, at: Nanos) {
        if let Some((last_at, last_sent)) = self.last.replace((at, sent)) {
            let apart = |a: Nanos, b: Nanos| a.wrapping_sub(b) as i64 as f64;
            let change = (apart(at, last_at) - apart(sent, last_sent)).abs();
            self.report.jitter_ns += (change - self.report.jitter_ns) / 16.0;
        }
        self.heard = true;
    }
}
