//! `results.csv`: one row per cell and repeat.

use std::io::{self, Write};
use std::path::Path;

use weir_units::format::plain;

use crate::columns::{self, COLUMNS, Field};
use crate::record::Record;
use crate::store::{self, StoreError};

/// Writes the table: the fixed columns in order, then the added ones. An existing file is replaced atomically once the
/// new one is complete.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, records: &[Record]) -> Result<(), StoreError> {
    store::replace(path, |file| render(file, records))
}

fn render(out: &mut dyn Write, records: &[Record]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let names = columns::names(records);
    writer.write_record(&names)?;
    for record in records {
        let fixed = columns::fields(&record.row).map(|field| match field {
            Field::Text(text) => text.to_owned(),
            Field::Count(count) => count.to_string(),
            Field::Number(number) => plain(number),
            Field::Flag(flag) => flag.to_string(),
            Field::Empty => String::new(),
        });
        // By name, so that a record with other columns than the first cannot shift the table.
        let extra =
            names[COLUMNS.len()..].iter().map(|name| columns::number(record, name).map(plain).unwrap_or_default());
        writer.write_record(fixed.into_iter().chain(extra))?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::Row;

    type Added = Vec<(String, Option<f64>)>;

    /// Each row with its added columns.
    fn read(path: &Path) -> Result<Vec<(Row, Added)>, csv::Error> {
        let mut reader = csv::Reader::from_path(path)?;
        let names = reader.headers()?.clone();
        let mut rows = Vec::new();
        for line in reader.records() {
            let line = line?;
            let row = line.deserialize(Some(&names))?;
            let added = names.iter().zip(&line).skip(COLUMNS.len());
            rows.push((row, added.map(|(name, value)| (name.to_owned(), value.parse().ok())).collect()));
        }
        Ok(rows)
    }

    #[test]
    fn header_is_the_agreed_one() {
        let mut out = Vec::new();
        render(&mut out, &fixture::records()[..1]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(
            "scenario,cell,repeat,transport,loss_pct,latency_ms,rate_mbit,payload_bytes,duration_s,sent,delivered,\
             undelivered,msgs_per_s,mbit_per_s,delay_mean_us,delay_p50_us,delay_p99_us,delay_max_us,retransmits,\
             planned_drops,queue_drops,socket_drops,emulator_drops,unexplained,valid,delivered_share,"
        ));
    }

    #[test]
    fn what_is_written_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.csv");
        let mut records = fixture::records();
        records[0].row.scenario = "quotes \" commas, and\nlines".into();
        write(&path, &records).unwrap();
        let rows = read(&path).unwrap();
        assert_eq!(rows.len(), records.len());
        for ((row, extra), record) in rows.iter().zip(&records) {
            for (found, wanted) in columns::fields(row).iter().zip(columns::fields(&record.row)) {
                match (found, wanted) {
                    (Field::Number(a), Field::Number(b)) => assert!((a - b).abs() <= b.abs() * 1e-5, "{a} {b}"),
                    (a, b) => assert_eq!(*a, b),
                }
            }
            assert_eq!(extra.len(), record.extra.len());
            assert_eq!(extra[0].0, *record.extra.get_index(0).unwrap().0);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
