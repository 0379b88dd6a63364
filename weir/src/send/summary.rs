//! The result of `weir send`.

use serde_json::{Value, json};
use weir_program::output::say;
use weir_traffic::{ErrorCount, SendReport, SenderSettings, Transport, in_words};

use super::intervals::Interval;
use crate::lines::{self, Line};

/// The object of `--json`: one sender, or the sum of several. Null: unknown. `not_written`: messages that the file of
/// `--messages` lacks.
pub(super) fn object(
    all: &[SenderSettings],
    reports: &[SendReport],
    intervals: &[Interval],
    not_written: u64,
) -> Value {
    let streams: Vec<Value> = all.iter().zip(reports).map(|(settings, report)| stream(settings, report)).collect();
    let mut object = streams.iter().skip(1).fold(streams[0].clone(), added);
    if let [first, others @ ..] = reports {
        let mut lateness = first.lateness.clone();
        others.iter().for_each(|report| lateness.merge(&report.lateness));
        object["lateness_mean_us"] = lateness.mean_us().into();
    }
    object["transport"] = json!(all[0].transport);
    object["to"] = json!(all[0].to);
    object["payload_bytes"] = json!(all[0].payload_bytes);
    object["not_written"] = json!(not_written);
    object["errors"] = json!(reports.iter().flat_map(|report| &report.errors).collect::<Vec<_>>());
    if streams.len() > 1 {
        object["streams"] = json!(streams);
    }
    if !intervals.is_empty() {
        object["intervals"] = json!(intervals);
    }
    object
}

/// Prints the same as text.
pub(super) fn print(object: &Value, settings: &SenderSettings, reports: &[SendReport]) {
    let udp = settings.transport == Transport::Udp;
    let errors: Vec<ErrorCount> = reports.iter().flat_map(|report| &report.errors).cloned().collect();
    let heading = match reports.len() {
        1 => lines::filled(object, "{transport} {to}[ from {from}], session {session}"),
        senders => lines::filled(object, &format!("{{transport}} {{to}}, {senders} senders")),
    };
    say!("{}", heading.unwrap_or_default());
    lines::print(object, "  ", SENT);
    let one_by_one = udp && settings.quantum.is_zero() && errors.is_empty();
    let advice = if one_by_one { ". Try --quantum 1ms, which sends in batches." } else { "" };
    let shortfall = format!("+{{shortfall}} of {{due}} scheduled messages were not sent ({{shortfall%due}} %){advice}");
    lines::print(object, "  ", &[("shortfall", &shortfall)]);
    lines::print(object, "  ", LINES);
    if object["acknowledged"] == false && object["outstanding_at_most_bytes"].is_null() {
        let text = "nothing acknowledged after the last message when the drain ended: delivery is unknown";
        lines::print(object, "  ", &[("", text)]);
    }
    lines::print(object, "  ", &[("blocked", "+{blocked_s} by a full send buffer")]);
    if !errors.is_empty() {
        // The receiver's host has answered that the port is closed (ICMP).
        let refused = |error: &ErrorCount| error.operation == "send" && error.error == "connection refused";
        let is_refused = udp && errors.iter().any(refused);
        let nobody = if is_refused { format!(": nothing listens on {}", settings.to) } else { String::new() };
        say!("  errors      {}{nobody}", in_words(&errors));
    }
    lines::print(object, "  ", &[NOT_WRITTEN]);
    if object["stopped"] == true {
        say!("  stopped early");
    }
    for stream in object["streams"].as_array().into_iter().flatten() {
        let line = "  session {session}[ from {from}]: sent {sent}[, {msgs_per_s}/s]";
        say!("{}", lines::filled(stream, line).unwrap_or_default());
    }
}

/// For `--messages`.
pub(crate) const NOT_WRITTEN: Line<'_> =
    ("not written", "+{not_written} messages: too many for --messages, or its file could not be written");

const SENT: &[Line<'_>] = &[
    ("sent", "{sent} messages of {payload_bytes}B in {duration_s}"),
    ("throughput", "{msgs_per_s}/s, {mbit_per_s} Mbit/s"),
];

const LINES: &[Line<'_>] = &[
    ("late", "mean {lateness_mean_us}, max {lateness_max_us} after the intended send time (n {lateness_n})"),
    ("tcp", "{retransmits} segments retransmitted[, round trip {round_trip_us}]"),
    ("quic", "{lost_packets} packets declared lost"),
    ("", "+{outstanding_bytes} bytes not acknowledged when the drain ended"),
    ("", "+{never_left} messages not sent when the drain ended"),
    ("", "+up to {outstanding_at_most_bytes} bytes not acknowledged when the drain ended"),
];

/// The sum of two streams: counts and rates add up, times are those of the longer, `from` and `session` those of the first.
/// A value that one stream lacks is that of the other.
fn added(mut all: Value, more: &Value) -> Value {
    for (key, sum) in all.as_object_mut().into_iter().flatten() {
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

/// What a sender sent.
fn stream(settings: &SenderSettings, report: &SendReport) -> Value {
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
    // quinn reports no more, but accepts at most this much unacknowledged data.
    let window = report.send_buffer.map_or(u64::MAX, |bytes| bytes as u64);
    let at_most = window.min(report.sent_bytes + report.partial_bytes);
    json!({
        "from": report.local,
        "session": settings.session,
        "sent": report.sent,
        "sent_bytes": report.sent_bytes,
        // Datagrams that announced the end; not in `sent`.
        "announcements": report.announcements,
        // Messages scheduled for this time; null: pacing by sleep has no schedule.
        "due": report.due,
        "shortfall": report.shortfall(),
        "duration_s": seconds,
        "msgs_per_s": msgs_per_s,
        "mbit_per_s": msgs_per_s.map(|rate| rate * settings.payload_bytes as f64 * 8e-6),
        "lateness_mean_us": report.lateness.mean_us(),
        "lateness_max_us": report.lateness.max_us(),
        "lateness_n": report.lateness.n(),
        "blocked_s": report.blocked.as_secs_f64(),
        "connect_s": report.connect.map(|connect| connect.as_secs_f64()),
        "retransmits": tcp.map(|tcp| tcp.retransmits),
        "round_trip_us": tcp.map(|tcp| f64::from(tcp.rtt_us)),
        "outstanding_bytes": tcp.map(|tcp| tcp.outstanding_bytes).or((stream == Some(true)).then_some(0)),
        // QUIC: whether all was acknowledged when the drain ended; of datagrams, something after the last of them.
        "acknowledged": report.acknowledged,
        // QUIC, if not all was acknowledged: max bytes of a stream that are outstanding.
        "outstanding_at_most_bytes": (stream == Some(false)).then_some(at_most),
        // QUIC datagrams: messages still waiting when the drain ended; they are in `sent`.
        "never_left": (settings.transport == Transport::QuicDatagram).then_some(report.never_left),
        "partial_bytes": report.partial_bytes,
        // QUIC: packets declared lost.
        "lost_packets": report.lost_packets,
        "stopped": report.stopped,
    })
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
        let sum = added(one, &two);
        let expected = json!({"from": "a", "session": 7, "sent": 11, "due": null, "mbit_per_s": 3.5, "duration_s": 2.0,
            "stopped": true, "acknowledged": false, "never_left": 3});
        assert_eq!(sum, expected);
    }
}
