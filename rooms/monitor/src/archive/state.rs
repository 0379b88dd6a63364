//! What others may ask of an archive that is being written.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_program::ledger;
use weir_program::ledger::Shared;
use weir_service::metrics::{Family, Kind, Samples};
use weir_wire::signal::{Block, Values};

/// Counts of an archive, by the threads that fill it.
#[derive(Debug, Default)]
pub struct State {
    counts: Ledger,
    between: Shared,
    /// Batches on their way to the writer, and as many as there are.
    queued: AtomicI64,
    batches: AtomicUsize,
    /// Why nothing is written.
    trouble: Mutex<Option<String>>,
}

ledger! {
    /// What became of samples: came = kept + missing + overrun + unkept + refused + waiting.
    pub struct Ledger {
        /// Whether nothing is unexplained.
        closed: bool,
        /// Samples that a receiver handed out, those of its gaps included, and those that a server did not send on between two of its
        /// sessions.
        came: Shared,
        /// Samples in files.
        kept: Shared,
        /// Samples that were missing when they came, or between two sessions of a server, in files as gaps.
        missing: Shared,
        /// Samples for which the writing thread had no time: gaps of cause `server` in files.
        overrun: Shared,
        /// Samples that the disk did not take: likewise.
        unkept: Shared,
        /// Samples, of those of the other counts, that are in no file, not even in a gap: there was no room for the last gaps. Known at
        /// the end.
        untold: Shared,
        /// Samples of channels beyond the limit.
        refused: Shared,
        /// Channels beyond the limit, each time they were told.
        refused_channels: Shared,
        /// Samples on their way; none at the end.
        waiting: u64,
        /// `came` less its parts.
        unexplained: i64,
        /// Bytes of the archive's files.
        bytes: Shared => Counter "weir_monitor_archive" ["bytes"],
        /// Files of the archive begun.
        files: Shared => Counter "weir_monitor_archive" ["files"],
    } together {
        /// Samples that came to the archive, by fate: `kept`, `missing` when they came, `overrun` for want of time, `unkept` for want of
        /// room, `refused` beyond the limit of channels.
        Counter "weir_monitor_archive" ["samples"] {fate}: kept, missing, overrun, unkept, refused;
    }
}

/// Samples of some blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) samples: u64,
    pub(super) missing: u64,
}

impl Tally {
    pub(super) fn add(&mut self, block: &Block<'_>) {
        match block.values {
            Values::Gap(gap) => self.missing += gap.samples,
            _ => self.samples += block.samples(),
        }
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
        Ledger { closed: unexplained == 0, came, waiting, unexplained, ..counts }
    }

    /// Why nothing is written now; `None`: all is well.
    pub fn what_is_wrong(&self) -> Option<String> {
        self.wrong().clone()
    }

    /// Adds every family of [`families`].
    pub fn metrics(&self, samples: &mut Samples<'_>) {
        samples.ledger(&self.ledger(false));
        samples.single(&WRITES, self.what_is_wrong().is_none());
    }

    pub(super) fn came(&self, block: &Block<'_>) {
        self.counts.came.add(block.samples());
    }

    /// Samples that servers did not send on between two of their sessions: they came to nobody, and are in the archive as missing.
    pub fn between_sessions(&self) -> u64 {
        self.between.get()
    }

    /// A server did not send on so many between two of its sessions.
    pub(crate) fn missed_between_sessions(&self, samples: u64) {
        self.between.add(samples);
    }

    pub(super) fn overran(&self, samples: u64) {
        self.counts.overrun.add(samples);
    }

    pub(super) fn missed(&self, samples: u64) {
        self.counts.unkept.add(samples);
    }

    pub(super) fn left_untold(&self, samples: u64) {
        self.counts.untold.add(samples);
    }

    pub(super) fn refuse_block(&self, block: &Block<'_>) {
        self.counts.refused.add(block.samples());
    }

    pub(super) fn refuse_channel(&self) {
        self.counts.refused_channels.add(1);
    }

    pub(super) fn kept(&self, tally: Tally, bytes: u64) {
        self.counts.kept.add(tally.samples);
        self.counts.missing.add(tally.missing);
        self.counts.bytes.add(bytes);
    }

    pub(super) fn opened(&self) {
        self.counts.files.add(1);
    }

    /// Notes what is wrong, or that nothing is; `true`: it was otherwise before.
    pub(super) fn trouble(&self, why: Option<String>) -> bool {
        let mut wrong = self.wrong();
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

    fn wrong(&self) -> MutexGuard<'_, Option<String>> {
        // It is replaced as a whole.
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every family of an archive, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    [ledger::families::<Ledger>(), vec![WRITES]].concat()
}

const WRITES: Family = Family::new(
    "weir_monitor_archive_writes",
    None,
    Kind::Gauge,
    "1: what comes is kept; 0: the disk does not take it, the log says why.",
);
