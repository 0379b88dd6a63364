//! Programs that a test starts, waits for, asks and ends.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// A program that runs, in the network in which it was started. Killed when dropped.
///
/// Its standard output, its standard error and what it tells its manager are read as they come, so it never waits for the test.
#[derive(Debug)]
pub struct Started {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    /// Lines of standard error so far.
    said: Vec<String>,
    /// How many of them [`Started::await_line`] has passed.
    passed: usize,
    notified: Receiver<String>,
    manager: UnixDatagram,
    _dir: TempDir,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; `None` if a signal killed it.
    pub status: Option<i32>,
    /// What it printed on standard output, as far as the test had not taken it.
    pub stdout: String,
    /// What it printed on standard error.
    pub stderr: String,
}

impl Started {
    /// Starts a program. Its standard input is as the command has it.
    #[track_caller]
    pub fn spawn(mut command: Command) -> Self {
        let dir = TempDir::new().unwrap();
        let socket = dir.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        // The program may change its user before it reports.
        for path in [dir.path(), &socket] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        command.env("NOTIFY_SOCKET", &socket).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        let notified = messages(manager.try_clone().unwrap());
        Self { child, stdout, stderr, said: Vec::new(), passed: 0, notified, manager, _dir: dir }
    }

    /// Starts a program that logs `words` on standard error once it is up, and waits for that line.
    #[track_caller]
    pub fn saying(words: &str, command: Command) -> Self {
        let mut started = Self::spawn(command);
        started.await_line(words);
        started
    }

    /// Starts a service, and waits until it has logged that it is ready and notified its manager, which the test is.
    #[track_caller]
    pub fn ready(command: Command) -> Self {
        let mut service = Self::saying("ready", command);
        service.await_ready();
        service
    }

    /// As [`Started::ready`], for a service that does not log where the test reads.
    #[track_caller]
    pub fn quiet(command: Command) -> Self {
        let mut service = Self::spawn(command);
        service.await_ready();
        service
    }

    /// Waits until it notifies its manager that it is ready, also once more (SIGHUP).
    #[track_caller]
    pub fn await_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.notified().starts_with("READY=1\n") {
            assert!(Instant::now() < deadline, "not ready: {:#?}", self.said());
        }
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Whether it has not ended yet.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Its standard input, which ends when this is dropped. The command must have piped it.
    #[track_caller]
    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The next line of standard error with `words` in it, after the one that the last call returned.
    #[track_caller]
    pub fn await_line(&mut self, words: &str) -> String {
        loop {
            while let Some(line) = self.said.get(self.passed) {
                self.passed += 1;
                if line.contains(words) {
                    return line.clone();
                }
            }
            let Ok(line) = self.stderr.recv_timeout(PATIENCE) else {
                panic!("it did not log {words:?}, but {:#?}", self.said);
            };
            self.said.push(line);
        }
    }

    /// The latest line of standard error with `words` in it; waits for one if there is none yet.
    #[track_caller]
    pub fn line(&mut self, words: &str) -> String {
        match self.said().iter().rev().find(|line| line.contains(words)) {
            Some(line) => line.clone(),
            None => self.await_line(words),
        }
    }

    /// All lines of standard error until now.
    pub fn said(&mut self) -> &[String] {
        self.said.extend(self.stderr.try_iter());
        &self.said
    }

    /// The next message to its service manager (sd_notify(3)).
    #[track_caller]
    pub fn notified(&mut self) -> String {
        let message = self.notified.recv_timeout(PATIENCE);
        message.unwrap_or_else(|_| panic!("no message to the manager: {:#?}", self.said()))
    }

    /// The next line of standard output; `None` at its end.
    #[track_caller]
    pub fn next_line(&mut self) -> Option<String> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(Disconnected) => None,
            Err(Timeout) => panic!("no line on standard output: {:#?}", self.said()),
        }
    }

    /// The next line of standard output, which is JSON.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        let line = self.next_line().unwrap_or_else(|| panic!("standard output has ended: {:#?}", self.said()));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The ledger of a service now (SIGUSR1). It closes at every moment.
    #[track_caller]
    pub fn ledger(&mut self) -> Value {
        self.signal(Signal::SIGUSR1);
        let ledger = self.json();
        assert_ne!(ledger["closed"], false, "{ledger:#}");
        ledger
    }

    /// Asks for ledgers until one is as it should be.
    #[track_caller]
    pub fn await_ledger(&mut self, is_reached: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ledger = self.ledger();
            if is_reached(&ledger) {
                return ledger;
            }
            assert!(Instant::now() < deadline, "{ledger:#}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> Ended {
        let mut stdout = String::new();
        while let Some(line) = self.next_line() {
            stdout += &line;
            stdout += "\n";
        }
        // It may have closed its output before.
        await_that("its end", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap().code();
        // Another process may keep standard error open.
        while let Ok(line) = self.stderr.recv_timeout(Duration::from_secs(1)) {
            self.said.push(line);
        }
        Ended { status, stdout, stderr: self.said.iter().flat_map(|line| [line, "\n"]).collect() }
    }

    /// Ends it as a service manager does (SIGTERM).
    #[track_caller]
    pub fn end(&mut self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Ends it as a service manager does, with success; its last line on standard output, which is JSON: a ledger closes, and nothing
    /// is left over.
    #[track_caller]
    pub fn stop(mut self) -> Value {
        let ledger = self.end().json();
        assert_ne!(ledger["closed"], false, "{ledger:#}");
        assert!(ledger["unexplained"] == 0 || ledger["unexplained"].is_null(), "{ledger:#}");
        ledger
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.manager.shutdown(Shutdown::Both);
    }
}

impl Ended {
    /// Runs a program that ends by itself.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
    }

    /// The last line on standard output of one that succeeded, which is JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.status, Some(0), "{}", self.stderr);
        let last = self.stdout.lines().last().unwrap_or_else(|| panic!("no output: {}", self.stderr));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Looks again and again, where the kernel or a peer has no event to wait for.
#[track_caller]
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// What a program prints, by line, until it closes it.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    let mut stream = BufReader::new(stream);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        while stream.read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
            let line = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned();
            if sender.send(line).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    lines
}

/// What comes to a socket, until it is shut down.
fn messages(socket: UnixDatagram) -> Receiver<String> {
    let (sender, messages) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = socket.recv(&mut bytes) {
            if sender.send(String::from_utf8_lossy(&bytes[..length]).into_owned()).is_err() {
                break;
            }
        }
    });
    messages
}

/// Longer than anything takes that works, on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        command
    }

    #[test]
    fn lines_are_awaited_in_order_and_the_end_has_the_rest() {
        let mut started =
            Started::saying("up", sh("echo up >&2; echo '{\"a\":1}'; read x; echo down >&2; echo rest; exit 3"));
        assert_eq!(started.json()["a"], 1);
        drop(started.stdin());
        assert_eq!(started.await_line("down"), "down");
        assert_eq!(started.line("u"), "up");
        let ended = started.wait();
        assert_eq!((ended.status, &*ended.stdout, &*ended.stderr), (Some(3), "rest\n", "up\ndown\n"));
    }

    #[test]
    fn a_program_that_says_something_else_is_quoted() {
        let end = std::panic::catch_unwind(|| Started::saying("ready", sh("echo no such file >&2; exit 1")));
        let words = end.unwrap_err().downcast::<String>().unwrap();
        assert!(words.contains("\"ready\"") && words.contains("no such file"), "{words}");
    }
}
