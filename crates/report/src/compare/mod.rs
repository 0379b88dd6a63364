//! Two runs, cell by cell: what is worse, what is better, at a stated rate of false alarms.
//!
//! Cells are matched by name, repeats by number: repeats of the same number and seed lose the same packets. With three
//! pairs or more a column is tested by Student's paired t; with fewer the batches within the runs stand in for repeats,
//! and the trials of a share. Those cannot show how runs differ from one another, so their variance is taken
//! [`BETWEEN_RUNS`] times as large, and columns that have neither stay undecided. Positive values are compared by their
//! logarithms: differences are ratios; shares by their plain difference. How much scatter is believed at least depends
//! on the column's kind (`compare/evidence.rs`).
//!
//! All tests together alarm falsely in no more than the stated share of comparisons of equal runs (Holm), as long as
//! the machine favours neither run by more than [`CompareSettings::least`].

mod evidence;

use std::collections::HashMap;

use serde::Serialize;
use weir_stats::paired;
use weir_units::format;

use self::evidence::{Terms, Test, Untested};
use crate::cells::{self, Cell};
use crate::columns::{self, Better, Column, Kind, Statistic};
use crate::record::{Manifest, Record};

/// What to compare and how strictly.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareSettings {
    /// Columns; empty: [`DEFAULT_COLUMNS`].
    pub columns: Vec<String>,
    /// Share of comparisons of equal runs that may alarm, in any cell and column.
    pub false_alarms: f64,
    /// Relative differences up to this are never alarms; of a share, relative to the rarer of its outcomes: at 2 % a
    /// loss of 1 % may become 1.02 %, and a delivery of 99 % 98.98 %, which is the same.
    pub least: f64,
}

/// What is compared unless told otherwise, where it was measured.
pub const DEFAULT_COLUMNS: [&str; 3] = ["mbit_per_s", "delay_mean_us", "lost_share"];

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
    /// Rows that are undecided: they may differ, and nothing alarms.
    pub undecided: usize,
    /// See [`CompareSettings::false_alarms`].
    pub false_alarms: f64,
    /// See [`CompareSettings::least`].
    pub least: f64,
    /// Differences of delays up to this are none either, us: what the lab itself added to them, the larger of both.
    pub own_delay_us: f64,
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
    /// So many repeats that are valid in both runs would be tested, where it is undecided for want of them.
    pub repeats_needed: Option<usize>,
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
        let share = |row: &Row| matches!(columns::kind(&row.column), Some(Kind::Share(_))) && row.basis.is_some();
        let of_shares = if self.rows.iter().any(share) { " (of shares: of the rarer outcome)" } else { "" };
        let of_delay = |row: &Row| columns::rests_on(&row.column) == Some(Statistic::Delay) && row.basis.is_some();
        let of_delays = if self.own_delay_us > 0.0 && self.rows.iter().any(of_delay) {
            format!(", and of delays up to {}, what the lab itself adds,", format::duration(self.own_delay_us))
        } else {
            String::new()
        };
        let rate = format!(
            "false alarms: at most {} of comparisons of equal runs, over {tests} tests together; differences up to {}\
             {of_shares}{of_delays} are none",
            format::percent(self.false_alarms),
            format::percent(self.least),
        );
        let undecided = (self.undecided > 0).then(|| self.what_is_undecided());
        let rests = (!said.is_empty()).then(|| format!("rests on {}", said.join(" and ")));
        rests.into_iter().chain([rate]).chain(undecided).collect()
    }

    /// How many are undecided, and what would decide them.
    fn what_is_undecided(&self) -> String {
        let (undecided, all) = (self.undecided, self.rows.len());
        let wanting: Vec<usize> = self.rows.iter().filter_map(|row| row.repeats_needed).collect();
        let needed = wanting.iter().max().map(|needed| {
            let of_these =
                if wanting.len() == undecided { String::new() } else { format!(" {} of them", wanting.len()) };
            format!(
                ";{of_these} for want of repeats: {needed} that are valid in both runs are needed (--repeat {needed})"
            )
        });
        let needed = needed.unwrap_or_default();
        format!("{undecided} of {all} comparisons are undecided: nothing is known of these{needed}")
    }
}

