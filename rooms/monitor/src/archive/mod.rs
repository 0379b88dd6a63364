//! The archive: everything that came, and what did not, in MCAP files that are whole up to their last chunk at every moment.
//!
//! ```text
//! Recorder (a Sink) -> batches, bounded -> writing thread -> FILE.mcap, cut by size and time
//!   no batch is empty: a gap, cause server     the disk is full: likewise, and tried again each second
//!
//! read -> survey (each sample once, holes as gaps) -> export (CSV), replay (datagrams again)
//! ```
//!
//! A channel of a session is a channel of the file, whose metadata is that of its sender; a block or a gap is a message ([`schema`]).

mod beside;
pub mod export;
mod file;
mod head;
mod lost;
mod ordered;
mod outages;
mod read;
mod recorder;
pub mod replay;
pub mod schema;
mod state;
mod survey;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

pub use head::Head;
pub(crate) use read::read_from;
pub use read::{Damage, read};
pub use recorder::Recorder;
pub use state::{Ledger, State, families};

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

    /// Sessions whose end may wait to be told.
    const SESSIONS: usize = 65_536;
}

impl Default for Limits {
    fn default() -> Self {
        Self { cut_bytes: 1 << 30, cut_after: Duration::from_secs(900), leave: 1 << 30, queue: 64 << 20 }
    }
}
