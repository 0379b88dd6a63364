//! Judges claims and assertions by the measurements.
//!
//! A claim selects cells and bounds a column of them, or its ratio to that of another cell. The interval of each cell is
//! taken at a level at which all of them hold jointly (Bonferroni: 1 - (1 - confidence) / cells). Observations (counts,
//! the largest delay) have no interval: they are exact for the run, and over several repeats they have a range.
//!
//! Over three repeats or more an estimate has Student's interval over their means, which is wide for so few, unless the
//! batches within the repeats explain all of their differences: where the repeats differ no more than that, in the mean
//! over the cells of the claim, the interval is that of the batches of all repeats, or of the trials of shares
//! ([`intervals::pooled`]). Without real differences between repeats the intervals then hold at least as often as stated,
//! and where these are large exactly as often. They hold less often where real differences are about as large as the
//! batches' own and go unseen: at 95 %, for one cell of three repeats, 92.5 % at worst (numerically, over all sizes of
//! differences; 94 % of four, 95 % of five). The more cells share a joint level, the more repeats the mean is over, and
//! the less goes unseen.
//!
//! `min_duration_s` excludes runs that are too short to show something.
//!
//! An assertion is a claim that is `required`: it fails unless it holds.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use weir_stats::intervals;
use weir_units::format;

use crate::cells::{self, Cell, Measured};
use crate::columns::{self, Columns, Statistic};
use crate::record::{Claim, IntervalUse, Manifest, Record, Value};

/// A claim and its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Its text, or its bounds as text.
    pub name: String,
    /// The claim.
    pub claim: Claim,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict in a word: for an assertion `pass`, `fail` or `skipped`.
    pub word: &'static str,
    /// The bounds as text.
    pub bounds: String,
    /// Why, in a sentence.
    pub reason: String,
    /// The deciding cell: the nearest to a bound, or the farthest beyond it.
    pub cell: Option<String>,
    /// The measured value there, at the joint confidence.
    pub measured: Option<Interval>,
    /// The same as text; empty without a measurement.
    pub measured_in_words: String,
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every selected cell lies within the bounds, with the joint confidence.
    Reproduced,
    /// One lies entirely outside.
    Refuted,
    /// Neither.
    Undecided,
    /// An assertion that the run is too short for.
    Skipped,
}

/// The reason of a verdict without matching cells.
pub const NO_CELL: &str = "no cell of this run matches";

/// A value between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end; infinite where a ratio's divisor may be 0.
    pub high: f64,
}

impl Judged {
    /// Whether it fails the run.
    pub fn fails(&self) -> bool {
        self.claim.required && matches!(self.verdict, Verdict::Refuted | Verdict::Undecided)
    }

    /// The measurement and why it decides, in a sentence.
    pub fn sentence(&self) -> String {
        if self.measured.is_none() {
            self.reason.clone()
        } else {
            format!("{}: {}", self.measured_in_words, self.reason)
        }
    }
}

/// Judges each claim of a run by its records.
pub fn judge(manifest: &Manifest, records: &[Record]) -> Vec<Judged> {
    let cells = cells::group(manifest.columns(), records);
    let lacking = manifest.interrupted || records.len() < manifest.planned_cells;
    let judge = |claim: &Claim| {
        let judged = Judge { claim, columns: manifest.columns() }.judge(&cells);
        match (claim.required && lacking, judged.verdict) {
            // The missing cells could fail it.
            (true, Verdict::Reproduced) => {
                let (had, planned) = (records.len(), manifest.planned_cells);
                let reason = format!("the run is not complete: {had} of {planned} cells");
                Judged { verdict: Verdict::Undecided, word: "fail", reason, ..judged }
            }
            _ => judged,
        }
    };
    manifest.claims.iter().map(judge).collect()
}

/// Whether an assertion fails the run.
pub fn fails(manifest: &Manifest, records: &[Record]) -> bool {
    judge(manifest, records).iter().any(Judged::fails)
}

struct Judge<'a> {
    claim: &'a Claim,
    columns: Columns<'a>,
}

