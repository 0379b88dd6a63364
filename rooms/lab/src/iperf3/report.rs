//! From the output of both ends of iperf3 (`-J`; versions 3.9 to 3.20 were read) to the report of a bulk transfer.

use std::time::Duration;

use serde_json::Value;
use weir_traffic::Transport;
use weir_traffic::bulk::{BulkReport, Datagrams, Sample};

use super::Iperf3Settings;

/// Merges the two ends. An end that printed nothing is null. `complete`: the transfer ran to its planned end.
///
/// Received bytes are from the server's readings, which come every `-i` seconds, give or take some milliseconds.
/// Between two readings bytes count as received evenly; those after the window do not count. Sent bytes and the
/// connections' states are the client's.
pub(crate) fn report(settings: &Iperf3Settings, client: &Value, server: &Value, complete: bool) -> BulkReport {
    let course = course(server);
    let last = course.last().map_or(0.0, |&(end, _)| end);
    let planned = settings.bulk.duration.as_secs_f64();
    let used = if complete { planned } else { last.min(planned) };
    let (batch, count) = settings.batches();
    let whole = (used * f64::from(count) / planned + 1e-9) as u32;
    let edge = |number: u32| bytes_at(&course, planned * f64::from(number) / f64::from(count));
    // The server may have accepted a connection that the client gave up; its number is used only if the client has
    // none.
    let reporting_end = if client["start"]["version"].is_string() { client } else { server };
    let connected = reporting_end["start"]["connected"].as_array().map_or(0, Vec::len);
    let up = connected > 0;
    BulkReport {
        streams: settings.bulk.streams,
        connected: u32::try_from(connected).unwrap_or(u32::MAX),
        used: Duration::from_secs_f64(if up { used } else { 0.0 }),
        sent_bytes: looks(client).map(bytes).sum(),
        received_bytes: bytes_at(&course, used),
        batches: (0..if up { whole } else { 0 }).map(|n| edge(n + 1) - edge(n)).collect(),
        batch,
        retransmits: retransmits(client).filter(|_| settings.bulk.transport == Transport::Tcp),
        samples: samples(client, settings.bulk.warmup.as_secs_f64()),
        datagrams: (settings.bulk.transport == Transport::Udp && up).then(|| datagrams(client, server)),
        ..BulkReport::default()
    }
}

/// The readings of an end of all its streams.
fn looks(end: &Value) -> impl Iterator<Item = &Value> {
    list(&end["intervals"])
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The sum over all streams in a reading, or the first stream if there is no sum.
fn of_all<'a>(look: &'a Value, key: &str) -> &'a Value {
    if look["sum"].is_object() { &look["sum"][key] } else { &look["streams"][0][key] }
}

fn bytes(look: &Value) -> u64 {
    let each = || list(&look["streams"]).map(|stream| count(&stream["bytes"])).sum();
    if look["sum"].is_object() { count(&look["sum"]["bytes"]) } else { each() }
}

fn omitted(look: &Value) -> bool {
    of_all(look, "omitted").as_bool().unwrap_or(false)
}

/// Bytes received since the window began, over time, without the warm-up. When stopped, iperf3 prints its last reading
/// twice: one that does not advance is left out.
fn course(server: &Value) -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, 0.0)];
    let (mut last, mut total) = (0.0, 0.0);
    for look in looks(server).filter(|look| !omitted(look)) {
        if let Some(end) = of_all(look, "end").as_f64().filter(|&end| end > last) {
            (last, total) = (end, total + bytes(look) as f64);
            points.push((last, total));
        }
    }
    points
}

fn bytes_at(course: &[(f64, f64)], time: f64) -> u64 {
    let next = course.partition_point(|&(end, _)| end <= time);
    let (from, before) = course[next.saturating_sub(1)];
    let more = course.get(next).map_or(0.0, |&(to, after)| (after - before) * (time - from) / (to - from));
    (before + more).round() as u64
}