/// Compares `b` with `a`. Columns of `settings` are taken as given: [`check_columns`].
pub fn compare(a: (&Manifest, &[Record]), b: (&Manifest, &[Record]), settings: &CompareSettings) -> Comparison {
    let (cells_a, cells_b) = (cells::group(a.1), cells::group(b.1));
    let chosen: Vec<&Column> = match settings.columns.as_slice() {
        [] => DEFAULT_COLUMNS.iter().filter_map(|name| columns::column(name)).collect(),
        names => names.iter().filter_map(|name| columns::column(name)).collect(),
    };
    let own = |manifest: &Manifest| manifest.own_cost.as_ref().and_then(|cost| cost.delay.get(0.5)).unwrap_or(0.0);
    let own_delay_us = own(a.0).max(own(b.0));
    let terms = Terms { least: settings.least, same_seed: a.0.seed == b.0.seed, own_delay_us };
    let (named_a, named_b) = (by_name(&cells_a), by_name(&cells_b));
    let mut tested = Vec::new();
    for cell in &cells_a {
        let Some(other) = named_b.get(cell.name) else { continue };
        for column in &chosen {
            let measured = |cell: &Cell<'_>| cell.measured(column.name).is_some();
            // A column that no one asked for and no one measured is no row.
            if !settings.columns.is_empty() || measured(cell) || measured(other) {
                tested.push(Tested::new(cell, other, column, terms));
            }
        }
    }
    let only = |ours: &[Cell<'_>], others: &HashMap<&str, &Cell<'_>>| {
        let missing = |cell: &&Cell<'_>| !others.contains_key(cell.name);
        ours.iter().filter(missing).map(|cell| cell.name.to_owned()).collect()
    };
    let rows = decided(tested, settings.false_alarms);
    Comparison {
        a: Side::new(a.0, &cells_a),
        b: Side::new(b.0, &cells_b),
        warnings: warnings(a, b),
        only_a: only(&cells_a, &named_b),
        only_b: only(&cells_b, &named_a),
        undecided: rows.iter().filter(|row| row.verdict == Verdict::Undecided).count(),
        rows,
        false_alarms: settings.false_alarms,
        least: settings.least,
        own_delay_us,
    }
}

/// Of cells of one name the first.
fn by_name<'b, 'a>(cells: &'b [Cell<'a>]) -> HashMap<&'b str, &'b Cell<'a>> {
    cells.iter().rev().map(|cell| (cell.name, cell)).collect()
}

/// Refuses columns that there are not, and those that cannot be compared, in one line.
///
/// # Errors
/// The first such column, with the nearest name or the reason.
pub fn check_columns(names: &[String], records: &[Record]) -> Result<(), String> {
    let is_axis = |name: &String| records.iter().any(|record| record.axes.iter().any(|(key, _)| key == name));
    let known = columns::names(records);
    for name in names {
        match columns::kind(name) {
            Some(Kind::Setting) => return Err(format!("column `{name}` is set by the scenario: nothing to compare")),
            Some(Kind::Flag) => return Err(format!("column `{name}` is yes or no: nothing to compare")),
            Some(_) => {}
            None if is_axis(name) => return Err(format!("`{name}` is an axis of the sweep: nothing to compare")),
            // How it scatters is not known, and no guess is made.
            None if known.contains(&name.as_str()) => {
                return Err(format!("column `{name}` is of another version of weir, not compared: compare with that"));
            }
            None => return Err(columns::unknown(name, known)),
        }
    }
    Ok(())
}

/// A row before the tests are judged together.
struct Tested {
    row: Row,
    better: Option<Better>,
    test: Option<Test>,
}

impl Tested {
    fn new(a: &Cell<'_>, b: &Cell<'_>, column: &Column, terms: Terms) -> Self {
        let mean = |cell: &Cell<'_>| cell.measured(column.name).map(|measured| measured.value());
        let row = Row {
            cell: a.name.to_owned(),
            column: column.name.to_owned(),
            a: mean(a),
            b: mean(b),
            ratio: None,
            basis: None,
            p_value: None,
            verdict: Verdict::Undecided,
            reason: None,
            repeats_needed: None,
        };
        let (row, test) = match evidence::test(a, b, column, terms) {
            Ok(test) => (Row { basis: Some(test.basis), ..row }, Some(test)),
            Err(Untested { reason, repeats_needed }) => (Row { reason: Some(reason), repeats_needed, ..row }, None),
        };
        Self { row, better: column.better, test }
    }
}

/// Judges all tests together.
fn decided(tested: Vec<Tested>, false_alarms: f64) -> Vec<Row> {
    let p_value = |tested: &Tested| tested.test.map(|test| test.p_value());
    let known: Vec<f64> = tested.iter().filter_map(p_value).collect();
    let mut decisions = paired::holm(&known, false_alarms).into_iter();
    tested
        .into_iter()
        .map(|tested| {
            let p_value = p_value(&tested);
            let Some((test, decision)) = tested.test.and_then(|test| Some((test, decisions.next()?))) else {
                return tested.row;
            };
            let Test { difference, logarithmic, .. } = test;
            let (low, high) = test.interval(decision.level);
            let ratio = match (tested.row.a, tested.row.b) {
                _ if logarithmic => Some(Ratio { value: difference.value.exp(), low: low.exp(), high: high.exp() }),
                // The reference taken as it is: good enough to show, the test does without.
                (Some(a), Some(b)) if a > 0.0 && b >= 0.0 => {
                    let over = |difference: f64| (1.0 + difference / a).max(0.0);
                    Some(Ratio { value: b / a, low: over(low), high: over(high) })
                }
                _ => None,
            };
            let verdict = match (decision.rejected, tested.better) {
                (false, _) => Verdict::NoDifference,
                (true, None) => Verdict::Different,
                (true, Some(Better::Higher)) if difference.value > 0.0 => Verdict::Better,
                (true, Some(Better::Lower)) if difference.value < 0.0 => Verdict::Better,
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

#[cfg(test)]
mod tests;
