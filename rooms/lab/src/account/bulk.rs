//! A bulk transfer in columns, intervals and timelines.

use std::collections::BTreeMap;

use weir_kernel::tcp::TcpInfo;
use weir_report::record::{Row, Timeline};
use weir_stats::{Estimate, intervals};
use weir_traffic::bulk::{BulkReport, Sample};

/// Completes a row. A message is a block of `payload_bytes`, or a datagram.
pub(super) fn row(row: Row, report: &BulkReport, unexplained_frames: i64) -> Row {
    let payload = row.payload_bytes.max(1);
    let used = report.used.as_secs_f64();
    let bytes_per_second = if used > 0.0 { report.received_bytes as f64 / used } else { 0.0 };
    let datagrams = report.datagrams;
    Row {
        duration_s: used,
        sent: datagrams.map_or(report.sent_bytes / payload, |datagrams| datagrams.sent),
        delivered: datagrams.map_or(report.received_bytes / payload, |datagrams| datagrams.received),
        msgs_per_s: bytes_per_second / payload as f64,
        mbit_per_s: bytes_per_second * 8.0 / 1e6,
        retransmits: report.retransmits,
        unexplained: Some(unexplained_frames),
        ..row
    }
}

/// Throughput with its interval, Mbit/s; `None` where there are too few batches.
pub(super) fn throughput(report: &BulkReport) -> Option<Estimate> {
    let seconds = report.batch.as_secs_f64();
    let bits: Vec<f64> = report.batches.iter().map(|&bytes| bytes as f64 * 8.0 / 1e6).collect();
    intervals::batch_means(&bits, &vec![seconds; bits.len()])
}

/// Columns of a bulk transfer; without one the same columns, empty.
pub(super) fn columns(report: Option<&BulkReport>) -> [(&'static str, Option<f64>); 8] {
    let mean = |of: fn(&Sample) -> f64| {
        let samples = &report?.samples;
        (!samples.is_empty()).then(|| samples.iter().map(of).sum::<f64>() / samples.len() as f64)
    };
    let limited = |of: fn(&TcpInfo) -> u64| {
        let at_end = &report?.at_end;
        let busy: u64 = at_end.iter().map(|info| info.busy_us).sum();
        (busy > 0).then(|| at_end.iter().map(of).sum::<u64>() as f64 * 100.0 / busy as f64)
    };
    let in_order = report.and_then(|report| report.datagrams);
    [
        ("sent_bytes", report.map(|report| report.sent_bytes as f64)),
        ("received_bytes", report.map(|report| report.received_bytes as f64)),
        ("streams_connected", report.map(|report| f64::from(report.connected))),
        ("cwnd_mean_bytes", mean(|sample| sample.congestion_window as f64)),
        ("rtt_mean_us", mean(|sample| sample.rtt.as_secs_f64() * 1e6)),
        ("receive_window_limited_pct", limited(|info| info.receive_window_limited_us)),
        ("send_buffer_limited_pct", limited(|info| info.send_buffer_limited_us)),
        ("jitter_us", in_order.and_then(|datagrams| datagrams.jitter_us)),
    ]
}

/// What was sampled over time.
pub(super) fn timelines(report: &BulkReport) -> Vec<Timeline> {
    let (batch, mut timelines) = (report.batch.as_secs_f64(), Vec::new());
    if batch > 0.0 && !report.batches.is_empty() {
        let point = |(index, &bytes): (usize, &u64)| ((index as f64 + 1.0) * batch, bytes as f64 * 8.0 / 1e6 / batch);
        let points = report.batches.iter().enumerate().map(point).collect();
        timelines.push(Timeline { name: "received_mbit".into(), points });
    }
    let mut streams: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
    report.samples.iter().for_each(|sample| streams.entry(sample.stream).or_default().push(sample));
    for (stream, samples) in streams {
        let behind = if stream == 0 { String::new() } else { format!(" #{}", stream + 1) };
        let mut add = |name: &str, of: fn(&Sample) -> Option<f64>| {
            let point = |sample: &&Sample| Some((sample.at.as_secs_f64(), of(sample)?));
            let points: Vec<_> = samples.iter().filter_map(point).collect();
            if !points.is_empty() {
                timelines.push(Timeline { name: format!("{name}{behind}"), points });
            }
        };
        add("cwnd_bytes", |sample| Some(sample.congestion_window as f64));
        add("rtt_us", |sample| Some(sample.rtt.as_secs_f64() * 1e6));
        add("retransmits", |sample| Some(sample.retransmits as f64));
        add("delivery_rate_mbit", |sample| Some(sample.delivery_rate? as f64 / 1e6));
    }
    timelines
}