/// The connections' states at each reading, with the retransmissions so far.
fn samples(client: &Value, warmup: f64) -> Vec<Sample> {
    let (mut samples, mut resent, mut last) = (Vec::new(), Vec::new(), 0.0);
    for look in looks(client) {
        let begun = if omitted(look) { 0.0 } else { warmup };
        let end = of_all(look, "end").as_f64().map(|end| begun + end);
        let Some(at) = end.filter(|&at| at > last && at < 1e9) else { continue };
        last = at;
        for (number, stream) in list(&look["streams"]).enumerate() {
            resent.resize(resent.len().max(number + 1), 0);
            resent[number] += count(&stream["retransmits"]);
            if stream["snd_cwnd"].is_number() {
                samples.push(Sample {
                    at: Duration::from_secs_f64(at),
                    stream: number as u32,
                    congestion_window: count(&stream["snd_cwnd"]),
                    rtt: Duration::from_micros(count(&stream["rtt"])),
                    retransmits: resent[number],
                    ..Sample::default()
                });
            }
        }
    }
    samples
}

/// The sums of iperf3; for a transfer that ended early, those of its readings.
fn retransmits(client: &Value) -> Option<u64> {
    let summed = client["end"]["sum_sent"]["retransmits"].as_f64();
    let streams = looks(client).flat_map(|look| list(&look["streams"]));
    let per_stream = streams.filter_map(|stream| stream["retransmits"].as_f64()).reduce(|a, b| a + b);
    summed.or(per_stream).map(|number| number as u64)
}

fn datagrams(client: &Value, server: &Value) -> Datagrams {
    let first =
        |end: &Value, sums: [&str; 2], key: &str| sums.into_iter().find_map(|sum| end["end"][sum][key].as_f64());
    let received = |key| first(server, ["sum", "sum_received"], key);
    let number = |number: Option<f64>| number.unwrap_or(0.0) as u64;
    Datagrams {
        sent: number(first(client, ["sum_sent", "sum"], "packets")),
        received: number(received("packets")).saturating_sub(number(received("lost_packets"))),
        out_of_order: list(&server["end"]["streams"]).map(|stream| count(&stream["udp"]["out_of_order"])).sum(),
        jitter_us: received("jitter_ms").map(|ms| ms * 1e3),
    }
}

