//! The line protocol of InfluxDB: `signal,channel=a,station=b,stream=c,unit=V value=1.5 1700000000000000000`.

use std::fmt::Write;

use super::points::{Point, What};
use weir_signal::history::Listed;

pub(super) fn write(listed: &Listed, point: &Point, line: &mut String) {
    let Listed { station, stream, channel, .. } = listed;
    let measurement = if matches!(point.what, What::Missing(..)) { "signal_gap" } else { "signal" };
    line.push_str(measurement);
    let tags = [("channel", &channel.name), ("station", station), ("stream", stream), ("unit", &channel.unit)];
    for (key, value) in tags.into_iter().filter(|(_, value)| !value.is_empty()) {
        // Writing to a string does not fail.
        let _ = write!(line, ",{key}=");
        escape(value, line);
    }
    let _ = match point.what {
        What::Value(value) => write!(line, " value={value}"),
        What::Envelope(value, least, greatest) => write!(line, " value={value},least={least},greatest={greatest}"),
        What::Missing(samples, cause) => write!(line, " missing={samples}i,cause=\"{cause}\""),
    };
    let _ = write!(line, " {}", point.time);
}

/// Commas, equals signs and spaces have a backslash before them; a backslash itself cannot be told from one, and is a slash.
fn escape(text: &str, line: &mut String) {
    for c in text.chars() {
        match c {
            ',' | '=' | ' ' => line.extend(['\\', c]),
            '\\' => line.push('/'),
            c if c.is_control() => line.push('_'),
            c => line.push(c),
        }
    }
}
