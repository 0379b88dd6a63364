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

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use weir_kernel::namespaces::process::{Program, Running};
use weir_testbed::{program, turn};

use crate::network::{self, Host, await_that};

/// A tee that runs on a host. Killed when dropped.
struct Tee {
    running: Running,
    /// What it says on standard error, when it has ended.
    stderr: JoinHandle<String>,
    stdout: BufReader<ChildStdout>,
    /// What it tells a service manager.
    manager: UnixDatagram,
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
        Tee::spawn(host.program(WEIR).args(["tee", "--json"]).args(listen).args(to), TempDir::new().unwrap())
    }

    /// `weir tee -c FILE` with this text in the file.
    #[track_caller]
    fn configured(host: &Host, text: &str) -> Tee {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tee.toml");
        fs::write(&file, text).unwrap();
        Tee::spawn(host.program(WEIR).args(["tee", "--json", "-c"]).args([&file]), dir)
    }

    /// `weir tee FLAGS` without any privilege, now or later.
    #[track_caller]
    fn unprivileged(host: &Host, setpriv: &Path, flags: &[&str]) -> Tee {
        let program = host.program(setpriv).args(["--bounding-set=-all", "--no-new-privs", WEIR, "tee", "--json"]);
        Tee::spawn(program.args(flags), TempDir::new().unwrap())
    }

    /// Waits until it is ready, as it tells a service manager.
    #[track_caller]
    fn spawn(program: Program<'_>, dir: TempDir) -> Tee {
        let notify = dir.path().join("notify");
        let manager = UnixDatagram::bind(&notify).unwrap();
        let program = program.env("NOTIFY_SOCKET", &notify).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = program.spawn().unwrap();
        let stderr = read_in_background(running.take_stderr().unwrap());
        let stdout = BufReader::new(running.take_stdout().unwrap());
        manager.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Tee { running, stderr, stdout, manager, dir }.ready()
    }

    #[track_caller]
    fn ready(mut self) -> Tee {
        let mut message = [0; 4096];
        loop {
            if let Ok(length) = self.manager.recv(&mut message)
                && String::from_utf8_lossy(&message[..length]).lines().any(|line| line == "READY=1")
            {
                return self;
            }
            if let Some(status) = self.running.wait_timeout(Duration::ZERO).unwrap() {
                panic!("weir tee ended with {status}: {}", self.stderr.join().unwrap());
            }
        }
    }

    /// Has it read another text of its file, and waits until it has.
    #[track_caller]
    fn reload(self, text: &str) -> Tee {
        fs::write(self.dir.path().join("tee.toml"), text).unwrap();
        self.running.signal(Signal::SIGHUP).unwrap();
        self.ready()
    }

    /// Its account as it is now.
    #[track_caller]
    fn ledger(&mut self) -> Value {
        self.running.signal(Signal::SIGUSR1).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Stops its threads in the middle of whatever they do, or lets them go on.
    #[track_caller]
    fn suspend(&self, stop: bool) {
        // Init passes on no such signal; the tee is its only child.
        let init = self.running.init_id();
        let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
        let tee = Pid::from_raw(children.trim().parse().unwrap());
        kill(tee, if stop { Signal::SIGSTOP } else { Signal::SIGCONT }).unwrap();
        let state = || fs::read_to_string(format!("/proc/{tee}/stat")).unwrap();
        await_that("the tee to stop", || !stop || state().rsplit(')').next().unwrap().starts_with(" T"));
    }

    /// Stops it in order and returns its account, which must close.
    #[track_caller]
    fn end(mut self) -> Account {
        self.running.signal(Signal::SIGTERM).unwrap();
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        let status = self.running.wait().unwrap();
        let stderr = self.stderr.join().unwrap();
        assert_eq!(status, 0, "{stderr}");
        let last = text.lines().last().unwrap_or_else(|| panic!("no account; standard error: {stderr}"));
        let account = Account(serde_json::from_str(last).unwrap());
        account.closes();
        account
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

fn read_in_background(mut stderr: ChildStderr) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    })
}

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
