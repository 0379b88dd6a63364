//! From measured cells to files: `results.csv`, `summary.xlsx`, `charts/*.svg`, `report.html`, `junit.xml`.
//!
//! [`record`] is the input; everything else here renders it. A result directory holds its records (`manifest.json`,
//! `cells.jsonl`, see [`store`]), so that it can be rendered again without a run.
//!
//! Records are grouped into [`cells`] (repeats of the same settings); renderers ask those for the [`measured`] value of
//! a column. [`judge`] decides claims and assertions ([`mistakes`] refuses invalid ones), [`answer`] has the short
//! results, [`summary`] the warnings, and [`compare`] compares two runs.
//!
//! [`measured`]: cells::Cell::measured

use std::io;
use std::path::{Path, PathBuf};

use cells::Cell;
use record::{Chart, ChartKind, Manifest, Record, Value};
use store::StoreError;

pub mod answer;
pub mod cells;
pub mod charts;
pub mod columns;
pub mod compare;
pub mod comparison;
pub mod csv;
#[doc(hidden)]
pub mod foreign;
pub mod grid;
pub mod html;
pub mod json;
pub mod judge;
pub mod junit;
pub mod messages;
pub mod mistakes;
pub mod opening;
pub mod record;
#[cfg(feature = "spreadsheet")]
pub mod spreadsheet;
pub mod store;
pub mod summary;
pub mod terminal;
pub mod timelines;

#[cfg(test)]
#[path = "tests/fixture/mod.rs"]
mod fixture;

/// The files of a rendered result directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// `results.csv`.
    pub results: PathBuf,
    /// `summary.xlsx`; `None`: built without the feature `spreadsheet`.
    pub spreadsheet: Option<PathBuf>,
    /// `report.html`.
    pub page: PathBuf,
    /// `junit.xml`; `None`: the run has no assertions.
    pub junit: Option<PathBuf>,
    /// `charts/*.svg`, in the order of the manifest.
    pub charts: Vec<PathBuf>,
}

/// Renders records into a result directory. The same records give the same bytes, at any time.
///
/// `manifest.json` and `cells.jsonl` are not written here, but by the [`Store`](store::Store).
///
/// # Errors
/// A file cannot be written. The table is written first, so that on a full disk the numbers have the best chance.
pub fn write_all(dir: &Path, manifest: &Manifest, records: &[Record]) -> Result<Rendered, StoreError> {
    let results = dir.join("results.csv");
    csv::write(&results, records)?;
    let cells = cells::group(manifest.columns(), records);
    let folder = chart_folder(dir)?;
    let mut drawn = Vec::new();
    for (index, chart) in manifest.charts.iter().enumerate() {
        let path = folder.join(format!("{}.svg", file_name(&chart.name, index)));
        let picture = charts::render(chart, &cells, manifest.published.as_ref());
        store::replace(&path, |out| out.write_all(picture.as_bytes()))?;
        drawn.push(path);
    }
    let page = dir.join("report.html");
    html::write(&page, manifest, records)?;
    let spreadsheet = cfg!(feature = "spreadsheet").then(|| dir.join("summary.xlsx"));
    #[cfg(feature = "spreadsheet")]
    if let Some(path) = &spreadsheet {
        spreadsheet::write(path, manifest, records)?;
    }
    let junit = manifest.claims.iter().any(|claim| claim.required).then(|| dir.join("junit.xml"));
    if let Some(path) = &junit {
        junit::write(path, manifest, records, &judge::judge(manifest, records))?;
    }
    Ok(Rendered { results, spreadsheet, page, junit, charts: drawn })
}

