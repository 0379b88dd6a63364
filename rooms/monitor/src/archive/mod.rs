//! The archive: everything that came, and what did not, in MCAP files that are whole up to their last chunk at every moment.
//!
//! ```text
//! Recorder (a Sink) -> batches, bounded -> writing thread -> FILE.mcap, cut by size and time
//!   no batch is empty: blocks are dropped      the disk is full: the same, and tried again each second
//!
//! read -> merge (each sample once, what no file has as gaps) -> export (CSV), replay (datagrams again)
//! ```
//!
//! What was dropped is a gap of cause `server` before the next block of its channel, or at the end. A channel of a session is a channel
//! of the file, whose metadata is that of its sender; a block or a gap is a message ([`schema`]).

pub mod export;
mod file;
mod head;
mod merge;
mod read;
mod recorder;
pub mod replay;
pub mod schema;
mod state;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

pub use head::Head;
pub use read::{Damage, Reading};
pub use recorder::Recorder;
pub use state::{Ledger, State};

/// Where an archive is written, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The directory.
    pub directory: PathBuf,
    /// What names of files begin with.
    pub prefix: String,
    /// Limits.
    pub limits: Limits,
}

/// How much an archive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A file of so many bytes is followed by another.
    pub cut_bytes: u64,
    /// Likewise after so long.
    pub cut_after: Duration,
    /// Bytes of the disk that are left to others, at least [`Limits::LEAST_LEFT`]; the last gaps may be written to them.
    pub leave: u64,
    /// Bytes that may wait for the disk.
    pub queue: usize,
}

impl Limits {
    /// As much is always left: two chunks, for what is under way, and for the gaps that end an archive.
    pub const LEAST_LEFT: u64 = 2 * writer::CHUNK_BYTES as u64;

    /// Channels of all sessions that are kept at once: as many as a file can name.
    const CHANNELS: usize = 65_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self { cut_bytes: 1 << 30, cut_after: Duration::from_secs(900), leave: 1 << 30, queue: 64 << 20 }
    }
}
