//! Who did what, when and why, as lines of JSON. What is active is known from it after a restart.
//!
//! A thread of its own writes: a disk that is slow or full never holds up protection. What it could not write is one line in
//! the log, and counted.

mod entry;
mod file;
#[cfg(test)]
mod tests;
mod writer;

pub use entry::{Entry, WEIR, What};
pub use file::{Found, Journal, learnt, read};
pub use writer::Writer;

/// Bytes after which a journal is put aside.
pub const MOST: u64 = 16 << 20;
