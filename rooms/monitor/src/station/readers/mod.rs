//! What others write: lines and datagrams of values, with names and perhaps times.
//!
//! A reader shows each value with its name and its time, ns since 1970 UTC (`None`: it has none), and says whether all of it could be
//! read. What could is shown in any case. Truths are 1 and 0; texts are no values.

mod csv;
mod influx;
mod json;
mod statsd;
#[cfg(test)]
mod tests;

pub use csv::Csv;
pub use influx::influx;
pub use json::json;
pub use statsd::Statsd;

/// A line or a datagram, or a part of it, could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {0}")]
pub struct Unreadable(pub &'static str);

/// A time that is written as one number: which unit it has follows from its size, as long as it is later than 1973.
fn time(value: f64) -> Option<i64> {
    let unit = match value.abs() {
        size if size < 1e11 => 1_000_000_000,
        size if size < 1e14 => 1_000_000,
        size if size < 1e17 => 1_000,
        size if size < 9.2e18 => 1,
        _ => return None,
    };
    // The whole part stays exact.
    Some(value.trunc() as i64 * unit + (value.fract() * unit as f64).round() as i64)
}

/// Names of columns and keys that are times.
fn is_time(name: &str) -> bool {
    ["time", "timestamp", "ts", "t"].iter().any(|known| name.eq_ignore_ascii_case(known))
}
