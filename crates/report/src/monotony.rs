//! Does more loss or more latency ever help? A surface that rises somewhere tells of a fault, or of a disturbed cell.

use weir_units::format;

use crate::cells::Cell;
use crate::columns;
use crate::grid::{Grid, MATRIX};

/// The joint confidence of all comparisons.
const CONFIDENCE: f64 = 0.99;

/// From so many repeats on, a cell's interval is that over them (see [`Cell::measured`]).
const FEWEST_REPEATS: usize = 3;

/// Neighbouring cells of a run over loss and latency, compared.
#[derive(Clone, Debug)]
pub struct Monotony {
    /// Pairs of neighbours along either axis.
    pub pairs: usize,
    /// Of these with an interval on both sides, both valid: those that were compared.
    pub compared: usize,
    /// The level of each interval, at which all hold jointly with 99 % (Bonferroni).
    pub level: f64,
    /// Whether the intervals are those over repeats: batches of one run say nothing of how runs differ.
    pub repeated: bool,
    /// Where the surface rises.
    pub violations: Vec<Violation>,
}

/// A cell whose interval lies wholly above that of its predecessor.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The cell.
    pub cell: String,
    /// Its predecessor: with less loss or less latency, all else equal.
    pub before: String,
    /// The column that grows between the two.
    pub along: &'static str,
    /// Value and interval of the cell, Mbit/s.
    pub measured: (f64, f64, f64),
    /// Value and interval of the predecessor.
    pub earlier: (f64, f64, f64),
}

impl Monotony {
    /// Compares the neighbours of the grids; `None` without grids or without anything to compare.
    pub fn check(grids: &[Grid<'_>]) -> Option<Self> {
        let [down, across, rate] = MATRIX;
        let mut neighbours: Vec<(&'static str, &Cell<'_>, &Cell<'_>)> = Vec::new();
        for (grid, (row, column, cell)) in grids.iter().flat_map(|grid| grid.iter().map(move |at| (grid, at))) {
            let above = row.checked_sub(1).and_then(|row| grid.cells[row][column]);
            let left = column.checked_sub(1).and_then(|column| grid.cells[row][column]);
            neighbours.extend(above.map(|before| (down, before, cell)));
            neighbours.extend(left.map(|before| (across, before, cell)));
        }
        let level = 1.0 - (1.0 - CONFIDENCE) / neighbours.len().max(1) as f64;
        // What carried nothing in one run may carry something in the next: its batches, all 0, hide that.
        let interval = |cell: &Cell<'_>| {
            cell.measured(rate).filter(|measured| cell.believes(rate) && measured.value() > 0.0)?.interval(level)
        };
        let mut violations = Vec::new();
        let mut compared = 0;
        for &(along, before, cell) in &neighbours {
            let (Some(earlier), Some(measured)) = (interval(before), interval(cell)) else {
                continue;
            };
            compared += 1;
            if measured.1 > earlier.2 {
                let (cell, before) = (cell.name.to_owned(), before.name.to_owned());
                violations.push(Violation { cell, before, along, measured, earlier });
            }
        }
        let repeated = neighbours.iter().all(|(_, _, cell)| cell.records.len() >= FEWEST_REPEATS);
        (compared > 0).then_some(Self { pairs: neighbours.len(), compared, level, repeated, violations })
    }

    /// The outcome in a sentence.
    pub fn sentence(&self) -> String {
        let by = if self.repeated { "" } else { " by what varies within each run" };
        let sure = format!("jointly at {} confidence{by}", format::percent(CONFIDENCE));
        let of = format!("{} pairs of neighbours", self.compared);
        let rest = match self.pairs - self.compared {
            0 => String::new(),
            n => format!(" ({n} more carried nothing, have no interval or are not valid)"),
        };
        match &self.violations[..] {
            [] => format!("Throughput falls along loss and latency: in none of {of}{rest} does it rise, {sure}."),
            violations => {
                format!("Throughput rises with loss or latency in {} of {of}{rest}, {sure}.", violations.len())
            }
        }
    }
}

impl Violation {
    /// In words: `2%/1ms, 12.1 Mbit/s (11 to 13), over 1%/1ms, 8 Mbit/s (7 to 9)`.
    pub fn words(&self) -> String {
        let word = |value| columns::words(MATRIX[2], value);
        let ends = |(value, low, high)| format!("{} ({} to {})", word(value), word(low), word(high));
        format!("{}, {}, over {}, {}", self.cell, ends(self.measured), self.before, ends(self.earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Estimate, Method};
    use crate::{cells, fixture};

    #[test]
    fn rises_are_found_along_both_axes() {
        let mut records = fixture::matrix_records();
        let check = |records: &[_]| {
            let cells = cells::group(records);
            Monotony::check(&Grid::matrix(&cells)).unwrap()
        };
        let falling = check(&records);
        assert_eq!(falling.pairs, 18 * 14 + 19 * 13);
        // Two neighbours of the one that never connected, four of the one that is not valid.
        assert_eq!((falling.compared, falling.violations.len()), (499 - 6, 0));
        assert!((falling.level - (1.0 - 0.01 / 499.0)).abs() < 1e-12);
        assert!(falling.sentence().contains("in none of 493 pairs of neighbours (6 more"), "{}", falling.sentence());

        // 3 %, 10 ms: higher than at 2 % and than at 5 ms.
        let at = records.iter().position(|record| record.row.cell == "3%/10ms").unwrap();
        let estimate = Estimate { value: 50.0, low: 49.0, high: 51.0, n: 32, method: Method::BatchMeans };
        records[at].row.mbit_per_s = 50.0;
        records[at].estimates.insert("mbit_per_s".into(), estimate);
        let rising = check(&records);
        let found: Vec<_> = rising.violations.iter().map(|v| (v.before.as_str(), v.cell.as_str(), v.along)).collect();
        assert_eq!(found, [("2%/10ms", "3%/10ms", "loss_pct"), ("3%/5ms", "3%/10ms", "latency_ms")]);
        assert!(rising.violations[0].words().starts_with("3%/10ms, 50 Mbit/s (4"), "{}", rising.violations[0].words());

        // Above one that carried nothing it is none either.
        let zero = Estimate { value: 0.0, low: 0.0, high: 0.0, ..estimate };
        let mut nothing = records.clone();
        nothing[at - 1].row.mbit_per_s = 0.0;
        nothing[at - 1].estimates.insert("mbit_per_s".into(), zero);
        assert_eq!(check(&nothing).violations.len(), 1);

        // Within its interval it is no rise.
        records[at].estimates.insert("mbit_per_s".into(), Estimate { low: 1.0, high: 99.0, ..estimate });
        assert!(check(&records).violations.is_empty());
    }
}
