//! The data path of signals, hot and without a runtime: what a station sends, what a receiver makes of it, and what is kept of it.
//!
//! ```text
//! samples -> thin -> send (numbered, sealed) ======> receive: merged, in order, gaps exact -> Sink: history, recorder, ...
//! ```
//!
//! A sample is known by its stream, channel and index. Whatever is not there is a gap of so many samples, with its cause, and goes the
//! same way as samples do.

pub mod history;
pub mod receive;
pub mod seal;
pub mod send;
pub mod thin;
