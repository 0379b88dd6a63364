//! The messages received in each interval.

use std::sync::mpsc::Sender;

use weir_program::clock::Nanos;

use super::session::Counted;
use crate::Interval;

/// The current interval.
pub(super) struct Intervals {
    every: Nanos,
    /// The first message, of either direction.
    begun: Option<Nanos>,
    now: Interval,
    start: Nanos,
    sums: Sums,
    /// Messages sent the other way in total, and before this interval.
    sent: u64,
    sent_before: u64,
    to: Sender<Interval>,
}

/// Sums for its means and rates.
#[derive(Default)]
struct Sums {
    bytes: u64,
    expected: u64,
    delays: u64,
    delay_sum: u128,
    delay_max: Nanos,
}

impl Intervals {
    pub(super) fn new(every: Nanos, to: Sender<Interval>) -> Self {
        let (now, sums) = (Interval::default(), Sums::default());
        Self { every: every.max(1), begun: None, now, start: 0, sums, sent: 0, sent_before: 0, to }
    }

    /// When it is over. `None`: it has not begun.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.begun.map(|_| self.start.saturating_add(self.every))
    }

    /// Records the number of messages sent the other way by the time `at`.
    pub(super) fn set_sent(&mut self, sent: u64, at: Nanos) {
        self.sent = sent;
        if sent > 0 {
            self.begin(at);
        }
    }

    fn begin(&mut self, at: Nanos) {
        if self.begun.is_none() {
            (self.begun, self.start) = (Some(at), at);
        }
    }

    /// Counts a message that raised the highest number of its session by `advance`.
    pub(super) fn count(&mut self, at: Nanos, counted: Counted, length: usize, advance: u64) {
        self.begin(at);
        self.sums.expected += advance;
        match counted {
            Counted::New { reordered, delay, .. } => {
                self.now.received += 1;
                self.sums.bytes += length as u64;
                self.now.reordered += u64::from(reordered);
                if let Some(delay) = delay {
                    self.sums.delays += 1;
                    self.sums.delay_sum += u128::from(delay);
                    self.sums.delay_max = self.sums.delay_max.max(delay);
                }
            }
            Counted::Duplicate => self.now.duplicated += 1,
            Counted::Other => {}
        }
    }

    /// Reports the interval if it is over at the time `at`, and begins the one that contains `at`.
    pub(super) fn tick(&mut self, at: Nanos, jitter: impl FnOnce() -> Option<f64>) {
        let Some(begun) = self.begun.filter(|_| self.next() <= Some(at)) else { return };
        // A receiver that was blocked for a while reports that time as one interval.
        self.report(begun + (at - begun) / self.every * self.every, jitter());
    }

    /// Reports the time since the last whole interval, up to the last message.
    pub(super) fn finish(&mut self, last: Nanos) {
        if last > self.start {
            self.report(last, None);
        } else if self.now.received > 0 {
            // All of it came at one instant, which has no rate.
            self.report(self.start + self.every, None);
        }
    }

    fn report(&mut self, end: Nanos, jitter_ns: Option<f64>) {
        let sums = std::mem::take(&mut self.sums);
        let since = |at: Nanos| (at - self.begun.unwrap_or(at)) as f64 / 1e9;
        let known = |ns: f64| (sums.delays > 0).then_some(ns / 1e3);
        let interval = Interval {
            start_s: since(self.start),
            end_s: since(end),
            sent: Some(self.sent - self.sent_before),
            lost: sums.expected as i64 - self.now.received as i64,
            mbit_per_s: sums.bytes as f64 * 8e3 / (end - self.start) as f64,
            delay_mean_us: known(sums.delay_sum as f64 / sums.delays as f64),
            delay_max_us: known(sums.delay_max as f64),
            jitter_us: jitter_ns.map(|ns| ns / 1e3),
            ..self.now
        };
        // A listener that has gone needs nothing.
        let _ = self.to.send(interval);
        (self.now, self.start) = (Interval::default(), end);
        self.sent_before = self.sent;
    }
}
