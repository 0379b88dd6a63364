//! Signals, heard by a plain thread: a handler may do next to nothing, a thread may do anything.

use std::io;
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// Tells `hear` of each of these signals, on a thread of its own named `signals`.
///
/// Blocks them in the calling thread and in those it starts from then on: call it before starting any.
///
/// # Errors
/// If the thread cannot be started.
pub fn watch(signals: &[Signal], mut hear: impl FnMut(Signal) + Send + 'static) -> io::Result<()> {
    let signals: SigSet = signals.iter().copied().collect();
    signals.thread_block()?;
    let listen = move || {
        while let Ok(signal) = signals.wait() {
            hear(signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen)?;
    Ok(())
}
