//! `weir tee` as a user runs it.

mod hosts;
mod life;
