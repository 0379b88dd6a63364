//! The past of a channel as rows: samples, buckets, gaps.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;
use weir_units::format::printable;
use weir_wire::signal::{Block, Bucket, Rate, Values};

use super::routes::millis;
use weir_signal::history::{History, Listed};
use weir_signal::thin::BlockThinner;

/// Which part of the past, and how finely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) key: u32,
    /// From then to then, ms since 1970; what is negative, -0 too, counts from the end.
    pub(super) from: f64,
    pub(super) to: f64,
    /// Rows at most, about: gaps have some of their own.
    pub(super) columns: u32,
}

/// The past of a channel.
#[derive(Debug, Serialize)]
pub(super) struct Rows {
    pub(super) key: u32,
    pub(super) station: String,
    pub(super) stream: String,
    pub(super) name: String,
    pub(super) unit: String,
    /// Samples a row, as far as they are thinned; 1: each sample.
    pub(super) bucket: u32,
    pub(super) columns: [&'static str; 8],
    pub(super) rows: Vec<Row>,
}

/// Time in ms since 1970, index of the first sample, how many it stands for, least, greatest, first, last, cause if it is a gap. What is
/// not a number is absent.
#[derive(Debug, Serialize)]
pub(super) struct Row(f64, u64, u64, Option<f64>, Option<f64>, Option<f64>, Option<f64>, Option<&'static str>);

const COLUMNS: [&str; 8] = ["time_ms", "index", "samples", "least", "greatest", "first", "last", "cause"];

/// Rows of what is asked.
pub(super) fn rows(history: &History, listed: &Arc<Listed>, asked: &Asked) -> Rows {
    let channel = &listed.channel;
    let extent = history.extent(asked.key).unwrap_or_default();
    let time = |ms: f64| {
        let ns = (ms * 1e6) as i64;
        if ms.is_sign_positive() { ns } else { extent.end_time.saturating_add(ns) }
    };
    let (from, to) = (time(asked.from).max(extent.begin_time), time(asked.to).min(extent.end_time));
    let (mut cursor, end) = (history.cursor(listed.id(), from), history.cursor(listed.id(), to).at);
    let seconds = to.saturating_sub(from) as f64 / 1e9;
    let mut thinner = BlockThinner::new(bucket(channel.rate, seconds, asked.columns));
    let mut rows = Vec::new();
    let mut add = |block: Block<'_>| {
        rows.extend(block.buckets().map(|(first, bucket)| {
            let Bucket { least, greatest, first: begin, last } = bucket.scaled(channel.scale, channel.offset);
            let [least, greatest, begin, last] =
                [least, greatest, begin, last].map(|value| Some(value).filter(|value| value.is_finite()));
            Row(millis(block.time_of(first)), first, block.step(), least, greatest, begin, last, None)
        }));
        if let Values::Gap(gap) = block.values {
            let cause = Some(gap.cause.name());
            rows.push(Row(millis(block.time), block.first, gap.samples, None, None, None, None, cause));
        }
    };
    let mut look = |block: Block<'_>| {
        if block.first < end {
            thinner.push(&until(block, end), &mut add);
        }
    };
    while cursor.at < end && history.read(&mut cursor, &mut look) {}
    thinner.flush(&mut add);
    Rows {
        key: asked.key,
        station: listed.station.clone(),
        stream: listed.stream.clone(),
        name: channel.name.clone(),
        unit: channel.unit.clone(),
        bucket: thinner.bucket(),
        columns: COLUMNS,
        rows,
    }
}

/// Samples a bucket, so that a screen of so many columns has at least one bucket in each; a power of two, so that coarser ones are whole
/// ones of finer.
pub(super) fn bucket(rate: Rate, seconds: f64, columns: u32) -> u32 {
    let samples = rate.per_s() * seconds / f64::from(columns.max(1));
    if samples < 2.0 { 1 } else { 1 << (samples.min(2_147_483_648.0) as u32).ilog2() }
}

/// What a block has in front of an index; a bucket that begins in front of it is whole.
pub(super) fn until(block: Block<'_>, end: u64) -> Block<'_> {
    block.split_at(end.saturating_add(block.step() - 1)).0
}

/// As CSV (RFC 4180), with what it is in front of it as a comment would not be read: in the head of its columns.
pub(super) fn csv(rows: &Rows) -> String {
    let quoted = |text: &str| format!("\"{}\"", printable(text).replace('"', "\"\""));
    let mut text = String::new();
    // What is measured stands in the column's name; writing to a string does not fail.
    let name = format!("{}/{}/{} [{}]", rows.station, rows.stream, rows.name, rows.unit);
    let names = ["least", "greatest", "first", "last"].map(|of| quoted(&format!("{of} of {name}")));
    let _ = write!(text, "time_ms,index,samples,{},cause\r\n", names.join(","));
    for Row(time, first, samples, least, greatest, begin, last, cause) in &rows.rows {
        let _ = write!(text, "{time:.6},{first},{samples}");
        for value in [least, greatest, begin, last] {
            text.push(',');
            if let Some(value) = value {
                let _ = write!(text, "{value}");
            }
        }
        let _ = write!(text, ",{}\r\n", cause.unwrap_or_default());
    }
    text
}
