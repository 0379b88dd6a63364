//! `weir tee` between real programs and sockets, on networks of the tests' own.

mod datagrams;
mod drops;
mod forged;
mod iperf;
mod isolation;
mod kept;
mod life;
mod loops;
mod multicast;
mod names;
mod netflow;
mod next_hops;
mod payloads;
mod privileges;
mod replies;
mod sources;
mod statsd;
mod syslog;
mod translated;

use std::collections::BTreeMap;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use weir_testbed::{Started, program};

use crate::network::{self, Host, await_that};
use crate::{WEIR, weir};

/// A tee that runs on a host.
struct Tee {
    started: Started,
    dir: TempDir,
}

/// An account as JSON, looked up by names.
#[derive(Debug)]
struct Account(Value);

impl Tee {
    /// `weir tee --listen LISTEN ... --to TO ...`.
    #[track_caller]
    fn start(host: &Host, listen: &[impl ToString], to: &[impl ToString]) -> Tee {
        let listen = listen.iter().flat_map(|address| ["--listen".to_owned(), address.to_string()]);
        let to = to.iter().flat_map(|address| ["--to".to_owned(), address.to_string()]);
        let mut command = weir(&["tee", "--json"]);
        command.args(listen).args(to);
        Tee::ready(host, command, TempDir::new().unwrap())
    }

    /// `weir tee -c FILE` with this text in the file.
    #[track_caller]
    fn configured(host: &Host, text: &str) -> Tee {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tee.toml");
        fs::write(&file, text).unwrap();
        let mut command = weir(&["tee", "--json", "-c"]);
        command.arg(file);
        Tee::ready(host, command, dir)
    }

    /// `weir tee FLAGS` without any privilege, now or later.
    #[track_caller]
    fn unprivileged(host: &Host, setpriv: &Path, flags: &[&str]) -> Tee {
        let mut command = Command::new(setpriv);
        command.args(["--bounding-set=-all", "--no-new-privs", &WEIR, "tee", "--json"]).args(flags);
        command.stdin(Stdio::null());
        Tee::ready(host, command, TempDir::new().unwrap())
    }

    #[track_caller]
    fn ready(host: &Host, command: Command, dir: TempDir) -> Tee {
        Tee { started: host.run(|| Started::ready(command)), dir }
    }

    /// Has it read another text of its file, and waits until it has.
    #[track_caller]
    fn reload(mut self, text: &str) -> Tee {
        fs::write(self.dir.path().join("tee.toml"), text).unwrap();
        self.signal(Signal::SIGHUP);
        self.await_ready();
        self
    }

    /// Stops its threads in the middle of whatever they do, or lets them go on.
    #[track_caller]
    fn suspend(&self, stop: bool) {
        self.signal(if stop { Signal::SIGSTOP } else { Signal::SIGCONT });
        let state = || fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        await_that("the tee to stop", || !stop || state().rsplit(')').next().unwrap().starts_with(" T"));
    }

    /// Stops it in order and returns its account, which must close.
    #[track_caller]
    fn end(self) -> Account {
        let account = Account(self.started.stop());
        account.closes();
        account
    }
}

impl Deref for Tee {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.started
    }
}

impl DerefMut for Tee {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.started
    }
}

impl Account {
    #[track_caller]
    fn closes(&self) {
        assert_eq!(self.0["closed"], true, "{}", self.0);
        for part in ["listeners", "destinations"] {
            for entry in self.0[part].as_array().unwrap() {
                assert_eq!(entry["unexplained"], 0, "{entry}");
            }
        }
    }

    /// The entry of this name in `listeners`, `rules` or `destinations`.
    #[track_caller]
    fn entry(&self, part: &str, name: &str) -> &Value {
        let entry = self.0[part].as_array().unwrap().iter().find(|entry| entry["name"] == name);
        entry.unwrap_or_else(|| panic!("no {name} among {part}: {}", self.0))
    }

    /// What all listeners took, and what the kernel dropped before them.
    fn received(&self) -> (u64, u64) {
        let listeners = self.0["listeners"].as_array().unwrap();
        let sum = |count: fn(&Value) -> Option<u64>| listeners.iter().map(|listener| count(listener).unwrap()).sum();
        (sum(|listener| listener["received"]["datagrams"].as_u64()), sum(|listener| listener["kernel_drops"].as_u64()))
    }

    /// Datagrams sent to a destination.
    #[track_caller]
    fn sent(&self, destination: &str) -> u64 {
        self.entry("destinations", destination)["sent"]["datagrams"].as_u64().unwrap()
    }

    /// The reasons for which copies to a destination were dropped, and how many, over all its addresses.
    #[track_caller]
    fn drops(&self, destination: &str) -> Vec<(&str, u64)> {
        let mut sums = BTreeMap::new();
        for entry in self.0["destinations"].as_array().unwrap().iter().filter(|entry| entry["name"] == destination) {
            for (reason, count) in entry["drops"].as_object().unwrap() {
                *sums.entry(reason.as_str()).or_default() += count.as_u64().unwrap();
            }
        }
        sums.into_iter().filter(|&(_, count)| count > 0).collect()
    }

    /// Every listener and destination took the same number, and nothing was dropped.
    #[track_caller]
    fn is_lossless(&self, datagrams: usize) {
        assert_eq!(self.received(), (datagrams as u64, 0), "{}", self.0);
        for destination in self.0["destinations"].as_array().unwrap() {
            let name = destination["name"].as_str().unwrap();
            assert_eq!((self.sent(name), &self.drops(name)[..]), (datagrams as u64, &[][..]), "{}", self.0);
        }
    }
}