/// Draws the samples of one cell over time: `charts/timeline-CELL.svg`. Each repeat is a line.
///
/// # Errors
/// No such cell, no samples in it, or the file cannot be written.
pub fn write_timeline(dir: &Path, manifest: &Manifest, records: &[Record], cell: &str) -> Result<PathBuf, StoreError> {
    let cells = cells::group(manifest.columns(), records);
    let own: Vec<Cell<'_>> = cells.iter().filter(|known| known.name == cell).cloned().collect();
    let fail = |why: String| Err(StoreError::new("draw cell", Path::new(cell), io::Error::other(why)));
    if own.is_empty() {
        let alike = |known: &Cell<'_>| strsim::jaro_winkler(known.name, cell);
        let nearest = cells.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let hint = nearest.map(|near| format!(", did you mean `{}`?", near.name)).unwrap_or_default();
        return fail(format!("no such cell{hint}"));
    }
    if own.iter().all(|cell| cell.records.iter().all(|record| record.timelines.is_empty())) {
        let those = "only bulk transfers and, with `run.watch`, receivers of datagrams are";
        return fail(format!("nothing was sampled in it ({those})"));
    }
    let name = format!("timeline-{}", store::file_stem(cell));
    let named = std::iter::once(("cell".to_owned(), Value::Text(cell.to_owned()))).collect();
    let title = format!("{cell} over time");
    let chart = Chart { name, title, kind: ChartKind::Time, selection: named, ..Chart::default() };
    let path = chart_folder(dir)?.join(format!("{}.svg", chart.name));
    let picture = charts::render(&chart, &own, None);
    store::replace(&path, |out| out.write_all(picture.as_bytes()))?;
    Ok(path)
}

fn chart_folder(dir: &Path) -> Result<PathBuf, StoreError> {
    let folder = dir.join("charts");
    store::folder(&folder)?;
    Ok(folder)
}

/// A chart's name as a safe file name: a scenario cannot write elsewhere.
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
        store::write_manifest(dir, manifest).unwrap();
        records.iter().for_each(|record| store.append(record).unwrap());

        let read = |paths: &Rendered| -> Vec<Vec<u8>> {
            let files = [&paths.results, &paths.page].into_iter().chain(&paths.spreadsheet).chain(&paths.charts);
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
    fn the_timelines_of_one_cell_are_drawn_or_it_is_said_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let (manifest, records) = (fixture::matrix_manifest(), fixture::matrix_records());
        let path = write_timeline(dir.path(), &manifest, &records, "1%/10ms").unwrap();
        assert_eq!(path, dir.path().join("charts").join("timeline-1%-10ms.svg"));
        assert!(std::fs::read_to_string(path).unwrap().contains("<title>1%/10ms over time</title>"));
        assert!(write_timeline(dir.path(), &manifest, &records, "baseline").is_ok());
        let error = |cell: &str| write_timeline(dir.path(), &manifest, &records, cell).unwrap_err().to_string();
        assert_eq!(error("1%/11ms"), "draw cell 1%/11ms: no such cell, did you mean `1%/1ms`?");
        assert!(error("50%/100ms").contains("nothing was sampled in it"));
    }

    /// Twice the cells take twice the time, and the page stays one that opens at once.
    #[test]
    #[ignore = "long: 10,000 cells"]
    fn ten_thousand_cells() {
        let dir = tempfile::tempdir().unwrap();
        for shape in [fixture::Shape::Messages, fixture::Shape::Bulk, fixture::Shape::Long] {
            let seconds = [5_000, 10_000].map(|cells| {
                let (manifest, records) = fixture::large(shape, cells);
                let started = std::time::Instant::now();
                let rendered = write_all(dir.path(), &manifest, &records).unwrap();
                if let Some(kept) = std::env::var_os("WEIR_FIXTURE_DIR") {
                    std::fs::copy(&rendered.page, Path::new(&kept).join(format!("{shape:?}.html"))).unwrap();
                }
                let bytes = std::fs::metadata(rendered.page).unwrap().len();
                assert!(bytes < 20_000_000, "{bytes}");
                started.elapsed().as_secs_f64()
            });
            println!("{shape:?}: {seconds:.1?} s");
            assert!(seconds[1] < 3.0 * seconds[0] + 1.0, "{shape:?}: {seconds:?}");
        }
    }

    #[test]
    fn a_chart_cannot_leave_its_folder() {
        assert_eq!(file_name("throughput", 0), "throughput");
        assert_eq!(file_name("../../etc/passwd", 1), "etcpasswd2");
        assert_eq!(file_name("", 2), "3");
    }
}
