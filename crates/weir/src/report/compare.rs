//! Two runs, cell by cell: what is worse, what is better, at a stated rate of false alarms.
//!
//! Cells are matched by name, repeats by number: repeats of the same number and seed lose the same packets. With three
//! pairs or more a column is tested by Student's paired t; with fewer the batches within the runs stand in for repeats.
//! Those cannot show how runs differ from one another, so their variance is taken [`BETWEEN_RUNS`] times as large, and
//! columns without batches stay undecided. Positive values are compared by their logarithms: differences are ratios.
//!
//! All tests together alarm falsely in no more than the stated share of comparisons of equal runs (Holm), as long as
//! the machine favours neither run by more than [`Settings::least`].

use serde::Serialize;

use super::cells::{self, Cell, Measured};
use super::columns::{self, Kind};
use super::format;
use super::record::{Manifest, Record};
use crate::stats::paired::{self, Difference, Mean};

/// What to compare and how strictly.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Columns; empty: [`DEFAULT_COLUMNS`].
    pub columns: Vec<String>,
    /// Share of comparisons of equal runs that may alarm, in any cell and column.
    pub false_alarms: f64,
    /// Relative differences up to this are never alarms.
    pub least: f64,
}

/// What is compared unless told otherwise, where it was measured.
pub const DEFAULT_COLUMNS: [&str; 2] = ["mbit_per_s", "delay_mean_us"];

/// Fewest pairs of repeats for a paired test.
pub const FEWEST_PAIRS: usize = 3;

/// Variance of a single run's mean as it is taken, over what its batches show: the runs' own means may vary by up to
/// sqrt(3) of that standard error besides.
pub const BETWEEN_RUNS: f64 = 4.0;

/// Two runs held against one another.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The first run, with which the second is compared.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// What makes them hard to compare, a sentence each.
    pub warnings: Vec<String>,
    /// Cells of only the first.
    pub only_a: Vec<String>,
    /// Cells of only the second.
    pub only_b: Vec<String>,
    /// Cell by cell, column by column.
    pub rows: Vec<Row>,
    /// See [`Settings::false_alarms`].
    pub false_alarms: f64,
    /// See [`Settings::least`].
    pub least: f64,
}

/// One of the runs.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Scenario name.
    pub scenario: String,
    /// Seed.
    pub seed: u64,
    /// Start, RFC 3339.
    pub started: String,
    /// Version of `weir`.
    pub weir_version: String,
    /// Most repeats of a cell.
    pub repeats: usize,
}

/// A column of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The column.
    pub column: String,
    /// Mean in the first run; `None`: not measured.
    pub a: Option<f64>,
    /// In the second.
    pub b: Option<f64>,
    /// The second over the first, with the interval of its test. `None`: not tested, or not positive in both.
    pub ratio: Option<Ratio>,
    /// What the test rests on; `None`: not tested.
    pub basis: Option<Basis>,
    /// Chance of such a difference between equal runs, this test alone.
    pub p_value: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why it is undecided.
    pub reason: Option<String>,
}

/// A ratio between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a test rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Pairs of repeats.
    Repeats(usize),
    /// Batches within the runs.
    Batches,
}

/// What a difference comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second run is worse.
    Worse,
    /// The second run is better.
    Better,
    /// They differ, and nobody has said which way is good.
    Different,
    /// None was shown.
    NoDifference,
    /// It cannot be tested.
    Undecided,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Different => "different",
            Self::NoDifference => "no difference shown",
            Self::Undecided => "undecided",
        }
    }

    /// Whether it is an alarm.
    pub fn alarms(self) -> bool {
        matches!(self, Self::Worse | Self::Different)
    }
}

impl Comparison {
    /// Whether anything is worse, or differs in a column that has no good direction.
    pub fn alarms(&self) -> bool {
        self.rows.iter().any(|row| row.verdict.alarms())
    }

