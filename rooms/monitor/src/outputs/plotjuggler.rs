//! What PlotJuggler's UDP server reads as JSON: `{"timestamp":1.5,"station":{"stream":{"channel":{"value":2.5}}}}`, which it lists as
//! `station/stream/channel/value`.

use std::fmt::Write;

use super::points::{Point, What};
use weir_signal::history::Listed;

pub(super) fn write(listed: &Listed, point: &Point, text: &mut String) {
    let Listed { station, stream, channel, .. } = listed;
    // Seconds with all their nanoseconds: a number in text is not yet rounded.
    let (sign, time) = (if point.time < 0 { "-" } else { "" }, point.time.unsigned_abs());
    let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
    // Writing to a string does not fail.
    let _ = write!(text, "{{\"timestamp\":{sign}{seconds}.{nanos:09}");
    for name in [station, stream, &channel.name] {
        text.push_str(if std::ptr::eq(name, station) { "," } else { "{" });
        string(name, text);
        text.push(':');
    }
    let _ = match point.what {
        What::Value(value) => write!(text, "{{\"value\":{value}"),
        What::Envelope(value, least, greatest) => {
            write!(text, "{{\"value\":{value},\"least\":{least},\"greatest\":{greatest}")
        }
        What::Missing(samples, cause) => write!(text, "{{\"missing\":{samples},\"missing by {cause}\":{samples}"),
    };
    text.push_str("}}}}");
}

/// A name as a key: never `timestamp`, which is another thing, nor empty.
fn string(name: &str, text: &mut String) {
    let name = match name {
        "" => "-",
        "timestamp" => "timestamp_",
        name => name,
    };
    text.push_str(&serde_json::Value::from(name).to_string());
}
