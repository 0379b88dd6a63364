//! Detects floods in sampled traffic, and stops them by BGP.
//!
//! ```text
//! analyser's shards: Sighting of a protected host and what speaks against it, agents that are heard or contested
//!    |  bounded queues, in batches
//!    v  one thread
//! detect: groups, thresholds, sequential tests -> Detection with its Evidence and its Doubts
//!    v
//! guard: what is done about it: mode, levels, caps, harm, time to live -> Routes wanted; journal, hooks
//!    v                                        ^ approve, withdraw, extend, stop
//! bgp: a speaker's table held equal to it      api, page: people
//! ```
//!
//! Nothing here knows sFlow: samples of a capture are the same to it.

pub mod bgp;
pub mod config;
pub mod guard;
pub mod journal;
pub mod metrics;
pub mod model;
pub mod people;
pub mod room;
pub mod settings;

pub use weir_detect as detect;
