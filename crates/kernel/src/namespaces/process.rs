//! Programs on a host of an emulated network, none of which outlives its owner.
//!
//! ```text
//! owner --- lifeline (socket pair) --- init, process 1 of a PID namespace --- program --- its children
//! ```
//!
//! A program runs in a PID namespace whose first process, *init*, is this very executable called with a hidden
//! argument. Init watches its end of the lifeline: when the owner ends, however it ends, the kernel closes the other
//! end, init exits, and the kernel kills whatever is left in the namespace. Its mount and host name spaces go the same
//! way. (The parent-death signal would not do: it follows the *thread* that started the child.)
//!
//! Nothing runs between fork and exec. A thread that is about to end moves into the network and unshares the PID
//! namespace, both of which concern only itself and its children, and then starts init as any other command. All that
//! remains, mounts and host name, init does after its exec, when it is a process with one thread. So an owner with many
//! threads is as safe as one with a single thread.
//!
//! The price is that the owner's `main` begins with [`init_if_asked`], or that it names another executable's
//! ([`Program::below`]).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, process};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::foreground::{Asked, Terminal};
use super::{NetNs, init, on_own_thread};
use crate::error::During;
use crate::{Error, sys};

/// Becomes init and never returns, if this process was started for that. To be called first thing in `main`.
pub fn init_if_asked() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == HIDDEN_ARGUMENT) {
        process::exit(init::run(arguments));
    }
}

/// A program to run on a host: built like a [`Command`].
#[derive(Debug)]
pub struct Program<'a> {
    network: &'a NetNs,
    hostname: &'a str,
    name: OsString,
    arguments: Vec<OsString>,
    /// Carries what init hands on as it is: environment, directory, stdio.
    init: Command,
}

impl<'a> Program<'a> {
    /// `name` is looked up in PATH, on the host named `hostname` whose network is `network`. Environment, directory and
    /// stdio are the owner's unless told otherwise.
    pub fn new(network: &'a NetNs, hostname: &'a str, name: impl AsRef<OsStr>) -> Program<'a> {
        Program::below(Path::new("/proc/self/exe"), network, hostname, name)
    }

    /// As [`Program::new`], for an owner whose own `main` does not begin with [`init_if_asked`], such as a test: that
    /// of the executable `init` does.
    pub fn below(init: &Path, network: &'a NetNs, hostname: &'a str, name: impl AsRef<OsStr>) -> Program<'a> {
        let mut init = Command::new(init);
        init.arg0(format!("weir: init of {hostname}"));
        Program { network, hostname, name: name.as_ref().into(), arguments: Vec::new(), init }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().into()));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.init.env(key, value);
        self
    }

    /// Sets the working directory.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.init.current_dir(directory);
        self
    }

    /// Sets the standard input.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.init.stdin(stdin);
        self
    }

    /// Sets the standard output.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.init.stdout(stdout);
        self
    }

    /// Sets the standard error.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.init.stderr(stderr);
        self
    }

    /// Starts the program in the background: in a process group of its own, which a Ctrl-C for the owner does not
    /// reach. Returns when the program has started.
    ///
    /// # Errors
    /// If the program cannot be started ([`Error::errno`] is ENOENT where there is none of that name), or init cannot.
    pub fn spawn(mut self) -> Result<Running, Error> {
        self.init.process_group(0);
        self.start()
    }

    /// Runs the program in the foreground, as a shell does: it owns the terminal, if there is one, and gets its Ctrl-C
    /// and Ctrl-Z; the owner does not end by Ctrl-C meanwhile. The first of `ends` that a process sends to the owner is
    /// handed on to the program, another one `patience` later or more kills it. Returns its [`Running::wait`] status.
    ///
    /// Signal handlers are the process's: no other thread should change those of SIGINT and SIGQUIT meanwhile, nor hear
    /// `ends`.
    ///
    /// # Errors
    /// As for [`Program::spawn`].
    pub fn run(self, ends: &[Signal], patience: Duration) -> Result<i32, Error> {
        let _terminal = Terminal::lend()?;
        let asked = Asked::listen(ends)?;
        asked.wait(&mut self.start()?, patience)
    }

    fn start(mut self) -> Result<Running, Error> {
        let operation = || "start init";
        let (lifeline, far_end) = UnixStream::pair().during(operation)?;
        self.init.arg(HIDDEN_ARGUMENT).arg(far_end.as_raw_fd().to_string()).arg(self.hostname);
        self.init.arg(&self.name).args(&self.arguments);
        let network = self.network;
        let command = &mut self.init;
        let child = {
            // Only one child at a time may inherit, and only its own end.
            let _turn = SPAWN.lock().unwrap_or_else(PoisonError::into_inner);
            sys::set_inherited(far_end.as_fd(), true).during(operation)?;
            let child = on_own_thread(|| {
                network.enter()?;
                unshare(CloneFlags::CLONE_NEWPID)
                    .during(|| "create a PID namespace")
                    .map_err(|error| error.needs("CAP_SYS_ADMIN"))?;
                command.spawn().during(operation)
            });
            drop(far_end);
            child.flatten()?
        };
        let mut running = Running { child, lifeline, name: self.name };
        running.await_start()?;
        Ok(running)
    }
}

