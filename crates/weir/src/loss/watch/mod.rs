//! The same live: sockets, their buffers, drops by place, processors, interfaces.

#[cfg(test)]
mod fixture;
mod lost;
pub mod snapshot;
mod view;
