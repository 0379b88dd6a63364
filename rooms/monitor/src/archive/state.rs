//! What others may ask of an archive that is being written.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use weir_service::metrics::{Family, Kind, Samples};
use weir_wire::signal::{Block, Values};

/// Counts of an archive, by the threads that fill it.
#[derive(Debug, Default)]
pub struct State {
    came: AtomicU64,
    between: AtomicU64,
    overrun: AtomicU64,
    missed: AtomicU64,
    untold: AtomicU64,
    refused: AtomicU64,
    refused_channels: AtomicU64,
    samples: AtomicU64,
    missing: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
    /// Batches on their way to the writer, and as many as there are.
    queued: AtomicI64,
    batches: AtomicUsize,
    /// Why nothing is written.
    trouble: Mutex<Option<String>>,
}

/// What became of samples: came = kept + missing + overrun + unkept + refused + waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Whether nothing is unexplained.
    pub closed: bool,
    /// Samples that a receiver handed out, those of its gaps included, and those that a server did not send on between two of its sessions.
    pub came: u64,
    /// Samples in files.
    pub kept: u64,
    /// Samples that were missing when they came, or between two sessions of a server, in files as gaps.
    pub missing: u64,
    /// Samples for which the writing thread had no time: gaps of cause `server` in files.
    pub overrun: u64,
    /// Samples that the disk did not take: likewise.
    pub unkept: u64,
    /// Samples, of those of the other counts, that are in no file, not even in a gap: there was no room for the last gaps. Known at the end.
    pub untold: u64,
    /// Samples of channels beyond the limit.
    pub refused: u64,
    /// Channels beyond the limit, each time they were told.
    pub refused_channels: u64,
    /// Samples on their way; none at the end.
    pub waiting: u64,
    /// `came` less its parts.
    pub unexplained: i64,
    /// Bytes of files.
    pub bytes: u64,
    /// Files begun.
    pub files: u64,
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
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        // What came is read last: it is never less than its parts.
        let (kept, missing, overrun) = (read(&self.samples), read(&self.missing), read(&self.overrun));
        let (unkept, refused) = (read(&self.missed), read(&self.refused));
        let came = read(&self.came);
        let over = came.wrapping_sub(kept + missing + overrun + unkept + refused).cast_signed();
        let (waiting, unexplained) = if ended { (0, over) } else { (u64::try_from(over).unwrap_or(0), over.min(0)) };
        let (bytes, files) = (read(&self.bytes), read(&self.files));
        let refused_channels = read(&self.refused_channels);
        let closed = unexplained == 0;
        Ledger {
            closed,
            came,
            kept,
            missing,
            overrun,
            unkept,
            untold: read(&self.untold),
            refused,
            refused_channels,
            waiting,
            unexplained,
            bytes,
            files,
        }
    }

    /// Why nothing is written now; `None`: all is well.
    pub fn what_is_wrong(&self) -> Option<String> {
        self.wrong().clone()
    }

    /// Adds every family of [`families`].
    pub fn metrics(&self, samples: &mut Samples<'_>) {
        let ledger = self.ledger(false);
        let fates = [
            ("kept", ledger.kept),
            ("missing", ledger.missing),
            ("overrun", ledger.overrun),
            ("unkept", ledger.unkept),
            ("refused", ledger.refused),
        ];
        samples.family(&SAMPLES, fates.map(|(fate, count)| ([fate.to_owned()], count)));
        samples.single(&BYTES, ledger.bytes);
        samples.single(&FILES, ledger.files);
        samples.single(&WRITES, self.what_is_wrong().is_none());
    }

    pub(super) fn came(&self, block: &Block<'_>) {
        self.came.fetch_add(block.samples(), Ordering::Relaxed);
    }

    /// Samples that servers did not send on between two of their sessions: they came to nobody, and are in the archive as missing.
    pub fn between_sessions(&self) -> u64 {
        self.between.load(Ordering::Relaxed)
    }

    /// A server did not send on so many between two of its sessions.
    pub(crate) fn missed_between_sessions(&self, samples: u64) {
        self.between.fetch_add(samples, Ordering::Relaxed);
    }

    pub(super) fn overran(&self, samples: u64) {
        self.overrun.fetch_add(samples, Ordering::Relaxed);
    }

    pub(super) fn missed(&self, samples: u64) {
        self.missed.fetch_add(samples, Ordering::Relaxed);
    }

    pub(super) fn left_untold(&self, samples: u64) {
        self.untold.store(samples, Ordering::Relaxed);
    }

    pub(super) fn refuse_block(&self, block: &Block<'_>) {
        self.refused.fetch_add(block.samples(), Ordering::Relaxed);
    }

    pub(super) fn refuse_channel(&self) {
        self.refused_channels.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn kept(&self, tally: Tally, bytes: u64) {
        self.samples.fetch_add(tally.samples, Ordering::Relaxed);
        self.missing.fetch_add(tally.missing, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn opened(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
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
    vec![SAMPLES, BYTES, FILES, WRITES]
}

const SAMPLES: Family = Family::new(
    "weir_monitor_archive",
    Some("samples"),
    Kind::Counter,
    "Samples that came to the archive, by fate: `kept`, `missing` when they came, `overrun` for want of time, `unkept` for want of \
     room, `refused` beyond the limit of channels.",
)
.by(&["fate"]);
const BYTES: Family =
    Family::new("weir_monitor_archive", Some("bytes"), Kind::Counter, "Bytes of the archive's files.");
const FILES: Family = Family::new("weir_monitor_archive", Some("files"), Kind::Counter, "Files of the archive begun.");
const WRITES: Family = Family::new(
    "weir_monitor_archive_writes",
    None,
    Kind::Gauge,
    "1: what comes is kept; 0: the disk does not take it, the log says why.",
);