/// A program that was started, with all its descendants. Dropping it kills them.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lifeline: UnixStream,
    name: OsString,
}

impl Running {
    /// Process number of the program's init, as the owner sees it.
    pub fn init_id(&self) -> u32 {
        self.child.id()
    }

    /// The writing end of the program's standard input, if that is piped; once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The reading end of the program's standard output, if that is piped; once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The reading end of the program's standard error, if that is piped; once.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Sends the program a signal: SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1 or SIGUSR2, or SIGKILL for it and all its
    /// descendants. Nothing happens if it has ended.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        let operation = || format!("send {signal} to {}", self.name.display());
        let id = i32::try_from(self.child.id()).map_err(|_| Errno::ESRCH).during(operation)?;
        // Nobody else waits for our child, so the number is its own until `wait` returns.
        match nix::sys::signal::kill(Pid::from_raw(id), signal) {
            Err(Errno::ESRCH) => Ok(()),
            result => result.during(operation),
        }
    }

    /// Waits until the program has ended and every descendant is gone. Returns its exit status, 128 + n if signal n
    /// ended it, as shells do.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub fn wait(&mut self) -> Result<i32, Error> {
        let status = self.child.wait().during(|| format!("wait for {}", self.name.display()))?;
        Ok(shell_status(status))
    }

    /// As [`Running::wait`], but gives up after `timeout`: `None`.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<i32>, Error> {
        // Init's end of the lifeline closes when it exits.
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.lifeline.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) => Ok(None),
            Ok(_) | Err(Errno::EINTR) if self.has_ended() => self.wait().map(Some),
            Ok(_) | Err(Errno::EINTR) => Ok(None),
            Err(errno) => Err(errno).during(|| format!("wait for {}", self.name.display())),
        }
    }

    /// Waits for the end and reads meanwhile what is piped. Returns the exit status, standard output and error.
    ///
    /// # Errors
    /// If the process cannot be waited for or a pipe cannot be read.
    pub fn output(mut self) -> Result<(i32, Vec<u8>, Vec<u8>), Error> {
        drop(self.child.stdin.take());
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        // Both at once, or a program that fills one pipe while we read the other would wait for ever.
        let (stdout, stderr) = std::thread::scope(|scope| {
            let stderr = scope.spawn(|| read_all(stderr));
            (read_all(stdout), stderr.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let status = self.wait()?;
        let operation = || format!("read the output of {}", self.name.display());
        Ok((status, stdout.during(operation)?, stderr.during(operation)?))
    }

    /// Kills the program and all its descendants, and waits until they are gone.
    ///
    /// # Errors
    /// If the process cannot be killed or waited for.
    pub fn kill(&mut self) -> Result<(), Error> {
        let operation = || format!("kill {}", self.name.display());
        self.child.kill().during(operation)?;
        self.child.wait().during(operation)?;
        Ok(())
    }

    /// Reads init's report.
    fn await_start(&mut self) -> Result<(), Error> {
        let operation = || format!("run {}", self.name.display());
        let mut report = String::new();
        let mut byte = [0];
        while !report.ends_with('\n') {
            match self.lifeline.read(&mut byte) {
                Ok(1) => report.push(char::from(byte[0])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => {
                    let detail = "init ended early (does `main` begin with `init_if_asked`?)";
                    return Err(Error::answer(operation(), detail));
                }
                Err(error) => return Err(error).during(operation),
            }
        }
        init::Report::parse(report.trim_end()).into_result(operation)
    }

    fn has_ended(&self) -> bool {
        // Init writes nothing after its report, so that readable means closed.
        let mut events = [PollFd::new(self.lifeline.as_fd(), PollFlags::POLLIN)];
        poll(&mut events, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Running {
    /// Becomes readable when the program has ended; for poll only.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lifeline.as_fd()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Either it is gone already or nothing more can be done.
        let _ = self.kill();
    }
}

fn read_all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// 128 + n for signal n.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}

/// First argument of an init.
const HIDDEN_ARGUMENT: &str = "__init";

/// Held while a descriptor can be inherited.
static SPAWN: Mutex<()> = Mutex::new(());
