//! A station: takes samples from sources, thins them, and sends them to a group, or two.
//!
//! ```text
//! one thread   sources: what is due -> board: channels, each with its index -> lanes: thinner, pieces that wait
//!              a lane that fills a datagram, or pieces as old as `delay` -> packer -> sealed -> outlets (A, B)
//!              what the kernel did not take goes in front of the lane's next pieces, as a gap of cause `station`
//! ```
//!
//! One send serves any number of receivers. The streams `display` (thinned) and `full` (each sample, of chosen channels) are two sessions.
//! The index of a channel counts every sample that was due; for each stream, due = sent + gaps + waiting.

mod board;
mod clock;
pub mod config;
pub mod control;
pub mod ledger;
pub mod readers;
mod room;
pub mod settings;
mod sources;
mod state;
mod statement;
mod worker;
