//! Compares two runs, cell by cell: worse and better columns, at a stated rate of false alarms.
//!
//! Cells are matched by name, repeats by number: repeats of the same number and seed lose the same packets. A column is
//! tested by Student's paired t: positive values by the logarithm of their ratio, shares by their difference. Fewer than
//! three pairs of repeats, or a zero in a ratio, leave it undecided. All tests together alarm falsely in at most the
//! stated share of comparisons of equal runs (Holm), as long as the machine favours neither run by more than
//! [`CompareSettings::least`].

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use weir_stats::paired::{self, Difference};
use weir_units::format;

use crate::cells::{self, Cell};
use crate::columns::{self, Better, Column, Columns, Kind, Statistic};
use crate::record::{Manifest, Record};

/// What to compare and how strictly.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareSettings {
    /// Columns; empty: [`DEFAULT_COLUMNS`], and those of the scenarios that have a good direction.
    pub columns: Vec<String>,
    /// Max share of comparisons of equal runs that may alarm, in any cell and column.
    pub false_alarms: f64,
    /// Relative differences up to this never alarm; for a share, relative to the rarer of its outcomes.
    pub least: f64,
}

/// Default columns, if measured.
pub const DEFAULT_COLUMNS: [&str; 3] = ["mbit_per_s", "delay_mean_us", "lost_share"];

/// Min pairs of repeats for a test: with two, Student's t has one degree of freedom, and 95 % are 12.7 deviations.
pub const FEWEST_PAIRS: usize = 3;

/// Assumed min deviation of repeats, relative to their mean: a few that are equal by chance prove nothing.
const MIN_DEVIATION: f64 = 0.001;

/// Two runs compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The first run, the baseline.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// Reasons why they are hard to compare, one sentence each.
    pub warnings: Vec<String>,
    /// Cells of only the first.
    pub only_a: Vec<String>,
    /// Cells of only the second.
    pub only_b: Vec<String>,
    /// Cell by cell, column by column.
    pub rows: Vec<Row>,
    /// Undecided rows: they may differ without an alarm.
    pub undecided: usize,
    /// See [`CompareSettings::false_alarms`].
    pub false_alarms: f64,
    /// See [`CompareSettings::least`].
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
    /// Max repeats of a cell.
    pub repeats: usize,
}

/// A column of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The column.
    pub column: String,
    /// Its unit.
    pub unit: String,
    /// Mean in the first run. `None`: not measured.
    pub a: Option<f64>,
    /// In the second.
    pub b: Option<f64>,
    /// The second over the first, with the interval of its test. `None`: not tested, or not positive in both.
    pub ratio: Option<Ratio>,
    /// Tested pairs of repeats. `None`: not tested.
    pub pairs: Option<usize>,
    /// Probability of such a difference between equal runs, for this test alone.
    pub p_value: Option<f64>,
    /// The verdict.
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

/// Verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second run is worse.
    Worse,
    /// The second run is better.
    Better,
    /// They differ in a column that has no good direction.
    Different,
    /// No difference was shown.
    Same,
    /// It cannot be tested.
    Undecided,
}

impl Verdict {
    /// As text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Different => "different",
            Self::Same => "no difference shown",
            Self::Undecided => "undecided",
        }
    }
}

impl Comparison {
    /// Whether anything is worse, or differs in a column that has no good direction.
    pub fn alarms(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.verdict, Verdict::Worse | Verdict::Different))
    }

    /// The basis of the verdicts and their error rate.
    pub fn assurance(&self) -> Vec<String> {
        let tests = self.rows.iter().filter(|row| row.pairs.is_some()).count();
        let (rate, least) = (format::percent(self.false_alarms), format::percent(self.least));
        let mut said = vec![format!(
            "{tests} paired t tests: at most {rate} of comparisons of equal runs alarm falsely; differences up to {least} are ignored"
        )];
        if self.undecided > 0 {
            let all = self.rows.len();
            said.push(format!("{} of {all} comparisons are undecided", self.undecided));
        }
        said
    }
}

/// Compares `b` with `a`, in columns that both have (see [`check_columns`]).
pub fn compare(a: (&Manifest, &[Record]), b: (&Manifest, &[Record]), settings: &CompareSettings) -> Comparison {
    let own = [a.0.columns.as_slice(), b.0.columns.as_slice()].concat();
    let known = Columns(&own);
    let [cells_a, cells_b] = [a, b].map(|(manifest, records)| cells::group(manifest.columns(), records));
    let asked = settings.columns.iter().map(String::as_str);
    let directed = own.iter().filter(|column| column.better.is_some()).map(|column| column.name.as_str());
    let default = DEFAULT_COLUMNS.into_iter().chain(directed.collect::<BTreeSet<_>>());
    let names: Vec<&str> = if settings.columns.is_empty() { default.collect() } else { asked.collect() };
    let chosen: Vec<Column<'_>> = names.iter().filter_map(|name| known.get(name)).collect();
    let (named_a, named_b) = (by_name(&cells_a), by_name(&cells_b));
    let mut tested = Vec::new();
    for cell in &cells_a {
        let Some(other) = named_b.get(cell.name) else { continue };
        for column in &chosen {
            // A default column without values is not a row: if programs send, the lab sends nothing.
            let measured = |cell: &Cell<'_>| {
                let value = cell.measured(column.name).map(|measured| measured.value());
                value.is_some_and(|value| value != 0.0 || !DEFAULT_COLUMNS.contains(&column.name))
            };
            if !settings.columns.is_empty() || measured(cell) || measured(other) {
                tested.push(Tested::new(cell, other, column, settings.least));
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
    }
}

fn by_name<'b, 'a>(cells: &'b [Cell<'a>]) -> HashMap<&'b str, &'b Cell<'a>> {
    cells.iter().rev().map(|cell| (cell.name, cell)).collect()
}

