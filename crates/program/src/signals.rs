//! Signals, received by a plain thread: a handler may do next to nothing, a thread anything.

use std::time::Duration;
use std::{io, process, thread};

use nix::sys::signal::{SigSet, Signal};
use weir_kernel::processes::ignores;

use crate::output::complain;

/// Calls `hear` with each of these signals, on a separate thread named `signals`.
///
/// Blocks them in the calling thread and in those it starts from then on: call it before starting any.
///
/// # Errors
/// The thread cannot be started.
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

/// Signals that ask a process to end: from a keyboard, a manager, or a terminal that is closed. The last one is left
/// out if the parent ignores it (`nohup`).
pub fn that_ask_for_the_end() -> Vec<Signal> {
    let hangup = (!ignores(Signal::SIGHUP)).then_some(Signal::SIGHUP);
    [Signal::SIGINT, Signal::SIGTERM].into_iter().chain(hangup).collect()
}

/// Ends the process, with status 128 + the signal's number, if it has not ended by itself after so long: an orderly end may
/// wait for what is stuck, a disk, a reader, a fault of ours. `words` are said then.
pub fn bound_the_end(signal: Signal, grace: Duration, words: impl FnOnce() -> String + Send + 'static) {
    let bound = move || {
        thread::sleep(grace);
        complain!("weir: {}", words());
        process::exit(128 + signal as i32);
    };
    // Without the thread there is still the second signal.
    let _ = thread::Builder::new().name("grace".into()).spawn(bound);
}

/// Default max time for an orderly end.
pub const GRACE: Duration = Duration::from_secs(10);

/// For how long signals are the same request: `timeout` signals its child and then the child's group, a terminal that closes the shell's
/// jobs and then its own. Nobody decides faster that an orderly end takes too long.
pub const SAME_REQUEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::env::{self, current_exe};
    use std::process::Command;

    use super::*;

    /// Ends the process that the test below starts.
    #[test]
    fn stuck() {
        if env::var_os("WEIR_TEST_ROLE").is_none() {
            return;
        }
        bound_the_end(Signal::SIGTERM, Duration::from_millis(10), || "stuck".into());
        thread::sleep(Duration::from_secs(3600));
    }

    #[test]
    fn what_is_stuck_is_ended() {
        let mut program = Command::new(current_exe().unwrap());
        program.args(["--exact", "signals::tests::stuck", "--nocapture"]).env("WEIR_TEST_ROLE", "stuck");
        let output = program.output().unwrap();
        assert_eq!(output.status.code(), Some(128 + Signal::SIGTERM as i32));
        assert!(String::from_utf8_lossy(&output.stderr).contains("weir: stuck"));
    }
}
