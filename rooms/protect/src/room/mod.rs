//! The room as it runs: one thread that decides, woken by whoever has something for it.
//!
//! ```text
//! shard 0 -> Outlet -> a queue, bounded --\
//! shard 1 -> Outlet -> a queue, bounded ---+-> thread `guard`: Engine (detect, guard) -> Announcer, journal, hooks, board
//! people  -> Commands ---------------------+        ^ wakes
//! speaker -> has, has not -----------------/
//! ```
//!
//! Shards never wait: while a queue is filling up fewer samples are told, which count for the others; what a full one has no room for is counted. People never wait for a lock that shards want.

pub(crate) mod commands;
mod engine;
mod intake;
mod protection;
mod run;
#[cfg(test)]
mod tests;

pub use commands::Commands;
pub use engine::Engine;
pub use protection::{Protection, Summary};
pub use run::{Listener, Room};
pub use weir_detect::queue::{Inlet, News, Outlet, Totals, Waker, queue};
