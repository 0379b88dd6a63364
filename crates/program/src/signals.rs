//! Signals, received by a plain thread: a handler may do next to nothing, a thread anything.

use std::time::{Duration, Instant};
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

/// The signals that ask a process to end, as they come.
#[derive(Debug, Default)]
pub struct Requests {
    first: Option<Instant>,
}

/// The meaning of a signal that asks a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// End in order.
    End,
    /// The same request once more: `timeout` signals its child and then the child's group, a terminal that closes the
    /// shell's jobs and then its own.
    Same,
    /// The user does not want to wait any longer: end at once.
    AtOnce,
}

impl Requests {
    /// Records a signal that came now.
    pub fn hear(&mut self, now: Instant) -> Request {
        match self.first {
            None => {
                self.first = Some(now);
                Request::End
            }
            Some(first) if now.saturating_duration_since(first) < SAME_REQUEST => Request::Same,
            Some(_) => Request::AtOnce,
        }
    }
}

/// Ends the process, with status 128 + the signal's number, if it has not ended by itself after this time: an orderly
/// end may be blocked by a disk, a reader, or a bug. Prints `words` then.
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

/// Time in which signals count as the same request. Nobody decides faster that an orderly end takes too long.
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

    #[test]
    fn a_second_signal_counts_after_a_second() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        let heard = [0, 0, 1, 999, 1000, 1001].map(|millis| requests.hear(after(millis)));
        use Request::{AtOnce, End, Same};
        assert_eq!(heard, [End, Same, Same, Same, AtOnce, AtOnce]);
    }
}
