//! Sockets against the kernel: what we believe of it, and what we promise.

#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod interfaces;
mod loopback;
mod multicast;
mod network;
mod path;
mod raw;
mod steering;
