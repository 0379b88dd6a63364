use std::io::Cursor;

use calamine::{Data, Reader, Xlsx};

use super::*;
use crate::fixture;

fn open(manifest: &Manifest, records: &[Record]) -> Xlsx<Cursor<Vec<u8>>> {
    Xlsx::new(Cursor::new(build(manifest, records).unwrap())).unwrap()
}

#[test]
fn reads_back() {
    let (manifest, records) = (fixture::manifest(), fixture::records());
    let mut book = open(&manifest, &records);
    assert_eq!(book.sheet_names(), ["Summary", "Results", "msgs_per_s", "delay_mean_us", "delay_max_us"]);

    let results = book.worksheet_range("Results").unwrap();
    assert_eq!(results.height(), 1 + records.len());
    for (row, record) in results.rows().skip(1).zip(&records) {
        assert_eq!(row[1], Data::String(record.row.cell.clone()));
        assert_eq!(row[9], Data::Float(record.row.sent as f64));
        assert_eq!(row[24], Data::Bool(record.row.valid));
    }
    assert_eq!(results.get((1, 11)), Some(&Data::Empty), "udp: undelivered is not defined");

    let matrix = book.worksheet_range("msgs_per_s").unwrap();
    let at = |row, column| matrix.get_value((row, column)).cloned();
    assert_eq!(at(3, 1), Some(Data::String("udp".into())));
    assert_eq!((at(24, 0), at(24, 2)), (Some(Data::Float(20.0)), Some(Data::Float(records[41].row.msgs_per_s))));
    let share = records[41].row.msgs_per_s / records[40].row.msgs_per_s;
    assert_eq!((at(28, 2), at(49, 2)), (Some(Data::String("tcp".into())), Some(Data::Float(share))));

    let summary = book.worksheet_range("Summary").unwrap();
    let words = summary.rows().flatten().filter_map(|field| match field {
        Data::String(text) => Some(text.as_str()),
        _ => None,
    });
    let words: Vec<&str> = words.collect();
    for word in ["reproduced", "refuted", "undecided", "The mean delay of UDP is 160 µs at any loss."] {
        assert!(words.contains(&word), "{word}");
    }
}

#[test]
fn the_published_labs_tables() {
    let (manifest, records) = (fixture::matrix_manifest(), fixture::matrix_records());
    let mut book = open(&manifest, &records);
    // 5 %, 10 ms is row 5 of the losses and column 5 of the latencies; records go row by row, 14 each.
    let rate = |row: usize, column: usize| records[row * 14 + column].row.mbit_per_s;
    let matrix = book.worksheet_range("mbit_per_s").unwrap();
    let at = |row, column| matrix.get_value((row, column)).cloned();
    assert_eq!((at(3, 6), at(9, 0)), (Some(Data::Float(10.0)), Some(Data::Float(5.0))));
    assert_eq!((at(9, 6), at(22, 14)), (Some(Data::Float(rate(5, 5))), Some(Data::Float(0.0))));
    assert_eq!((at(27, 0), at(32, 6)), (Some(Data::Float(0.0)), Some(Data::Float(rate(5, 5) / rate(5, 0)))));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let run = || build(&fixture::manifest(), &fixture::records()).unwrap();
    assert_eq!(run(), run());
}

#[test]
fn a_run_without_results_is_a_book_too() {
    assert_eq!(open(&fixture::manifest(), &[]).sheet_names().len(), 5);
}
