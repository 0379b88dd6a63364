//! Arbitrary bytes as others write values: CSV, JSON, Influx line protocol, StatsD, raw numbers. They are read or refused.
//!
//! `cargo +nightly fuzz run signal_lines` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_monitor::station::readers::{Csv, Format, Influx, Json, Raw, Statsd, Unit};
use weir_wire::signal::Element;

fuzz_target!(|bytes: &[u8]| {
    for mut format in [
        Format::Csv(Csv::new(&[], None)),
        Format::Json(Json { is_datagram: true, unit: None }),
        Format::Influx(Influx { unit: Unit::Ns, tags: None }),
        Format::Statsd(Statsd::new(None)),
        Format::Raw(Raw { names: vec!["a".into(), "b".into()], element: Element::I16 }),
    ] {
        let (mut rest, mut values) = (bytes, 0);
        while let Some(length) = format.frame(rest, true) {
            let (frame, behind) = rest.split_at(length);
            match &mut format {
                Format::Raw(raw) => values += raw.column(1, frame).count(),
                format => drop(format.read(frame, &mut |_, _, _| values += 1)),
            }
            rest = behind;
        }
        assert!(values <= 2 * bytes.len());
    }
});
