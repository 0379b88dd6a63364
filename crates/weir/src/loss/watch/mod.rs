//! The same live: sockets, their buffers, drops by place, processors, interfaces.

#[cfg(test)]
pub(crate) mod fixture;
mod lost;
pub mod snapshot;
mod view;
