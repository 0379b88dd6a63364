//! Workers with real sockets, on loopback and in namespaces of their own.

mod adversary;
mod fixture;
mod forwarding;
mod lane;
mod reload;
mod tap;
mod trouble;

use std::net::SocketAddr;

use crate::settings::{Destination, Settings};

pub(super) use lane::Scripted;

/// Settings with so many destinations.
pub(super) fn settings(destinations: u16) -> Settings {
    let to: Vec<_> = (1..=destinations).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    fixture::settings(&to)
}

/// A destination with nothing but its address.
pub(super) fn destination(to: SocketAddr) -> Destination {
    fixture::destination(to)
}
