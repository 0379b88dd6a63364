//! What an agent sends in one go: its samples were taken since the go before, however it pauses in between.
//!
//! What is in the second of two datagrams that come close to one another was taken between them, or was kept with what is in the first and sent a little
//! later: by their times alone nobody knows. So what comes within [`GATHERS`] of the first datagram after a silence may all have been taken in that.

/// Whose first packet may have been kept for longer is sent together with others, ns: they are waited for, for no longer than this.
pub(super) const GATHERS: u64 = 50_000_000;
/// Datagrams so close to one another are sent at once, ns.
const BEHIND: u64 = 5_000_000;
/// A batch is never taken to have come faster than this, ns: there may be as much more in it.
const FASTEST: u64 = 1_000_000;

/// What came together.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    /// Since when the first of it may have been taken; when that one came, the first after its last pause, and the last one.
    from: u64,
    came: u64,
    resumed: u64,
    last: u64,
    /// Whether some came one right behind the other.
    is_dense: bool,
}

/// The last ones of a view.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batches {
    now: Batch,
    before: Batch,
}

impl Batch {
    fn has(&self, time: u64) -> bool {
        self.came > 0 && (self.came..self.came + GATHERS).contains(&time)
    }
}

impl Batches {
    /// A sample that came now, and was taken at some time from so long ago to so long ago.
    #[inline]
    pub(super) fn enter(&mut self, now: u64, ago: [u64; 2]) {
        if self.now.has(now) {
            let gap = now.saturating_sub(self.now.last);
            if gap >= BEHIND {
                self.now.resumed = now;
            }
            self.now.is_dense |= gap > 0 && gap < BEHIND;
            self.now.last = self.now.last.max(now);
        } else if ago[0].saturating_sub(ago[1]) >= GATHERS {
            self.before = self.now;
            self.now = Batch { from: now.saturating_sub(ago[0]), came: now, resumed: now, last: now, is_dense: false };
        }
    }

    /// Since when something may have been taken that came then, if it came in a batch.
    pub(super) fn since(&self, time: u64) -> Option<u64> {
        [self.now, self.before].into_iter().find(|batch| batch.has(time)).map(|batch| batch.from)
    }

    /// How many times as much as is here may be here once all of the batch is that is coming. Whoever sends single datagrams has sent all
    /// of it; others go on as fast as they last did.
    pub(super) fn times(&self, now: u64) -> f64 {
        if !self.now.has(now) || !self.now.is_dense && !self.before.is_dense {
            return 1.0;
        }
        GATHERS as f64 / now.saturating_sub(self.now.resumed).max(FASTEST) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn what_comes_soon_after_a_silence_may_have_been_taken_in_it() {
        let (mut batches, begin) = (Batches::default(), 1_000 * MILLISECOND);
        let comes = |batches: &mut Batches, millis: u64, ago: u64| {
            batches.enter(begin + millis * MILLISECOND, [ago * MILLISECOND, 0]);
        };
        comes(&mut batches, 0, 1_000);
        assert_eq!(batches.times(begin), 1.0, "a single datagram, as far as is known");
        // It pauses: what comes next looks as if it had been taken meanwhile.
        comes(&mut batches, 20, 20);
        assert_eq!(batches.since(begin + 20 * MILLISECOND), Some(begin - 1_000 * MILLISECOND));
        assert_eq!(batches.times(begin + 20 * MILLISECOND), 1.0, "single ones all the same");
        comes(&mut batches, 22, 18);
        assert_eq!(batches.times(begin + 22 * MILLISECOND), 25.0);
        assert_eq!(batches.times(begin + 50 * MILLISECOND), 1.0);
        assert_eq!(batches.since(begin + 50 * MILLISECOND), None);
        comes(&mut batches, 60, 10);
        assert_eq!(batches.since(begin + 60 * MILLISECOND), None, "sent as it was taken");
        comes(&mut batches, 1_000, 940);
        assert_eq!(batches.since(begin + 1_000 * MILLISECOND), Some(begin + 60 * MILLISECOND));
        assert_eq!(batches.times(begin + 1_000 * MILLISECOND), 50.0);
        assert_eq!(batches.since(begin + 20 * MILLISECOND), Some(begin - 1_000 * MILLISECOND), "the one before");
    }
}
