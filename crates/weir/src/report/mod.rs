//! From measured cells to files: `results.csv`, `summary.xlsx`, `charts/*.svg`, `report.html`, `junit.xml`.
//!
//! [`record`] is what a room hands over; everything else here renders it. A result directory holds its records
//! (`manifest.json`, `cells.jsonl`, see [`store`]), so that it can be rendered again without running anything.
//!
//! Records are grouped into [`cells`] (repeats of the same settings); renderers ask those for what was [`measured`]
//! in a column, [`claims`] and [`comparison`] hold it against what others published, [`asserts`] against what a scenario demands, and
//! [`summary`] puts it in words. [`compare`] holds two runs against one another.
//!
//! [`measured`]: cells::Cell::measured

use std::path::{Path, PathBuf};

use record::{Manifest, Record};
use store::StoreError;

pub mod asserts;
pub mod axis;
pub mod cells;
pub mod charts;
pub mod claims;
pub mod columns;
pub mod compare;
pub mod comparison;
pub mod csv;
pub mod format;
pub mod grid;
pub mod html;
pub mod junit;
pub mod palette;
pub mod pivot;
pub mod record;
pub mod spreadsheet;
pub mod store;
pub mod summary;
pub mod svg;
pub mod terminal;
pub mod timelines;

#[cfg(test)]
mod fixture;

/// The files of a rendered result directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// `results.csv`.
    pub results: PathBuf,
    /// `summary.xlsx`.
    pub spreadsheet: PathBuf,
    /// `report.html`.
    pub page: PathBuf,
    /// `junit.xml`; `None`: the run has no assertions.
    pub junit: Option<PathBuf>,
    /// `charts/*.svg`, in the order of the manifest.
    pub charts: Vec<PathBuf>,
}

/// Renders records into a result directory. The same records give the same bytes, at any time.
///
/// `manifest.json` and `cells.jsonl` are not written: that is the [`Store`](store::Store)'s.
///
/// # Errors
/// A file cannot be written. The table comes first, so that on a full disk the numbers have the best chance.
pub fn write_all(dir: &Path, manifest: &Manifest, records: &[Record]) -> Result<Rendered, StoreError> {
    let results = dir.join("results.csv");
    csv::write(&results, records)?;
    let folder = dir.join("charts");
    std::fs::create_dir_all(&folder).map_err(|error| StoreError::new("create directory", &folder, error))?;
    let cells = cells::group(records);
    let mut drawn = Vec::new();
    for (index, chart) in manifest.charts.iter().enumerate() {
        let path = folder.join(format!("{}.svg", file_name(&chart.name, index)));
        let picture = charts::render(chart, &cells, manifest.published.as_ref());
        store::replace(&path, |out| out.write_all(picture.as_bytes()))?;
        drawn.push(path);
    }
    let page = dir.join("report.html");
    html::write(&page, manifest, records)?;
    let spreadsheet = dir.join("summary.xlsx");
    spreadsheet::write(&spreadsheet, manifest, records)?;
    let junit = (!manifest.asserts.is_empty()).then(|| dir.join("junit.xml"));
    if let Some(path) = &junit {
        junit::write(path, manifest, records, &asserts::check(manifest, records))?;
    }
    Ok(Rendered { results, spreadsheet, page, junit, charts: drawn })
}

/// A chart's name as a file may be called: a scenario cannot write elsewhere.
fn file_name(name: &str, index: usize) -> String {
    let safe: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(64).collect();
    if safe == name && !safe.is_empty() { safe } else { format!("{safe}{}", index + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `WEIR_FIXTURE_DIR` set, leaves the made-up runs' reports there, to be looked at.
    #[test]
    fn rendering_again_changes_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let kept = std::env::var_os("WEIR_FIXTURE_DIR").map(PathBuf::from);
        let dir = kept.as_deref().unwrap_or(temporary.path());
        twice(&dir.join("telemetry"), &fixture::manifest(), &fixture::records());
        twice(&dir.join("matrix"), &fixture::matrix_manifest(), &fixture::matrix_records());
    }

    fn twice(dir: &Path, manifest: &Manifest, records: &[Record]) {
        let mut store = store::Store::create(dir).unwrap();
        store.manifest(manifest).unwrap();
        records.iter().for_each(|record| store.append(record).unwrap());

        let read = |paths: &Rendered| -> Vec<Vec<u8>> {
            let files = [&paths.results, &paths.spreadsheet, &paths.page].into_iter().chain(&paths.charts);
            files.map(|path| std::fs::read(path).unwrap()).collect()
        };
        let first = write_all(dir, manifest, records).unwrap();
        let bytes = read(&first);
        assert_eq!(first.charts.len(), manifest.charts.len());
        let stored = store::read(dir).unwrap();
        let again = write_all(dir, &stored.0, &stored.1).unwrap();
        assert_eq!(first, again);
        assert_eq!(bytes, read(&again));
    }

    #[test]
    fn a_chart_cannot_leave_its_folder() {
        assert_eq!(file_name("throughput", 0), "throughput");
        assert_eq!(file_name("../../etc/passwd", 1), "etcpasswd2");
        assert_eq!(file_name("", 2), "3");
    }
}
