//! Workers with real sockets, on loopback and in namespaces of their own.

mod adversary;
mod fixture;
mod forwarding;
mod reload;
mod sharing;
mod tap;
mod trouble;
