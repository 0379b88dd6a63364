//! What came in each interval.

use std::sync::mpsc::Sender;

use weir_program::clock::Nanos;

use super::session::Counted;
use crate::Interval;

/// The interval under way.
pub(super) struct Intervals {
    every: Nanos,
    started: Nanos,
    /// When the first one began that has something in it, after the start: the others are whole ones behind it.
    first: Option<Nanos>,
    now: Interval,
    start: Nanos,
    end: Nanos,
    sums: Sums,
    /// Sent the other way in all, and before this interval.
    sent: u64,
    sent_before: u64,
    to: Sender<Interval>,
}

/// What its means and rates are made of.
#[derive(Default)]
struct Sums {
    bytes: u64,
    expected: u64,
    delays: u64,
    delay_sum: u128,
    delay_max: Nanos,
}

impl Intervals {
    pub(super) fn new(every: Nanos, started: Nanos, to: Sender<Interval>) -> Self {
        let (every, now) = (every.max(1), Interval::default());
        let sums = Sums::default();
        Self { every, started, first: None, now, start: 0, end: every, sums, sent: 0, sent_before: 0, to }
    }

    /// When it is over.
    pub(super) fn next(&self) -> Nanos {
        self.started.saturating_add(self.end)
    }

    pub(super) fn set_sent(&mut self, sent: u64) {
        self.sent = sent;
    }

    /// Begins the first interval of the traffic with its first message, not in the middle of waiting for it.
    fn begin(&mut self, at: Nanos) {
        if self.first.is_some() {
            return;
        }
        let since = at.saturating_sub(self.started);
        // What was sent the other way has begun it.
        if self.sent == 0 && since >= self.start {
            (self.start, self.end) = (since, since.saturating_add(self.every));
        }
        self.first = Some(self.start);
    }

    /// Counts a message by which the highest number of its session rose by `advance`.
    pub(super) fn count(&mut self, at: Nanos, counted: Counted, length: usize, advance: u64) {
        if matches!(counted, Counted::New { .. } | Counted::Duplicate) {
            self.begin(at);
        }
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

    /// Tells of the interval if it is over at the time `at`, and begins the one in which that lies.
    pub(super) fn tick(&mut self, at: Nanos, jitter: impl FnOnce() -> Option<f64>) {
        let since = at.saturating_sub(self.started);
        if since < self.end {
            return;
        }
        // Who could not look for a while tells of all of it as one.
        let first = self.first.unwrap_or(0);
        let whole = since.saturating_sub(first) / self.every;
        self.tell(first + whole * self.every, jitter());
    }

    /// Tells of what came since the last whole interval, up to the last message.
    pub(super) fn finish(&mut self, last: Option<Nanos>) {
        let end = last.map_or(0, |last| last.saturating_sub(self.started));
        if end > self.start {
            self.tell(end, None);
        } else if self.now.received > 0 {
            // All of it came at one time, which has no rate.
            self.tell(self.end, None);
        }
    }

    fn tell(&mut self, end: Nanos, jitter_ns: Option<f64>) {
        let sums = std::mem::take(&mut self.sums);
        let known = |ns: f64| (sums.delays > 0).then_some(ns / 1e3);
        let told = Interval {
            start_s: self.start as f64 / 1e9,
            end_s: end as f64 / 1e9,
            sent: Some(self.sent - self.sent_before),
            lost: sums.expected as i64 - self.now.received as i64,
            mbit_per_s: sums.bytes as f64 * 8e3 / (end - self.start) as f64,
            delay_mean_us: known(sums.delay_sum as f64 / sums.delays as f64),
            delay_max_us: known(sums.delay_max as f64),
            jitter_us: jitter_ns.map(|ns| ns / 1e3),
            ..self.now
        };
        // Who does not want to know any more misses nothing.
        let _ = self.to.send(told);
        (self.now, self.start, self.end) = (Interval::default(), end, end + self.every);
        self.sent_before = self.sent;
    }
}
