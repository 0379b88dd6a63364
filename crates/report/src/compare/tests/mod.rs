//! Made-up runs with known differences, and the rate of false alarms between equal ones.

mod power;
mod rows;

use weir_stats::{Estimate, intervals};
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

/// A single run of four cells: 32 batches of a first-order autoregression whose own mean is off by `between` times the
/// standard error that it has by itself.
fn single(source: &mut Source, correlation: f64, between: f64) -> Vec<Record> {
    // Batches of 50 samples keep a correlation of 0.1 between neighbours if that of the samples is 0.9.
    let per_batch = if correlation == 0.0 { 1 } else { 50 };
    let mut batches = |mean: f64| {
        let deviation = 0.5 * mean;
        // Of the mean of n correlated samples: s / sqrt(n) * sqrt((1 + r) / (1 - r)).
        let error = deviation / (32.0 * per_batch as f64).sqrt() * ((1.0 + correlation) / (1.0 - correlation)).sqrt();
        let off = between * error * source.normal();
        let mut x = source.normal();
        let sums: Vec<f64> = (0..32)
            .map(|_| {
                (0..per_batch)
                    .map(|_| {
                        x = correlation * x + (1.0 - correlation * correlation).sqrt() * source.normal();
                        mean + off + deviation * x
                    })
                    .sum()
            })
            .collect();
        intervals::batch_means(&sums, &[per_batch as f64; 32]).unwrap()
    };
    CELLS
        .iter()
        .map(|cell| {
            let (mbit, delay): (Estimate, Estimate) = (batches(100.0), batches(5000.0));
            let mut record = record(cell, 1, mbit.value, delay.value);
            record.estimates = [("mbit_per_s".into(), mbit), ("delay_mean_us".into(), delay)].into();
            record
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
    let differs = |row: &Row| !matches!(row.verdict, Verdict::NoDifference);
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
fn equal_single_runs_alarm_no_more_often_than_stated() {
    // Independent samples and strongly correlated ones; runs that do not differ by themselves, and as much as is taken.
    for (correlation, between) in [(0.0, 0.0), (0.0, 3f64.sqrt()), (0.9, 3f64.sqrt())] {
        let share = found(|source| single(source, correlation, between), 300);
        assert!(at_most_stated(share, 300), "correlation {correlation}, between {between}: {share}");
    }
}

#[test]
fn what_the_lab_adds_to_delays_is_no_difference() {
    let cost = |median: f64| {
        let delay = record::Quantiles { values: vec![(0.5, median)], ..record::Quantiles::default() };
        record::OwnCost { delay, n: 1000, seconds: 1.0, transport: "udp".into() }
    };
    let run = |delay: f64| (1..=5).map(|n| record("0%/1ms", n, 100.0, delay + f64::from(n))).collect::<Vec<_>>();
    let verdict = |delays: [f64; 2], costs: [f64; 2]| {
        let runs = delays.map(run);
        let manifest = |cost_us| Manifest { planned_cells: 5, own_cost: Some(cost(cost_us)), ..fixture::manifest() };
        let (a, b) = (manifest(costs[0]), manifest(costs[1]));
        let settings = CompareSettings { columns: vec!["delay_mean_us".into()], ..settings(0.02) };
        compare((&a, &runs[0]), (&b, &runs[1]), &settings).rows[0].verdict
    };
    assert_eq!(verdict([81.0, 106.0], [5.0, 5.0]), Verdict::Worse);
    assert_eq!(verdict([81.0, 106.0], [45.0, 20.0]), Verdict::NoDifference);
    assert_eq!(verdict([106.0, 81.0], [45.0, 20.0]), Verdict::NoDifference);
    assert_eq!(verdict([97.0, 391.0], [45.0, 20.0]), Verdict::Worse);
    // Beside longer delays it is nothing.
    assert_eq!(verdict([10_000.0, 10_600.0], [45.0, 20.0]), Verdict::Worse);
}

#[test]
fn a_drop_is_found_and_named() {
    let mut source = Source(5);
    let a = repeated(&mut source, 5, 0.02);
    let mut b = repeated(&mut source, 5, 0.02);
    for record in b.iter_mut().filter(|record| record.row.cell == "1%/1ms") {
        record.row.mbit_per_s *= 0.7;
    }
    let found = compared(&a, &b, &settings(0.02));
    let alarms: Vec<(&str, &str)> = found
        .rows
        .iter()
        .filter(|row| row.verdict != Verdict::NoDifference)
        .map(|row| (row.cell.as_str(), row.column.as_str()))
        .collect();
    assert_eq!(alarms, [("1%/1ms", "mbit_per_s")]);
    let row = found.rows.iter().find(|row| row.verdict == Verdict::Worse).unwrap();
    let ratio = row.ratio.unwrap();
    assert!(ratio.low < 0.7 && 0.7 < ratio.high && ratio.high < 0.98, "{ratio:?}");
    assert_eq!(row.basis, Some(Basis::Repeats(5)));
    assert!(found.alarms());
    // The other way round it is better, and no alarm.
    let back = compared(&b, &a, &settings(0.02));
    assert_eq!(back.rows.iter().filter(|row| row.verdict == Verdict::Better).count(), 1);
    assert!(!back.alarms());
    // A delay that rises is worse, too.
    b.iter_mut().for_each(|record| record.row.delay_mean_us = record.row.delay_mean_us.map(|delay| delay * 2.0));
    let worse = compared(&a, &b, &settings(0.02)).rows;
    assert!(worse.iter().filter(|row| row.column == "delay_mean_us").all(|row| row.verdict == Verdict::Worse));
}

#[test]
fn what_is_smaller_than_the_least_never_alarms() {
    let a: Vec<Record> = (1..=10).map(|repeat| record("a", repeat, 100.0 + f64::from(repeat), 10.0)).collect();
    let mut b = a.clone();
    b.iter_mut().for_each(|record| record.row.mbit_per_s *= 0.99);
    assert!(compared(&a, &b, &settings(0.0)).alarms());
    assert!(!compared(&a, &b, &settings(0.02)).alarms());
}

#[test]
fn a_single_run_finds_a_collapse_and_no_trifle() {
    let mut source = Source(9);
    let a = single(&mut source, 0.5, 0.0);
    let mut b = single(&mut source, 0.5, 0.0);
    let estimate = b[0].estimates["mbit_per_s"].times(0.5);
    b[0].row.mbit_per_s = estimate.value;
    b[0].estimates.insert("mbit_per_s".into(), estimate);
    let rows = compared(&a, &b, &settings(0.02)).rows;
    assert_eq!((rows[0].verdict, rows[0].basis), (Verdict::Worse, Some(Basis::Batches)));
    assert!(rows[1..].iter().all(|row| row.verdict == Verdict::NoDifference), "{rows:?}");
    // Down to nothing at all: there is no logarithm.
    let nothing = Estimate { value: 0.0, low: 0.0, high: 0.0, ..estimate };
    b[0].row.mbit_per_s = 0.0;
    b[0].estimates.insert("mbit_per_s".into(), nothing);
    let rows = compared(&a, &b, &settings(0.02)).rows;
    assert_eq!((rows[0].verdict, rows[0].ratio.unwrap().value), (Verdict::Worse, 0.0));
}

#[test]
fn what_cannot_be_tested_says_why() {
    let run = |valid: bool, delay: Option<f64>| {
        let mut record = record("a", 1, 100.0, 0.0);
        (record.row.valid, record.row.delay_mean_us) = (valid, delay);
        vec![record]
    };
    let reasons = |a: &[Record], b: &[Record], columns: &[&str]| -> Vec<String> {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        let rows = compared(a, b, &CompareSettings { columns, ..settings(0.02) }).rows;
        assert!(rows.iter().all(|row| row.verdict == Verdict::Undecided));
        rows.into_iter().map(|row| row.reason.unwrap()).collect()
    };
    let good = run(true, Some(10.0));
    let too_few = "too few repeats (1 valid in both, 3 needed)";
    assert_eq!(reasons(&good, &good, &["mbit_per_s", "sent"]), [too_few, too_few]);
    assert_eq!(reasons(&good, &run(false, Some(10.0)), &["mbit_per_s"]), ["not valid in B"]);
    assert_eq!(reasons(&run(true, None), &good, &["delay_mean_us"]), ["not measured in A"]);
    // Nobody asked for the delay, and nobody measured it.
    assert_eq!(compared(&run(true, None), &run(true, None), &settings(0.0)).rows.len(), 1);
}

#[test]
fn repeats_that_are_not_valid_have_no_partner() {
    let run = |repeats: u32| (1..=repeats).map(|repeat| record("a", repeat, 100.0, 10.0)).collect::<Vec<_>>();
    let (a, mut b) = (run(4), run(4));
    b[1].row.valid = false;
    assert_eq!(compared(&a, &b, &settings(0.0)).rows[0].basis, Some(Basis::Repeats(3)));
    b[2].row.valid = false;
    let reason = compared(&a, &b, &settings(0.0)).rows.remove(0).reason;
    assert_eq!(reason.as_deref(), Some("too few repeats (2 valid in both, 3 needed)"));
}

#[test]
fn what_is_undecided_tells_how_many_repeats_it_needs() {
    let few = [record("a", 1, 100.0, 10.0), record("b", 1, 100.0, 10.0)];
    let mut void = few.clone();
    void[1].row.valid = false;
    let settings = CompareSettings { columns: vec!["mbit_per_s".to_owned()], ..settings(0.02) };
    let of = |b: &[Record]| {
        let compared = compared(&few, b, &settings);
        let told = compared.assurance().pop().unwrap();
        (serde_json::to_value(&compared).unwrap(), told)
    };
    let needed = "for want of repeats: 3 that are valid in both runs are needed (--repeat 3)";
    let (json, told) = of(&few);
    assert_eq!(told, format!("2 of 2 comparisons are undecided: nothing is known of these; {needed}"));
    assert_eq!((&json["undecided"], &json["rows"][0]["repeats_needed"]), (&2.into(), &3.into()));
    assert_eq!(json["rows"][0]["verdict"], "undecided");
    // More of what is not valid would not help.
    let (json, told) = of(&void);
    assert_eq!(told, format!("2 of 2 comparisons are undecided: nothing is known of these; 1 of them {needed}"));
    assert_eq!((&json["undecided"], &json["rows"][1]["repeats_needed"]), (&2.into(), &serde_json::Value::Null));
}

#[test]
fn runs_that_are_not_alike_are_warned_of() {
    let a = vec![record("a", 1, 1.0, 1.0), record("b", 1, 1.0, 1.0)];
    let b: Vec<Record> = [("b", 60.0), ("c", 60.0)]
        .map(|(cell, duration_s)| {
            let mut record = record(cell, 1, 1.0, 1.0);
            record.row.duration_s = duration_s;
            record
        })
        .into();
    let manifest = |seed| Manifest { seed, planned_cells: 2, ..fixture::manifest() };
    let compared = compare((&manifest(1), &a), (&manifest(2), &b[..]), &settings(0.0));
    assert_eq!((compared.only_a, compared.only_b), (vec!["a".to_owned()], vec!["c".to_owned()]));
    assert_eq!(compared.warnings, ["the runs differ in seed (1 in A, 2 in B), duration (10 s in A, 60 s in B)"]);
    let incomplete = compare((&manifest(1), &a[..1]), (&manifest(1), &a), &settings(0.0));
    assert_eq!(incomplete.warnings, ["A is not complete: 1 of 2 cells"]);
}

#[test]
fn columns_are_checked() {
    let check = |name: &str| check_columns(&[name.to_owned()], &fixture::records());
    assert_eq!(check("mbit_per_s"), Ok(()));
    assert_eq!(check("mbit_per_sec"), Err("no column `mbit_per_sec`, did you mean `mbit_per_s`?".into()));
    assert_eq!(check("loss_pct"), Err("column `loss_pct` is set by the scenario: nothing to compare".into()));
    assert_eq!(check("valid"), Err("column `valid` is yes or no: nothing to compare".into()));
    assert_eq!(check("path.loss"), Err("`path.loss` is an axis of the sweep: nothing to compare".into()));
    // What this version knows, and the run did not measure: the comparison says so.
    assert_eq!(check("traced_drops"), Ok(()));
    // What another version measured: its ending says nothing.
    let mut older = fixture::records();
    older.iter_mut().for_each(|record| record.extra.push(("late_share".into(), Some(0.5))));
    let refused = check_columns(&["late_share".into()], &older).unwrap_err();
    assert!(refused.starts_with("column `late_share` is of another version of weir, not compared"), "{refused}");
}
