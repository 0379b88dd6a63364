//! `weir sflow serve`, on the loopback interface: what it takes in, what becomes of it, how it reloads and ends.

mod agent;
mod analysis;
mod collector;
mod forwarding;
mod life;
mod limits;
mod rest;
mod state;

use std::fs;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use weir_testbed::Started;

use crate::weir;

/// A `weir sflow serve` that is ready.
pub(crate) struct Serve {
    started: Started,
    rest: SocketAddr,
    address: SocketAddr,
}

/// A file that it reads.
pub(crate) struct File {
    pub(crate) dir: TempDir,
}

impl Deref for Serve {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.started
    }
}

impl DerefMut for Serve {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.started
    }
}

impl Serve {
    /// With these flags, on ports that nobody has.
    #[track_caller]
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::spawn(weir(&[&["sflow", "serve", "--json", "--http", "127.0.0.1:0"], flags].concat()))
    }

    #[track_caller]
    pub(crate) fn spawn(command: Command) -> Self {
        Self::of(Started::ready(command))
    }

    /// One that is ready.
    #[track_caller]
    fn of(mut started: Started) -> Self {
        let said = started.said();
        let find = |what: fn(&str) -> Option<SocketAddr>| {
            said.iter().rev().find_map(|line| what(line)).unwrap_or_else(|| panic!("no address in {said:#?}"))
        };
        let rest = find(|line| line.split_once("http://")?.1.split('/').next()?.parse().ok());
        let listener =
            |line: &str| line.split_once("listener ")?.1.split_once(": ")?.1.split(", ").next()?.parse().ok();
        let address = find(listener);
        Self { started, rest, address }
    }

    /// The address of its one listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where REST is served.
    pub(crate) fn rest(&self) -> SocketAddr {
        self.rest
    }

    /// Waits until it has received so many datagrams, and returns the ledger.
    #[track_caller]
    pub(crate) fn await_received(&mut self, datagrams: u64) -> Value {
        self.await_ledger(|ledger| ledger["received"]["datagrams"] == datagrams)
    }

    /// Ends it as a service manager does; the final ledger.
    #[track_caller]
    pub(crate) fn stop(self) -> Value {
        self.started.stop()
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
