//! A machine that stands still. The standstills are made by a program of its own, which says when it made them.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use serde_json::Value;
use weir_testbed::Started;
use weir_testbed::random::seed;

use super::super::{Lab, Run};

/// Takes each processor for a while at drawn instants, until dropped.
struct Taker(Started);

/// A time for which it took a processor, ns of CLOCK_MONOTONIC.
#[derive(Debug)]
struct Taken {
    processor: usize,
    start: u64,
    end: u64,
    /// By then others have run there: the machine may stand still by itself behind it.
    resumed: u64,
}

impl Taker {
    /// This share of the time, in pieces of so many milliseconds.
    fn start(share: f64, length_ms: u32, seconds: u32) -> Taker {
        let seed = seed() & 0xffff_ffff;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/weir/lab/scripts/taker.py");
        let arguments = [seed.to_string(), share.to_string(), length_ms.to_string(), seconds.to_string()];
        let mut command = Command::new("python3");
        command.arg(script).args(arguments).process_group(0);
        let mut taker = Taker(Started::spawn(command));
        assert_eq!(taker.0.next_line().as_deref(), Some("ready"));
        taker
    }

    /// Ends it; all that it took.
    fn taken(mut self) -> Vec<Taken> {
        self.end();
        let taken = |line: &str| {
            let mut fields = line.split(' ').map(|field| field.parse::<u64>().unwrap());
            let mut next = || fields.next().unwrap();
            Taken { processor: next() as usize, start: next(), end: next(), resumed: next() }
        };
        self.0.wait().stdout.lines().map(taken).collect()
    }

    /// With its children, one a processor.
    fn end(&self) {
        let _ = killpg(self.0.pid(), Signal::SIGKILL);
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a program may run before all others here; if not, the test is skipped.
fn may_take() -> bool {
    let Some(python) = weir_testbed::program("python3") else { return false };
    let ask = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))";
    let may = Command::new(python).args(["-c", ask]).stderr(Stdio::null()).status().unwrap().success();
    if !may {
        weir_testbed::skip("needs the right to run real-time threads");
    }
    may
}

/// Messages over UDP, one each millisecond, for 2 s.
fn messages(lab: &Lab) -> Run {
    let set = ["path.loss=0%", "traffic.transport=udp", "traffic.interval=1ms", "run.duration=2s", "run.drain=500ms"];
    lab.run("telemetry", "result", &[&set[..], &["run.max_standstill=5%"]].concat()).good()
}

fn standstills(record: &Value) -> Vec<(String, u64, f64)> {
    let origin = record["standstills"]["origin_ns"].as_u64().unwrap();
    let entry = |still: &Value| {
        let start = origin as i64 + (still["at_s"].as_f64().unwrap() * 1e9) as i64;
        (still["place"].as_str().unwrap().to_owned(), start as u64, still["ms"].as_f64().unwrap())
    };
    record["standstills"]["list"].as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn each_standstill_is_listed_with_its_time_and_length() {
    if !may_take() {
        return;
    }
    let lab = Lab::new();
    // Each takes it four times a second in the mean.
    let taker = Taker::start(0.2, 50, 120);
    let run = messages(&lab);
    let taken = taker.taken();
    for record in run.records() {
        let listed = standstills(&record);
        let origin = record["standstills"]["origin_ns"].as_u64().unwrap();
        // The cell looked from before the start of sending to its end.
        let looked = origin + 1..origin + 2_000_000_000;
        let within: Vec<_> = taken.iter().filter(|of| looked.contains(&of.start) && looked.contains(&of.end)).collect();
        assert!(within.len() >= 2, "{taken:?}");
        for of in within {
            let place = format!("cpu {}", of.processor);
            let found = listed.iter().any(|(at, start, ms)| {
                let end = start + (ms * 1e6) as u64;
                let ends = of.end - EXACT..=of.resumed + EXACT;
                *at == place && start.abs_diff(of.start) <= EXACT && ends.contains(&end)
            });
            let near: Vec<_> = listed.iter().filter(|(_, start, _)| start.abs_diff(of.start) < 200_000_000).collect();
            assert!(found, "{of:?} is not among {near:?}");
        }
    }
}

/// What a standstill's start and end may be off by, ns: a beat that is due each millisecond finds it, and wakes up.
const EXACT: u64 = 2_000_000;

#[test]
fn half_of_the_time_voids_rates_and_delays_and_says_so() {
    if !may_take() {
        return;
    }
    let lab = Lab::new();
    let taker = Taker::start(0.5, 50, 60);
    let run = messages(&lab);
    drop(taker);
    for record in run.records() {
        assert_eq!(record["row"]["valid"], false);
        // One sentence for all of them.
        let why = record["disturbed"]["rate"].as_str().unwrap();
        assert!(why.starts_with("rate, ") && why.contains("p99, p999: ") && why.contains(" stood still for "), "{why}");
        assert!(["p99", "p999"].iter().all(|statistic| record["disturbed"][statistic] == why), "{record}");
    }
}
