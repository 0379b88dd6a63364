//! Published statements, judged by what was measured.
//!
//! A claim selects cells and bounds a column of them, or its ratio to that of other cells. The interval of each cell is
//! taken at a level at which all of them hold jointly (Bonferroni: 1 - (1 - confidence) / cells).
//!
//! Observations (counts, the largest delay) have no interval: they are exact for what was run, and over several repeats
//! they span what was seen. So a bound on a maximum is a statement about a run of that length, as the published ones
//! are; `min_duration_s` keeps a run that is too short to show it from being judged.

mod partners;

use std::collections::BTreeMap;

use serde::Serialize;
use weir_stats::intervals;
use weir_units::format;

use crate::cells::{self, Cell, Measured};
use crate::columns;
use crate::record::{Claim, IntervalUse, Record, Value};
use partners::Partners;

/// A claim and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// The claim.
    pub claim: Claim,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in a sentence, without what was measured.
    pub reason: String,
    /// The cell that decided: the nearest to a bound, or the farthest beyond it.
    pub cell: Option<String>,
    /// What was measured there.
    pub measured: Option<Interval>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every selected cell lies within the bounds, with the joint confidence.
    Reproduced,
    /// One lies outside altogether.
    Refuted,
    /// Neither.
    Undecided,
}

/// The reason of a verdict on a claim about what a run does not have.
pub const NO_CELL: &str = "no cell of this run matches";

impl Verdict {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Refuted => "refuted",
            Verdict::Undecided => "undecided",
        }
    }
}

/// A value between two ends, at the joint confidence of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end; infinite where a ratio's divisor may be 0.
    pub high: f64,
}

impl Interval {
    /// As a reader would write it: `78.2 (77.1 to 79.3)`, in the column's unit unless it is a ratio.
    pub fn text(&self, claim: &Claim) -> String {
        let word = |value: f64| match (claim.relative_to.is_some(), value.is_finite()) {
            (_, false) => "∞".to_owned(),
            (true, _) => format::short(value),
            (false, _) => columns::words(&claim.column, value),
        };
        if self.low == self.high {
            return word(self.value);
        }
        let extreme = columns::kind(&claim.column) == Some(columns::Kind::Extreme);
        if extreme && claim.relative_to.is_none() {
            return format!("at least {}; standstills explain up to {}", word(self.low), word(self.high));
        }
        format!("{} ({} to {})", word(self.value), word(self.low), word(self.high))
    }
}

/// Judges each claim by the records of a run.
pub fn judge(claims: &[Claim], records: &[Record]) -> Vec<Judgement> {
    let cells = cells::group(records);
    let names = |claim: &Claim, axis: &String| {
        let other = claim.relative_to.as_ref().is_some_and(|other| other.contains_key(axis));
        other || claim.selection.contains_key(axis)
    };
    let judge = |claim: &Claim| {
        let about = |cell: &&Cell<'_>| cell.first().elsewhere.iter().all(|axis| names(claim, axis));
        let about: Vec<Cell<'_>> = cells.iter().filter(about).cloned().collect();
        judge_one(claim, &about)
    };
    claims.iter().map(judge).collect()
}

/// What a run has to say about a claim.
pub(super) struct Evidence<'a> {
    /// What was measured in the selected cells.
    pub(super) found: Vec<(&'a str, Interval)>,
    /// Why there is nothing in the first of those that have nothing.
    pub(super) missing: Option<String>,
    /// Confidence of each interval.
    pub(super) level: f64,
}

/// Why a run has nothing to say about a claim, in a sentence.
pub(super) enum Lack {
    /// No cell is selected.
    NoCell(String),
    /// The run is too short.
    TooShort(String),
}

