//! Timelines for the page's script: drawn when a cell's account is opened, from data that is small enough to embed.

use serde::Serialize;
use weir_units::format;

use crate::record::{Record, Standstill};
use crate::{columns, timelines};

/// Points of all lines together: what a page of some 3 MB has room for.
const BUDGET: usize = 150_000;
/// Points of a line, at most and at least.
const MOST: usize = 200;
const LEAST: usize = 24;

#[derive(Serialize)]
struct Data<'a> {
    quantities: Vec<QuantityData<'a>>,
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

/// The timelines of all records as JSON that is safe within a script element; empty if there are none.
pub(super) fn json(records: &[Record]) -> std::io::Result<String> {
    let lines: usize = records.iter().map(|record| record.timelines.len()).sum();
    if lines == 0 {
        return Ok(String::new());
    }
    let most = (BUDGET / lines).clamp(LEAST, MOST);
    let all: Vec<&Record> = records.iter().collect();
    let names = timelines::quantities(&all);
    let cell = |record: &'_ Record| -> Vec<(usize, String, String, String)> {
        let line = |timeline| {
            let (name, which) = timelines::quantity(timeline);
            let index = names.iter().position(|known| *known == name).unwrap_or_default();
            let points = timelines::thinned(&timeline.points, most);
            // Times in ms, each from the one before.
            let mut before = 0;
            let times = points.iter().map(|(t, _)| {
                let now = (t * 1e3).round() as i64;
                let step = now - std::mem::replace(&mut before, now);
                step.to_string()
            });
            let times = times.collect::<Vec<_>>().join(" ");
            let values = points.iter().map(|(_, value)| format::significant(*value, 4)).collect::<Vec<_>>().join(" ");
            (index, which.to_owned(), times, values)
        };
        record.timelines.iter().map(line).collect()
    };
    let arranged: Vec<_> = records.iter().map(cell).collect();
    let data = Data {
        quantities: names
            .iter()
            .map(|name| QuantityData { heading: timelines::heading(name), unit: columns::unit(name) })
            .collect(),
        cells: arranged
            .iter()
            .map(|lines| lines.iter().map(|(i, which, t, v)| LineData(*i, which, t.clone(), v.clone())).collect())
            .collect(),
        standstills: records.iter().map(standstills).collect(),
    };
    // No text can end the element.
    Ok(serde_json::to_string(&data)?.replace('<', "\\u003c"))
}

fn standstills(record: &Record) -> String {
    let words = |standstill: &Standstill| format!("{:.0} {:.1}", standstill.at_s * 1e3, standstill.ms);
    timelines::longest(&record.standstills.list, MOST_STANDSTILLS).into_iter().map(words).collect::<Vec<_>>().join(" ")
}

/// Standstills of a cell that are drawn.
const MOST_STANDSTILLS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::{Standstills, Timeline};

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
    fn nothing_ends_the_script() {
        let timeline = Timeline { name: "</script><script>alert(1) #</script>".into(), points: vec![(0.0, 1.0)] };
        let record = Record { timelines: vec![timeline], ..Record::default() };
        assert!(!json(&[record]).unwrap().contains('<'));
    }
}
