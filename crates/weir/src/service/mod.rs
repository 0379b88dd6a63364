//! What every long-running room needs: a configuration, an orderly way to stop, and to speak.

pub mod config;
pub mod output;
pub mod signals;
pub mod stop;