    /// What the verdicts rest on and how often they are wrong, in sentences.
    pub fn assurance(&self) -> Vec<String> {
        let pairs = self.rows.iter().filter_map(|row| match row.basis {
            Some(Basis::Repeats(pairs)) => Some(pairs),
            _ => None,
        });
        let (fewest, most) = (pairs.clone().min(), pairs.max());
        let tests = self.rows.iter().filter(|row| row.basis.is_some()).count();
        let mut said = Vec::new();
        if let (Some(fewest), Some(most)) = (fewest, most) {
            let repeats = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
            said.push(format!("paired t tests over {repeats} repeats"));
        }
        if self.rows.iter().any(|row| row.basis == Some(Basis::Batches)) {
            said.push(format!(
                "Welch's tests on the variation within single runs, its variance taken {BETWEEN_RUNS} times as large \
                 for what differs between runs (--repeat {FEWEST_PAIRS} or more measures that instead)"
            ));
        }
        let rate = format!(
            "false alarms: at most {} of comparisons of equal runs, over {tests} tests together; differences up to {} \
             are none",
            format::percent(self.false_alarms),
            format::percent(self.least),
        );
        if said.is_empty() { vec![rate] } else { vec![format!("rests on {}", said.join(" and ")), rate] }
    }
}

/// Compares `b` with `a`. Columns of `settings` are taken as given: [`check_columns`].
pub fn compare(a: (&Manifest, &[Record]), b: (&Manifest, &[Record]), settings: &Settings) -> Comparison {
    let (cells_a, cells_b) = (cells::group(a.1), cells::group(b.1));
    let chosen: Vec<&str> = match settings.columns.as_slice() {
        [] => DEFAULT_COLUMNS.into(),
        columns => columns.iter().map(String::as_str).collect(),
    };
    let mut tested = Vec::new();
    for cell in &cells_a {
        let Some(other) = cells_b.iter().find(|other| other.name == cell.name) else { continue };
        for column in &chosen {
            let measured = |cell: &Cell<'_>| cell.measured(column).is_some();
            // A column that no one asked for and no one measured is no row.
            if !settings.columns.is_empty() || measured(cell) || measured(other) {
                tested.push(Tested::new(cell, other, column, settings.least));
            }
        }
    }
    let only = |ours: &[Cell<'_>], others: &[Cell<'_>]| {
        let missing = |cell: &&Cell<'_>| !others.iter().any(|other| other.name == cell.name);
        ours.iter().filter(missing).map(|cell| cell.name.to_owned()).collect()
    };
    Comparison {
        a: Side::new(a.0, &cells_a),
        b: Side::new(b.0, &cells_b),
        warnings: warnings(a, b),
        only_a: only(&cells_a, &cells_b),
        only_b: only(&cells_b, &cells_a),
        rows: decided(tested, settings.false_alarms),
        false_alarms: settings.false_alarms,
        least: settings.least,
    }
}

/// Refuses columns that there are not, and settings, in one line.
///
/// # Errors
/// The first such column, with the nearest name.
pub fn check_columns(names: &[String], records: &[Record]) -> Result<(), String> {
    let known = columns::names(records);
    for name in names {
        if !known.contains(&name.as_str()) {
            return Err(columns::unknown(name, known));
        }
        if columns::kind(name) == Kind::Setting {
            return Err(format!("column `{name}` is set by the scenario: nothing to compare"));
        }
    }
    Ok(())
}

/// A row before the tests are judged together.
struct Tested {
    row: Row,
    /// The difference, whether of logarithms, and how large it may be.
    difference: Option<(Difference, bool, f64)>,
}

impl Tested {
    fn new(a: &Cell<'_>, b: &Cell<'_>, column: &str, least: f64) -> Self {
        let mean = |cell: &Cell<'_>| cell.measured(column).map(|measured| measured.value());
        let row = Row {
            cell: a.name.to_owned(),
            column: column.to_owned(),
            a: mean(a),
            b: mean(b),
            ratio: None,
            basis: None,
            p_value: None,
            verdict: Verdict::Undecided,
            reason: None,
        };
        match tested(a, b, column, least) {
            Ok((basis, difference)) => Self { row: Row { basis: Some(basis), ..row }, difference: Some(difference) },
            Err(reason) => Self { row: Row { reason: Some(reason), ..row }, difference: None },
        }
    }
}

