//! Copies every datagram, whole, to every destination that a rule names.
//!
//! [`weir_forward`] moves the datagrams. Beside its workers a control thread loads files, resolves names, watches health and serves
//! `/metrics`. It opens every socket and hands workers a finished plan, so that a bad file changes nothing.

pub mod config;
pub mod control;
#[cfg(test)]
mod fixture;
#[doc(hidden)]
pub mod foreign;
#[cfg(test)]
mod growth;
mod losses;
pub mod metrics;
mod probe;
mod screen;
