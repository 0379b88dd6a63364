use super::*;
use crate::fixture;
use crate::record::{OwnColumn, Published, Value};

/// What the script gets.
fn details_of(page: &str) -> serde_json::Value {
    let text = page.split_once("id=\"details\">").unwrap().1.split_once("</script>").unwrap().0;
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_large_run_has_its_first_rows_and_names_the_table() {
    let few = fixture::records();
    let records: Vec<Record> = (0..MAX_ROWS + 500)
        .map(|number| {
            let mut record = few[number % few.len()].clone();
            record.row.cell = format!("cell {number} </script><b>");
            record.remarks = vec!["</script><b>".into()];
            record
        })
        .collect();
    let page = render(&fixture::manifest(), &records).unwrap();
    assert_eq!(page.matches("\n<details>").count(), MAX_ROWS);
    assert!(page.contains("The first 2000 of 2500 rows; <code>results.csv</code> has all of them."));
    // No text of a record ends a script element or is markup.
    assert!(!page.contains("</script><b>") && !page.contains("<b>"));
    assert_eq!(details_of(&page)["cells"].as_array().unwrap().len(), MAX_ROWS);
    assert!(page.len() < 8_000_000, "{}", page.len());
}

#[test]
fn a_page_has_everything() {
    let page = render(&fixture::manifest(), &fixture::records()).unwrap();
    for part in [
        "<h1>UDP and TCP for telemetry under loss</h1>",
        "<span class=\"badge reproduced\">",
        "<span class=\"badge undecided\">not valid</span>",
        "sent 5622 = delivered 5622 + unexplained 0",
        "heartbeat's lateness",
        "congestion control",
        "digest ",
        "Cell 17%/tcp is not valid: after 2 reruns; disturbed: heartbeat 312 ms late.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!((page.matches("<svg ").count(), page.matches("<details>").count()), (3, 42));
    let links = page.matches("http://").count() - page.matches("http://www.w3.org/2000/svg").count();
    assert!(links == 0 && !page.contains("https://"), "nothing is fetched");
}

#[test]
fn hostile_text_stays_text() {
    let evil = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u{0}";
    let (mut manifest, mut records) = (fixture::manifest(), fixture::records());
    manifest.title = evil.into();
    manifest.scenario = evil.into();
    manifest.description = evil.into();
    manifest.source = evil.into();
    manifest.command = vec![evil.into()];
    manifest.network = vec![evil.into()];
    manifest.environment = vec![(evil.into(), evil.into())];
    manifest.claims[0].text = evil.into();
    manifest.claims[0].reading = evil.into();
    manifest.charts[0].title = evil.into();
    manifest.charts[0].caption = evil.into();
    manifest.charts[0].x_label = evil.into();
    manifest.charts[0].y_label = evil.into();
    manifest.published = Some(Published {
        source: evil.into(),
        points: vec![
            [("transport".into(), Value::Text(evil.into())), ("msgs_per_s".into(), Value::Number(1.0))].into(),
        ],
    });
    for record in &mut records {
        record.row.cell = evil.into();
        record.row.transport = evil.into();
        record.remarks = vec![evil.into()];
        record.extra = [(evil.into(), Some(1.0))].into();
        record.axes = vec![(evil.into(), evil.into())];
        record.ledger[0].place = evil.into();
        record.ledger[0].source = evil.into();
        record.drops[0].flow = evil.into();
    }
    let page = render(&manifest, &records).unwrap();
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert_eq!((page.matches("<style").count(), page.matches("</style").count()), (4, 4), "the page's and the charts'");
    // No attribute of ours was ended by a quote of theirs.
    assert!(!page.contains("alert(1)>\"'"));
}

#[test]
fn a_matrix_has_its_timelines_and_stays_small() {
    let page = render(&fixture::matrix_manifest(), &fixture::matrix_records()).unwrap();
    for part in ["id=\"published\"", "<td class=\"n\">37.3 Mbit/s</td>", "The lab itself adds", "<td>baseline</td>"] {
        assert!(page.contains(part), "{part}");
    }
    let details = details_of(&page);
    let drawn = details["cells"].as_array().unwrap().iter().filter(|cell| cell["timelines"][0].is_array()).count();
    assert_eq!(drawn, 266, "one of 267 never connected");
    assert!(page.len() < 4_000_000, "{}", page.len());
}

#[test]
fn a_run_without_results_is_a_page_too() {
    let manifest = Manifest { interrupted: true, ..fixture::manifest() };
    assert!(render(&manifest, &[]).unwrap().contains("The run was interrupted: 0 of 42 cells ran;"));
}

#[test]
fn the_account_adds_up_or_does_not_pretend_to() {
    let mut record = fixture::records()[2].clone();
    let planned = record.row.planned_drops;
    let sum = format!("sent 5622 = delivered {} + planned loss {planned} + unexplained 0", 5622 - planned);
    assert_eq!(equation(&record), sum);
    let [place, unit, source] = ["receiver socket", "datagrams", "InCsumErrors"].map(String::from);
    record.ledger.push(LedgerEntry { place, name: WRONG_CHECKSUM.into(), unit, count: 9, source });
    record.row.delivered -= 9;
    assert!(equation(&record).ends_with(" + wrong checksum 9 + unexplained 0"));
    record.row.planned_drops += 1;
    assert!(equation(&record).contains("; delivered "));
    record.row.unexplained = None;
    assert!(equation(&record).ends_with("unexplained unknown"));
}

#[test]
fn a_transfer_is_counted_in_bytes() {
    let mut record = fixture::matrix_records()[19].clone();
    record.extra = [("received_bytes".into(), Some(22.6e6))].into();
    (record.row.retransmits, record.row.planned_drops, record.row.unexplained) = (Some(156), 162, Some(0));
    let said = "22.6 MB received, 156 segments retransmitted, 162 packets dropped as planned; unexplained 0";
    assert_eq!(equation(&record), said);
}

#[test]
fn columns_of_the_scenario_follow_the_settings_of_a_cell() {
    let (mut manifest, mut records) = (fixture::manifest(), fixture::records());
    manifest.columns = vec![OwnColumn { name: "found_pct".into(), unit: "%".into(), ..OwnColumn::default() }];
    for (number, record) in records.iter_mut().enumerate() {
        record.extra.insert("found_pct".into(), Some(number as f64));
    }
    let page = render(&manifest, &records).unwrap();
    let at = |name: &str| page.find(&format!(">{name}</th>")).unwrap();
    assert!(at("cell") < at("transport") && at("loss_pct") < at("found_pct") && at("found_pct") < at("sent"));
}
