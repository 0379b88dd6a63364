//! What `weir send` tells at its end.

use std::net::SocketAddr;

use serde::Serialize;
use serde_json::{Map, Value};
use weir_program::output::say;
use weir_traffic::{ErrorCount, SendReport, SenderSettings, Transport, in_words};

use super::intervals::Interval;
use crate::lines::{self, Line};

/// What `--json` prints: of one sender, or the sum of several. Null: unknown.
#[derive(Serialize)]
pub(super) struct Summary {
    transport: Transport,
    to: SocketAddr,
    payload_bytes: usize,
    #[serde(flatten)]
    all: Map<String, Value>,
    /// Messages that --messages could not write.
    not_written: u64,
    errors: Vec<ErrorCount>,
    /// Each sender, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    streams: Vec<Map<String, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Interval>,
    /// Whether more could be sent with one call.
    #[serde(skip)]
    one_by_one: bool,
}

/// What a sender sent.
#[derive(Serialize)]
struct Stream {
    from: Option<SocketAddr>,
    session: u16,
    sent: u64,
    sent_bytes: u64,
    /// Datagrams that announced the end, not in `sent`.
    announcements: u64,
    /// Messages that the schedule had for this time; null: pacing by sleep has no schedule.
    due: Option<u64>,
    /// Those of them that were not sent.
    shortfall: u64,
    duration_s: f64,
    msgs_per_s: Option<f64>,
    mbit_per_s: Option<f64>,
    lateness_mean_us: Option<f64>,
    lateness_max_us: Option<f64>,
    lateness_n: u64,
    blocked_s: f64,
    connect_s: Option<f64>,
    retransmits: Option<u32>,
    round_trip_us: Option<f64>,
    outstanding_bytes: Option<u64>,
    /// QUIC: whether all was acknowledged when the drain ended; of datagrams, something behind the last of them.
    acknowledged: Option<bool>,
    /// QUIC, where it was not: bytes of a stream that may be outstanding.
    outstanding_at_most_bytes: Option<u64>,
    /// QUIC datagrams: messages that waited to be sent when the drain ended; they are in `sent`.
    never_left: Option<u64>,
    partial_bytes: u64,
    /// QUIC: packets declared lost.
    lost_packets: Option<u64>,
    stopped: bool,
}

impl Summary {
    /// That of one sender or more; `told` is what was printed of each interval, `not_written` what a disk did not take.
    pub(super) fn new(
        all: &[SenderSettings],
        reports: &[SendReport],
        intervals: Vec<Interval>,
        not_written: u64,
    ) -> serde_json::Result<Self> {
        let settings = &all[0];
        let stream = |(settings, report)| serde_json::to_value(Stream::new(settings, report));
        let streams = all.iter().zip(reports).map(stream).collect::<Result<Vec<Value>, _>>()?;
        let streams: Vec<Map<String, Value>> =
            streams.into_iter().filter_map(|stream| stream.as_object().cloned()).collect();
        let mut sum = streams.iter().skip(1).fold(streams[0].clone(), added);
        if let [first, others @ ..] = reports {
            let mut lateness = first.lateness.clone();
            others.iter().for_each(|report| lateness.merge(&report.lateness));
            sum.insert("lateness_mean_us".to_owned(), lateness.mean_us().into());
        }
        Ok(Self {
            transport: settings.transport,
            to: settings.to,
            payload_bytes: settings.payload_bytes,
            all: sum,
            not_written,
            errors: reports.iter().flat_map(|report| &report.errors).cloned().collect(),
            streams: if streams.len() > 1 { streams } else { Vec::new() },
            intervals,
            one_by_one: settings.quantum.is_zero() && settings.transport == Transport::Udp,
        })
    }

    pub(super) fn print(&self) {
        let object = serde_json::to_value(self).unwrap_or_default();
        let heading = match self.streams.len() {
            0 => lines::filled(&object, "{transport} {to}[ from {from}], session {session}"),
            senders => lines::filled(&object, &format!("{{transport}} {{to}}, {senders} senders")),
        };
        say!("{}", heading.unwrap_or_default());
        lines::print(&object, "  ", SENT);
        let advice =
            if self.one_by_one && self.errors.is_empty() { "; --quantum 1ms sends more with one call" } else { "" };
        let shortfall =
            format!("+{{shortfall}} of {{due}} messages that were due were not sent ({{shortfall%due}} %){advice}");
        lines::print(&object, "  ", &[("shortfall", &shortfall)]);
        lines::print(&object, "  ", LINES);
        if self.all["acknowledged"] == false && self.all["outstanding_at_most_bytes"].is_null() {
            let text = "nothing acknowledged after the last message when the drain ended: what came is unknown";
            lines::print(&object, "  ", &[("", text)]);
        }
        lines::print(&object, "  ", &[("blocked", "+{blocked_s} by a full send buffer")]);
        if !self.errors.is_empty() {
            let nobody = if self.is_refused() { format!(": nobody listens at {}", self.to) } else { String::new() };
            say!("  errors      {}{nobody}", in_words(&self.errors));
        }
        lines::print(
            &object,
            "  ",
            &[("not written", "+{not_written} messages: the file of --messages could not be written")],
        );
        if self.all["stopped"] == true {
            say!("  stopped early");
        }
        for stream in &self.streams {
            let line = "  session {session}[ from {from}]: sent {sent}[, {msgs_per_s}/s]";
            say!("{}", lines::filled(&stream.clone().into(), line).unwrap_or_default());
        }
    }

