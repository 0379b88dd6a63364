//! How what is made of a run grows with its cells: time and memory by their number, no more. What is counted are
//! allocations, and fields of records that are looked up, for a machine has moods.

mod sys;

use std::path::Path;

use crate::columns::lookups;
use crate::compare::{self, CompareSettings};
use crate::fixture::{Shape, large};
use crate::record::{Manifest, Record};
use crate::store::{self, Store};
use crate::{html, terminal, write_all};

const SHAPES: [Shape; 3] = [Shape::Messages, Shape::Bulk, Shape::Long];

/// Cells of a large run, and of one that is [`TIMES`] as large.
const CELLS: usize = 600;
const TIMES: usize = 4;

/// What something takes.
#[derive(Clone, Copy, Debug)]
struct Taken {
    allocations: u64,
    lookups: u64,
}

fn taken(of: impl FnOnce()) -> Taken {
    let before = (sys::allocations(), lookups());
    of();
    Taken { allocations: sys::allocations() - before.0, lookups: lookups() - before.1 }
}

/// By how much more than its number of cells the larger run takes.
#[track_caller]
fn is_linear(what: &str, shape: Shape, of: impl Fn(&Manifest, &[Record])) {
    let [small, large] = [CELLS, CELLS * TIMES].map(|cells| {
        let (manifest, records) = large(shape, cells);
        taken(|| of(&manifest, &records))
    });
    let growth = |small: u64, large: u64| (large as f64 / small as f64).log(TIMES as f64);
    let (allocations, lookups) = (growth(small.allocations, large.allocations), growth(small.lookups, large.lookups));
    // Sorting takes a little more.
    assert!(allocations < 1.1 && lookups < 1.1, "{what}, {shape:?}: {small:?} {large:?}, {allocations} {lookups}");
}

#[test]
fn a_report_grows_by_its_cells() {
    for shape in SHAPES {
        let dir = tempfile::tempdir().unwrap();
        is_linear("files", shape, |manifest, records| drop(write_all(dir.path(), manifest, records).unwrap()));
    }
}

#[test]
fn what_a_terminal_shows_grows_by_its_cells() {
    for shape in SHAPES {
        is_linear("terminal", shape, |manifest, records| drop(terminal::render(manifest, records, true)));
    }
}

#[test]
fn a_comparison_grows_by_its_cells() {
    let settings = CompareSettings { columns: Vec::new(), false_alarms: 0.05, least: 0.02 };
    for shape in SHAPES {
        is_linear("comparison", shape, |manifest, records| {
            let both = (manifest, records);
            drop(terminal::comparison(&compare::compare(both, both, &settings)));
        });
    }
}

/// What a browser has to take in before anybody asks for more: no more for a larger run than for a large one.
#[test]
fn what_a_page_opens_with_stays_the_same() {
    for shape in SHAPES {
        let dir = tempfile::tempdir().unwrap();
        let [large, larger] = [1_600, 3_200].map(|cells| {
            let (manifest, records) = large(shape, cells);
            let path = dir.path().join("report.html");
            html::write(&path, &manifest, &records).unwrap();
            let page = std::fs::read_to_string(&path).unwrap();
            let shown = page.split("<script type=\"application/octet-stream\"").next().unwrap();
            shown.matches("</").count() + shown.matches("/>").count()
        });
        println!("{shape:?}: {large} elements, {larger}");
        assert!(larger < 40_000 && larger as f64 <= 1.2 * large as f64, "{shape:?}: {large} {larger}");
    }
}

fn stored(dir: &Path, shape: Shape, cells: usize) {
    let (manifest, records) = large(shape, cells);
    let mut store = Store::create(dir).unwrap();
    store.manifest(&manifest).unwrap();
    records.iter().for_each(|record| store.append(record).unwrap());
}

