//! Real traffic between two namespaces, through an emulator.

#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod links;
mod network;
mod plans;
mod tcp;
mod udp;
