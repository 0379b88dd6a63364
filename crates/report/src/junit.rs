//! `junit.xml`: the assertions of a run, and whether its cells are valid, for a CI server.
//!
//! The format has no standard; this is the part that Jenkins, GitLab, GitHub actions and others agree on: suites,
//! cases, `failure` (an assertion does not hold), `error` (a cell could not be measured), `skipped`.

use std::io;
use std::path::Path;

use askama::Template;

use crate::charts::escape;
use crate::judge::{Judged, Verdict};
use crate::record::{Manifest, Record};
use crate::store::{self, StoreError};

/// Its texts are escaped already.
#[derive(Template)]
#[template(path = "junit.xml", escape = "none")]
struct Report {
    scenario: String,
    elapsed_s: f64,
    /// Without the time zone, which the schema of most servers (JUnit.xsd of windyroad) does not allow.
    begun: String,
    suites: [(&'static str, Vec<Case>); 2],
}

struct Case {
    name: String,
    time_s: f64,
    /// Tag, type, message.
    trouble: Option<(&'static str, &'static str, String)>,
}

/// Writes the file. The same records give the same bytes.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, manifest: &Manifest, records: &[Record], judged: &[Judged]) -> Result<(), StoreError> {
    let repeated = records.iter().any(|record| record.row.repeat > 1);
    let asserts = judged.iter().filter(|judged| judged.claim.required).map(of_assert).collect();
    let cells = records.iter().map(|record| of_cell(record, repeated)).collect();
    let report = Report {
        scenario: escape(&manifest.scenario),
        elapsed_s: manifest.elapsed_s.max(0.0),
        begun: escape(manifest.started.trim_end_matches('Z')),
        suites: [("asserts", asserts), ("cells", cells)],
    };
    let text = report.render().map_err(|error| StoreError::new("render", path, io::Error::other(error)))?;
    store::replace(path, |out| out.write_all(text.as_bytes()))
}

impl Report {
    fn all(&self, tag: &str) -> usize {
        self.suites.iter().map(|(_, cases)| with(cases, tag)).sum()
    }
}

/// Cases with this tag; all for an empty tag.
fn with(cases: &[Case], tag: &str) -> usize {
    cases.iter().filter(|case| tag.is_empty() || case.trouble.as_ref().is_some_and(|trouble| trouble.0 == tag)).count()
}

fn time(cases: &[Case]) -> f64 {
    cases.iter().map(|case| case.time_s).sum()
}

fn of_assert(judged: &Judged) -> Case {
    let trouble = match judged.verdict {
        Verdict::Reproduced => None,
        Verdict::Refuted | Verdict::Undecided => Some(("failure", "assert", escape(&judged.sentence()))),
        Verdict::Skipped => Some(("skipped", "duration", escape(&judged.reason))),
    };
    Case { name: escape(&judged.name), time_s: 0.0, trouble }
}

fn of_cell(record: &Record, repeated: bool) -> Case {
    let row = &record.row;
    let why = || ("error", "disturbed", escape(&format!("not valid: {}", record.remarks.join("; "))));
    let name = if repeated { format!("{} #{}", row.cell, row.repeat) } else { row.cell.clone() };
    Case { name: escape(&name), time_s: row.duration_s.max(0.0), trouble: (!row.valid).then(why) }
}

#[cfg(test)]
mod tests {
    use quick_xml::events::Event;

    use super::*;
    use crate::record::Claim;
    use crate::{fixture, judge};

    fn written(manifest: &Manifest, records: &[Record]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("junit.xml");
        write(&path, manifest, records, &judge::judge(manifest, records)).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    fn manifest(name: &str) -> Manifest {
        let assert = |name: &str, at_least, min_duration_s| Claim {
            text: name.into(),
            required: true,
            selection: [("loss_pct".into(), crate::record::Value::Number(0.0))].into(),
            column: "sent".into(),
            at_least: Some(at_least),
            at_most: None,
            min_duration_s,
            ..fixture::manifest().claims[0].clone()
        };
        let claims = vec![assert("all sent", 1.0, None), assert(name, 1e9, None), assert("long", 1.0, Some(1200.0))];
        Manifest { claims, planned_cells: 2, ..fixture::manifest() }
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
