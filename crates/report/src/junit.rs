//! `junit.xml`: the assertions of a run, and whether its cells are valid, for a CI server.
//!
//! The format has no standard; this is the part that Jenkins, GitLab, GitHub actions and the like agree on: suites,
//! cases, `failure` (an assertion does not hold), `error` (a cell could not be measured), `skipped`.

use std::io;
use std::path::Path;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::asserts::{Checked, State};
use crate::record::{Manifest, Record};
use crate::store::{self, StoreError};

/// Writes the file. The same records give the same bytes.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, manifest: &Manifest, records: &[Record], checked: &[Checked]) -> Result<(), StoreError> {
    store::replace(path, |out| {
        let suites = [of_asserts(checked), of_cells(records)];
        let mut xml = Writer::new_with_indent(out, b' ', 2);
        xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let count = |result: fn(&Outcome) -> bool| {
            suites.iter().flat_map(|suite| &suite.cases).filter(|case| result(&case.outcome)).count().to_string()
        };
        let (tests, time) = (count(|_| true), format!("{:.3}", manifest.elapsed_s));
        xml.create_element("testsuites")
            .with_attribute(("name", printable(&format!("weir lab {}", manifest.scenario)).as_str()))
            .with_attribute(("tests", tests.as_str()))
            .with_attribute(("failures", count(Outcome::is_failure).as_str()))
            .with_attribute(("errors", count(Outcome::is_error).as_str()))
            .with_attribute(("time", time.as_str()))
            .write_inner_content(|xml| suites.iter().try_for_each(|suite| suite.write(xml, manifest)))?;
        xml.into_inner().write_all(b"\n")
    })
}

struct Suite {
    name: &'static str,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    time: f64,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Failed(String),
    Disturbed(String),
    Skipped(String),
}

impl Outcome {
    fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    fn is_error(&self) -> bool {
        matches!(self, Self::Disturbed(_))
    }

    fn is_skipped(&self) -> bool {
        matches!(self, Self::Skipped(_))
    }
}

fn of_asserts(checked: &[Checked]) -> Suite {
    let case = |checked: &Checked| Case {
        name: checked.name.clone(),
        time: 0.0,
        outcome: match checked.state {
            State::Pass => Outcome::Passed,
            State::Fail => Outcome::Failed(checked.sentence()),
            State::Skipped => Outcome::Skipped(checked.reason.clone()),
        },
    };
    Suite { name: "asserts", cases: checked.iter().map(case).collect() }
}

fn of_cells(records: &[Record]) -> Suite {
    let repeated = records.iter().any(|record| record.row.repeat > 1);
    let case = |record: &Record| Case {
        name: if repeated { format!("{} #{}", record.row.cell, record.row.repeat) } else { record.row.cell.clone() },
        time: record.row.duration_s,
        outcome: if record.row.valid {
            Outcome::Passed
        } else {
            Outcome::Disturbed(format!("not valid: {}", record.remarks.join("; ")))
        },
    };
    Suite { name: "cells", cases: records.iter().map(case).collect() }
}

impl Suite {
    fn write(&self, xml: &mut Writer<&mut dyn io::Write>, manifest: &Manifest) -> io::Result<()> {
        let count =
            |result: fn(&Outcome) -> bool| self.cases.iter().filter(|case| result(&case.outcome)).count().to_string();
        let time = format!("{:.3}", self.cases.iter().map(|case| case.time).sum::<f64>());
        let class = printable(&format!("weir.{}.{}", manifest.scenario, self.name));
        xml.create_element("testsuite")
            .with_attribute(("name", self.name))
            .with_attribute(("tests", self.cases.len().to_string().as_str()))
            .with_attribute(("failures", count(Outcome::is_failure).as_str()))
            .with_attribute(("errors", count(Outcome::is_error).as_str()))
            .with_attribute(("skipped", count(Outcome::is_skipped).as_str()))
            .with_attribute(("time", time.as_str()))
            .with_attribute(("timestamp", printable(manifest.started.trim_end_matches('Z')).as_str()))
            .write_inner_content(|xml| self.cases.iter().try_for_each(|case| case.write(xml, &class)))?;
        Ok(())
    }
}

impl Case {
    fn write(&self, xml: &mut Writer<&mut dyn io::Write>, class: &str) -> io::Result<()> {
        let case = xml
            .create_element("testcase")
            .with_attribute(("classname", class))
            .with_attribute(("name", printable(&self.name).as_str()))
            .with_attribute(("time", format!("{:.3}", self.time).as_str()));
        let (element, kind, message) = match &self.outcome {
            Outcome::Passed => {
                case.write_empty()?;
                return Ok(());
            }
            Outcome::Failed(message) => ("failure", "assert", message),
            Outcome::Disturbed(message) => ("error", "disturbed", message),
            Outcome::Skipped(message) => ("skipped", "duration", message),
        };
        let message = printable(message);
        case.write_inner_content(|xml| {
            xml.create_element(element)
                .with_attribute(("type", kind))
                .with_attribute(("message", message.as_str()))
                .write_text_content(BytesText::new(&message))?;
            Ok(())
        })?;
        Ok(())
    }
}

/// Without the characters that XML 1.0 cannot hold in any form (section 2.2).
fn printable(text: &str) -> String {
    let allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|c| if allowed(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
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
