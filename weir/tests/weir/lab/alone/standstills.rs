//! A machine that stands still: what is said of it, and what can be believed all the same. The standstills are made by a
//! program of its own, which says when it made them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use serde_json::Value;
use weir_testbed::random::seed;
use weir_testbed::{Ended, Started};

use super::super::{Lab, Run, is_binomial, weir};

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

/// Messages over UDP, one a millisecond, for some seconds, with and without loss.
fn messages(lab: &Lab, out: &str, more: &[&str]) -> Run {
    let set = ["path.loss=0%,10%", "traffic.transport=udp", "traffic.interval=1ms", "run.drain=500ms"];
    // The control cell tells what the lab itself adds to delays.
    let rules = ["run.max_standstill=5%", "run.duration=6s", "run.control=1s"];
    lab.run("telemetry", out, &[&set[..], &rules, more].concat())
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
    let run = messages(&lab, "result", &SHORT).good();
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

/// One cell.
const SHORT: [&str; 3] = ["path.loss=0%", "run.duration=2s", "run.control=0s"];

/// What a standstill's start and end may be off by, ns: a beat that is due each millisecond finds it, and wakes up.
const EXACT: u64 = 2_000_000;

#[test]
#[ignore = "long: 5 min"]
fn what_stands_still_shows_neither_in_throughput_nor_in_undisturbed_delays() {
    if !may_take() {
        return;
    }
    let lab = Lab::new();
    let alone = |name: &str| messages(&lab, name, &["run.repeat=3"]).good();
    let mut quiet = vec![alone("quiet")];
    for share in [0.005, 0.02] {
        // Every five seconds in the mean: several times in each window, whatever is drawn.
        let taker = Taker::start(share, (share * 5_000.0) as u32, 120);
        let set = ["run.duration=15s", "run.repeat=3"];
        let disturbed = messages(&lab, &format!("disturbed-{share}"), &set).good();
        drop(taker);
        quiet.push(alone(&format!("quiet-{share}")));
        let runs = [&quiet[0].dir, &disturbed.dir].map(|dir| dir.to_str().unwrap());
        let compared = Ended::of(&mut weir(&["lab", "compare", runs[0], runs[1], "--column", "lost_share"]));
        assert_eq!(compared.status, Some(0), "{compared:?}");
        for cell in ["0%", "10%"] {
            let after = disturbed.row(cell);
            assert_eq!(after.text("valid"), "true", "{cell}: {:?}", disturbed.record(cell)["disturbed"]);
            assert_eq!(after.count("unexplained"), 0, "{cell}");
            // Other software on this machine comes and goes: before and behind it is looked for, too.
            let beside = quiet[quiet.len() - 2..].iter().map(|run| run.row(cell));
            let beside: Vec<_> = beside.collect();
            let most = |column: &str| beside.iter().map(|row| row.number(column)).fold(0.0, f64::max);
            let times = |column: &str| after.number(column) / most(column);
            // A processor that was let sleep takes some 100 us to wake; standstills among them add 500 us to the mean.
            for column in ["delay_p50_us", "delay_mean_us"] {
                let (is, was) = (after.number(column), most(column));
                assert!(is < 1.5 * was + 100.0, "{cell}, {share}: {column} is {is}, was {was}");
            }
            assert!(after.number("disturbed_share") > 0.0, "{cell}");
            assert!(after.number("raw_delay_max_us") >= after.number("delay_max_us"), "{cell}");
            // What is taken of one processor the other may do: no more is missing than was taken of all.
            let standstill = after.number("standstill_pct") / 100.0;
            // How often it is taken is chance, of a handful of times; that each is listed the test above holds.
            assert!((share / 20.0..share * 4.0 + 0.02).contains(&standstill), "{share}: {standstill}");
            // One at the end of the window keeps what would have come in it.
            let longest = standstills(&disturbed.record(cell)).iter().map(|(.., ms)| *ms).fold(0.0, f64::max);
            let kept = longest / 15_000.0;
            let least = 1.0 - standstill - kept - 0.01;
            assert!(times("msgs_per_s") > least, "{cell}: {} of {least}", times("msgs_per_s"));
        }
    }
}

#[test]
#[ignore = "long: 20 s"]
fn other_programs_void_nothing_as_long_as_ours_run_before_them() {
    if !may_take() {
        return;
    }
    let lab = Lab::new();
    // Two that only compute on each processor.
    let burners = 2 * std::thread::available_parallelism().unwrap().get();
    let company: Vec<Started> = (0..burners).map(|_| Started::spawn(burner())).collect();
    let run = messages(&lab, "result", &[]).good();
    drop(company);
    for row in run.rows() {
        let cell = row.text("cell").to_owned();
        assert_eq!(row.text("valid"), "true", "{cell}: {:?}", run.record(&cell)["disturbed"]);
        assert!(row.number("foreign_share") > 0.3, "{cell}: {}", row.text("foreign_share"));
        let (sent, delivered) = (row.count("sent") as u64, row.count("delivered") as u64);
        let loss = row.number("loss_pct") / 100.0;
        assert!(loss == 0.0 && sent == delivered || is_binomial(sent - delivered, sent, loss), "{cell}");
    }
}

fn burner() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    command
}

