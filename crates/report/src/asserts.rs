//! Assertions of a scenario: bounds that fail a run.
//!
//! They select, compare and widen intervals as [`claims`] do. A claim may stay undecided, an assertion may not: what
//! cannot be shown fails, unless the run was too short for it by its own words, which skips it.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_units::format;

use crate::cells::{self, Cell};
use crate::claims::{self, Evidence, Interval, Lack};
use crate::record::{Assert, Claim, IntervalUse, Manifest, Record, Value};

/// An assertion and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Its name, or its bounds in words.
    pub name: String,
    /// The assertion.
    pub assert: Assert,
    /// What became of it.
    pub state: State,
    /// Why, in a sentence, without what was measured.
    pub reason: String,
    /// The cell that decided.
    pub cell: Option<String>,
    /// What was measured there, with the joint interval.
    pub measured: Option<Interval>,
}

/// What became of an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It holds.
    Pass,
    /// It does not, or could not be shown.
    Fail,
    /// The run is shorter than the assertion is meant for.
    Skipped,
}

impl State {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Pass => "pass",
            State::Fail => "fail",
            State::Skipped => "skipped",
        }
    }
}

impl Checked {
    /// What was measured and why it decides, in a sentence.
    pub fn sentence(&self) -> String {
        let measured = self.measured_in_words();
        if measured.is_empty() { self.reason.clone() } else { format!("{measured}: {}", self.reason) }
    }

    /// What was measured, as a reader would write it; empty if nothing was.
    pub fn measured_in_words(&self) -> String {
        self.measured.map(|interval| interval.text(&claim(&self.assert))).unwrap_or_default()
    }

    /// The bounds in words.
    pub fn bounds(&self) -> String {
        claims::bounds(&claim(&self.assert))
    }
}

/// Whether any of them fails.
pub fn fail(checked: &[Checked]) -> bool {
    checked.iter().any(|checked| checked.state == State::Fail)
}

/// Checks the assertions of a run by its records.
pub fn check(manifest: &Manifest, records: &[Record]) -> Vec<Checked> {
    let cells = cells::group(records);
    let lacking = records.len() < manifest.planned_cells;
    let incomplete = (manifest.interrupted || lacking)
        .then(|| format!("the run is not complete: {} of {} cells", records.len(), manifest.planned_cells));
    let completed = |checked: Checked| match (&incomplete, checked.state) {
        // The cells that are missing could fail it.
        (Some(reason), State::Pass) => Checked { state: State::Fail, reason: reason.clone(), ..checked },
        _ => checked,
    };
    manifest.asserts.iter().map(|assert| completed(check_one(assert, &cells))).collect()
}