/// A count in JSON. Negative ones (iperf3 counts some late datagrams twice) and missing ones are 0.
fn count(number: &Value) -> u64 {
    number.as_f64().unwrap_or(0.0) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use weir_traffic::bulk::BulkSettings;

    use super::super::tests::{of, settings};
    use super::*;

    /// Two seconds in batches of half a second, behind one second of warm-up.
    fn of_two_seconds() -> Iperf3Settings {
        of(BulkSettings {
            duration: Duration::from_secs(2),
            warmup: Duration::from_secs(1),
            batch: Duration::from_millis(500),
            streams: 2,
            ..settings().bulk
        })
    }

    fn received(end: f64, bytes: u64, omitted: bool) -> Value {
        json!({"streams": [], "sum": {"start": 0, "end": end, "bytes": bytes, "omitted": omitted}})
    }

    fn sent(end: f64, windows: [u64; 2], retransmits: u64, omitted: bool) -> Value {
        let stream = |window: u64| {
            json!({"end": end, "bytes": 5000, "snd_cwnd": window, "rtt": 1500, "retransmits": retransmits,
                   "omitted": omitted})
        };
        json!({"streams": [stream(windows[0]), stream(windows[1])],
               "sum": {"end": end, "bytes": 10_000, "omitted": omitted}})
    }

    fn client() -> Value {
        json!({
            "start": {"connected": [{}, {}], "version": "iperf 3.12"},
            "intervals": [
                sent(1.0, [100, 200], 1, true),
                sent(0.5, [300, 400], 0, false), sent(1.0, [500, 600], 2, false), sent(1.5, [700, 800], 0, false),
                sent(2.0, [900, 1000], 3, false),
            ],
            "end": {"sum_sent": {"bytes": 40_000, "retransmits": 10}},
        })
    }

    #[test]
    fn batches_are_the_servers_and_end_with_the_window() {
        let server = json!({
            "start": {"connected": [{}, {}]},
            "intervals": [
                received(1.0, 77_777, true),
                received(0.5, 4000, false), received(1.25, 3000, false), received(1.5, 1000, false),
                received(2.0, 2000, false), received(2.4, 999, false),
            ],
        });
        let report = report(&of_two_seconds(), &client(), &server, true);
        // The second look is 0.75 s long, of which 0.5 s belong to the second batch.
        assert_eq!(report.batches, [4000, 2000, 2000, 2000]);
        assert_eq!((report.received_bytes, report.batch), (10_000, Duration::from_millis(500)));
        assert_eq!((report.sent_bytes, report.retransmits, report.used), (50_000, Some(10), Duration::from_secs(2)));
        assert_eq!((report.streams, report.connected, report.datagrams), (2, 2, None));
    }

    #[test]
    fn samples_are_the_clients_from_the_start_of_sending() {
        let report = report(&of_two_seconds(), &client(), &Value::Null, true);
        let times: Vec<u128> = report.samples.iter().map(|sample| sample.at.as_millis()).collect();
        assert_eq!(times, [1000, 1000, 1500, 1500, 2000, 2000, 2500, 2500, 3000, 3000]);
        let second: Vec<_> =
            report.samples.iter().filter(|s| s.stream == 1).map(|s| (s.congestion_window, s.retransmits)).collect();
        assert_eq!(second, [(200, 1), (400, 1), (600, 3), (800, 3), (1000, 6)]);
        assert!(report.samples.iter().all(|s| s.rtt == Duration::from_micros(1500) && s.delivery_rate.is_none()));
    }

    #[test]
    fn a_stopped_transfer_keeps_its_whole_batches() {
        // As 3.12 prints it: the last look twice.
        let server = json!({
            "start": {"connected": [{}]},
            "intervals": [received(0.5, 4000, false), received(1.2, 700, false), received(1.2, 700, false)],
            "error": "the client has terminated",
        });
        let report = report(&of_two_seconds(), &Value::Null, &server, false);
        assert_eq!((report.used, report.received_bytes), (Duration::from_millis(1200), 4700));
        assert_eq!(report.batches, [4000, 500]);
        assert_eq!(report.retransmits, None);
    }

    #[test]
    fn what_never_connected_is_zero() {
        let refused = json!({"start": {"connected": []}, "intervals": [], "end": {}, "error": "unable to connect"});
        let report = report(&of_two_seconds(), &refused, &Value::Null, false);
        assert_eq!((report.connected, report.received_bytes, report.used), (0, 0, Duration::ZERO));
        assert!(report.batches.is_empty() && report.samples.is_empty() && report.connect.is_none());
    }

    #[test]
    fn datagrams_are_counted_by_both_ends() {
        let settings = of(BulkSettings { transport: Transport::Udp, ..of_two_seconds().bulk });
        let client = json!({
            "start": {"connected": [{}]},
            "intervals": [{"sum": {"end": 2.0, "bytes": 100_000, "packets": 100}}],
            "end": {"sum_sent": {"packets": 100}},
        });
        let server = json!({
            "start": {"connected": [{}]},
            "intervals": [{"sum": {"end": 2.0, "bytes": 90_000}}],
            "end": {
                "streams": [{"udp": {"out_of_order": 2}}, {"udp": {"out_of_order": 1}}],
                "sum": {"packets": 98, "lost_packets": 8, "jitter_ms": 0.25},
            },
        });
        let report = report(&settings, &client, &server, true);
        let expected = Datagrams { sent: 100, received: 90, out_of_order: 3, jitter_us: Some(250.0) };
        assert_eq!((report.datagrams, report.retransmits), (Some(expected), None));
        assert_eq!(report.batches, [22_500; 4]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_between_batches(
            looks in proptest::collection::vec((0.01f64..0.6, 0u64..10_000_000_000), 0..30), complete in any::<bool>(),
        ) {
            let mut end = 0.0;
            let looks: Vec<Value> = looks.iter().map(|&(length, bytes)| { end += length; received(end, bytes, false) }).collect();
            let server = json!({"start": {"connected": [{}]}, "intervals": looks});
            let report = report(&of_two_seconds(), &Value::Null, &server, complete);
            let within: u64 = report.batches.iter().sum();
            prop_assert!(within <= report.received_bytes);
            if complete {
                prop_assert_eq!((report.batches.len(), within), (4, report.received_bytes));
            }
        }
    }
}