/// What is read to be compared is a tenth of the file.
#[test]
fn what_is_read_stays_small() {
    for (shape, most, most_columns) in [(Shape::Messages, 9_000, 3_500), (Shape::Bulk, 16_000, 3_500)] {
        let dir = tempfile::tempdir().unwrap();
        stored(dir.path(), shape, CELLS);
        let bytes = |read: &dyn Fn() -> (Manifest, Vec<Record>)| {
            let before = sys::held();
            sys::most_held();
            let (_, records) = read();
            assert_eq!(records.len(), CELLS);
            let fits = |record: &Record| {
                record.drops.iter().all(|of| of.indexes.capacity() == of.indexes.len())
                    && record.timelines.iter().all(|of| of.points.capacity() == of.points.len())
            };
            assert!(records.iter().all(fits), "room that nothing comes into");
            (sys::held() - before, sys::most_held() - before)
        };
        let (held, peak) = bytes(&|| store::read(dir.path()).unwrap());
        let (columns, peak_of_columns) = bytes(&|| store::read_columns(dir.path()).unwrap());
        let each = |bytes: i64| bytes / CELLS as i64;
        println!("{shape:?}: {} of {}, columns {} of {}", each(held), each(peak), each(columns), each(peak_of_columns));
        assert!(each(peak) < most && each(peak_of_columns) < most_columns, "{shape:?}: {peak} {peak_of_columns}");
        assert!(peak < held + 1_000_000 && peak_of_columns < columns + 1_000_000, "the file is never held");
    }
}

/// What `weir lab report` and `weir lab compare` hold at most of a result of `WEIR_GROWTH_MEMORY` cells, of each shape, and how
/// much of that is resident; 15 kB a cell, 150 MB of 10,000, is the goal:
///
/// ```text
/// WEIR_GROWTH_MEMORY=10000 cargo test --release -p weir-report --lib growth::a_large_result_fits -- --nocapture
/// ```
#[test]
fn a_large_result_fits_into_memory() {
    let cells = std::env::var("WEIR_GROWTH_MEMORY").ok().and_then(|cells| cells.parse::<usize>().ok());
    let Some(cells) = cells else { return };
    let settings = CompareSettings { columns: Vec::new(), false_alarms: 0.05, least: 0.02 };
    let goal = 15_000 * cells as i64;
    let mut exceeded = Vec::new();
    for shape in SHAPES {
        let dir = tempfile::tempdir().unwrap();
        stored(dir.path(), shape, cells);
        let mut measure = |what: &str, of: &dyn Fn()| {
            let before = sys::held();
            sys::most_held();
            // Resident is from now on, not what storing took.
            let reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
            of();
            let held = sys::most_held() - before;
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let resident = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
            let since = if reset { "" } else { " (of the whole test)" };
            println!("{shape:?}, {cells} cells, {what}: {} kB held at most; {resident}{since}", held / 1000);
            if held > goal {
                exceeded.push(format!("{shape:?}, {what}: {held}"));
            }
        };
        measure("report", &|| {
            let (manifest, records) = store::read(dir.path()).unwrap();
            drop(write_all(dir.path(), &manifest, &records).unwrap());
        });
        measure("compare", &|| {
            let [a, b] = [0, 1].map(|_| store::read_columns(dir.path()).unwrap());
            drop(terminal::comparison(&compare::compare((&a.0, &a.1), (&b.0, &b.1), &settings)));
        });
    }
    assert!(exceeded.is_empty(), "more than {goal} bytes: {}", exceeded.join("; "));
}

/// With `WEIR_GROWTH_DIR` set, leaves results of `WEIR_GROWTH_CELLS` cells there, to be measured.
#[test]
fn large_results_are_left_where_asked() {
    let Some(dir) = std::env::var_os("WEIR_GROWTH_DIR") else { return };
    let cells = std::env::var("WEIR_GROWTH_CELLS").ok().and_then(|cells| cells.parse().ok()).unwrap_or(10_000);
    for shape in SHAPES {
        stored(&Path::new(&dir).join(format!("{shape:?}-{cells}").to_lowercase()), shape, cells);
    }
}
