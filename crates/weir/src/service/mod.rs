//! What every long-running room needs: an orderly way to stop and to speak, an account of itself for people, scrapers
//! and the service manager.
//!
//! ```text
//! main, in this order: log::start -> activation (sockets passed) -> Stop::on_signals -> Admin::bind, sockets
//!   -> kernel::capabilities (drop) -> threads, each with a Pulse -> Admin::serve -> Watchdog::start -> notify::ready
//! ```

pub mod activation;
pub mod admin;
pub mod log;
pub mod losses;
pub mod metrics;
pub mod notify;
pub mod output;
pub mod process;
pub mod pulse;
pub mod stop;
