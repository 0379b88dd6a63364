//! From measured cells to files: `results.csv`, `summary.xlsx`, `charts/*.svg`, `report.html`.
//!
//! [`record`] is what a room hands over; everything else here renders it. A result directory holds its records
//! (`manifest.json`, `cells.jsonl`), so that it can be rendered again without running anything.

pub mod axis;
pub mod cells;
pub mod charts;
pub mod claims;
pub mod columns;
pub mod comparison;
pub mod csv;
pub mod format;
pub mod pivot;
pub mod record;
pub mod spreadsheet;
pub mod store;
pub mod summary;
pub mod svg;
pub mod terminal;

#[cfg(test)]
mod fixture;

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves the made-up run's report in `WEIR_FIXTURE_DIR`, to be looked at.
    #[test]
    fn fixture_is_drawn() {
        let Some(dir) = std::env::var_os("WEIR_FIXTURE_DIR").map(std::path::PathBuf::from) else {
            return;
        };
        let records = fixture::records();
        let manifest = fixture::manifest();
        spreadsheet::write(&dir.join("summary.xlsx"), &manifest, &records).unwrap();
        for chart in &manifest.charts {
            let drawn = charts::render(chart, &cells::group(&records), manifest.published.as_ref());
            std::fs::write(dir.join(format!("{}.svg", chart.name)), drawn).unwrap();
        }
    }
}
