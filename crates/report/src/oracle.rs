//! Throughput against what a model of TCP expects: a sanity check of the lab, cell by cell.
//!
//! The models are those of [`tcp_models`](weir_stats::tcp_models); their values are added columns of a record.

use weir_units::format;

use crate::cells::Cell;
use crate::columns;
use crate::grid::MATRIX;

/// Added columns: the model's value, and the ends of the band around it, Mbit/s.
pub const COLUMNS: [&str; 3] = ["model_mbit", "model_low_mbit", "model_high_mbit"];

/// A cell and what the model expects there, Mbit/s.
#[derive(Clone, Debug)]
pub struct Expectation<'a> {
    /// The cell.
    pub cell: &'a Cell<'a>,
    /// What was measured.
    pub measured: f64,
    /// The model's value.
    pub model: f64,
    /// The band around it.
    pub band: (f64, f64),
}

impl Expectation<'_> {
    /// Measured over expected.
    pub fn ratio(&self) -> f64 {
        self.measured / self.model
    }

    /// Whether the measured value lies in the band.
    pub fn holds(&self) -> bool {
        (self.band.0..=self.band.1).contains(&self.measured)
    }
}

/// The cells of the sweep that a model says something about. It knows nothing of connections that never came up, so
/// those that carried nothing are left out, as are cells that are not valid.
pub fn expectations<'a>(cells: &'a [Cell<'a>]) -> Vec<Expectation<'a>> {
    let expectation = |cell: &'a Cell<'a>| {
        let [model, low, high] = COLUMNS.map(|column| columns::number(cell.first(), column));
        let measured = cell.measured(MATRIX[2])?.value();
        let usable = !cell.beside && cell.believes(MATRIX[2]) && measured > 0.0;
        Some(Expectation { cell, measured, model: model.filter(|m| *m > 0.0)?, band: (low?, high?) }).filter(|_| usable)
    };
    cells.iter().filter_map(expectation).collect()
}

/// How many cells keep to the band, in a sentence; `None` if no model says anything.
pub fn sentence(expectations: &[Expectation<'_>]) -> Option<String> {
    let outside: Vec<&Expectation<'_>> = expectations.iter().filter(|expectation| !expectation.holds()).collect();
    let all = expectations.len();
    let within = "the band of a factor of 3 around the models of TCP (Mathis below 2 % loss, PFTK above)";
    let farthest = outside.iter().max_by(|a, b| a.ratio().ln().abs().total_cmp(&b.ratio().ln().abs()));
    Some(match (all, farthest) {
        (0, _) => return None,
        (_, None) => format!("All {all} cells with loss lie within {within}."),
        (_, Some(farthest)) => format!(
            "Of {all} cells with loss {} lie above {within} and {} below; {} is the farthest, with {} times the model's \
             value.",
            outside.iter().filter(|expectation| expectation.ratio() > 1.0).count(),
            outside.iter().filter(|expectation| expectation.ratio() < 1.0).count(),
            farthest.cell.name,
            format::short(farthest.ratio())
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cells, fixture};

    #[test]
    fn cells_are_held_against_the_model() {
        let mut records = fixture::matrix_records();
        let cells = cells::group(&records);
        // 19 x 14, without the loss-free row, the one that never connected, and the one that is not valid.
        assert_eq!(expectations(&cells).len(), 266 - 14 - 2);
        assert!(sentence(&expectations(&cells)).unwrap().starts_with("All 250 cells with loss lie within the band"));

        let model = columns::number(&records[20], "model_mbit").unwrap();
        records[20].row.mbit_per_s = model * 4.0;
        records[20].estimates.clear();
        records[30].row.mbit_per_s = columns::number(&records[30], "model_mbit").unwrap() / 5.0;
        records[30].estimates.clear();
        let cells = cells::group(&records);
        let said = sentence(&expectations(&cells)).unwrap();
        assert!(said.starts_with("Of 250 cells with loss 1 lie above the band"), "{said}");
        assert!(said.contains(" and 1 below; 2%/3ms is the farthest, with 0.2 times"), "{said}");
        assert!(sentence(&expectations(&cells::group(&fixture::records()))).is_none());
    }
}
