//! Formats in which others write values: lines and datagrams with names and perhaps times, or bare numbers.
//!
//! A format shows each value with its name and its time in ns (`None`: it has none), and says whether all of a frame could be read. What
//! could be read is shown in any case. Truths are 1 and 0; texts are not values.

mod csv;
mod influx;
mod json;
mod raw;
mod statsd;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use csv::Csv;
pub use influx::Influx;
pub use json::Json;
pub use raw::Raw;
pub use statsd::Statsd;

/// Shows a value: its name, its time, and itself.
pub type Look<'a> = dyn FnMut(&str, Option<i64>, f64) + 'a;

/// How values are written, with what is known so far: names of columns, counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// Comma-separated values.
    Csv(Csv),
    /// Objects.
    Json(Json),
    /// Influx line protocol.
    Influx(Influx),
    /// StatsD.
    Statsd(Statsd),
    /// Interleaved numbers.
    Raw(Raw),
}

/// A frame, or a part of it, could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {0}")]
pub struct Unreadable(pub &'static str);

/// The unit of written times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    S = 1_000_000_000,
    /// Milliseconds.
    Ms = 1_000_000,
    /// Microseconds.
    Us = 1_000,
    /// Nanoseconds.
    Ns = 1,
}

impl Format {
    /// Bytes of the first frame; `None`: it is not whole yet. `all`: nothing follows these bytes.
    pub fn frame(&self, bytes: &[u8], all: bool) -> Option<usize> {
        let end = match self {
            Self::Raw(raw) => return raw.frame(bytes),
            Self::Json(json) if json.is_datagram => None,
            Self::Influx(_) => influx::line_end(bytes),
            _ => bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1),
        };
        end.or((all && !bytes.is_empty()).then_some(bytes.len()))
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// Something in it is not of the format.
    pub fn read(&mut self, frame: &[u8], look: &mut Look<'_>) -> Result<(), Unreadable> {
        let text = String::from_utf8_lossy(frame);
        let text = text.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n', '\0']);
        if text.trim().is_empty() {
            return Ok(());
        }
        match self {
            Self::Csv(csv) => csv.line(text, look),
            Self::Json(json) => json.text(text, look),
            Self::Influx(influx) => influx.line(text.trim(), look),
            Self::Statsd(statsd) => statsd.line(text.trim(), look),
            Self::Raw(_) => Err(Unreadable("text")),
        }
    }
}

/// A written time in ns. Without a unit its size tells, if it is later than 1973.
fn time(text: &str, unit: Option<Unit>) -> Option<i64> {
    let value: f64 = text.parse().ok()?;
    let each = match (unit, value.abs()) {
        (Some(unit), _) => unit as i64,
        (None, size) if size < 1e11 => Unit::S as i64,
        (None, size) if size < 1e14 => Unit::Ms as i64,
        (None, size) if size < 1e17 => Unit::Us as i64,
        (None, _) => Unit::Ns as i64,
    };
    if let Ok(whole) = text.parse::<i64>() {
        return whole.checked_mul(each);
    }
    // The whole part stays exact.
    let nanos = (value.abs() * (each as f64) < 9.2e18).then_some(value.trunc() as i64 * each)?;
    Some(nanos + (value.fract() * each as f64).round() as i64)
}

/// Names of columns and keys that are times.
fn is_time(name: &str) -> bool {
    ["time", "timestamp", "ts", "t"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Appends `{a=1,b=2}`: tags in alphabetical order, only those that are chosen.
fn put_tags(name: &mut String, mut tags: Vec<String>, chosen: Option<&[String]>, separator: char) {
    let key = |tag: &String| tag.split(separator).next().unwrap_or_default().to_owned();
    tags.retain(|tag| chosen.is_none_or(|chosen| chosen.contains(&key(tag))));
    tags.sort();
    if !tags.is_empty() {
        name.extend(["{", &tags.join(","), "}"]);
    }
}
