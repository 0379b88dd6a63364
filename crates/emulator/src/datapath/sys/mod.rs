//! The unsafe calls of the data path: packet sockets, batched receive and send, waiting.
#![allow(unsafe_code)]

pub(super) mod batch;
pub(super) mod socket;
pub(super) mod wait;
