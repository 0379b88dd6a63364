//! Runs of `weir lab` and their results.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use statrs::distribution::{ContinuousCDF, StudentsT};
use tempfile::TempDir;

/// The program.
pub(crate) struct Weir {
    program: PathBuf,
    dir: TempDir,
    runs: std::cell::Cell<u32>,
}

/// A finished run.
pub(crate) struct Run {
    dir: PathBuf,
    header: Vec<String>,
    records: Vec<csv::StringRecord>,
    /// What it printed.
    pub(crate) report: String,
}

/// Two runs compared.
pub(crate) struct Compared {
    /// Whether a difference was found.
    pub(crate) alarm: bool,
    /// What was printed.
    pub(crate) text: String,
}

impl Weir {
    /// The release build beside this program.
    pub(crate) fn find() -> Result<Weir> {
        let program = std::env::current_exe()?.with_file_name("weir");
        ensure!(program.exists(), "{}: not there; build it first: cargo build --release -p weir", program.display());
        Ok(Weir { program, dir: TempDir::new()?, runs: 0.into() })
    }

    pub(crate) fn run(&self, scenario: &str, set: &[&str]) -> Result<Run> {
        self.runs.set(self.runs.get() + 1);
        let dir = self.dir.path().join(self.runs.get().to_string());
        let mut command = Command::new(&self.program);
        command.args(["lab", "run", scenario, "--out"]).arg(&dir);
        let output = command.args(set.iter().flat_map(|set| ["--set", set])).output().context("run weir")?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let mut reader = csv::Reader::from_path(dir.join("results.csv"))?;
        let header = reader.headers()?.iter().map(str::to_owned).collect();
        let records = reader.records().collect::<Result<_, _>>()?;
        Ok(Run { dir, header, records, report: String::from_utf8_lossy(&output.stdout).into_owned() })
    }

    pub(crate) fn compare(&self, a: &Run, b: &Run) -> Result<Compared> {
        let output = Command::new(&self.program).args(["lab", "compare"]).args([&a.dir, &b.dir]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let status = output.status.code();
        ensure!(matches!(status, Some(0 | 3)), "compare: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Compared { alarm: status == Some(3), text })
    }
}

impl Run {
    /// Cells whose name has this ending, without it, in order, each once.
    pub(crate) fn cells_ending(&self, ending: &str) -> Vec<String> {
        let mut cells: Vec<String> = Vec::new();
        for record in &self.records {
            if let Some(cell) = self.field(record, "cell").strip_suffix(ending)
                && !cells.iter().any(|known| known == cell)
            {
                cells.push(cell.to_owned());
            }
        }
        cells
    }

    /// A column of a cell, by repeat.
    pub(crate) fn column(&self, cell: &str, column: &str) -> Vec<f64> {
        let of_cell = self.records.iter().filter(|record| self.field(record, "cell") == cell);
        of_cell.filter_map(|record| self.field(record, column).parse().ok()).collect()
    }

    /// Some columns of all rows.
    pub(crate) fn columns(&self, columns: &[&str]) -> Vec<Vec<String>> {
        let fields = |record| columns.iter().map(|column| self.field(record, column).to_owned()).collect();
        self.records.iter().map(fields).collect()
    }

    pub(crate) fn rows(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn disturbed(&self) -> usize {
        self.records.iter().filter(|record| self.field(record, "valid") != "true").count()
    }

    fn field<'a>(&self, record: &'a csv::StringRecord, column: &str) -> &'a str {
        let place = self.header.iter().position(|name| name == column);
        place.and_then(|place| record.get(place)).unwrap_or_default()
    }
}

pub(crate) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Student's interval of the mean log ratio of pairs, so wide that `together` of them hold jointly with 95 %
/// confidence.
pub(crate) fn interval_of_ratio(over: &[f64], under: &[f64], together: usize) -> (f64, f64) {
    let logs: Vec<f64> = over.iter().zip(under).map(|(a, b)| (a / b).ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let quantile = 1.0 - 0.025 / together as f64;
    let student = StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::INFINITY, |t| t.inverse_cdf(quantile));
    let half = student * (variance / n).sqrt();
    ((mean - half).exp(), (mean + half).exp())
}