/// How intervals are taken.
#[derive(Clone, Copy)]
struct Sure {
    level: f64,
    /// Whether the batches within repeats explain how these differ.
    pooled: bool,
}

type Decided<'a> = Option<(&'a str, Interval)>;

impl Judge<'_> {
    fn judge(&self, cells: &[Cell<'_>]) -> Judged {
        let (verdict, reason, decided) = self.verdict(cells);
        let word = match (self.claim.required, verdict) {
            (true, Verdict::Reproduced) => "pass",
            (true, Verdict::Refuted | Verdict::Undecided) => "fail",
            (false, Verdict::Reproduced) => "reproduced",
            (false, Verdict::Refuted) => "refuted",
            (false, Verdict::Undecided) => "undecided",
            (_, Verdict::Skipped) => "skipped",
        };
        let measured = decided.map(|(_, interval)| interval);
        Judged {
            name: if self.claim.text.is_empty() { self.in_words() } else { self.claim.text.clone() },
            claim: self.claim.clone(),
            verdict,
            word,
            bounds: self.bounds(),
            reason,
            cell: decided.map(|(cell, _)| cell.to_owned()),
            measured,
            measured_in_words: measured.map(|interval| self.interval(interval)).unwrap_or_default(),
        }
    }

    fn verdict<'c>(&self, cells: &'c [Cell<'_>]) -> (Verdict, String, Decided<'c>) {
        let claim = self.claim;
        // A cell's ratio to itself is meaningless.
        let is_partner = |cell: &Cell<'_>| claim.relative_to.as_ref().is_some_and(|other| cell.is_in(other));
        let about = |cell: &&Cell<'_>| cell.is_in(&claim.selection) && !is_partner(cell);
        let selected: Vec<&Cell<'_>> = cells.iter().filter(about).collect();
        if selected.is_empty() {
            return (Verdict::Undecided, NO_CELL.into(), None);
        }
        let shortest = selected.iter().map(|cell| cell.first().row.duration_s).fold(f64::INFINITY, f64::min);
        // A clock may stop the window a moment early.
        if let Some(needed) = claim.min_duration_s.filter(|&needed| shortest < needed * 0.999) {
            let [needed, had] = [needed, shortest].map(|seconds| format::duration(seconds * 1e6));
            let verdict = if claim.required { Verdict::Skipped } else { Verdict::Undecided };
            return (verdict, format!("needs {needed} of sending, this run had {had}"), None);
        }
        let level = 1.0 - (1.0 - claim.confidence.clamp(0.0, 1.0 - 1e-9)) / selected.len() as f64;
        let factors = cells.iter().filter(|cell| about(cell) || is_partner(cell));
        let factors: Vec<f64> = factors.filter_map(|cell| Some(cell.pooled(&claim.column)?.1)).collect();
        let sure = Sure { level, pooled: factors.iter().sum::<f64>() <= factors.len() as f64 };
        let partners = claim.relative_to.as_ref().map(|other| Partners::new(other, cells));
        let (mut found, mut missing) = (Vec::new(), None);
        for cell in &selected {
            match self.measure(cell, partners.as_ref(), sure) {
                Ok(interval) => found.push((cell.name, interval)),
                Err(reason) => missing = missing.or(Some(format!("{}: {reason}", cell.name))),
            }
        }
        let bounds = self.bounds();
        // Counts and extremes span the range of the repeats, without a confidence.
        let is_seen = |cell: &&Cell<'_>| !matches!(cell.measured(&claim.column), Some(Measured::Estimate(_)));
        let exact = selected.iter().all(is_seen);
        let how_sure = match claim.interval {
            IntervalUse::Ignored => "by its value alone".to_owned(),
            _ if exact => "as observed".to_owned(),
            _ => format!("at {} confidence", format::percent(claim.confidence)),
        };
        let farthest = found.iter().max_by(|a, b| self.outside(&a.1).total_cmp(&self.outside(&b.1))).copied();
        if let Some((cell, interval)) = farthest.filter(|(_, interval)| self.outside(interval) > 0.0) {
            return (Verdict::Refuted, format!("{cell} lies outside {bounds} {how_sure}"), Some((cell, interval)));
        }
        let nearest = found.iter().min_by(|a, b| self.within(&a.1).total_cmp(&self.within(&b.1))).copied();
        if let Some(reason) = missing {
            return (Verdict::Undecided, reason, None);
        }
        let Some((cell, interval)) = nearest else { return (Verdict::Undecided, "nothing was measured".into(), None) };
        let of = if found.len() == 1 { String::new() } else { format!(", the nearest of {} cells,", found.len()) };
        let (verdict, lies) = match (self.within(&interval) >= 0.0, claim.interval) {
            (true, _) => (Verdict::Reproduced, "lies within"),
            (false, IntervalUse::Touching) => (Verdict::Reproduced, "may lie within"),
            (false, _) => (Verdict::Undecided, "crosses"),
        };
        (verdict, format!("{cell}{of} {lies} {bounds} {how_sure}"), nearest)
    }

    /// The column of a cell, or its ratio, at a level; or why there is none.
    fn measure(&self, cell: &Cell<'_>, partners: Option<&Partners<'_, '_>>, sure: Sure) -> Result<Interval, String> {
        let own = self.ends(cell, sure)?;
        let ends = match partners {
            None => own,
            Some(partners) => {
                let other = partners.of(cell)?;
                let theirs = self.ends(other, sure).map_err(|reason| format!("{}: {reason}", other.name))?;
                intervals::ratio_interval(own, theirs).ok_or_else(|| format!("{}: nothing to divide by", other.name))?
            }
        };
        let (value, low, high) = ends;
        Ok(Interval { value, low, high })
    }

    fn ends(&self, cell: &Cell<'_>, sure: Sure) -> Result<(f64, f64, f64), String> {
        let column = &self.claim.column;
        let pooled = cell.pooled(column).filter(|_| sure.pooled).map(|(estimate, _)| Measured::Estimate(estimate));
        let measured = pooled.or_else(|| cell.measured(column)).ok_or_else(|| format!("{column} was not measured"))?;
        let ends = match self.claim.interval {
            IntervalUse::Ignored => Some((measured.value(), measured.value(), measured.value())),
            _ => measured.interval(sure.level),
        };
        let ends = ends.ok_or_else(|| "the value has no interval".to_owned())?;
        if cell.believes(column) || self.is_below_all_the_same(cell, ends.2) {
            return Ok(ends);
        }
        let why = cell.doubts(column);
        Err(if why.is_empty() { "the cell is not valid".into() } else { why })
    }

    /// Standstills only lengthen delays: a delay below an upper bound holds in spite of them.
    fn is_below_all_the_same(&self, cell: &Cell<'_>, high: f64) -> bool {
        let Claim { column, at_least, at_most, relative_to, .. } = self.claim;
        let others = [Statistic::Rate, Statistic::Counter, Statistic::Setting];
        let is_delay = self.columns.get(column).is_some_and(|known| !others.contains(&known.statistic));
        let is_whole = cell.records.iter().all(|record| !record.stopped && !record.changed);
        let bound = at_most.filter(|_| at_least.is_none() && relative_to.is_none() && is_delay && is_whole);
        bound.is_some_and(|bound| high <= bound)
    }

    /// How far an interval lies within the bounds; negative: how far it reaches beyond.
    fn within(&self, interval: &Interval) -> f64 {
        let (at_least, at_most) = self.limits();
        (interval.low - at_least).min(at_most - interval.high)
    }

    /// How far an interval lies entirely outside the bounds; negative or 0: not at all.
    fn outside(&self, interval: &Interval) -> f64 {
        let (at_least, at_most) = self.limits();
        (at_least - interval.high).max(interval.low - at_most)
    }

    fn limits(&self) -> (f64, f64) {
        (self.claim.at_least.unwrap_or(f64::NEG_INFINITY), self.claim.at_most.unwrap_or(f64::INFINITY))
    }

    fn word(&self, value: f64) -> String {
        match self.claim.relative_to {
            _ if !value.is_finite() => "∞".to_owned(),
            Some(_) => format::short(value),
            None => self.columns.words(&self.claim.column, value),
        }
    }

    /// `78.2 (77.1 to 79.3)`, in the column's unit unless it is a ratio.
    fn interval(&self, Interval { value, low, high }: Interval) -> String {
        let value = self.word(value);
        if low == high { value } else { format!("{value} ({} to {})", self.word(low), self.word(high)) }
    }

    /// The bounds as text.
    fn bounds(&self) -> String {
        match (self.claim.at_least, self.claim.at_most) {
            (Some(low), Some(high)) if low == high => format!("= {}", self.word(low)),
            (Some(low), Some(high)) => format!("{} to {}", self.word(low), self.word(high)),
            (Some(low), None) => format!("≥ {}", self.word(low)),
            (None, Some(high)) => format!("≤ {}", self.word(high)),
            (None, None) => "no bounds".into(),
        }
    }

    /// `mbit_per_s ≥ 900 Mbit/s where loss_pct = 0`.
    fn in_words(&self) -> String {
        let place = |selection: &BTreeMap<String, Value>| {
            let value = |value: &Value| match value {
                Value::Number(number) => format::plain(*number),
                Value::Text(text) => text.clone(),
            };
            let places = selection.iter().map(|(name, wanted)| format!("{name} = {}", value(wanted)));
            places.collect::<Vec<_>>().join(", ")
        };
        let mut words = self.claim.column.clone();
        if let Some(other) = &self.claim.relative_to {
            words += &format!(" relative to {}", place(other));
        }
        words += &format!(" {}", self.bounds());
        if !self.claim.selection.is_empty() {
            words += &format!(" where {}", place(&self.claim.selection));
        }
        words
    }
}