type Test = (Basis, (Difference, bool, f64));

/// Tests a column of two cells, or says why it cannot.
fn tested(a: &Cell<'_>, b: &Cell<'_>, column: &str, least: f64) -> Result<Test, String> {
    for (cell, name) in [(a, "A"), (b, "B")] {
        if !cell.valid() {
            return Err(format!("not valid in {name}"));
        }
        if cell.measured(column).is_none() {
            return Err(format!("not measured in {name}"));
        }
    }
    let pairs = pairs(a, b, column);
    if pairs.len() >= FEWEST_PAIRS {
        let (of_a, of_b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let spread = spread(a.first(), column, &pairs);
        return match by_repeats(&of_a, &of_b, spread, least) {
            Some(test) => Ok((Basis::Repeats(pairs.len()), test)),
            None => Err("not finite".into()),
        };
    }
    match (a.measured(column), b.measured(column)) {
        (Some(Measured::Estimate(of_a)), Some(Measured::Estimate(of_b))) => {
            let quantum = spread(a.first(), column, &[(of_a.value, of_b.value)]);
            match (Mean::of(&of_a), Mean::of(&of_b)) {
                (Some(of_a), Some(of_b)) => Ok((Basis::Batches, by_batches(of_a, of_b, quantum, least))),
                _ => Err(TOO_FEW.into()),
            }
        }
        // What has no interval, and is the same in both, is not known to differ; nor is it known not to.
        _ => Err(TOO_FEW.into()),
    }
}

/// Values of the column in repeats of the same number, valid in both runs.
fn pairs(a: &Cell<'_>, b: &Cell<'_>, column: &str) -> Vec<(f64, f64)> {
    let valid = |record: &&&Record| record.row.valid;
    let partner = |record: &Record| b.records.iter().filter(valid).find(|other| other.row.repeat == record.row.repeat);
    let value = |record: &Record| columns::number(record, column);
    a.records.iter().filter(valid).filter_map(|record| Some((value(record)?, value(partner(record)?)?))).collect()
}

fn by_repeats(a: &[f64], b: &[f64], spread: f64, least: f64) -> Option<(Difference, bool, f64)> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if a.iter().chain(b).all(|&value| value > 0.0) {
        let ln = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
        let smallest = mean(a).min(mean(b));
        return Some((paired::paired(&ln(a), &ln(b), spread / smallest)?, true, least.ln_1p()));
    }
    Some((paired::paired(a, b, spread)?, false, least * mean(a).abs()))
}

fn by_batches(a: Mean, b: Mean, quantum: f64, least: f64) -> (Difference, bool, f64) {
    // What correlation is left between batches is not seen: they are trusted no more than eight of them would be.
    let cautious = |mean: Mean| Mean { freedom: mean.freedom.min(MOST_FREEDOM), ..mean };
    let [a, b] = [a, b].map(|mean| cautious(mean.inflated(BETWEEN_RUNS).at_least(quantum)));
    match (a.ln(), b.ln()) {
        (Some(ln_a), Some(ln_b)) => (paired::welch(ln_a, ln_b), true, least.ln_1p()),
        _ => (paired::welch(a, b), false, least * a.value.abs()),
    }
}

