//! Workers with real sockets, on loopback and in namespaces of their own.

mod adversary;
mod fixture;
mod forwarding;
mod lend;
mod reload;
mod trouble;