/// The cells that `relative_to` selects, by the values of the axes that it leaves open.
struct Partners<'b, 'a> {
    other: &'b BTreeMap<String, Value>,
    open: Vec<&'b str>,
    cells: HashMap<Vec<Option<&'b str>>, Vec<&'b Cell<'a>>>,
}

impl<'b, 'a> Partners<'b, 'a> {
    fn new(other: &'b BTreeMap<String, Value>, cells: &'b [Cell<'a>]) -> Self {
        let candidates: Vec<&'b Cell<'a>> = cells.iter().filter(|cell| cell.is_in(other)).collect();
        let axes = candidates.first().map(|cell| cell.first().axes.as_slice()).unwrap_or_default();
        // An axis with one value among the candidates is settled by `relative_to`, or does not vary.
        let is_open = |key: &&str| candidates.iter().any(|cell| axis(cell, key) != axis(candidates[0], key));
        let open: Vec<&str> = axes.iter().map(|(key, _)| key.as_str()).filter(is_open).collect();
        let mut cells: HashMap<_, Vec<_>> = HashMap::new();
        for cell in candidates {
            cells.entry(open.iter().map(|key| axis(cell, key)).collect()).or_default().push(cell);
        }
        Self { other, open, cells }
    }

    /// The cell that differs from this one only in the keys of `relative_to`; or why there is none.
    fn of(&self, cell: &Cell<'_>) -> Result<&'b Cell<'a>, String> {
        let place: Vec<Option<&str>> = self.open.iter().map(|key| axis(cell, key)).collect();
        let own = cell.first();
        match self.cells.get(&place).map(Vec::as_slice) {
            Some([a, b, ..]) => Err(format!("both {} and {} match relative_to", a.name, b.name)),
            Some([only]) => {
                let named = self.other.iter().filter(|(key, value)| !columns::matches(own, key, value)).count();
                let differs = |(key, value): &&(String, String)| axis(only, key).is_some_and(|other| other != value);
                let differing = own.axes.iter().filter(differs).count();
                if differing > named { Err("the cell to compare with is missing".into()) } else { Ok(only) }
            }
            _ => Err("the cell to compare with is missing".into()),
        }
    }
}

fn axis<'b>(cell: &'b Cell<'_>, key: &str) -> Option<&'b str> {
    cell.first().axes.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
}

#[cfg(test)]
#[path = "tests/judge.rs"]
mod tests;
