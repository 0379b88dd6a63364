//! The life of a tee, on the loopback interface: what it says, how it reloads, how it ends.

mod endings;
mod mistakes;
mod names;
mod reload;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// A `weir tee` that is ready; killed when dropped.
struct Tee {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: Receiver<String>,
    /// Everything that it has said so far.
    said: Vec<String>,
}

/// A file that a tee reads.
struct File {
    dir: TempDir,
}

/// A receiver that counts.
struct Sink {
    address: SocketAddr,
    received: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A sender that has at most [`Load::WINDOW`] datagrams under way: no buffer on the way can overflow, so that whatever
/// does not arrive was lost by the tee.
struct Load {
    sent: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tee {
    fn start(arguments: &[&str]) -> Self {
        Self::spawn(&mut weir(arguments))
    }

    fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (said, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut tee = Self { child, stdout, log, said: Vec::new() };
        tee.await_line("ready");
        tee
    }

    /// Waits until it says a line with `words` in it, and returns the line.
    #[track_caller]
    fn await_line(&mut self, words: &str) -> String {
        loop {
            let Ok(line) = self.log.recv_timeout(PATIENCE) else {
                panic!("it never said {words:?}, but {:#?}", self.said);
            };
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The address that a listener got.
    #[track_caller]
    fn listens(&self, name: &str) -> SocketAddr {
        let start = format!("listener {name}: ");
        let addresses =
            self.said.iter().rev().filter_map(|line| line.split_once(&start)?.1.split(", ").next()?.parse().ok());
        addresses.into_iter().next().unwrap_or_else(|| panic!("no {start:?} in {:#?}", self.said))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The ledger now.
    fn ledger(&mut self) -> Value {
        self.signal(Signal::SIGUSR1);
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}, {:#?}", self.said))
    }

    /// Waits until it has ended: its status and what else it printed on standard output.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        while self.stdout.read_line(&mut rest).unwrap() > 0 {}
        let status = self.child.wait().unwrap().code();
        self.said.extend(self.log.iter());
        (status, rest)
    }

    /// Ends it as a service manager does; the final ledger, by `--json`.
    #[track_caller]
    fn stop(mut self) -> Value {
        self.signal(Signal::SIGTERM);
        let (status, output) = self.end();
        assert_eq!(status, Some(0), "{:#?}", self.said);
        serde_json::from_str(&output).unwrap()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl File {
    fn new(text: &str) -> Self {
        let file = Self { dir: TempDir::new().unwrap() };
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tee.toml")
    }

    fn argument(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    fn write(&self, text: &str) {
        // As editors and configuration managers do it: nobody ever reads half a file.
        let new = self.dir.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path()).unwrap();
    }
}

impl Sink {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let (received, end) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ended) = (received.clone(), end.clone());
        let count = move || {
            let mut buffer = [0; 65_536];
            while !ended.load(Ordering::Relaxed) {
                if socket.recv(&mut buffer).is_ok() {
                    count.fetch_add(1, Ordering::Release);
                }
            }
        };
        Self { address, received, end, thread: Some(thread::spawn(count)) }
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// Waits until it has so many.
    #[track_caller]
    fn await_count(&self, count: u64) {
        await_that(|| self.received() >= count, || format!("{} of {count} arrived", self.received()));
        assert_eq!(self.received(), count);
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

impl Load {
    /// Far below what the kernel's default buffer of 208 KiB holds of datagrams this small.
    const WINDOW: u64 = 128;

    /// Sends `rate` datagrams a second to `to`, as far as every sink keeps up.
    fn start(to: SocketAddr, sinks: &[&Sink], rate: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(to).unwrap();
        let (sent, end) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ended) = (sent.clone(), end.clone());
        let received: Vec<_> = sinks.iter().map(|sink| sink.received.clone()).collect();
        let send = move || {
            let start = Instant::now();
            let mut number = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                let due = start + Duration::from_nanos(number * 1_000_000_000 / rate);
                let arrived = received.iter().map(|received| received.load(Ordering::Acquire)).min().unwrap();
                if number - arrived >= Self::WINDOW || Instant::now() < due {
                    thread::yield_now();
                    continue;
                }
                // Its end may have closed the port already.
                if socket.send(&number.to_be_bytes()).is_ok() {
                    number += 1;
                    count.store(number, Ordering::Release);
                }
            }
        };
        Self { sent, end, thread: Some(thread::spawn(send)) }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Waits until so many more have been sent, which needs all but a window of those before to have arrived.
    #[track_caller]
    fn await_more(&self, more: u64) {
        let goal = self.sent() + more;
        await_that(
            || self.sent() >= goal,
            || format!("stuck at {} of {goal}: more than a window was lost", self.sent()),
        );
    }

    /// Ends it: how many were sent.
    fn stop(mut self) -> u64 {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.sent()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("tee").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Status, standard output and standard error of one that ends by itself.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = weir(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The counts of a listener or destination by its name. `kind`: `listeners`, `destinations`.
#[track_caller]
fn entry<'a>(ledger: &'a Value, kind: &str, name: &str) -> &'a Value {
    let entries = ledger[kind].as_array().unwrap();
    entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("no {name} in {ledger:#}"))
}

/// Counts on another thread change without an event.
#[track_caller]
fn await_that(condition: impl Fn() -> bool, state: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{}", state());
        thread::yield_now();
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
