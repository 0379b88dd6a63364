//! Made-up runs with known differences, and the rate of false alarms between equal ones.

use weir_testbed::random::Source;

use super::*;
use crate::fixture;
use crate::record;

const CELLS: [&str; 4] = ["0%/1ms", "0%/10ms", "1%/1ms", "1%/10ms"];

fn record(cell: &str, repeat: u32, mbit_per_s: f64, delay_mean_us: f64) -> Record {
    let row = record::Row {
        cell: cell.into(),
        repeat,
        mbit_per_s,
        delay_mean_us: Some(delay_mean_us),
        payload_bytes: 1000,
        duration_s: 10.0,
        valid: true,
        ..record::Row::default()
    };
    Record { row, ..Record::default() }
}

/// A run of four cells with lognormal scatter around 100 Mbit/s and 5 ms.
fn repeated(source: &mut Source, repeats: u32, scatter: f64) -> Vec<Record> {
    let cells = CELLS.iter().flat_map(|cell| (1..=repeats).map(move |repeat| (*cell, repeat)));
    cells
        .map(|(cell, repeat)| {
            let mut around = |value: f64| value * (scatter * source.normal()).exp();
            let mbit = around(100.0);
            record(cell, repeat, mbit, around(5000.0))
        })
        .collect()
}

fn settings(least: f64) -> CompareSettings {
    CompareSettings { columns: Vec::new(), false_alarms: 0.05, least }
}

fn compared(a: &[Record], b: &[Record], settings: &CompareSettings) -> Comparison {
    let manifest = Manifest { planned_cells: a.len(), ..fixture::manifest() };
    compare((&manifest, a), (&manifest, b), settings)
}

/// Share of comparisons of equal runs in which anything at all is found.
fn found(mut run: impl FnMut(&mut Source) -> Vec<Record>, comparisons: usize) -> f64 {
    let mut source = Source(2026);
    let differs = |row: &Row| !matches!(row.verdict, Verdict::Same);
    let found = (0..comparisons)
        .filter(|_| {
            let (a, b) = (run(&mut source), run(&mut source));
            let compared = compared(&a, &b, &settings(0.0));
            assert_eq!(compared.rows.len(), 8);
            compared.rows.iter().any(differs)
        })
        .count();
    found as f64 / comparisons as f64
}

/// Three standard deviations of a share of 5 % among so many.
fn at_most_stated(share: f64, comparisons: usize) -> bool {
    share <= 0.05 + 3.0 * (0.05 * 0.95 / comparisons as f64).sqrt()
}

#[test]
fn equal_runs_with_repeats_alarm_no_more_often_than_stated() {
    for (repeats, scatter) in [(3, 0.02), (3, 0.3), (10, 0.1)] {
        let share = found(|source| repeated(source, repeats, scatter), 1500);
        assert!(at_most_stated(share, 1500), "{repeats} repeats: {share}");
        assert!(share > 0.02, "{repeats} repeats: {share} is more timid than need be");
    }
}

#[test]
fn what_is_worse_is_found_in_its_cell_alone() {
    let mut source = Source(7);
    let a = repeated(&mut source, 5, 0.01);
    let mut b = a.clone();
    for record in b.iter_mut().filter(|record| record.row.cell == CELLS[2]) {
        record.row.mbit_per_s *= 0.8;
        record.row.delay_mean_us = record.row.delay_mean_us.map(|delay| delay * 0.8);
    }
    let found = compared(&a, &b, &settings(0.02));
    let verdict = |cell: &str, column: &str| {
        found.rows.iter().find(|row| row.cell == cell && row.column == column).unwrap().verdict
    };
    assert_eq!(verdict(CELLS[2], "mbit_per_s"), Verdict::Worse);
    assert_eq!(verdict(CELLS[2], "delay_mean_us"), Verdict::Better);
    assert_eq!(found.rows.iter().filter(|row| row.verdict != Verdict::Same).count(), 2);
    assert!(found.alarms());
    let ratio = found.rows.iter().find(|row| row.verdict == Verdict::Worse).unwrap().ratio.unwrap();
    assert!((ratio.value - 0.8).abs() < 1e-9 && ratio.low > 0.79 && ratio.high < 0.81, "{ratio:?}");
}

