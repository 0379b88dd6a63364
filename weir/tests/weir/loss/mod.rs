//! `weir loss account` against faults injected in networks of the tests' own.
//!
//! What is expected comes from the injectors alone: rules' counters, queues' counters, errors that the tests' sockets
//! got, arithmetic. Counts, sizes, ports and the order of lost and kept datagrams are drawn from a seed that is printed;
//! WEIR_SEED repeats it.

mod account;
mod alone;
mod check;
mod command;
mod fragments;
mod frames;
mod limits;
mod mistakes;
mod mix;
mod multicast;
mod names;
mod ongoing;
mod readers;
mod receiving;
mod redirected;
mod samples;
mod scene;
mod sending;
mod session;
mod sockets;
mod sources;
mod subjects;
mod sys;
mod watch;
mod xdp;

use account::{Account, Following, Ledger};
use scene::{Reader, Scene, expect_errors};

use crate::{WEIR, weir};
