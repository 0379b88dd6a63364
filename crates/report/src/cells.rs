//! A cell with its repeats.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_stats::{Method, intervals};

use crate::columns::{self, Columns, Kind};
use crate::record::{Estimate, Record, Value};

/// A cell: all its repeats, in the order of the records.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its repeats; at least one.
    pub records: Vec<&'a Record>,
    /// Whether it is an extra cell (e.g. a baseline): it appears in tables, but not on the axes of a chart.
    pub beside: bool,
    /// The columns of the run.
    pub columns: Columns<'a>,
}

/// The measured value of a column of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// An estimate with its interval.
    Estimate(Estimate),
    /// Exact for the run: the value, and the min and max of the repeats.
    Exact(f64, f64, f64),
    /// A value whose uncertainty is not known.
    Bare(f64),
}

impl Measured {
    /// The value.
    pub fn value(&self) -> f64 {
        match *self {
            Measured::Estimate(estimate) => estimate.value,
            Measured::Exact(value, ..) | Measured::Bare(value) => value,
        }
    }

    /// Value and interval at a level of confidence. `None`: a bare value.
    pub fn interval(&self, confidence: f64) -> Option<(f64, f64, f64)> {
        match *self {
            Measured::Estimate(estimate) => {
                let (low, high) = estimate.interval(confidence);
                Some((estimate.value, low, high))
            }
            Measured::Exact(value, low, high) => Some((value, low, high)),
            Measured::Bare(_) => None,
        }
    }
}

/// What the repeats of a cell share: its name and its axes.
type Key<'a> = (&'a str, &'a [(String, String)]);

/// Groups records by cell, in the order of first appearance. A cell with fewer axes than the others is an extra cell.
pub fn group<'a>(columns: Columns<'a>, records: &'a [Record]) -> Vec<Cell<'a>> {
    let mut cells: Vec<Cell<'_>> = Vec::new();
    let max = records.iter().map(|record| record.axes.len()).max().unwrap_or(0);
    // By its axes too: records of several receivers of one cell are not repeats of each other.
    let mut known: HashMap<Key<'_>, usize> = HashMap::new();
    for record in records {
        let index = *known.entry((&record.row.cell, &record.axes)).or_insert(cells.len());
        match cells.get_mut(index) {
            Some(cell) => cell.records.push(record),
            None => {
                let beside = record.axes.len() < max;
                cells.push(Cell { name: &record.row.cell, records: vec![record], beside, columns });
            }
        }
    }
    cells
}

/// The axes with several values among those in `columns`: these identify a cell.
pub fn further_axes(cells: &[&Cell<'_>], columns: &[&str]) -> Vec<String> {
    let place = |cell: &Cell<'_>| columns.iter().map(|name| columns::text(cell.first(), name)).collect::<Vec<_>>();
    let keys = cells.first().map(|cell| cell.first().axes.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
    let places: BTreeSet<_> = cells.iter().map(|cell| place(cell)).collect();
    let several = |key: &String| {
        let values: BTreeSet<_> = cells.iter().map(|cell| (place(cell), columns::text(cell.first(), key))).collect();
        values.len() > places.len()
    };
    keys.unwrap_or_default().into_iter().filter(several).collect()
}

/// The value of an axis for a heading: a word stands alone, a number gets the axis' name.
pub fn heading(axis: &str, value: String) -> String {
    if value.starts_with(|c: char| c.is_ascii_digit()) { format!("{axis} {value}") } else { value }
}

impl<'a> Cell<'a> {
    /// The first repeat: all have its settings.
    pub fn first(&self) -> &'a Record {
        self.records[0]
    }

    /// Whether it has these values. An extra cell matches only by name.
    pub fn is_in(&self, selection: &BTreeMap<String, Value>) -> bool {
        (!self.beside || selection.contains_key("cell"))
            && selection.iter().all(|(key, value)| columns::matches(self.first(), key, value))
    }

    /// Whether at least one repeat is valid for a column.
    pub fn believes(&self, column: &str) -> bool {
        self.records.iter().any(|record| self.believed(record, column))
    }

    /// Why none is valid, as text; empty if one is, or no reason is known.
    pub fn doubts(&self, column: &str) -> String {
        let why = |statistic| self.records.iter().find_map(|record| record.disturbed.get(&statistic));
        let why = self.columns.get(column).and_then(|known| why(known.statistic));
        if self.believes(column) { String::new() } else { why.cloned().unwrap_or_default() }
    }

    fn believed(&self, record: &Record, column: &str) -> bool {
        self.columns.get(column).map_or(record.row.valid, |known| record.believes(known.statistic))
    }

    /// The repeats that are valid for a column (all, if none is).
    fn used(&self, column: &str) -> impl Iterator<Item = &'a Record> {
        let believes = self.believes(column);
        self.records.iter().copied().filter(move |record| !believes || self.believed(record, column))
    }

    /// The mean of an estimate over three repeats or more, with the variation of the batches or trials within them, and
    /// the ratio of the actual variation of the repeats to it. `None`: a repeat has neither.
    pub fn pooled(&self, column: &str) -> Option<(Estimate, f64)> {
        let estimates: Option<Vec<Estimate>> =
            self.used(column).map(|record| record.estimates.get(column).copied()).collect();
        intervals::pooled(&estimates.filter(|estimates| estimates.len() > 2)?)
    }

    /// The column over its valid repeats (over all, if none is). `None`: none of them has a value.
    ///
    /// An estimate has Student's interval over three repeats or more, the mean of two, or the interval of the only one.
    /// An extreme is the max of all. Other columns and axes are exact: their mean, with the range over the repeats.
    pub fn measured(&self, column: &str) -> Option<Measured> {
        let values: Vec<f64> = self.used(column).filter_map(|record| columns::number(record, column)).collect();
        let estimates: Vec<Estimate> =
            self.used(column).filter_map(|record| record.estimates.get(column).copied()).collect();
        let (first, n) = (*values.first()?, values.len() as f64);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = values.iter().sum::<f64>() / n;
        let kind = self.columns.kind(column);
        let is_axis = self.first().axes.iter().any(|(key, _)| key == column);
        let estimated = kind.map_or(!is_axis, |kind| kind == Kind::Estimate) || !estimates.is_empty();
        Some(match (estimated, values.len(), &estimates[..]) {
            _ if kind == Some(Kind::Extreme) => Measured::Exact(high, high, high),
            (false, ..) => Measured::Exact(mean, low, high),
            (true, 3.., _) => intervals::repeats(&values).map_or(Measured::Bare(mean), Measured::Estimate),
            (true, 2, [a, b]) => Measured::Estimate(mean_of_two(*a, *b)),
            (true, 1, [only]) => Measured::Estimate(*only),
            (true, 1, _) => Measured::Bare(first),
            (true, ..) => Measured::Bare(mean),
        })
    }
}

