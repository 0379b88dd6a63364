//! `weir lab` on networks of its own: as root, and as an ordinary user where the kernel lets one make namespaces.

mod alone;
mod arrivals;
mod bulk;
mod changes;
mod ci;
mod endings;
mod family;
mod iperf3;
mod mistakes;
mod multicast;
mod page;
mod payload;
mod places;
mod programs;
mod resume;
mod run;
mod scenarios;
mod seeds;
mod shell;
mod topologies;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use weir_testbed::Ended;

use crate::{WEIR, weir};

/// A directory for scenarios and results. The networks of shells have names, on the whole machine: each test's are its own.
struct Lab {
    dir: TempDir,
}

/// A result directory, and what was said of it.
struct Run {
    dir: PathBuf,
    ended: Ended,
}

/// A row of `results.csv`, by column.
#[derive(Debug)]
struct Row(Vec<(String, String)>);

impl Lab {
    fn new() -> Lab {
        Lab { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a scenario into `out`, in short cells. Their validity is not asked for: a busy machine fails no test.
    fn run(&self, scenario: &str, out: &str, set: &[&str]) -> Run {
        let dir = self.path(out);
        let ended = Ended::of(&mut self.command(scenario, &dir, set));
        Run { dir, ended }
    }

    fn command(&self, scenario: &str, out: &Path, set: &[&str]) -> Command {
        let mut command = weir(&["lab", "run", scenario, "--out", out.to_str().unwrap()]);
        let quick = ["run.max_standstill=100%", "run.repeat=1", "run.reruns=0", "run.control=0s"];
        command.args(quick.iter().chain(set).flat_map(|set| ["--set", set]));
        command.current_dir(self.dir.path());
        command
    }

    /// `scenarios/telemetry.toml` under another name, with pieces of its text replaced.
    fn telemetry(&self, name: &str, replaced: &[(&str, &str)]) -> String {
        let mut text =
            fs::read_to_string(SHIPPED).unwrap().replace("name = \"telemetry\"", &format!("name = \"{name}\""));
        for (from, to) in replaced {
            assert!(text.contains(from), "the scenario has no {from:?}");
            text = text.replace(from, to);
        }
        let path = self.path(&format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Run {
    /// The result of a run that went well.
    #[track_caller]
    fn good(self) -> Run {
        assert_eq!((self.status, said(&self.stderr)), (Some(0), vec![]), "{}", self.stdout);
        self
    }

    fn header(&self) -> Vec<String> {
        let mut reader = csv::Reader::from_path(self.dir.join("results.csv")).unwrap();
        reader.headers().unwrap().iter().map(str::to_owned).collect()
    }

    fn rows(&self) -> Vec<Row> {
        let header = self.header();
        let mut reader = csv::Reader::from_path(self.dir.join("results.csv")).unwrap();
        let fields = |record: csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
        reader.records().map(|record| Row(header.iter().cloned().zip(fields(record.unwrap())).collect())).collect()
    }

    fn row(&self, cell: &str) -> Row {
        self.rows().into_iter().find(|row| row.text("cell") == cell).unwrap_or_else(|| panic!("no cell {cell}"))
    }

    fn manifest(&self) -> Value {
        serde_json::from_slice(&fs::read(self.dir.join("manifest.json")).unwrap()).unwrap()
    }

    /// `cells.jsonl`, in the order in which cells ended.
    fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join("cells.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn record(&self, cell: &str) -> Value {
        self.records()
            .into_iter()
            .find(|record| record["row"]["cell"] == cell)
            .unwrap_or_else(|| panic!("no cell {cell}"))
    }
}

impl Deref for Run {
    type Target = Ended;

    fn deref(&self) -> &Ended {
        &self.ended
    }
}

impl Row {
    #[track_caller]
    fn text(&self, column: &str) -> &str {
        let field = self.0.iter().find(|(name, _)| name == column);
        &field.unwrap_or_else(|| panic!("no column {column}")).1
    }

    #[track_caller]
    fn number(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column} is {:?}", self.text(column)))
    }

    #[track_caller]
    fn count(&self, column: &str) -> i64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column} is {:?}", self.text(column)))
    }
}

/// What a run said on standard error, but how far it is: without a terminal that is a line every ten seconds.
fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| !line.contains(" cells, ")).collect()
}

/// Whether k of n is no surprise for a chance of p: neither tail below 0.05 %, by the exact binomial sum.
fn is_binomial(k: u64, n: u64, p: f64) -> bool {
    let mut logarithm = n as f64 * (1.0 - p).ln();
    let (mut up_to, mut from) = (0.0, 0.0);
    for i in 0..=n {
        if i <= k {
            up_to += logarithm.exp();
        }
        if i >= k {
            from += logarithm.exp();
        }
        logarithm += ((n - i) as f64 / (i + 1) as f64).ln() + (p / (1.0 - p)).ln();
    }
    up_to > 0.0005 && from > 0.0005
}

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/telemetry.toml");

#[test]
fn the_binomial_test_can_fail() {
    assert!(is_binomial(100, 1000, 0.1) && is_binomial(72, 1000, 0.1));
    assert!(!is_binomial(65, 1000, 0.1) && !is_binomial(136, 1000, 0.1));
}
