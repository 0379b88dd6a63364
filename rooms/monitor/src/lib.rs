//! Signals from stations to any number of screens: timely first, complete second, never a falsified curve.
//!
//! ```text
//! station   sources -> channels -> thin -> datagrams (wire/signal) ======> group, or two (A/B)
//! serve     ======> receive: merged, in order, gaps exact -> Sink: history, derive, limits -> events
//!                   history -> datagrams ======> group of viewers;  -> page, outputs;  record -> archive
//! view      ======> receive -> history -> terminal
//! ```
//!
//! A sample is known by its stream, channel and index. Whatever is not there is a gap of so many samples, with its cause, and goes the
//! same way as samples do: displayed samples + gaps = sent samples, at every viewer.

pub mod api;
pub mod archive;
pub mod check;
pub mod config;
pub mod foreign;
mod needed;
pub mod outputs;
pub mod record;
pub mod serve;
pub mod station;
pub mod view;
