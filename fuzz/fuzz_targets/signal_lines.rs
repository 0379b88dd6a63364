//! Arbitrary text as others write values: CSV, Influx line protocol, JSON, StatsD. It is read or refused.
//!
//! `cargo +nightly fuzz run signal_lines` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_monitor::station::readers::{Csv, Statsd, influx, json};

fuzz_target!(|text: &str| {
    let (mut csv, mut statsd, mut name) = (Csv::default(), Statsd::default(), String::new());
    let mut values = 0;
    for line in text.lines() {
        let _ = csv.line(line, |_, _, _| values += 1);
        let _ = statsd.line(line, |name, _, _| assert!(!name.is_empty()));
        let _ = influx(line, &mut name, |name, _, _| assert!(!name.is_empty()));
        let _ = json(line, &mut name, |_, _, _| values += 1);
    }
    assert!(values <= 2 * text.len());
    let _ = json(text, &mut name, |_, _, _| {});
});
