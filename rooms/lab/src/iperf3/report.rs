//! From what both ends of iperf3 have printed to what a bulk transfer reports.

use std::time::Duration;

use weir_traffic::Transport;
use weir_traffic::bulk::{BulkReport, Datagrams, Sample};

use super::Iperf3Settings;
use super::json::{Interval, Output, Sum};

/// Puts the two ends together. An end that printed nothing is empty. `complete`: the transfer ran to its planned end.
///
/// Received bytes are those of the server's looks. These come every `-i` seconds, but for some milliseconds, so between
/// two of them the bytes are taken as received evenly; what came behind the window's end does not count. Bytes sent and
/// the connections' states are the client's.
pub(crate) fn report(settings: &Iperf3Settings, client: &Output, server: &Output, complete: bool) -> BulkReport {
    let course = Progress::of(&server.intervals);
    let used = if complete { settings.duration } else { course.end().min(settings.duration) };
    let (batch, count) = settings.batches();
    let whole = (used.as_nanos() * u128::from(count) / settings.duration.as_nanos().max(1)).min(count.into()) as u32;
    let edge = |number: u32| course.bytes_at(settings.duration.as_secs_f64() * f64::from(number) / f64::from(count));
    // The server may have accepted what the client gave up at once; it is asked where the client has told nothing.
    let teller = if client.start.version.is_some() { client } else { server };
    let connected = teller.start.connected.len();
    let samples = samples(&client.intervals, settings.warmup);
    BulkReport {
        streams: settings.streams,
        connected: u32::try_from(connected).unwrap_or(u32::MAX),
        used: if connected > 0 { used } else { Duration::ZERO },
        sent_bytes: client.intervals.iter().map(|look| count_of(look.bytes())).sum(),
        received_bytes: course.bytes_at(used.as_secs_f64()),
        batches: if connected > 0 { (0..whole).map(|n| edge(n + 1) - edge(n)).collect() } else { Vec::new() },
        batch,
        retransmits: retransmits(client, settings.transport),
        samples,
        datagrams: (settings.transport == Transport::Udp && connected > 0).then(|| datagrams(client, server)),
        ..BulkReport::default()
    }
}

/// Bytes received since the window began, over time.
struct Progress(Vec<(f64, f64)>);

impl Progress {
    /// The warm-up is left out. Stopped, iperf3 prints its last look twice: a look that does not go on is left out,
    /// too.
    fn of(looks: &[Interval]) -> Self {
        let mut points = vec![(0.0, 0.0)];
        let (mut last, mut total) = (0.0, 0.0);
        for look in looks.iter().filter(|look| !look.omitted()) {
            if let Some(end) = look.end().filter(|&end| end > last && end.is_finite()) {
                last = end;
                total += count_of(look.bytes()) as f64;
                points.push((last, total));
            }
        }
        Self(points)
    }

    fn end(&self) -> Duration {
        self.0.last().map_or(Duration::ZERO, |&(end, _)| Duration::try_from_secs_f64(end).unwrap_or_default())
    }

    fn bytes_at(&self, time: f64) -> u64 {
        let next = self.0.partition_point(|&(end, _)| end <= time);
        let Some(&(from, before)) = next.checked_sub(1).and_then(|last| self.0.get(last)) else { return 0 };
        let bytes = match self.0.get(next) {
            Some(&(to, after)) => before + (after - before) * (time - from) / (to - from),
            None => before,
        };
        count_of(bytes.round())
    }
}

/// The connections' states at each look.
fn samples(looks: &[Interval], warmup: Duration) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut resent: Vec<u64> = Vec::new();
    let mut last = Duration::ZERO;
    for look in looks {
        let begun = if look.omitted() { Duration::ZERO } else { warmup };
        let end = look.end().and_then(|end| Duration::try_from_secs_f64(end).ok());
        let Some(at) = end.map(|end| begun + end).filter(|&at| at > last) else { continue };
        last = at;
        resent.resize(resent.len().max(look.streams.len()), 0);
        for ((number, stream), resent) in (0..).zip(&look.streams).zip(&mut resent) {
            *resent += stream.retransmits.map_or(0, count_of);
            if let Some(window) = stream.snd_cwnd {
                samples.push(Sample {
                    at,
                    stream: number,
                    congestion_window: count_of(window),
                    rtt: Duration::from_micros(stream.rtt.map_or(0, count_of)),
                    retransmits: *resent,
                    delivery_rate: None,
                    in_flight: None,
                });
            }
        }
    }
    samples
}

