//! A program in the foreground that its owner looks after while it runs: in the owner's own namespaces, with its terminal.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Child, Command};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::foreground::{Asked, Terminal};
use crate::error::During;
use crate::{Error, sys};

/// A program that runs. Dropping it leaves it as it is.
pub struct Attended {
    child: Child,
    name: OsString,
    asked: Asked,
    /// When it was asked to end.
    first: Option<Instant>,
    _terminal: Terminal,
}

/// What asks the owner to end, and is handed on to the program; and that a child has ended.
const SIGNALS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD];

impl Attended {
    /// Starts a program, looked up in PATH, with the environment, directory and stdio of this process, which does not end
    /// by Ctrl-C meanwhile: the program does, if it wants to. Descendants that lose their parent become this process's
    /// children.
    ///
    /// Signal handlers are the process's: to be called before it starts threads, none of which should hear these signals.
    ///
    /// # Errors
    /// If there is no such program ([`Error::errno`] is ENOENT), or it cannot be run.
    pub fn start(name: &OsStr, arguments: &[OsString]) -> Result<Attended, Error> {
        let operation = || format!("run {}", name.display());
        // Without it (before 3.4) those that lose their parent are not found again.
        let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(process::id().cast_signed()));
        let terminal = Terminal::lend()?;
        let asked = Asked::listen(&SIGNALS)?;
        let child = sys::unblock_signals_in(Command::new(name).args(arguments)).spawn().during(operation)?;
        Ok(Attended { child, name: name.into(), asked, first: None, _terminal: terminal })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended, and returns its exit status, 128 + n if signal n ended it; `None`: the time is over first.
    /// The first signal that a process sends to this one is handed on; one that comes a second later or more kills it.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<i32>, Error> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().during(|| format!("wait for {}", self.name.display()))? {
                return Ok(Some(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.asked.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).during(|| "wait for the program"),
            }
            while let Some(signal) = self.asked.hear() {
                self.hand_on(signal)?;
            }
        }
    }

    fn hand_on(&mut self, signal: Signal) -> Result<(), Error> {
        if signal == Signal::SIGCHLD {
            return Ok(());
        }
        match self.first {
            None => {
                self.first = Some(Instant::now());
                let id = Pid::from_raw(self.child.id().cast_signed());
                match kill(id, signal) {
                    Ok(()) | Err(Errno::ESRCH) => Ok(()),
                    Err(errno) => Err(errno).during(|| format!("send {signal} to {}", self.name.display())),
                }
            }
            Some(first) if first.elapsed() < PATIENCE => Ok(()),
            Some(_) => self.child.kill().or_else(gone).during(|| format!("kill {}", self.name.display())),
        }
    }
}

fn gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
}

/// Signals within this time of the first are the first once more.
const PATIENCE: Duration = Duration::from_secs(1);
