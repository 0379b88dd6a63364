//! Black box: the `weir` command as a user runs it.

#![allow(clippy::unwrap_used)]

mod deploy;
mod docs;
mod endings;
mod fuzz;
mod lab;
mod loss;
mod monitor;
mod network;
mod protect;
mod reverse;
mod send_recv;
mod service;
mod sflow;
mod tee;