/// Refuses columns that a run does not have or that cannot be compared.
///
/// # Errors
/// The first such column, with the nearest name or the reason.
pub fn check_columns(names: &[String], manifest: &Manifest, records: &[Record]) -> Result<(), String> {
    let has = columns::names(records);
    for name in names {
        match manifest.columns().get(name) {
            Some(column) if column.statistic == Statistic::Setting || column.kind == Kind::Flag => {
                return Err(format!("column `{name}` is not a measured number"));
            }
            Some(_) if has.contains(&name.as_str()) => {}
            None if has.contains(&name.as_str()) => {
                return Err(format!("column `{name}` is from another version of Weir. Compare with that version."));
            }
            _ => return Err(columns::unknown(name, has)),
        }
    }
    Ok(())
}

/// A row before the tests are judged together.
struct Tested {
    row: Row,
    better: Option<Better>,
    /// The difference, whether it is one of logarithms, and the tolerance for equal runs.
    test: Option<(Difference, bool, f64)>,
}

impl Tested {
    fn new(a: &Cell<'_>, b: &Cell<'_>, column: &Column<'_>, least: f64) -> Self {
        let value =
            |record: &Record| columns::number(record, column.name).filter(|_| record.believes(column.statistic));
        let others: HashMap<u32, f64> = b.records.iter().filter_map(|r| Some((r.row.repeat, value(r)?))).collect();
        let pairs = a.records.iter().filter_map(|r| Some((value(r)?, *others.get(&r.row.repeat)?)));
        let (before, after): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let tested = test(&before, &after, column, least);
        let mean = |cell: &Cell<'_>| cell.measured(column.name).map(|measured| measured.value());
        let row = Row {
            cell: a.name.to_owned(),
            column: column.name.to_owned(),
            unit: column.unit.to_owned(),
            a: mean(a),
            b: mean(b),
            ratio: None,
            pairs: tested.is_ok().then_some(before.len()),
            p_value: None,
            verdict: Verdict::Undecided,
            reason: tested.as_ref().err().cloned(),
        };
        Self { row, better: column.better, test: tested.ok() }
    }
}

fn test(a: &[f64], b: &[f64], column: &Column<'_>, least: f64) -> Result<(Difference, bool, f64), String> {
    let pairs = a.len();
    if pairs < FEWEST_PAIRS {
        return Err(format!("{pairs} valid pairs of repeats, but {FEWEST_PAIRS} are needed (--repeat)"));
    }
    let mean = a.iter().chain(b).sum::<f64>() / (2 * pairs) as f64;
    let has_zero = a.iter().chain(b).any(|value| *value <= 0.0);
    let difference = match column.kind == Kind::Share {
        true => paired::paired(a, b, MIN_DEVIATION * mean.abs()).map(|d| (d, false, least * mean.min(1.0 - mean))),
        // For percentages 0 is an ordinary value: a difference instead of a ratio.
        _ if has_zero && column.unit == "%" => {
            paired::paired(a, b, MIN_DEVIATION * mean.abs()).map(|d| (d, false, least * mean.abs()))
        }
        false if has_zero => {
            return match a == b {
                true => Ok((Difference { value: 0.0, error: 0.0, freedom: 1.0 }, false, 0.0)),
                false => Err("a value is 0, so there is no ratio".into()),
            };
        }
        false => {
            let ln = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
            paired::paired(&ln(a), &ln(b), MIN_DEVIATION).map(|d| (d, true, least.ln_1p()))
        }
    };
    difference.ok_or_else(|| "a value is not finite".into())
}

/// Judges all tests together.
fn decided(tested: Vec<Tested>, false_alarms: f64) -> Vec<Row> {
    let p_values: Vec<f64> = tested.iter().filter_map(|t| t.test.map(|(d, _, least)| d.p_value(least))).collect();
    let mut decisions = p_values.iter().zip(paired::holm(&p_values, false_alarms));
    let judged = |Tested { row, better, test }: Tested| {
        let Some((difference, logarithmic, _)) = test else { return row };
        let Some((p_value, decision)) = decisions.next() else { return row };
        let (low, high) = difference.interval(1.0 - decision.level);
        let ends = [difference.value, low, high];
        let ratio = match row.a.filter(|a| *a > 0.0) {
            _ if logarithmic => Some(ends.map(f64::exp)),
            // The first run's mean taken as exact: good enough for display, not used by the test.
            Some(a) => Some(ends.map(|difference| (1.0 + difference / a).max(0.0))),
            None => None,
        };
        let verdict = match (decision.rejected, better) {
            (false, _) => Verdict::Same,
            (true, None) => Verdict::Different,
            (true, Some(better)) if (better == Better::Higher) == (difference.value > 0.0) => Verdict::Better,
            (true, Some(_)) => Verdict::Worse,
        };
        let ratio = ratio.map(|[value, low, high]| Ratio { value, low, high });
        Row { ratio, p_value: Some(*p_value), verdict, ..row }
    };
    tested.into_iter().map(judged).collect()
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
    let differing = (!differing.is_empty()).then(|| format!("the runs differ in {}", differing.join(", ")));
    let incomplete = [("A", a), ("B", b)].into_iter().filter_map(|(name, (manifest, records))| {
        let (had, planned) = (records.len(), manifest.planned_cells);
        (had < planned).then(|| format!("{name} is not complete: {had} of {planned} cells"))
    });
    differing.into_iter().chain(incomplete).collect()
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
#[path = "tests/compare.rs"]
mod tests;
