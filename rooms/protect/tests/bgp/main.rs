//! The speaker against real gobgpd (v3, v4), whose neighbours are real BIRD, FRR and ExaBGP, in networks of its own.

#![allow(clippy::unwrap_used)]

mod capture;
mod drops;
mod latency;
mod network;
mod reach;
mod reconcile;
mod restart;
mod silence;
mod tshark;
