//! `report.html` of a large run, in a real browser: it opens from a file, and shows its first rows.

use tempfile::TempDir;
use weir_report::record::{LedgerEntry, Manifest, Record, Row, Timeline};
use weir_report::store::{self, Store};

use super::{Ended, weir};
use crate::sflow::page::run_with;

/// More than a page has rows of.
const CELLS: u64 = 2500;

#[test]
fn a_report_of_many_cells_opens_with_its_first_rows() {
    let dir = TempDir::new().unwrap();
    let manifest: Manifest = serde_json::from_value(serde_json::json!({
        "format": 1, "weir_version": "0", "scenario": "many", "title": "Many cells", "description": "",
        "command": [], "source": "", "seed": 1, "started": "2026-01-01T00:00:00Z", "elapsed_s": 1.0,
        "planned_cells": CELLS, "interrupted": false, "axes": [], "environment": [], "network": [], "charts": [],
        "published": null, "claims": [],
    }))
    .unwrap();
    let mut store = Store::create(dir.path()).unwrap();
    store::write_manifest(dir.path(), &manifest).unwrap();
    (0..CELLS).for_each(|number| store.append(&record(number)).unwrap());
    let report = Ended::of(&mut weir(&["lab", "report", dir.path().to_str().unwrap()]));
    assert_eq!(report.status, Some(0), "{report:?}");
    let page = dir.path().join("report.html");
    run_with("report.mjs", &[("REPORT", page.to_str().unwrap()), ("CELLS", &CELLS.to_string())]);
}

/// With a name that a page must not take for markup.
fn record(number: u64) -> Record {
    let count = |place: &str, count: u64| {
        let [place, name, unit, source] = [place, "sent", "messages", "sender"].map(String::from);
        LedgerEntry { place, name, unit, count: count as i64, source }
    };
    let timeline = Timeline { name: "cwnd_bytes".into(), points: (0..50).map(|t| (f64::from(t), 1e4)).collect() };
    Record {
        row: Row {
            scenario: "many".into(),
            cell: format!("cell {number:04} </script><b>"),
            repeat: 1,
            transport: "udp".into(),
            duration_s: 1.0,
            sent: 2 * CELLS - number,
            delivered: CELLS,
            valid: true,
            ..Row::default()
        },
        ledger: vec![count("sender", CELLS)],
        timelines: if number % 2 == 1 { vec![timeline] } else { Vec::new() },
        ..Record::default()
    }
}
