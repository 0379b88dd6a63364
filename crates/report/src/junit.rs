//! `junit.xml`: the assertions of a run, and whether its cells are valid, for a CI server.
//!
//! The format has no standard; this is the part that Jenkins, GitLab, GitHub actions and the like agree on: suites,
//! cases, `failure` (an assertion does not hold), `error` (a cell could not be measured), `skipped`.

use std::io;
use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::asserts::{Checked, State};
use crate::record::{Manifest, Record};
use crate::store::{self, StoreError};

/// Writes the file. The same records give the same bytes.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, manifest: &Manifest, records: &[Record], checked: &[Checked]) -> Result<(), StoreError> {
    let repeated = records.iter().any(|record| record.row.repeat > 1);
    let mut report = Report::new(printable(&format!("weir lab {}", manifest.scenario)));
    report.set_time(seconds(manifest.elapsed_s));
    report.add_test_suite(suite("asserts", manifest, checked.iter().map(of_assert)));
    report.add_test_suite(suite("cells", manifest, records.iter().map(|record| of_cell(record, repeated))));
    store::replace(path, |out| report.serialize(out).map_err(io::Error::other))
}

fn suite(name: &str, manifest: &Manifest, cases: impl Iterator<Item = TestCase>) -> TestSuite {
    let mut suite = TestSuite::new(name);
    let class = printable(&format!("weir.{}.{name}", manifest.scenario));
    for mut case in cases {
        case.set_classname(&class);
        suite.add_test_case(case);
    }
    suite.set_time(suite.test_cases.iter().filter_map(|case| case.time).sum());
    // Without the zone, for which the schema that most servers go by (JUnit.xsd of windyroad) has no place.
    suite.extra.insert("timestamp".into(), printable(manifest.started.trim_end_matches('Z')).into());
    suite
}

fn of_assert(checked: &Checked) -> TestCase {
    let status = match checked.state {
        State::Pass => TestCaseStatus::success(),
        State::Fail => because(TestCaseStatus::non_success(NonSuccessKind::Failure), "assert", &checked.sentence()),
        State::Skipped => because(TestCaseStatus::skipped(), "duration", &checked.reason),
    };
    case(&checked.name, 0.0, status)
}

fn of_cell(record: &Record, repeated: bool) -> TestCase {
    let row = &record.row;
    let status = if row.valid {
        TestCaseStatus::success()
    } else {
        let why = format!("not valid: {}", record.remarks.join("; "));
        because(TestCaseStatus::non_success(NonSuccessKind::Error), "disturbed", &why)
    };
    let name = if repeated { format!("{} #{}", row.cell, row.repeat) } else { row.cell.clone() };
    case(&name, row.duration_s, status)
}

fn case(name: &str, time_s: f64, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(printable(name), status);
    case.set_time(seconds(time_s));
    case
}

/// Some servers show the message, others the text.
fn because(mut status: TestCaseStatus, kind: &str, message: &str) -> TestCaseStatus {
    let message = printable(message);
    status.set_type(kind).set_message(&message).set_description(message);
    status
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Without the characters that XML 1.0 cannot hold in any form (section 2.2). quick-junit removes some of them, so that two
/// names could become one, and leaves U+FFFE and U+FFFF.
fn printable(text: &str) -> String {
    let allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|c| if allowed(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use quick_xml::events::Event;

    use super::*;
    use crate::record::{Assert, IntervalUse};
    use crate::{asserts, fixture};

    fn written(manifest: &Manifest, records: &[Record]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("junit.xml");
        write(&path, manifest, records, &asserts::check(manifest, records)).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    fn manifest(name: &str) -> Manifest {
        let assert = |name: &str, at_least, min_duration_s| Assert {
            name: Some(name.into()),
            selection: [("loss_pct".into(), crate::record::Value::Number(0.0))].into(),
            relative_to: None,
            column: "sent".into(),
            at_least: Some(at_least),
            at_most: None,
            confidence: 0.95,
            interval: IntervalUse::Inside,
            min_duration_s,
        };
        let asserts = vec![assert("all sent", 1.0, None), assert(name, 1e9, None), assert("long", 1.0, Some(1200.0))];
        Manifest { asserts, planned_cells: 2, ..fixture::manifest() }
    }

    #[test]
    fn a_run_as_a_ci_server_reads_it() {
        let mut records = fixture::records()[..2].to_vec();
        records[1].row.valid = false;
        records[1].row.transport = "other".into();
        records[1].row.loss_pct = 1.0;
        records[1].remarks = vec!["the machine stood still for 40 ms".into()];
        insta::assert_snapshot!(written(&manifest("enough & <more>"), &records));
    }

    #[test]
    fn no_name_breaks_the_file() {
        let name = "\u{0}\u{1b}[31m\"'<![CDATA[ ]]> & \u{ffff}\u{1f600}";
        let text = written(&manifest(name), &fixture::records()[..2]);
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut names = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "testcase" => {
                    let name = tag.try_get_attribute("name").unwrap().unwrap();
                    names.push(quick_xml::escape::unescape(&name.value).unwrap().into_owned());
                }
                _ => {}
            }
        }
        let expected = "\u{fffd}\u{fffd}[31m\"'<![CDATA[ ]]> & \u{fffd}\u{1f600}";
        assert_eq!(names, ["all sent", expected, "long", "0%/udp", "0%/tcp"]);
    }
}
