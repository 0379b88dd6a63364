use super::*;
use crate::fixture;
use crate::record::{OwnColumn, Value};

#[test]
fn summary_of_a_run() {
    insta::assert_snapshot!(render(&fixture::manifest(), &fixture::records(), true));
}

#[test]
fn statements_about_other_cells_are_one_line() {
    let mut manifest = fixture::manifest();
    let claim = manifest.claims[0].clone();
    let elsewhere = || {
        let selection = [("loss_pct".to_owned(), Value::Number(77.0))].into();
        crate::record::Claim { selection, text: "Elsewhere.".into(), ..claim.clone() }
    };
    manifest.claims.push(elsewhere());
    manifest.claims.push(elsewhere());
    let text = render(&manifest, &fixture::records(), false);
    assert!(!text.contains("Elsewhere."), "{text}");
    assert_eq!(text.matches("undecided   2 further statements: no cell of this run matches").count(), 1);
}

#[test]
fn a_matrix_is_one_table() {
    insta::assert_snapshot!(render(&fixture::matrix_manifest(), &fixture::matrix_records(), false));
}

#[test]
fn a_matrix_that_is_too_wide_becomes_lines() {
    let mut records = fixture::matrix_records();
    for record in &mut records {
        record.row.mbit_per_s += 1e6;
        record.estimates.clear();
    }
    let text = render(&fixture::matrix_manifest(), &records, false);
    assert!(text.lines().any(|line| line.trim_start().starts_with("1%/10ms ")), "{text}");
    assert_eq!(text.matches("baseline").count(), 1);
    assert!(text.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn two_runs_side_by_side() {
    let (manifest, records) = (fixture::manifest(), fixture::records());
    let repeat = |records: &[Record], factor: f64| -> Vec<Record> {
        let repeats = records.iter().flat_map(|record| (1..=3).map(move |repeat| (record.clone(), repeat)));
        let repeats = repeats.map(|(mut record, repeat)| {
            let factor = if record.row.cell == "1%/tcp" { factor } else { 1.0 };
            record.row.msgs_per_s *= factor * (1.0 + f64::from(repeat) / 1e3);
            record.row.repeat = repeat;
            record
        });
        repeats.collect()
    };
    let (records, other) = (repeat(&records[..10], 1.0), repeat(&records[..8], 0.5));
    let settings = compare::CompareSettings { columns: vec!["msgs_per_s".into()], false_alarms: 0.05, least: 0.02 };
    let compared = compare::compare((&manifest, &records), (&manifest, &other), &settings);
    insta::assert_snapshot!(compared);
}

#[test]
fn many_columns_become_lines() {
    let mut records = fixture::records();
    records.truncate(4);
    for (record, name) in records.iter_mut().zip(["udp", "tcp", "quic", "a very long name of a transport"]) {
        record.row.cell = format!("0%/{name}");
        record.axes[0].1 = "0%".into();
        record.axes[1].1 = name.into();
    }
    let mut manifest = fixture::manifest();
    manifest.axes[1].1 = records.iter().map(|r| r.axes[1].1.clone()).collect();
    manifest.claims.clear();
    let text = render(&manifest, &records, false);
    assert!(text.lines().any(|line| line.split_whitespace().next() == Some("cell")), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("0%/quic ")), "{text}");
}

#[test]
fn fits_the_terminal_and_is_plain_elsewhere() {
    let mut manifest = fixture::manifest();
    manifest.claims[0].text = "A long statement with \x1b[31mcolours. ".repeat(20);
    for styled in [true, false] {
        let text = render(&manifest, &fixture::records(), styled);
        for line in text.lines() {
            let shown = line
                .replace("\x1b[32m", "")
                .replace("\x1b[31m", "")
                .replace("\x1b[33m", "")
                .replace("\x1b[1m", "")
                .replace("\x1b[0m", "");
            assert!(shown.chars().count() <= 80, "{line}");
        }
        assert_eq!(text.contains('\x1b'), styled);
    }
    assert!(!render(&manifest, &fixture::records(), true).contains("with \x1b"));
    assert!(render(&manifest, &[], false).contains("warning: 42 of 42 cells are missing."));
}

#[test]
fn columns_of_the_scenario_come_first_and_others_only_where_they_differ() {
    let (mut manifest, mut records) = (fixture::manifest(), fixture::records());
    records.truncate(4);
    manifest.columns =
        ["found_pct", "seen", "a_third_column_with_a_long_name", "and_a_fourth_with_a_longer_name_still"]
            .map(|name| OwnColumn { name: name.into(), ..OwnColumn::default() })
            .to_vec();
    for (number, record) in records.iter_mut().enumerate() {
        record.estimates.clear();
        record.row.msgs_per_s = 96.0;
        record.row.delay_mean_us = Some(1000.0 * number as f64);
        for own in &manifest.columns {
            record.extra.insert(own.name.clone(), Some(number as f64));
        }
    }
    let names = |manifest: &Manifest| {
        let cells = cells::group(manifest.columns(), &records);
        shown(manifest, &cells).iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&manifest)[..3], ["found_pct", "seen", "a_third_column_with_a_long_name"]);
    manifest.columns.truncate(2);
    let few = names(&manifest);
    assert_eq!(few[..2], ["found_pct", "seen"]);
    assert!(few.contains(&"delay_mean_us".to_owned()) && !few.contains(&"msgs_per_s".to_owned()), "{few:?}");
}
