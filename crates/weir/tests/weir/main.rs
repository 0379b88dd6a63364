//! Black box: the `weir` command as a user runs it.

#![allow(clippy::unwrap_used)]

mod deploy;
mod docs;
mod endings;
mod fuzz;
mod lab;
mod loss;
mod network;
mod peers;
mod send_recv;
mod service;
mod tee;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: they keep real time.
fn turn() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
