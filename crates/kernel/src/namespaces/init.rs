//! Process 1 of a program's PID namespace: prepares the place, starts the program, reaps orphans, and exits with it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, sethostname};

use crate::error::During;
use crate::{Error, sys};

/// Runs to the program's end and returns its status. `arguments`: descriptor of the lifeline, host name, program and
/// its arguments.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    // First of all, and not ignored: a blocked signal is kept even for a process 1, and waits in the signalfd. The
    // terminal's signals reach the program by themselves and must not touch us.
    let signals = SigSet::all();
    if signals.thread_block().is_err() || getpid() != Pid::from_raw(1) {
        eprintln!("weir: this is an internal command");
        return FAILED;
    }
    match Init::start(arguments, &signals) {
        Ok(init) => init.watch(),
        Err(status) => status,
    }
}

/// What init tells its owner, once, in a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    Started,
    Failed(Errno),
}

impl Report {
    pub(super) fn parse(line: &str) -> Report {
        match line.parse() {
            Ok(0) => Report::Started,
            Ok(code) => Report::Failed(Errno::from_raw(code)),
            Err(_) => Report::Failed(Errno::EPROTO),
        }
    }

    pub(super) fn into_result(self, operation: impl FnOnce() -> String) -> Result<(), Error> {
        match self {
            Report::Started => Ok(()),
            Report::Failed(errno) => Err(errno).during(operation),
        }
    }

    fn send(&self, mut lifeline: &UnixStream) {
        let code = match self {
            Report::Started => 0,
            Report::Failed(errno) => *errno as i32,
        };
        // If the owner has gone, watching the lifeline shows it.
        let _ = writeln!(lifeline, "{code}");
    }
}

struct Init {
    lifeline: UnixStream,
    signals: SignalFd,
    program: Pid,
}

impl Init {
    fn start(mut arguments: impl Iterator<Item = OsString>, signals: &SigSet) -> Result<Init, i32> {
        let number = arguments.next().and_then(|number| number.to_str()?.parse().ok()).ok_or(FAILED)?;
        let lifeline = UnixStream::from(sys::inherited_descriptor(number).map_err(|_| FAILED)?);
        let failed = |errno: Errno| {
            Report::Failed(errno).send(&lifeline);
            FAILED
        };
        let hostname = arguments.next().unwrap_or_default();
        let name = arguments.next().ok_or(FAILED)?;

        let signals = SignalFd::with_flags(signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(failed)?;
        prepare(&hostname).map_err(failed)?;
        let program = sys::unblock_signals_in(Command::new(name).args(arguments)).spawn();
        let program = program.map_err(|error| failed(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))))?;
        let program = i32::try_from(program.id()).map(Pid::from_raw).map_err(|_| FAILED)?;
        Report::Started.send(&lifeline);
        Ok(Init { lifeline, signals, program })
    }

    /// Returning ends the namespace with all its processes.
    fn watch(self) -> i32 {
        loop {
            let mut events = [self.lifeline.as_fd(), self.signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            if poll(&mut events, PollTimeout::NONE).is_err_and(|errno| errno != Errno::EINTR) {
                return FAILED;
            }
            // The owner never writes: readable means that it has gone.
            if events[0].any().unwrap_or(false) {
                return KILLED;
            }
            while let Ok(Some(signal)) = self.signals.read_signal() {
                let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
                match Signal::try_from(number) {
                    Ok(Signal::SIGCHLD) => {}
                    // Sent by a process, not by the terminal, which has told the program already.
                    Ok(signal_) if signal.ssi_code <= 0 && FORWARDED.contains(&signal_) => {
                        let _ = kill(self.program, signal_);
                    }
                    _ => {}
                }
            }
            if let Some(status) = self.reap() {
                return status;
            }
        }
    }

    /// Collects whoever has ended; the program's status if it is among them.
    fn reap(&self) -> Option<i32> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(id, status)) if id == self.program => return Some(status),
                Ok(WaitStatus::Signaled(id, signal, _)) if id == self.program => return Some(128 + signal as i32),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
                Err(errno) if errno != Errno::EINTR => return Some(FAILED),
                _ => {}
            }
        }
    }
}

/// Gives the namespace its own host name, and its own /proc and /sys where that is allowed: containers hide parts of
/// theirs, and then the kernel does not let us show them. The program then sees the owner's.
fn prepare(hostname: &OsStr) -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)?;
    if !hostname.is_empty() {
        sethostname(hostname)?;
    }
    // Unless this succeeds, a mount would be seen outside.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    if mount(None::<&str>, "/", None::<&str>, private, None::<&str>).is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys")] {
            let _ = mount(Some(kind), target, Some(kind), flags, None::<&str>);
        }
    }
    Ok(())
}

/// Signals that a process sent to init and the program gets.
const FORWARDED: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

/// Status of an init that could not do its work.
const FAILED: i32 = 125;

/// Status when the owner has gone; nobody will see it.
const KILLED: i32 = 128 + libc::SIGKILL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports() {
        assert_eq!(Report::parse("0"), Report::Started);
        assert_eq!(Report::parse("2"), Report::Failed(Errno::ENOENT));
        assert_eq!(Report::parse("?"), Report::Failed(Errno::EPROTO));
    }
}