#[test]
fn what_cannot_be_tested_is_undecided() {
    let run = |repeats: u32, mbit: f64| (1..=repeats).map(|n| record("a", n, mbit, 5.0)).collect::<Vec<_>>();
    let reason = |a: &[Record], b: &[Record]| {
        let row = compared(a, b, &settings(0.02)).rows.remove(0);
        (row.verdict, row.reason.unwrap_or_default())
    };
    let few = "2 valid pairs of repeats, but 3 are needed (--repeat)";
    assert_eq!(reason(&run(2, 1.0), &run(3, 1.0)), (Verdict::Undecided, few.into()));
    let mut disturbed = run(3, 1.0);
    disturbed[1].row.valid = false;
    assert_eq!(reason(&run(3, 1.0), &disturbed), (Verdict::Undecided, few.into()));
    let zero = (Verdict::Undecided, "a value is 0, so there is no ratio".to_owned());
    assert_eq!(reason(&run(3, 0.0), &run(3, 1.0)), zero);
    assert_eq!(reason(&run(3, 0.0), &run(3, 0.0)), (Verdict::Same, String::new()));
    // Equal by chance: a small difference is not one that no repeat contradicts.
    assert_eq!(reason(&run(3, 1.0), &run(3, 1.021)).0, Verdict::Same);
    assert_eq!(reason(&run(3, 1.0), &run(3, 1.2)).0, Verdict::Better);
}

#[test]
fn shares_are_compared_by_their_difference() {
    let run = |lost: f64| {
        let share = |n: u32| Some(lost + f64::from(n) * 1e-5);
        let record = |n| Record { extra: [("lost_share".into(), share(n))].into(), ..record("a", n, 1.0, 1.0) };
        (1..=4).map(record).collect::<Vec<_>>()
    };
    let settings = CompareSettings { columns: vec!["lost_share".into()], ..settings(0.02) };
    let verdict = |a: f64, b: f64| compared(&run(a), &run(b), &settings).rows[0].verdict;
    assert_eq!(verdict(0.0, 0.05), Verdict::Worse, "a loss of 0 is no obstacle");
    assert_eq!((verdict(0.05, 0.01), verdict(0.05, 0.05)), (Verdict::Better, Verdict::Same));
    assert_eq!(verdict(0.5, 0.505), Verdict::Same, "one part in a hundred");
}

#[test]
fn columns_that_a_run_does_not_have_are_refused() {
    let (manifest, records) = (fixture::manifest(), fixture::records());
    let check = |name: &str| check_columns(&[name.to_owned()], &manifest, &records);
    assert_eq!(check("msgs_per_s"), Ok(()));
    assert_eq!(check("valid"), Err("column `valid` is not a measured number".into()));
    assert_eq!(check("loss_pct"), Err("column `loss_pct` is not a measured number".into()));
    assert_eq!(check("msg_per_s"), Err("no column `msg_per_s`, did you mean `msgs_per_s`?".into()));
    assert!(check("traced_drops").is_err(), "known, but not of this run");
}

/// Programs send, not the lab: what their scenario calls better or worse is compared unasked, from 0 on, too.
#[test]
fn columns_of_a_scenario_that_have_a_direction_are_compared_unasked() {
    let run = |lost: f64| -> Vec<Record> {
        let of = |repeat: u32| {
            let mut record = record("single", repeat, 0.0, 5000.0);
            record.row.delay_mean_us = None;
            record.extra.insert("lost_pct".into(), Some(lost * (1.0 + f64::from(repeat) / 100.0)));
            record
        };
        (1..=3).map(of).collect()
    };
    let (name, unit, better) = ("lost_pct".into(), "%".into(), Some(Better::Lower));
    let columns = vec![record::OwnColumn { name, unit, better, statistic: Statistic::Counter }];
    let manifest = Manifest { planned_cells: 3, columns, ..fixture::manifest() };
    let verdicts = |a: &[Record], b: &[Record]| -> Vec<(String, Verdict)> {
        let rows = compare((&manifest, a), (&manifest, b), &settings(0.02)).rows;
        rows.into_iter().map(|row| (row.column, row.verdict)).collect()
    };
    let of = |verdict| vec![("lost_pct".to_owned(), verdict)];
    assert_eq!(verdicts(&run(0.0), &run(5.0)), of(Verdict::Worse));
    assert_eq!(verdicts(&run(5.0), &run(0.0)), of(Verdict::Better));
    assert_eq!(
        [verdicts(&run(0.0), &run(0.0)), verdicts(&run(5.0), &run(5.0))],
        [of(Verdict::Same), of(Verdict::Same)]
    );
}