/// As iperf3 sums them up; of a transfer that did not come to its end, those of its looks.
fn retransmits(client: &Output, transport: Transport) -> Option<u64> {
    if transport != Transport::Tcp {
        return None;
    }
    let summed = client.end.sum_sent.as_ref().and_then(|sum| sum.retransmits);
    let streams = client.intervals.iter().flat_map(|look| &look.streams);
    let told = streams.filter_map(|stream| stream.retransmits).reduce(|a, b| a + b);
    summed.or(told).map(count_of)
}

fn datagrams(client: &Output, server: &Output) -> Datagrams {
    let sum = |of: fn(&Sum) -> Option<f64>, sums: [&Option<Sum>; 2]| {
        sums.into_iter().flatten().find_map(of).map_or(0, count_of)
    };
    let sent = sum(|sum| sum.packets, [&client.end.sum_sent, &client.end.sum]);
    let received = [&server.end.sum, &server.end.sum_received];
    let expected = sum(|sum| sum.packets, received);
    let lost = sum(|sum| sum.lost_packets, received);
    let streams = server.end.streams.iter().filter_map(|stream| stream.udp.as_ref());
    Datagrams {
        sent,
        received: expected.saturating_sub(lost),
        out_of_order: streams.filter_map(|udp| udp.out_of_order).map(count_of).sum(),
        jitter_us: received.into_iter().flatten().find_map(|sum| sum.jitter_ms).map(|ms| ms * 1e3),
    }
}

/// A count as JSON has it. Negative ones (iperf3 counts some late datagrams twice) and what is no number are 0.
fn count_of(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::tests::settings;
    use super::*;

    /// Two seconds in batches of half a second, behind one second of warm-up.
    fn of_two_seconds() -> Iperf3Settings {
        Iperf3Settings {
            duration: Duration::from_secs(2),
            warmup: Duration::from_secs(1),
            interval: Duration::from_millis(500),
            streams: 2,
            ..settings()
        }
    }

    fn output(value: &Value) -> Output {
        Output::parse(value.to_string().as_bytes()).unwrap()
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
        let report = report(&of_two_seconds(), &output(&client()), &output(&server), true);
        // The second look is 0.75 s long, of which 0.5 s belong to the second batch.
        assert_eq!(report.batches, [4000, 2000, 2000, 2000]);
        assert_eq!((report.received_bytes, report.batch), (10_000, Duration::from_millis(500)));
        assert_eq!((report.sent_bytes, report.retransmits, report.used), (50_000, Some(10), Duration::from_secs(2)));
        assert_eq!((report.streams, report.connected, report.datagrams), (2, 2, None));
    }

    #[test]
    fn samples_are_the_clients_from_the_start_of_sending() {
        let report = report(&of_two_seconds(), &output(&client()), &Output::default(), true);
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
        let report = report(&of_two_seconds(), &Output::default(), &output(&server), false);
        assert_eq!((report.used, report.received_bytes), (Duration::from_millis(1200), 4700));
        assert_eq!(report.batches, [4000, 500]);
        assert_eq!(report.retransmits, None);
    }

    #[test]
    fn what_never_connected_is_zero() {
        let refused = json!({"start": {"connected": []}, "intervals": [], "end": {}, "error": "unable to connect"});
        let report = report(&of_two_seconds(), &output(&refused), &Output::default(), false);
        assert_eq!((report.connected, report.received_bytes, report.used), (0, 0, Duration::ZERO));
        assert!(report.batches.is_empty() && report.samples.is_empty() && report.connect.is_none());
    }

    #[test]
    fn datagrams_are_counted_by_both_ends() {
        let settings = Iperf3Settings { transport: Transport::Udp, ..of_two_seconds() };
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
        let report = report(&settings, &output(&client), &output(&server), true);
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
            let report = report(&of_two_seconds(), &Output::default(), &output(&server), complete);
            let within: u64 = report.batches.iter().sum();
            prop_assert!(within <= report.received_bytes);
            if complete {
                prop_assert_eq!((report.batches.len(), within), (4, report.received_bytes));
            }
        }
    }
}