fn check_one(assert: &Assert, cells: &[Cell<'_>]) -> Checked {
    let claim = claim(assert);
    let checked = |state, reason: String, decided: Option<(&str, Interval)>| Checked {
        name: assert.name.clone().unwrap_or_else(|| in_words(assert)),
        assert: assert.clone(),
        state,
        reason,
        cell: decided.map(|(cell, _)| cell.to_owned()),
        measured: decided.map(|(_, interval)| interval),
    };
    let Evidence { found, missing, level } = match claims::evidence(&claim, cells, assert.interval) {
        Ok(evidence) => evidence,
        Err(Lack::TooShort(reason)) => return checked(State::Skipped, reason, None),
        Err(Lack::NoCell(reason)) => return checked(State::Fail, reason, None),
    };
    let bounds = claims::bounds(&claim);
    let sure = match assert.interval {
        IntervalUse::Ignored => "by its value alone".to_owned(),
        _ if found.iter().all(|(_, i)| i.low == i.high) => "as observed".to_owned(),
        _ => format!("at {} confidence", format::percent(level)),
    };
    let farthest = claims::farthest(&claim, &found);
    if let Some((cell, interval)) = farthest.filter(|(_, interval)| claims::outside(&claim, interval) > 0.0) {
        return checked(State::Fail, format!("{cell} lies outside {bounds} {sure}"), Some((cell, interval)));
    }
    let nearest = claims::nearest(&claim, &found);
    if let Some(reason) = missing {
        return checked(State::Fail, reason, None);
    }
    let Some((cell, interval)) = nearest else {
        return checked(State::Fail, "nothing was measured".into(), None);
    };
    let of = if found.len() == 1 { String::new() } else { format!(", the nearest of {} cells,", found.len()) };
    let decided = Some((cell, interval));
    match (claims::within(&claim, &interval) >= 0.0, assert.interval) {
        (true, _) => checked(State::Pass, format!("{cell}{of} lies within {bounds} {sure}"), decided),
        (false, IntervalUse::Touching) => {
            checked(State::Pass, format!("{cell}{of} may lie within {bounds} {sure}"), decided)
        }
        (false, _) => checked(State::Fail, format!("{cell} crosses {bounds} {sure}"), decided),
    }
}

/// The same as a claim.
fn claim(assert: &Assert) -> Claim {
    Claim {
        text: assert.name.clone().unwrap_or_default(),
        reading: String::new(),
        selection: assert.selection.clone(),
        relative_to: assert.relative_to.clone(),
        column: assert.column.clone(),
        at_least: assert.at_least,
        at_most: assert.at_most,
        confidence: assert.confidence,
        min_duration_s: assert.min_duration_s,
    }
}

/// `mbit_per_s ≥ 900 Mbit/s where loss_pct = 0`.
fn in_words(assert: &Assert) -> String {
    let selection = |selection: &BTreeMap<String, Value>| {
        let pair = |(key, value): (&String, &Value)| match value {
            Value::Number(number) => format!("{key} = {}", format::plain(*number)),
            Value::Text(text) => format!("{key} = {text}"),
        };
        selection.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    let mut words = format!("{} {}", assert.column, claims::bounds(&claim(assert)));
    if let Some(other) = &assert.relative_to {
        words += &format!(" of that where {}", selection(other));
    }
    if !assert.selection.is_empty() {
        words += &format!(" where {}", selection(&assert.selection));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn assert_of(column: &str, at_least: Option<f64>, at_most: Option<f64>, selection: &[(&str, Value)]) -> Assert {
        Assert {
            name: None,
            selection: selection.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            relative_to: None,
            column: column.into(),
            at_least,
            at_most,
            confidence: 0.95,
            interval: IntervalUse::Inside,
            min_duration_s: None,
        }
    }

    fn udp(loss_pct: f64) -> [(&'static str, Value); 2] {
        [("transport", Value::Text("udp".into())), ("loss_pct", Value::Number(loss_pct))]
    }

    fn checked(assert: Assert) -> Checked {
        let manifest = Manifest { asserts: vec![assert], ..fixture::manifest() };
        check(&manifest, &fixture::records()).remove(0)
    }

    #[test]
    fn an_interval_counts_as_it_was_asked_to() {
        let records = fixture::records();
        let estimate = records[40].estimates["msgs_per_s"];
        assert!(estimate.low < estimate.value && estimate.value < estimate.high);
        let between = |a: f64, b: f64| (a + b) / 2.0;
        // Bounds below the interval, in its lower half, in its upper half, above it.
        let bounds = [
            (estimate.low - 1.0, [State::Pass, State::Pass, State::Pass]),
            (between(estimate.low, estimate.value), [State::Fail, State::Pass, State::Pass]),
            (between(estimate.value, estimate.high), [State::Fail, State::Pass, State::Fail]),
            (estimate.high + 1.0, [State::Fail, State::Fail, State::Fail]),
        ];
        for (bound, expected) in bounds {
            let uses = [IntervalUse::Inside, IntervalUse::Touching, IntervalUse::Ignored];
            let found = uses.map(|interval| {
                let assert = assert_of("msgs_per_s", Some(bound), None, &udp(20.0));
                checked(Assert { interval, ..assert }).state
            });
            assert_eq!(found, expected, "at least {bound}");
        }
    }

    #[test]
    fn a_value_without_interval_is_enough_where_that_is_ignored() {
        let assert = assert_of("delay_p99_us", Some(0.0), None, &udp(20.0));
        let inside = checked(assert.clone());
        assert_eq!((inside.state, inside.reason.as_str()), (State::Fail, "20%/udp: the value has no interval"));
        let ignored = checked(Assert { interval: IntervalUse::Ignored, ..assert });
        assert_eq!(ignored.state, State::Pass, "{}", ignored.reason);
        assert_eq!(ignored.reason, "20%/udp lies within ≥ 0 µs by its value alone");
    }

    #[test]
    fn what_cannot_be_shown_fails() {
        let failed = |assert| {
            let checked = checked(assert);
            assert_eq!(checked.state, State::Fail);
            checked.reason
        };
        assert_eq!(failed(assert_of("sent", Some(1.0), None, &udp(33.0))), "no cell of this run matches");
        let unmeasured = failed(assert_of("undelivered", Some(0.0), None, &udp(0.0)));
        assert_eq!(unmeasured, "0%/udp: undelivered was not measured");

        let every_udp = assert_of("msgs_per_s", Some(1.0), None, &udp(0.0)[..1]);
        let manifest = Manifest { asserts: vec![every_udp], ..fixture::manifest() };
        let mut records = fixture::records();
        assert_eq!(check(&manifest, &records)[0].state, State::Pass);
        let lacking = &check(&manifest, &records[..30])[0];
        assert_eq!((lacking.state, lacking.reason.as_str()), (State::Fail, "the run is not complete: 30 of 42 cells"));
        records[0].row.valid = false;
        let disturbed = &check(&manifest, &records)[0];
        assert_eq!((disturbed.state, disturbed.reason.as_str()), (State::Fail, "0%/udp: the cell is not valid"));
    }

    #[test]
    fn a_run_that_is_too_short_is_skipped() {
        let long = Assert { min_duration_s: Some(1200.0), ..assert_of("sent", Some(1e9), None, &[]) };
        let skipped = checked(long);
        assert_eq!(
            (skipped.state, skipped.reason.as_str()),
            (State::Skipped, "needs 1200 s of sending, this run had 60 s")
        );
        assert!(!fail(&[skipped]));
    }

    #[test]
    fn ratios_and_names() {
        let relative = Assert {
            relative_to: Some([("transport".into(), Value::Text("udp".into()))].into()),
            ..assert_of(
                "msgs_per_s",
                None,
                Some(0.25),
                &[("transport", Value::Text("tcp".into())), udp(20.0)[1].clone()],
            )
        };
        let records = fixture::records();
        let first = checked(relative.clone());
        assert_eq!(first.state, State::Pass, "{}", first.reason);
        let ratio = records[41].row.msgs_per_s / records[40].row.msgs_per_s;
        assert!((first.measured.unwrap().value - ratio).abs() < 1e-9);
        assert_eq!(first.name, "msgs_per_s ≤ 0.25 of that where transport = udp where loss_pct = 20, transport = tcp");
        let named = checked(Assert { name: Some("TCP collapses".into()), ..relative });
        assert_eq!(named.name, "TCP collapses");
    }
}
