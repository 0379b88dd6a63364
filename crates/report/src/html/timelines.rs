//! Timelines for the page's script: drawn when a cell's account is opened, from data that is small enough to embed.

use std::io;

use serde::Serialize;
use weir_units::format;

use crate::record::{Record, Standstill, Timeline};
use crate::{columns, timelines};

/// Points of all lines together: what a page of some 3 MB has room for.
const BUDGET: usize = 150_000;
/// Points of a line, at most and at least.
const MOST: usize = 200;
const LEAST: usize = 24;

/// How the timelines of a run are told.
pub(super) struct Sampled<'a> {
    names: Vec<&'a str>,
    /// Points of a line.
    most: usize,
}

/// All of a run, or what is said before the parts.
#[derive(Serialize)]
struct Whole<'a> {
    quantities: Vec<QuantityData<'a>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    part: Option<Part<'a>>,
}

/// The timelines of some records.
#[derive(Serialize)]
pub(super) struct Part<'a> {
    /// By the number of the cell's account.
    cells: Vec<Vec<LineData<'a>>>,
    /// By the same: start and length of each standstill, ms.
    standstills: Vec<String>,
}

#[derive(Serialize)]
struct QuantityData<'a> {
    heading: String,
    unit: &'a str,
}

/// Quantity, connection, times and values. Numbers are in text: shorter than as JSON's own.
#[derive(Serialize)]
struct LineData<'a>(usize, &'a str, String, String);

impl<'a> Sampled<'a> {
    /// Of these records.
    pub(super) fn new(records: &'a [Record]) -> Self {
        let lines: usize = records.iter().map(|record| record.timelines.len()).sum();
        let names = timelines::quantities(&records.iter().collect::<Vec<_>>());
        Self { names, most: (BUDGET / lines.max(1)).clamp(LEAST, MOST) }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Those of all records as JSON that is safe within a script element; empty if there are none.
    pub(super) fn whole(&self, records: &[Record]) -> io::Result<String> {
        self.json(Some(self.of(records)))
    }

    /// The same without the timelines themselves.
    pub(super) fn head(&self) -> io::Result<String> {
        self.json(None)
    }

    /// The timelines of some of the records.
    pub(super) fn of<'r>(&self, records: &'r [Record]) -> Part<'r> {
        let cells = records.iter().map(|record| record.timelines.iter().map(|timeline| self.line(timeline)).collect());
        Part { cells: cells.collect(), standstills: records.iter().map(standstills).collect() }
    }

    fn line<'r>(&self, timeline: &'r Timeline) -> LineData<'r> {
        let (name, which) = timelines::quantity(timeline);
        let index = self.names.iter().position(|known| *known == name).unwrap_or_default();
        // Between parts stands what is no number, at the time of the point before.
        let parts = timelines::thinned_parts(timeline, self.most);
        let ends: Vec<_> = parts.iter().filter_map(|part| Some((part.last()?.0, f64::NAN))).collect();
        let points = parts.into_iter().zip(ends).flat_map(|(part, end)| part.into_iter().chain([end]));
        let mut points: Vec<_> = points.collect();
        points.pop();
        // Times in ms, each from the one before.
        let mut before = 0;
        let times = points.iter().map(|(t, _)| {
            let now = (t * 1e3).round() as i64;
            let step = now - std::mem::replace(&mut before, now);
            step.to_string()
        });
        let times = times.collect::<Vec<_>>().join(" ");
        let value = |value: f64| if value.is_nan() { GAP.to_owned() } else { format::significant(value, 4) };
        let values = points.iter().map(|(_, v)| value(*v)).collect::<Vec<_>>().join(" ");
        LineData(index, which, times, values)
    }

    fn json(&self, part: Option<Part<'_>>) -> io::Result<String> {
        if self.is_empty() {
            return Ok(String::new());
        }
        let quantity = |name: &&'a str| QuantityData { heading: timelines::heading(name), unit: columns::unit(name) };
        let whole = Whole { quantities: self.names.iter().map(quantity).collect(), part };
        // No text can end the element.
        Ok(serde_json::to_string(&whole)?.replace('<', "\\u003c"))
    }
}

fn standstills(record: &Record) -> String {
    let words = |standstill: &Standstill| format!("{:.0} {:.1}", standstill.at_s * 1e3, standstill.ms);
    timelines::longest(&record.standstills.list, MOST_STANDSTILLS).into_iter().map(words).collect::<Vec<_>>().join(" ")
}

/// In place of a value: the line ends before it.
const GAP: &str = "-";

/// Standstills of a cell that are drawn.
const MOST_STANDSTILLS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::Standstills;

    fn json(records: &[Record]) -> io::Result<String> {
        Sampled::new(records).whole(records)
    }

    #[test]
    fn every_line_is_there_and_small() {
        let records = fixture::matrix_records();
        let text = json(&records).unwrap();
        assert!(text.len() < 1_500_000, "{}", text.len());
        let data: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(data["quantities"][2]["heading"], "Congestion window");
        assert_eq!(data["cells"].as_array().unwrap().len(), 267);
        let line = &data["cells"][19][1];
        assert_eq!(line[0], 2, "the second line is the congestion window");
        let numbers = |part: &serde_json::Value| -> Vec<f64> {
            part.as_str().unwrap().split(' ').map(|n| n.parse().unwrap()).collect()
        };
        let wanted = &records[19].timelines[1].points;
        let times = numbers(&line[2])
            .iter()
            .scan(0.0, |t, step| {
                *t += step;
                Some(*t / 1e3)
            })
            .collect::<Vec<_>>();
        assert_eq!(times, wanted.iter().map(|(t, _)| *t).collect::<Vec<_>>());
        for (found, (_, value)) in numbers(&line[3]).iter().zip(wanted) {
            assert!((found / value - 1.0).abs() < 1e-3, "{found} {value}");
        }
        assert_eq!(json(&fixture::records()).unwrap(), "");
    }

    #[test]
    fn standstills_are_in_milliseconds() {
        let still = |at_s, ms| Standstill { at_s, ms, place: "cpu 0".into() };
        let standstills = Standstills { list: vec![still(0.25, 99.94), still(1.5, 2.0)], ..Standstills::default() };
        let timelines = vec![Timeline { name: "received_mbit".into(), points: vec![(0.0, 1.0)] }];
        let text = json(&[Record { standstills, timelines, ..Record::default() }]).unwrap();
        assert!(text.ends_with(r#""standstills":["250 99.9 1500 2.0"]}"#), "{text}");
    }

    #[test]
    fn an_outage_is_a_gap() {
        let points = [0.0, 0.1, 0.2, 0.3, 3.0, 3.1].map(|t| (t, 5.0)).to_vec();
        let timelines = vec![Timeline { name: "largest_delay_us".into(), points }];
        let text = json(&[Record { timelines, ..Record::default() }]).unwrap();
        assert!(text.contains(r#"[[0,"","0 100 100 100 0 2700 100","5 5 5 5 - 5 5"]]"#), "{text}");
    }

    #[test]
    fn nothing_ends_the_script() {
        let timeline = Timeline { name: "</script><script>alert(1) #</script>".into(), points: vec![(0.0, 1.0)] };
        let record = Record { timelines: vec![timeline], ..Record::default() };
        assert!(!json(&[record]).unwrap().contains('<'));
    }
}