/// The least standard deviation of a difference to believe in: a message more or less in a rate, a microsecond in a
/// delay, and in counts what independent events would show (Poisson).
fn spread(record: &Record, column: &str, pairs: &[(f64, f64)]) -> f64 {
    let row = &record.row;
    match (column, columns::kind(column)) {
        ("msgs_per_s", _) if row.duration_s > 0.0 => 1.0 / row.duration_s,
        ("mbit_per_s", _) if row.duration_s > 0.0 => row.payload_bytes as f64 * 8e-6 / row.duration_s,
        (name, _) if name.ends_with("_us") => 1.0,
        (_, Kind::Observed) => {
            let events = pairs.iter().map(|(a, b)| a.abs() + b.abs()).sum::<f64>();
            (events / pairs.len().max(1) as f64).sqrt()
        }
        _ => 0.0,
    }
}

/// Judges all tests together.
fn decided(tested: Vec<Tested>, false_alarms: f64) -> Vec<Row> {
    let p_value = |tested: &Tested| tested.difference.map(|(difference, _, least)| difference.p_value(least));
    let known: Vec<f64> = tested.iter().filter_map(p_value).collect();
    let mut decisions = paired::holm(&known, false_alarms).into_iter();
    tested
        .into_iter()
        .map(|tested| {
            let p_value = p_value(&tested);
            let (Some((difference, logarithmic, _)), Some(decision)) =
                (tested.difference, tested.difference.and_then(|_| decisions.next()))
            else {
                return tested.row;
            };
            let (low, high) = difference.interval(1.0 - decision.level);
            let ratio = match (tested.row.a, tested.row.b) {
                _ if logarithmic => Some(Ratio { value: difference.value.exp(), low: low.exp(), high: high.exp() }),
                // The reference taken as it is: good enough to show, the test does without.
                (Some(a), Some(b)) if a > 0.0 && b >= 0.0 => {
                    let over = |difference: f64| (1.0 + difference / a).max(0.0);
                    Some(Ratio { value: b / a, low: over(low), high: over(high) })
                }
                _ => None,
            };
            let verdict = match (decision.rejected, columns::better(&tested.row.column)) {
                (false, _) => Verdict::NoDifference,
                (true, None) => Verdict::Different,
                (true, Some(columns::Better::Higher)) if difference.value > 0.0 => Verdict::Better,
                (true, Some(columns::Better::Lower)) if difference.value < 0.0 => Verdict::Better,
                (true, Some(_)) => Verdict::Worse,
            };
            Row { ratio, p_value, verdict, ..tested.row }
        })
        .collect()
}

fn warnings(a: (&Manifest, &[Record]), b: (&Manifest, &[Record])) -> Vec<String> {
    let duration = |records: &[Record]| {
        let longest = records.iter().map(|record| record.row.duration_s).fold(0.0, f64::max);
        // A clock may stop the window a moment early.
        format::duration((longest * 100.0).round() * 1e4)
    };
    let facts = [
        ("scenario", a.0.scenario.clone(), b.0.scenario.clone()),
        ("seed", a.0.seed.to_string(), b.0.seed.to_string()),
        ("duration", duration(a.1), duration(b.1)),
    ];
    let differing: Vec<String> =
        facts.iter().filter(|(_, a, b)| a != b).map(|(name, a, b)| format!("{name} ({a} in A, {b} in B)")).collect();
    let mut said = Vec::new();
    if !differing.is_empty() {
        said.push(format!("the runs differ in {}", differing.join(", ")));
    }
    for (name, (manifest, records)) in [("A", a), ("B", b)] {
        if records.len() < manifest.planned_cells {
            said.push(format!("{name} is not complete: {} of {} cells", records.len(), manifest.planned_cells));
        }
    }
    said
}

impl Side {
    fn new(manifest: &Manifest, cells: &[Cell<'_>]) -> Self {
        Self {
            scenario: manifest.scenario.clone(),
            seed: manifest.seed,
            started: manifest.started.clone(),
            weir_version: manifest.weir_version.clone(),
            repeats: cells.iter().map(|cell| cell.records.len()).max().unwrap_or(0),
        }
    }
}

/// Degrees of freedom of a single run, at most.
const MOST_FREEDOM: f64 = 7.0;

const TOO_FEW: &str = "too few repeats";

#[cfg(test)]
mod tests;
