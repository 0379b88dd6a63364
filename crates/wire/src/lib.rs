//! Bytes to types and back. No I/O, no clock, no unsafe code.
//!
//! Every codec is a checked view over bytes first, then a type in which invalid states cannot exist.
#![forbid(unsafe_code)]

pub mod frame;
pub mod ip;
pub mod pcap;
pub mod pcapng;
pub mod probe;
pub mod proxy;
pub mod sflow;
pub mod signal;
