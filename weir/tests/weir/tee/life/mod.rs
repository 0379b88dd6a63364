//! The life of a tee, on the loopback interface: what it says, how it reloads, how it ends.

mod endings;
mod mistakes;
mod names;
mod reload;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use weir_testbed::{Ended, Started, await_that};

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
        await_that(&format!("{count} to arrive"), || self.received() >= count);
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
        await_that("more to be sent: more than a window was lost", || self.sent() >= goal);
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
    crate::weir(&[&["tee"], arguments].concat())
}

/// A tee that is ready.
#[track_caller]
fn start(arguments: &[&str]) -> Started {
    Started::ready(weir(arguments))
}

/// What one does that ends by itself.
fn run(arguments: &[&str]) -> Ended {
    Ended::of(&mut weir(arguments))
}

/// The address that a listener got.
#[track_caller]
fn listens(tee: &mut Started, name: &str) -> SocketAddr {
    let start = format!("listener {name}: ");
    let address = |line: &String| line.split_once(&start)?.1.split(", ").next()?.parse().ok();
    tee.said().iter().rev().find_map(address).unwrap_or_else(|| panic!("no {start:?}: {:#?}", tee.said()))
}

/// The counts of a listener or destination by its name. `kind`: `listeners`, `destinations`.
#[track_caller]
fn entry<'a>(ledger: &'a Value, kind: &str, name: &str) -> &'a Value {
    let entries = ledger[kind].as_array().unwrap();
    entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("no {name} in {ledger:#}"))
}
