//! What a program in the foreground shares with its owner: the terminal, and what asks the owner to end.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

use super::process::Running;
use crate::error::During;
use crate::{Error, sys};

/// The terminal while a program in the foreground uses it.
pub(super) struct Terminal {
    /// Whether it must be taken back: shells move it to their own process group and cannot name ours at their end.
    ours: bool,
    _interrupt: sys::Caught,
    _quit: sys::Caught,
}

impl Terminal {
    pub(super) fn lend() -> Result<Terminal, Error> {
        let operation = || "catch signals of the terminal";
        // Caught, not ignored: an exec makes a caught signal deadly again, as the program expects it.
        let interrupt = sys::Caught::new(Signal::SIGINT).during(operation)?;
        let quit = sys::Caught::new(Signal::SIGQUIT).during(operation)?;
        let stdin = io::stdin();
        let ours = stdin.is_terminal() && tcgetpgrp(&stdin) == Ok(getpgrp());
        Ok(Terminal { ours, _interrupt: interrupt, _quit: quit })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if !self.ours {
            return;
        }
        // Who takes the terminal from the background is stopped, unless it blocks SIGTTOU.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        if let Ok(before) = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
            let _ = tcsetpgrp(io::stdin(), getpgrp());
            let _ = before.thread_set_mask();
        }
    }
}

/// Signals that ask the owner to end, kept from it while a program is in the foreground.
pub(super) struct Asked {
    signals: SignalFd,
    before: SigSet,
}

impl Asked {
    pub(super) fn listen(signals: &[Signal]) -> Result<Asked, Error> {
        let operation = || "listen to signals";
        let signals: SigSet = signals.iter().copied().collect();
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&signals, flags).during(operation)?;
        let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).during(operation)?;
        Ok(Asked { signals: descriptor, before })
    }

    /// Waits until the program has ended and returns its status. The first signal is handed on to it; one that comes
    /// `patience` later or more kills it, those in between are the first one once more.
    pub(super) fn wait(&self, running: &mut Running, patience: Duration) -> Result<i32, Error> {
        let mut first: Option<Instant> = None;
        loop {
            let mut events = [running.as_fd(), self.signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match poll(&mut events, PollTimeout::NONE) {
                // Ctrl-C, or the end of a Ctrl-Z.
                Err(Errno::EINTR) => continue,
                result => result.during(|| "wait for the program")?,
            };
            if events[0].any().unwrap_or(false) {
                return running.wait();
            }
            while let Some(signal) = self.hear() {
                match first {
                    None => {
                        first = Some(Instant::now());
                        running.signal(signal)?;
                    }
                    Some(first) if first.elapsed() < patience => {}
                    Some(_) => {
                        running.kill()?;
                        return Ok(128 + signal as i32);
                    }
                }
            }
        }
    }

    /// The next signal that a process has sent: what the terminal sent it has told the program, too.
    pub(super) fn hear(&self) -> Option<Signal> {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal.filter(|_| info.ssi_code <= 0) {
                return Some(signal);
            }
        }
        None
    }
}

impl AsFd for Asked {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // What has come and was not read was for the program.
        while let Ok(Some(_)) = self.signals.read_signal() {}
        let _ = self.before.thread_set_mask();
    }
}
