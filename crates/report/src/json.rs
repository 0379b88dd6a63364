//! A run as one JSON object, with the content of the terminal report.

use serde_json::{Map, Value, json};

use crate::columns::{self, Field};
use crate::record::{Estimate, Manifest, Record};
use crate::{answer, cells, judge, summary};

/// The run as one line of JSON: its rows with all columns, axes and intervals; verdicts, warnings. `directory` has its
/// files.
///
/// # Errors
/// A record cannot cause any.
pub fn render(manifest: &Manifest, records: &[Record], directory: &str) -> Result<String, serde_json::Error> {
    let cells = cells::group(manifest.columns(), records);
    let judged = judge::judge(manifest, records);
    serde_json::to_string(&json!({
        "scenario": manifest.scenario,
        "started": manifest.started,
        "elapsed_s": manifest.elapsed_s,
        "interrupted": manifest.interrupted,
        "directory": directory,
        "answer": answer::in_words(&answer::answers(manifest, &cells, &judged)),
        "warnings": summary::warnings(manifest, records),
        "rows": records.iter().map(row).collect::<Vec<_>>(),
        "claims": judged,
    }))
}

fn row(record: &Record) -> Map<String, Value> {
    let named = columns::COLUMNS.iter().map(|column| column.name).zip(columns::fields(&record.row));
    let fixed = named.map(|(name, field)| (name.to_owned(), value(field)));
    let added = record.extra.iter().map(|(name, number)| (name.to_string(), json!(number)));
    let mut row: Map<String, Value> = fixed.chain(added).collect();
    row.insert("axes".into(), record.axes.iter().map(|(key, value)| (key.clone(), json!(value))).collect());
    let interval = |estimate: &Estimate| json!([estimate.low, estimate.high]);
    let intervals = record.estimates.iter().map(|(name, estimate)| (name.to_string(), interval(estimate)));
    row.insert("intervals".into(), intervals.collect());
    row.insert("remarks".into(), json!(record.remarks));
    row
}

fn value(field: Field<'_>) -> Value {
    match field {
        Field::Text(text) => json!(text),
        Field::Count(count) => json!(count),
        Field::Number(number) => json!(number),
        Field::Flag(flag) => json!(flag),
        Field::Empty => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use weir_units::format::shown_in_json;

    use super::*;
    use crate::fixture;

    #[test]
    fn a_run_is_one_object_with_a_row_a_record() {
        let (manifest, records) = (fixture::manifest(), fixture::records());
        let text = render(&manifest, &records, "results/one").unwrap();
        // What is left to escape for a terminal is in strings.
        let run: Value = serde_json::from_str(&shown_in_json(&text)).unwrap();
        let rows = run["rows"].as_array().unwrap();
        assert_eq!((rows.len(), &run["directory"]), (records.len(), &json!("results/one")));
        let first = &rows[0];
        assert_eq!(first["cell"], json!(records[0].row.cell));
        assert_eq!(first["sent"], json!(records[0].row.sent));
        assert_eq!(first["rate_mbit"], Value::Null);
        let estimate = &records[0].estimates["msgs_per_s"];
        assert_eq!(first["intervals"]["msgs_per_s"], json!([estimate.low, estimate.high]));
        assert_eq!(first["axes"]["path.loss"], json!("0%"));
        assert_eq!(run["claims"].as_array().unwrap().len(), manifest.claims.len());
    }
}