/// Gathers what the cells have to say about a claim.
pub(super) fn evidence<'a>(claim: &Claim, cells: &'a [Cell<'_>], interval: IntervalUse) -> Result<Evidence<'a>, Lack> {
    // A cell is no evidence about its ratio to itself.
    let compared = |cell: &&Cell<'_>| claim.relative_to.as_ref().is_none_or(|other| !selects(other, cell));
    let selected: Vec<&Cell<'_>> =
        cells.iter().filter(|cell| selects(&claim.selection, cell)).filter(compared).collect();
    if selected.is_empty() {
        return Err(Lack::NoCell(NO_CELL.into()));
    }
    let shortest = selected.iter().map(|cell| cell.first().row.duration_s).fold(f64::INFINITY, f64::min);
    // A clock may stop the window a moment early.
    if let Some(needed) = claim.min_duration_s.filter(|&needed| shortest < needed * 0.999) {
        let (needed, had) = (format::duration(needed * 1e6), format::duration(shortest * 1e6));
        return Err(Lack::TooShort(format!("needs {needed} of sending, this run had {had}")));
    }
    let level = 1.0 - (1.0 - claim.confidence.clamp(0.0, 1.0 - 1e-9)) / selected.len() as f64;
    let mut partners = claim.relative_to.as_ref().map(|other| Partners::new(claim, other, cells));
    let mut evidence = Evidence { found: Vec::new(), missing: None, level };
    for cell in &selected {
        match measure(claim, cell, partners.as_mut(), level, interval) {
            Ok(interval) => evidence.found.push((cell.name, interval)),
            Err(reason) => evidence.missing = evidence.missing.or(Some(format!("{}: {reason}", cell.name))),
        }
    }
    Ok(evidence)
}

/// How far an interval lies within the bounds; negative: how far it reaches beyond.
pub(super) fn within(claim: &Claim, interval: &Interval) -> f64 {
    let (at_least, at_most) = ends(claim);
    (interval.low - at_least).min(at_most - interval.high)
}

/// How far an interval lies outside the bounds altogether; negative or 0: not at all.
pub(super) fn outside(claim: &Claim, interval: &Interval) -> f64 {
    let (at_least, at_most) = ends(claim);
    (at_least - interval.high).max(interval.low - at_most)
}

/// The cell that lies farthest outside the bounds.
pub(super) fn farthest<'a>(claim: &Claim, found: &[(&'a str, Interval)]) -> Option<(&'a str, Interval)> {
    found.iter().max_by(|a, b| outside(claim, &a.1).total_cmp(&outside(claim, &b.1))).copied()
}

/// The cell that lies least within the bounds.
pub(super) fn nearest<'a>(claim: &Claim, found: &[(&'a str, Interval)]) -> Option<(&'a str, Interval)> {
    found.iter().min_by(|a, b| within(claim, &a.1).total_cmp(&within(claim, &b.1))).copied()
}

fn ends(claim: &Claim) -> (f64, f64) {
    (claim.at_least.unwrap_or(f64::NEG_INFINITY), claim.at_most.unwrap_or(f64::INFINITY))
}

