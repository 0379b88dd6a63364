//! `weir monitor check`: why a group is not heard, and what to do about it.
//!
//! ```text
//! facts: the group joined, listened to for some seconds, at the interface and at the socket; what the kernel says meanwhile
//!        -> findings, a pure function -> report
//! ```

mod facts;
mod findings;
mod judge;
mod send;
#[cfg(test)]
mod tests;

pub use facts::{Bridge, Facts, Settings, Source, listen};
pub use findings::{Finding, Report};
pub use send::send;
