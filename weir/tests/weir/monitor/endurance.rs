//! A station that is started again and again, beside a server and a recorder that go on: for two minutes, or as long as
//! `WEIR_ENDURANCE` says in seconds.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::service::{Machine, weir};

/// A program that is ready; killed when dropped.
struct Running(Child);

impl Running {
    fn start(machine: &Machine, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = machine.run(move || command.spawn().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("ready") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self(child)
    }

    /// Ends it; what it says last.
    fn end(mut self) -> Option<Value> {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM).unwrap();
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.0.wait().unwrap().success());
        serde_json::from_str(said.lines().last()?).ok()
    }

    fn resident(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.0.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn a_station_comes_and_goes_and_nothing_grows_or_lacks() {
    let Some(machine) = Machine::new() else { return };
    let seconds: u64 = std::env::var("WEIR_ENDURANCE").map_or(15, |seconds| seconds.parse().unwrap());
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("serve.toml");
    fs::write(
        &config,
        "http = \"127.0.0.1:5180\"\nhistory = \"10s\"\nmemory = \"4MiB\"\n[[listen]]\naddress = \"127.0.0.1:5111\"\n",
    )
    .unwrap();
    let server = weir(&["monitor", "serve", "--config", config.to_str().unwrap()]);
    let server = Running::start(&machine, server);
    let mut record = weir(&["monitor", "record", "--json", "--listen", "127.0.0.1:5112", "--leave", "0", "--dir"]);
    record.arg(dir.path());
    let recorder = Running::start(&machine, record);

    let (begun, mut had, mut starts, mut memory) = (Instant::now(), 0, 0_u64, Vec::new());
    // Of fewer lives, on a machine that is busy, the first would tell of all quarters.
    while begun.elapsed() < Duration::from_secs(seconds) || starts < 4 {
        let source = "sine,name=coil,rate=1k/s,copies=16";
        let to = ["--to", "127.0.0.1:5111", "--to", "127.0.0.1:5112"];
        let station =
            weir(&[&["monitor", "station", "--json", "--name", "test", "--source", source][..], &to].concat());
        let station = Running::start(&machine, station);
        // As long as it lives: there is no event for that.
        std::thread::sleep(LIFE);
        memory.push([server.resident(), recorder.resident()]);
        let ledger = station.end().unwrap();
        assert_eq!(ledger["closed"], true, "{ledger}");
        had += ledger["streams"][0]["samples"]["due"].as_u64().unwrap();
        starts += 1;
    }
    let ledger = recorder.end().unwrap();
    assert_eq!((&ledger["closed"], &ledger["unexplained"]), (&true.into(), &0.into()), "{ledger:#}");
    let of = |key: &str| ledger["archive"][key].as_u64().unwrap();
    // Between two lives nothing was due; within them every sample is in the archive, or a gap of it.
    assert_eq!(of("kept") + of("missing"), had, "{ledger:#}");
    assert_eq!(ledger["received"]["by_kind"]["end"].as_u64().unwrap() / starts, 9, "{ledger:#}");
    server.end();
    let quarter = memory.len() / 4;
    for program in 0..2 {
        let most = |part: &[[u64; 2]]| part.iter().map(|both| both[program]).max().unwrap();
        let (before, after) = (most(&memory[quarter..=2 * quarter]), most(&memory[3 * quarter..]));
        assert!(after <= before + (4 << 20), "{before} bytes, then {after}: {memory:?}");
    }
}

const LIFE: Duration = Duration::from_secs(4);