#[test]
fn too_much_of_it_voids_the_throughput_and_says_so() {
    if !may_take() {
        return;
    }
    let lab = Lab::new();
    let taker = Taker::start(0.5, 50, 60);
    let run = messages(&lab, "result", &SHORT).good();
    drop(taker);
    for record in run.records() {
        assert_eq!(record["row"]["valid"], false);
        let why = record["disturbed"]["throughput"].as_str().unwrap();
        assert!(why.contains("% of the time (run.max_standstill is 5%)"), "{why}");
    }
    assert!(run.stdout.contains("% of the time (run.max_standstill is"), "{}", run.stdout);
}

/// A control group of this test alone, of either version; `None`: none can be made.
struct Group(PathBuf);

impl Group {
    fn new(quota_us: u32) -> Option<Group> {
        let name = format!("weir-test-{}", std::process::id());
        let legacy = PathBuf::from("/sys/fs/cgroup/cpu").join(&name);
        let unified = PathBuf::from("/sys/fs/cgroup").join(&name);
        let limits = |dir: &PathBuf| match dir == &legacy {
            true => vec![("cpu.cfs_period_us", "100000".to_owned()), ("cpu.cfs_quota_us", quota_us.to_string())],
            false => vec![("cpu.max", format!("{quota_us} 100000"))],
        };
        for dir in [legacy.clone(), unified] {
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            let group = Group(dir);
            if limits(&group.0).iter().all(|(file, text)| fs::write(group.0.join(file), text).is_ok()) {
                return Some(group);
            }
        }
        None
    }

    /// The command, as a member from its start.
    fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        let enter = format!("echo $$ >'{}' && exec \"$@\"", self.0.join("cgroup.procs").display());
        inside.args(["-c", &enter, "sh"]).arg(command.get_program()).args(command.get_args());
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Empty once its members have been waited for.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
#[ignore = "long: 10 s"]
fn a_quota_that_is_used_up_is_told_from_a_standstill_of_its_own() {
    let Some(group) = Group::new(60_000) else {
        return weir_testbed::skip("needs the right to make a control group with a quota");
    };
    let lab = Lab::new();
    // Beside one that computes there is not enough for both.
    let burner = Started::spawn(group.command(&burner()));
    let set = ["path.loss=0%", "traffic.transport=udp", "run.duration=4s", "run.drain=500ms"];
    let rules = ["run.realtime=false", "run.max_standstill=5%"];
    let dir = lab.path("result");
    let mut command = group.command(&lab.command("telemetry", &dir, &[&set[..], &rules].concat()));
    let run = Run { dir, ended: Ended::of(&mut command) }.good();
    drop(burner);
    let record = &run.records()[0];
    assert_eq!(record["row"]["valid"], false, "{record}");
    assert!(!record["standstills"]["throttled"].as_array().unwrap().is_empty());
    let manifest = run.manifest();
    let fact = |name: &str| {
        let facts = manifest["environment"].as_array().unwrap();
        facts.iter().find(|fact| fact[0] == name).unwrap_or_else(|| panic!("no {name}"))[1].as_str().unwrap().to_owned()
    };
    assert_eq!(fact("cpu quota of the control group"), "0.60 processors (60 ms of 100 ms)");
    assert!(fact("standstills of 1 ms or more").contains("the quota of our control group"), "{manifest}");
}
