//! `weir sflow serve`, on the loopback interface: what it takes in, what becomes of it, how it reloads and ends.

mod agent;
mod analysis;
mod collector;
mod forwarding;
mod life;
mod limits;
mod mistakes;
mod rest;
mod state;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::service::{PATIENCE, weir};

/// A `weir sflow serve` that is ready; killed when dropped.
pub(crate) struct Serve {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    log: Receiver<String>,
    /// Everything that it has said so far.
    pub(crate) said: Vec<String>,
}

/// A file that it reads.
pub(crate) struct File {
    pub(crate) dir: TempDir,
}

impl Serve {
    /// With these flags, on ports that nobody has.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::spawn(weir(&[&["sflow", "serve", "--json", "--http", "127.0.0.1:0"], flags].concat()))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (said, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut serve = Self { child, stdout, log, said: Vec::new() };
        serve.await_line("ready");
        serve
    }

    /// Waits until it says a line with `words` in it, and returns the line.
    #[track_caller]
    pub(crate) fn await_line(&mut self, words: &str) -> String {
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

    /// Everything that it has said until now.
    pub(crate) fn said(&mut self) -> &[String] {
        self.said.extend(self.log.try_iter());
        &self.said
    }

    /// The address of its one listener.
    #[track_caller]
    pub(crate) fn address(&self) -> SocketAddr {
        let address =
            |line: &String| line.split_once("listener ")?.1.split_once(": ")?.1.split(", ").next()?.parse().ok();
        self.said.iter().find_map(address).unwrap_or_else(|| panic!("no listener in {:#?}", self.said))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The ledger now. It closes at every moment.
    #[track_caller]
    pub(crate) fn ledger(&mut self) -> Value {
        self.signal(Signal::SIGUSR1);
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let ledger: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(ledger["closed"], true, "{ledger:#}");
        ledger
    }

    /// Waits until it has received so many datagrams, and returns the ledger.
    #[track_caller]
    pub(crate) fn await_received(&mut self, datagrams: u64) -> Value {
        for _ in 0..PATIENCE.as_millis() / 10 {
            let ledger = self.ledger();
            if ledger["received"]["datagrams"] == datagrams {
                return ledger;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("not {datagrams} datagrams, but {:#}", self.ledger());
    }

    /// Ends it as a service manager does; the final ledger.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Value {
        self.signal(Signal::SIGTERM);
        let mut rest = String::new();
        while self.stdout.read_line(&mut rest).unwrap() > 0 {}
        let status = self.child.wait().unwrap();
        self.said.extend(self.log.iter());
        assert!(status.success(), "{status}: {:#?}", self.said);
        let ledger: Value = serde_json::from_str(&rest).unwrap();
        assert_eq!(ledger["closed"], true, "{ledger:#}");
        ledger
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl File {
    pub(crate) fn new(text: &str) -> Self {
        let file = Self { dir: TempDir::new().unwrap() };
        file.write(text);
        file
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    pub(crate) fn path(&self) -> String {
        self.dir.path().join("sflow.toml").to_str().unwrap().to_owned()
    }
}
