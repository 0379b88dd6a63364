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
    expected: u64,
    delays: u64,
    delay_sum: u128,
    /// Sent the other way in all, and before this interval.
    sent: u64,
    sent_before: u64,
    to: Sender<Interval>,
}

impl Intervals {
    pub(super) fn new(every: Nanos, started: Nanos, to: Sender<Interval>) -> Self {
        let every = every.max(1);
        let now = Interval { end: every, ..Interval::default() };
        Self { every, started, first: None, now, expected: 0, delays: 0, delay_sum: 0, sent: 0, sent_before: 0, to }
    }

    /// When it is over.
    pub(super) fn next(&self) -> Nanos {
        self.started.saturating_add(self.now.end)
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
        if self.sent == 0 && since >= self.now.start {
            (self.now.start, self.now.end) = (since, since.saturating_add(self.every));
        }
        self.first = Some(self.now.start);
    }

    /// Counts a message by which the highest number of its session rose by `advance`.
    pub(super) fn count(&mut self, at: Nanos, counted: Counted, length: usize, advance: u64) {
        if matches!(counted, Counted::New { .. } | Counted::Duplicate) {
            self.begin(at);
        }
        self.expected += advance;
        match counted {
            Counted::New { reordered, delay, .. } => {
                self.now.received += 1;
                self.now.received_bytes += length as u64;
                self.now.reordered += u64::from(reordered);
                if let Some(delay) = delay {
                    self.delays += 1;
                    self.delay_sum += u128::from(delay);
                    self.now.delay_max_ns = Some(self.now.delay_max_ns.unwrap_or(0).max(delay));
                }
            }
            Counted::Duplicate => self.now.duplicated += 1,
            Counted::Other => {}
        }
    }

    /// Tells of the interval if it is over at the time `at`, and begins the one in which that lies.
    pub(super) fn tick(&mut self, at: Nanos, jitter: impl FnOnce() -> Option<f64>) {
        let since = at.saturating_sub(self.started);
        if since < self.now.end {
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
        if end > self.now.start {
            self.tell(end, None);
        } else if self.now.received > 0 {
            // All of it came at one time, which has no rate.
            self.tell(self.now.end, None);
        }
    }

    fn tell(&mut self, end: Nanos, jitter_ns: Option<f64>) {
        let Interval { received, .. } = self.now;
        let told = Interval {
            end,
            sent: self.sent - self.sent_before,
            lost: self.expected as i64 - received as i64,
            delay_mean_ns: (self.delays > 0).then(|| self.delay_sum as f64 / self.delays as f64),
            jitter_ns,
            ..self.now
        };
        // Who does not want to know any more misses nothing.
        let _ = self.to.send(told);
        self.now = Interval { start: end, end: end + self.every, ..Interval::default() };
        (self.expected, self.delays, self.delay_sum) = (0, 0, 0);
        self.sent_before = self.sent;
    }
}
