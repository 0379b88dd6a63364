//! What every long-running room needs: an orderly way to stop, and to speak.

pub mod output;
pub mod stop;