/// The mean of two independent estimates: their half widths add up in squares.
fn mean_of_two(a: Estimate, b: Estimate) -> Estimate {
    let value = (a.value + b.value) / 2.0;
    let low = value - (a.value - a.low).hypot(b.value - b.low) / 2.0;
    let high = value + (a.high - a.value).hypot(b.high - b.value) / 2.0;
    // A mean of two shares is not a share of whole trials: only its ends are known.
    let method = if a.method == b.method && a.method == Method::BatchMeans { a.method } else { Method::Ratio };
    Estimate { value, low, high, n: a.n.min(b.n), method }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    fn record(repeat: u32, msgs_per_s: f64, delay_max_us: f64, valid: bool) -> Record {
        let row =
            Row { cell: "a".into(), repeat, msgs_per_s, delay_max_us: Some(delay_max_us), valid, ..Row::default() };
        let e = Estimate {
            value: msgs_per_s,
            low: msgs_per_s - 3.0,
            high: msgs_per_s + 3.0,
            n: 32,
            method: Method::BatchMeans,
        };
        Record { row, estimates: [("msgs_per_s".into(), e)].into(), ..Record::default() }
    }

    #[test]
    fn repeats_are_put_together() {
        let records = [record(1, 90.0, 5.0, true), record(2, 94.0, 9.0, true), record(3, 0.0, 99.0, false)];
        let cells = group(Columns::default(), &records);
        assert_eq!(cells.len(), 1);
        let Some(Measured::Estimate(two)) = cells[0].measured("msgs_per_s") else { panic!() };
        assert!((two.value - 92.0).abs() < 1e-9 && (two.high - 92.0 - 18f64.sqrt() / 2.0).abs() < 1e-9);
        let worst = Some(Measured::Exact(9.0, 9.0, 9.0));
        assert_eq!((cells[0].measured("delay_max_us"), cells[0].believes("delay_max_us")), (worst, true));
        assert_eq!(
            cells[0].measured("repeat"),
            Some(Measured::Exact(2.0, 1.0, 3.0)),
            "a setting is one whatever happened"
        );
        assert_eq!(cells[0].measured("delay_mean_us"), None);

        let three = [record(1, 90.0, 5.0, true), record(2, 94.0, 9.0, true), record(3, 98.0, 1.0, true)];
        let Some(Measured::Estimate(e)) = group(Columns::default(), &three)[0].measured("msgs_per_s") else { panic!() };
        assert_eq!((e.value, e.method, e.n), (94.0, Method::Repeats, 3));
    }

    #[test]
    fn receivers_are_no_repeats_and_a_baseline_lies_beside() {
        let at = |receiver: &str, mut record: Record| {
            record.axes = vec![("path.loss".into(), "1%".into()), ("receiver".into(), receiver.into())];
            record
        };
        let baseline = Record { row: Row { cell: "baseline".into(), ..Row::default() }, ..Record::default() };
        let records = [at("r1", record(1, 90.0, 5.0, true)), at("r2", record(1, 80.0, 5.0, true)), baseline];
        let cells = group(Columns::default(), &records);
        assert_eq!(cells.iter().map(|cell| cell.beside).collect::<Vec<_>>(), [false, false, true]);
        let swept: Vec<&Cell<'_>> = cells.iter().filter(|cell| !cell.beside).collect();
        assert_eq!(further_axes(&swept, &["path.loss"]), ["receiver"]);
        assert!(further_axes(&swept, &["path.loss", "receiver"]).is_empty());
        assert!(!group(Columns::default(), &records[2..])[0].beside, "without axes there is nothing to lie beside");
    }
}
