//! What every long-running room needs: an orderly way to stop.

pub mod stop;