fn judge_one(claim: &Claim, cells: &[Cell<'_>]) -> Judgement {
    let judgement = |verdict, reason: String, decided: Option<(&str, Interval)>| Judgement {
        claim: claim.clone(),
        verdict,
        reason,
        cell: decided.map(|(name, _)| name.to_owned()),
        measured: decided.map(|(_, interval)| interval),
    };
    let undecided = |reason: String| judgement(Verdict::Undecided, reason, None);

    if claim.at_least.is_none() && claim.at_most.is_none() {
        return undecided("the claim has no bound".into());
    }
    let Evidence { found, missing, level } = match evidence(claim, cells, IntervalUse::Inside) {
        Ok(evidence) => evidence,
        Err(Lack::NoCell(reason) | Lack::TooShort(reason)) => return undecided(reason),
    };
    let at = |level: f64| format!("{} confidence", format::percent(level));
    if let Some((cell, interval)) = farthest(claim, &found).filter(|(_, i)| outside(claim, i) > 0.0) {
        let reason = format!("{cell} lies outside {}", bounds(claim));
        return judgement(Verdict::Refuted, reason, Some((cell, interval)));
    }
    let nearest = nearest(claim, &found);
    if let Some(reason) = missing {
        return judgement(Verdict::Undecided, reason, nearest);
    }
    match nearest {
        Some((cell, interval)) if within(claim, &interval) >= 0.0 => {
            let of = if found.len() == 1 { String::new() } else { format!(", the nearest of {} cells,", found.len()) };
            let exact = found.iter().all(|(_, i)| i.low == i.high);
            let observed = exact || columns::kind(&claim.column) == Some(columns::Kind::Extreme);
            let sure = if observed { "as observed".into() } else { format!("at {}", at(claim.confidence)) };
            let reason = format!("{cell}{of} lies within {} {sure}", bounds(claim));
            judgement(Verdict::Reproduced, reason, nearest)
        }
        Some((cell, _)) => {
            let reason = format!("{cell} crosses {} at {}", bounds(claim), at(level));
            judgement(Verdict::Undecided, reason, nearest)
        }
        None => undecided("nothing was measured".into()),
    }
}

/// The column of a cell, or its ratio, at a level; or why there is none.
fn measure(
    claim: &Claim,
    cell: &Cell<'_>,
    partners: Option<&mut Partners<'_, '_>>,
    level: f64,
    interval: IntervalUse,
) -> Result<Interval, String> {
    let own = measured(cell, &claim.column)?;
    let ends = |m: &Measured| match interval {
        IntervalUse::Ignored => Ok((m.value(), m.value(), m.value())),
        _ => m.interval(level).ok_or_else(|| "the value has no interval".to_owned()),
    };
    let Some(partners) = partners else {
        let (value, low, high) = ends(&own)?;
        return Ok(Interval { value, low, high });
    };
    let reference = partners.of(cell)?;
    let theirs = measured(reference, &claim.column).map_err(|reason| format!("{}: {reason}", reference.name))?;
    let ratio = intervals::ratio_interval(ends(&own)?, ends(&theirs)?);
    let (value, low, high) = ratio.ok_or_else(|| format!("{}: nothing to divide by", reference.name))?;
    Ok(Interval { value, low, high })
}

fn measured(cell: &Cell<'_>, column: &str) -> Result<Measured, String> {
    if !cell.believes(column) {
        let why = cell.doubts(column);
        return Err(if why.is_empty() { "the cell is not valid".into() } else { why });
    }
    cell.measured(column).ok_or_else(|| format!("{column} was not measured"))
}

fn selects(selection: &BTreeMap<String, Value>, cell: &Cell<'_>) -> bool {
    // A cell beside the sweep has settings too, but is meant only where it is named.
    (!cell.beside || selection.contains_key("cell"))
        && selection.iter().all(|(key, value)| columns::matches(cell.first(), key, value))
}

/// The bounds in words.
pub fn bounds(claim: &Claim) -> String {
    let word = |value: f64| {
        if claim.relative_to.is_some() { format::short(value) } else { columns::words(&claim.column, value) }
    };
    match (claim.at_least, claim.at_most) {
        (Some(low), Some(high)) => format!("{} to {}", word(low), word(high)),
        (Some(low), None) => format!("≥ {}", word(low)),
        (None, Some(high)) => format!("≤ {}", word(high)),
        (None, None) => "no bounds".into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    fn claim(column: &str, selection: &[(&str, Value)], at_least: Option<f64>, at_most: Option<f64>) -> Claim {
        Claim {
            text: "said".into(),
            reading: String::new(),
            selection: selection.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            relative_to: None,
            column: column.into(),
            at_least,
            at_most,
            confidence: 0.95,
            min_duration_s: None,
        }
    }

    fn udp() -> (&'static str, Value) {
        ("transport", Value::Text("udp".into()))
    }

    fn tcp() -> (&'static str, Value) {
        ("transport", Value::Text("tcp".into()))
    }

    fn loss(pct: f64) -> (&'static str, Value) {
        ("loss_pct", Value::Number(pct))
    }

    fn one(claim: Claim) -> Judgement {
        judge(&[claim], &fixture::records()).remove(0)
    }

    #[test]
    fn bounds_decide() {
        let judged = one(claim("delay_mean_us", &[udp()], None, Some(200.0)));
        assert_eq!(judged.verdict, Verdict::Reproduced, "{}", judged.reason);
        assert!(
            judged.reason.starts_with("5%/udp, the nearest of 21 cells, lies within ≤ 200 µs at 95 % confidence"),
            "{}",
            judged.reason
        );
        assert_eq!(one(claim("delay_mean_us", &[udp()], Some(200.0), None)).verdict, Verdict::Refuted);
        let value = fixture::records()[40].row.msgs_per_s;
        let on_the_edge = one(claim("msgs_per_s", &[udp(), loss(20.0)], Some(value), None));
        assert_eq!(on_the_edge.verdict, Verdict::Undecided, "{}", on_the_edge.reason);
        assert_eq!(on_the_edge.cell.as_deref(), Some("20%/udp"));
    }

    #[test]
    fn observations_are_exact() {
        assert_eq!(one(claim("unexplained", &[udp()], Some(0.0), Some(0.0))).verdict, Verdict::Reproduced);
        let largest = fixture::records()[41].row.delay_max_us.unwrap();
        let at = |bound| one(claim("delay_max_us", &[tcp(), loss(20.0)], Some(bound), None)).verdict;
        assert_eq!((at(largest), at(largest + 1.0)), (Verdict::Reproduced, Verdict::Refuted));
    }

    #[test]
    fn ratios_find_their_partners() {
        let relative = |to: &[(&str, Value)], at_most| Claim {
            relative_to: Some(claim("", to, None, None).selection),
            ..claim("msgs_per_s", &[tcp(), loss(20.0)], None, Some(at_most))
        };
        let quarter = one(relative(&[udp()], 0.25));
        assert_eq!(quarter.verdict, Verdict::Reproduced, "{}", quarter.reason);
        let records = fixture::records();
        let measured = quarter.measured.unwrap().value;
        assert!((measured - records[41].row.msgs_per_s / records[40].row.msgs_per_s).abs() < 1e-9);
        let itself = one(relative(&[loss(0.0)], 0.25)).measured.unwrap().value;
        assert!((itself - records[41].row.msgs_per_s / records[1].row.msgs_per_s).abs() < 1e-9);
        // Without the partner, the one at another loss is no substitute.
        let without: Vec<Record> = records.iter().filter(|r| r.row.cell != "20%/udp").cloned().collect();
        let judged = judge(&[relative(&[udp()], 0.25)], &without).remove(0);
        assert_eq!(judged.reason, "20%/tcp: the cell to compare with is missing");
        assert_eq!(judged.verdict, Verdict::Undecided);
    }

    /// The published runs had one congestion control: a cell of another is no evidence for or against them, unless it is
    /// named.
    #[test]
    fn claims_are_about_the_cells_that_they_are_of() {
        let mut records = fixture::records();
        records.iter_mut().for_each(|record| record.axes.push(("tcp.congestion".into(), "cubic".into())));
        for record in fixture::records() {
            let mut other = record.clone();
            other.row.msgs_per_s = 0.0;
            other.estimates.clear();
            other.row.cell += "/bbr";
            other.axes.push(("tcp.congestion".into(), "bbr".into()));
            other.elsewhere = vec!["tcp.congestion".into()];
            records.push(other);
        }
        let half = claim("msgs_per_s", &[tcp(), loss(0.0)], Some(50.0), None);
        let judged = judge(std::slice::from_ref(&half), &records).remove(0);
        assert_eq!((judged.verdict, judged.cell.as_deref()), (Verdict::Reproduced, Some("0%/tcp")));
        let bbr = ("tcp.congestion", Value::Text("bbr".into()));
        let named = claim("sent", &[tcp(), loss(0.0), bbr], Some(1.0), None);
        assert_eq!(judge(&[named], &records).remove(0).cell.as_deref(), Some("0%/tcp/bbr"));
        records.iter_mut().for_each(|record| record.elsewhere.clear());
        assert_ne!(judge(&[half], &records).remove(0).verdict, Verdict::Reproduced);
    }

    #[test]
    fn a_cell_beside_the_sweep_is_meant_only_by_name() {
        let records = fixture::matrix_records();
        let judged = |selection: &[(&str, Value)]| {
            let claim = claim("mbit_per_s", selection, Some(1.0), None);
            judge(&[claim], &records).remove(0)
        };
        let swept = judged(&[loss(0.0)]);
        assert!(swept.reason.contains("the nearest of 14 cells"), "{}", swept.reason);
        let named = judged(&[("cell", Value::Text("baseline".into()))]);
        assert_eq!((named.verdict, named.cell.as_deref()), (Verdict::Reproduced, Some("baseline")));
    }

    #[test]
    fn what_cannot_be_judged_says_why() {
        let reason = |claim| {
            let judged = one(claim);
            assert_eq!(judged.verdict, Verdict::Undecided);
            judged.reason
        };
        assert_eq!(reason(claim("sent", &[loss(33.0)], Some(1.0), None)), "no cell of this run matches");
        assert_eq!(reason(claim("sent", &[], None, None)), "the claim has no bound");
        let long = Claim { min_duration_s: Some(1200.0), ..claim("sent", &[udp()], Some(1.0), None) };
        assert_eq!(reason(long), "needs 1200 s of sending, this run had 60 s");
        assert!(reason(claim("undelivered", &[udp()], Some(0.0), None)).ends_with("undelivered was not measured"));
        assert!(reason(claim("delay_p99_us", &[udp()], Some(0.0), None)).ends_with("the value has no interval"));

        let mut records = fixture::records();
        records[0].row.valid = false;
        let of =
            |column: &str, records: &[Record]| judge(&[claim(column, &[udp()], Some(1.0), None)], records).remove(0);
        let judged = of("msgs_per_s", &records);
        assert_eq!((judged.verdict, judged.reason.as_str()), (Verdict::Undecided, "0%/udp: the cell is not valid"));
        // Each column asks for what it rests on.
        records[0].disturbed = [(columns::Statistic::Delay, "61 % of the messages were disturbed".to_owned())].into();
        assert_eq!(of("msgs_per_s", &records).verdict, Verdict::Reproduced);
        assert_eq!(of("delay_mean_us", &records).reason, "0%/udp: 61 % of the messages were disturbed");
        assert_eq!(of("sent", &records).verdict, Verdict::Reproduced);
        assert!(judge(&[claim("sent", &[], Some(1.0), None)], &[]).remove(0).reason.contains("no cell"));
    }

    #[test]
    fn more_cells_need_wider_intervals() {
        let alone = one(claim("msgs_per_s", &[udp(), loss(20.0)], Some(0.0), None)).measured.unwrap();
        let jointly = one(claim("msgs_per_s", &[udp()], Some(0.0), None)).measured.unwrap();
        assert_eq!(alone.value, jointly.value, "20 % is the nearest to 0 in both");
        assert!(jointly.low < alone.low && alone.high < jointly.high);
    }

    proptest! {
        #[test]
        fn wider_bounds_never_do_harm(low in 0.0f64..120.0, width in 0.0f64..60.0, more in 0.0f64..60.0, cells in 0usize..3) {
            let selection = [vec![udp()], vec![tcp(), loss(12.0)], vec![]][cells].clone();
            let rank = |verdict| match verdict {
                Verdict::Refuted => 0,
                Verdict::Undecided => 1,
                Verdict::Reproduced => 2,
            };
            let at = |low, high| rank(one(claim("msgs_per_s", &selection, Some(low), Some(high))).verdict);
            prop_assert!(at(low, low + width) <= at(low - more, low + width));
            prop_assert!(at(low, low + width) <= at(low, low + width + more));
        }

        #[test]
        fn more_confidence_never_decides(bound in 0.0f64..120.0) {
            let at = |confidence| {
                one(Claim { confidence, ..claim("msgs_per_s", &[tcp(), loss(12.0)], Some(bound), None) }).verdict
            };
            prop_assert!(at(0.999) == Verdict::Undecided || at(0.999) == at(0.9));
        }
    }
}
