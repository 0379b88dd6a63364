//! What every long-running room needs: a clock, a configuration, an orderly way to stop and to speak, an account of
//! itself for people, scrapers and the service manager.
//!
//! ```text
//! with one thread: kernel::activation::inherited -> config -> sockets, admin::Admin::bind
//!   -> kernel::capabilities::keep_only (capabilities and users belong to threads)
//! then: signals, which all later threads must not hear -> log::start -> workers, each with a pulse::Pulse
//!   -> Admin::serve -> Watchdog::start -> notify::ready
//! ```

pub mod activation;
pub mod admin;
pub mod clock;
pub mod config;
pub mod log;
pub mod losses;
pub mod metrics;
pub mod notify;
pub mod output;
pub mod process;
pub mod pulse;
pub mod screen;
pub mod signals;
pub mod stop;