    /// Whether the other end has answered that nobody wants the datagrams (ICMP).
    fn is_refused(&self) -> bool {
        let refused = |error: &ErrorCount| error.operation == "send" && error.error == "connection refused";
        self.transport == Transport::Udp && self.errors.iter().any(refused)
    }
}

const SENT: &[Line<'_>] = &[
    ("sent", "{sent} messages of {payload_bytes}B in {duration_s}"),
    ("throughput", "{msgs_per_s}/s, {mbit_per_s} Mbit/s"),
];

const LINES: &[Line<'_>] = &[
    ("late", "mean {lateness_mean_us}, max {lateness_max_us} after the intended send time (n {lateness_n})"),
    ("tcp", "{retransmits} segments sent again[, round trip {round_trip_us}]"),
    ("quic", "{lost_packets} packets declared lost"),
    ("", "+{outstanding_bytes} bytes not acknowledged when the drain ended"),
    ("", "+{never_left} messages had not left when the drain ended: they were never sent"),
    ("", "+up to {outstanding_at_most_bytes} bytes not acknowledged when the drain ended"),
];

/// Two streams together: counts and rates are sums, times those of the longer, `from` and `session` of the first. What is
/// unknown of one is left to the other.
fn added(mut all: Map<String, Value>, more: &Map<String, Value>) -> Map<String, Value> {
    for (key, sum) in &mut all {
        let longest = matches!(&**key, "duration_s" | "connect_s" | "lateness_max_us" | "round_trip_us");
        *sum = match (&*sum, &more[key]) {
            (Value::Null, other) => other.clone(),
            (Value::Bool(a), Value::Bool(b)) if key == "acknowledged" => (*a && *b).into(),
            (Value::Bool(a), Value::Bool(b)) => (*a || *b).into(),
            (a, b) if key != "session" => match (a.as_u64(), b.as_u64(), a.as_f64(), b.as_f64()) {
                (Some(a), Some(b), ..) => (a + b).into(),
                (.., Some(a), Some(b)) => if longest { a.max(b) } else { a + b }.into(),
                _ => continue,
            },
            _ => continue,
        };
    }
    all
}

impl Stream {
    fn new(settings: &SenderSettings, report: &SendReport) -> Self {
        let seconds = report.used.as_secs_f64();
        // Who ends by a count does not wait another interval for its last message to fill.
        let by_count = settings.count.is_some_and(|count| report.sent == count.get());
        let spaced = report.first_send.zip(report.last_send).map(|(first, last)| (last - first) as f64 / 1e9);
        let (messages, span) = match spaced.filter(|_| by_count) {
            Some(span) => (report.sent - 1, span),
            None => (report.sent, seconds),
        };
        let msgs_per_s = (span > 0.0).then(|| messages as f64 / span);
        let tcp = report.tcp_after_drain;
        let stream = report.acknowledged.filter(|_| settings.transport == Transport::Quic);
        // quinn tells no more, but takes no more than that before some of it is acknowledged.
        let window = report.send_buffer.map_or(u64::MAX, |bytes| bytes as u64);
        let at_most = window.min(report.sent_bytes + report.partial_bytes);
        Self {
            from: report.local,
            session: settings.session,
            sent: report.sent,
            sent_bytes: report.sent_bytes,
            announcements: report.announcements,
            due: report.due,
            shortfall: report.shortfall(),
            duration_s: seconds,
            msgs_per_s,
            mbit_per_s: msgs_per_s.map(|rate| rate * settings.payload_bytes as f64 * 8e-6),
            lateness_mean_us: report.lateness.mean_us(),
            lateness_max_us: report.lateness.max_us(),
            lateness_n: report.lateness.n(),
            blocked_s: report.blocked.as_secs_f64(),
            connect_s: report.connect.map(|connect| connect.as_secs_f64()),
            retransmits: tcp.map(|tcp| tcp.retransmits),
            round_trip_us: tcp.map(|tcp| tcp.rtt_us.into()),
            outstanding_bytes: tcp.map(|tcp| tcp.outstanding_bytes()).or((stream == Some(true)).then_some(0)),
            acknowledged: report.acknowledged,
            outstanding_at_most_bytes: (stream == Some(false)).then_some(at_most),
            never_left: (settings.transport == Transport::QuicDatagram).then_some(report.never_left),
            partial_bytes: report.partial_bytes,
            lost_packets: report.lost_packets,
            stopped: report.stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn streams_add_up() {
        let one = json!({"from": "a", "session": 7, "sent": 5, "due": null, "mbit_per_s": 1.5, "duration_s": 2.0,
            "stopped": false, "acknowledged": true, "never_left": null});
        let two = json!({"from": "b", "session": 8, "sent": 6, "due": null, "mbit_per_s": 2.0, "duration_s": 1.0,
            "stopped": true, "acknowledged": false, "never_left": 3});
        let sum = added(one.as_object().unwrap().clone(), two.as_object().unwrap());
        let expected = json!({"from": "a", "session": 7, "sent": 11, "due": null, "mbit_per_s": 3.5, "duration_s": 2.0,
            "stopped": true, "acknowledged": false, "never_left": 3});
        assert_eq!(Value::from(sum), expected);
    }
}
