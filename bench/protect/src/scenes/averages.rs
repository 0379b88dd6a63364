//! What most do: each second the average of the last one, or of the last five, is held against the threshold.

use std::collections::VecDeque;

/// An average over some seconds.
pub(crate) struct Average {
    seconds: u64,
    /// Packets a second above which it alarms.
    threshold: f64,
    /// When packets came, ns, and for how many each stands.
    packets: VecDeque<(u64, f64)>,
    sum: f64,
    /// The second that is looked at next.
    next: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Average {
    pub(crate) fn new(seconds: u64, threshold: f64) -> Self {
        Self { seconds, threshold, packets: VecDeque::new(), sum: 0.0, next: 1 }
    }

    /// Takes a sample; when it alarmed before that, if it did.
    pub(crate) fn sample(&mut self, now: u64, frames: f64) -> Option<u64> {
        let mut alarm = None;
        while self.next * SECOND <= now {
            let (oldest, end) = ((self.next * SECOND).saturating_sub(self.seconds * SECOND), self.next * SECOND);
            while let Some((_, frames)) = self.packets.front().filter(|(time, _)| *time < oldest) {
                self.sum -= frames;
                self.packets.pop_front();
            }
            if alarm.is_none() && self.sum / self.seconds as f64 > self.threshold {
                alarm = Some(end);
            }
            self.next += 1;
        }
        self.packets.push_back((now, frames));
        self.sum += frames;
        alarm
    }
}
