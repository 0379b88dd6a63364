//! What others may ask of an archive that is being written.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_program::ledger;
use weir_program::ledger::Shared;

/// Counts of an archive, by the threads that fill it.
#[derive(Debug, Default)]
pub struct State {
    pub(super) counts: Ledger,
    /// Batches on their way to the writer, and as many as there are.
    queued: AtomicI64,
    batches: AtomicUsize,
    /// Why nothing is written.
    trouble: Mutex<Option<String>>,
    /// Since when the writing thread has been at work on one batch.
    at_work: Mutex<Option<Instant>>,
}

ledger! {
    /// What became of samples: came = kept + missing + overrun + unkept + refused + waiting.
    pub struct Ledger {
        /// Whether nothing is unexplained.
        closed: bool,
        /// Samples that a receiver handed out, those of its gaps included.
        came: Shared,
        /// Samples in files.
        kept: Shared,
        /// Samples that were missing when they came, in files as gaps.
        missing: Shared,
        /// Samples for which the writing thread had no time: gaps of cause `server` in files.
        overrun: Shared,
        /// Samples that the disk did not take: likewise.
        unkept: Shared,
        /// Samples of channels beyond the limit.
        refused: Shared,
        /// Channels beyond the limit, each time they were described.
        refused_channels: Shared,
        /// Samples on their way; none at the end.
        waiting: u64,
        /// `came` less its parts.
        unexplained: i64,
        /// Bytes of the archive's files.
        bytes: Shared => Counter "weir_monitor_archive" ["bytes"],
        /// Files of the archive begun.
        files: Shared => Counter "weir_monitor_archive" ["files"],
        /// 1: what comes is kept; 0: the disk does not take it, the log says why.
        writes: bool => Gauge "weir_monitor_archive_writes",
    } together {
        /// Samples that came to the archive, by fate: `kept`, `missing` when they came, `overrun` for want of time, `unkept` for want of
        /// room, `refused` beyond the limit of channels.
        Counter "weir_monitor_archive" ["samples"] {fate}: kept, missing, overrun, unkept, refused;
    }
}

impl State {
    /// The account; at the end nothing waits.
    pub fn ledger(&self, ended: bool) -> Ledger {
        let counts = self.counts.clone();
        let Ledger { kept, missing, overrun, unkept, refused, .. } = &counts;
        let parts = [kept, missing, overrun, unkept, refused].map(Shared::get).iter().sum();
        // What came is read last: it is never less than its parts.
        let came = self.counts.came.clone();
        let over = came.get().wrapping_sub(parts).cast_signed();
        let (waiting, unexplained) = if ended { (0, over) } else { (u64::try_from(over).unwrap_or(0), over.min(0)) };
        let writes = self.what_is_wrong().is_none();
        Ledger { closed: unexplained == 0, came, waiting, unexplained, writes, ..counts }
    }

    /// Why nothing is written now; `None`: all is well.
    pub fn what_is_wrong(&self) -> Option<String> {
        match *locked(&self.at_work) {
            Some(since) if since.elapsed() > LONGEST_WRITE => {
                let seconds = since.elapsed().as_secs();
                Some(format!("a write has waited for the disk for {seconds} s (is it frozen, or does it not answer?)"))
            }
            _ => locked(&self.trouble).clone(),
        }
    }

    /// The writing thread begins with a batch, or has written it.
    pub(super) fn at_work(&self, is_at_work: bool) {
        *locked(&self.at_work) = is_at_work.then(Instant::now);
    }

    /// Notes what is wrong, or that nothing is; `true`: it was otherwise before.
    pub(super) fn trouble(&self, why: Option<String>) -> bool {
        let mut wrong = locked(&self.trouble);
        let news = wrong.is_some() != why.is_some();
        *wrong = why;
        news
    }

    pub(super) fn set_batches(&self, batches: usize) {
        self.batches.store(batches, Ordering::Relaxed);
    }

    pub(super) fn queued(&self, more: i64) {
        self.queued.fetch_add(more, Ordering::Relaxed);
    }

    /// Whether less than half of the batches wait for the writer.
    pub(super) fn has_time(&self) -> bool {
        let batches = self.batches.load(Ordering::Relaxed) as i64;
        self.queued.load(Ordering::Relaxed) * 2 < batches
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    // It is replaced as a whole.
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A write that takes longer stands still: a disk writes the 4 MiB of a chunk in less.
const LONGEST_WRITE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_stands_still_is_a_fault() {
        let state = State::default();
        state.at_work(true);
        assert_eq!(state.what_is_wrong(), None);
        *locked(&state.at_work) = Instant::now().checked_sub(LONGEST_WRITE * 2);
        let wrong = state.what_is_wrong().unwrap();
        assert!(
            wrong.starts_with("a write has waited for the disk for 10 s") && !state.ledger(false).writes,
            "{wrong}"
        );
        state.at_work(false);
        assert_eq!(state.what_is_wrong(), None);
    }
}
