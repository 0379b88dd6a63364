//! What `weir send` tells at its end.

use std::net::SocketAddr;

use serde::Serialize;
use weir_program::output::say;
use weir_traffic::{ErrorCount, SendReport, SenderSettings, Transport, in_words};
use weir_units::format;

use super::intervals::Interval;

/// What `--json` prints: of one sender, or the sum of several. Null: unknown.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    transport: Transport,
    to: SocketAddr,
    payload_bytes: usize,
    #[serde(flatten)]
    all: Stream,
    /// Messages that --messages could not write.
    not_written: u64,
    errors: Vec<&'a ErrorCount>,
    /// Each sender, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    streams: Vec<Stream>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Interval>,
    #[serde(skip)]
    reports: &'a [SendReport],
    #[serde(skip)]
    quantum: bool,
}

/// What a sender sent.
#[derive(Clone, Serialize)]
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
    blocked_s: f64,
    connect_s: Option<f64>,
    retransmits: Option<u32>,
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

impl<'a> Summary<'a> {
    /// That of one sender or more; `told` is what was said of each interval, `not_written` what a disk did not take.
    pub(super) fn new(
        all: &[SenderSettings],
        reports: &'a [SendReport],
        told: Vec<Interval>,
        not_written: u64,
    ) -> Self {
        let settings = &all[0];
        let streams: Vec<Stream> =
            all.iter().zip(reports).map(|(settings, report)| Stream::new(settings, report)).collect();
        let sum = Stream::sum(&streams, reports, settings.payload_bytes);
        Self {
            transport: settings.transport,
            to: settings.to,
            payload_bytes: settings.payload_bytes,
            all: sum,
            not_written,
            errors: reports.iter().flat_map(|report| &report.errors).collect(),
            streams: if streams.len() > 1 { streams } else { Vec::new() },
            intervals: told,
            reports,
            quantum: !settings.quantum.is_zero() || settings.transport != Transport::Udp,
        }
    }

    pub(super) fn print(&self) {
        let (all, payload) = (&self.all, self.payload_bytes);
        match &self.streams[..] {
            [] => {
                let from = all.from.map(|local| format!(" from {local}")).unwrap_or_default();
                say!("{} {}{from}, session {}", self.transport, self.to, all.session);
            }
            streams => say!("{} {}, {} senders", self.transport, self.to, streams.len()),
        }
        say!("  sent        {} messages of {payload}B in {}", all.sent, format::duration(all.duration_s * 1e6));
        if let (Some(messages), Some(mbit)) = (all.msgs_per_s, all.mbit_per_s) {
            say!("  throughput  {}/s, {} Mbit/s", format::short(messages), format::short(mbit));
        }
        if let Some(due) = all.due.filter(|_| all.shortfall > 0) {
            let share = format::short(all.shortfall as f64 / due as f64 * 100.0);
            let advice =
                if self.quantum || !self.errors.is_empty() { "" } else { "; --quantum 1ms sends more with one call" };
            say!("  shortfall   {} of {due} messages that were due were not sent ({share} %){advice}", all.shortfall);
        }
        if let (Some(mean), Some(max)) = (all.lateness_mean_us, all.lateness_max_us) {
            let (mean, max) = (format::duration(mean), format::duration(max));
            let n: u64 = self.reports.iter().map(|report| report.lateness.n()).sum();
            say!("  late        mean {mean}, max {max} behind the intended send time (n {n})");
        }
        self.print_transport();
        if all.blocked_s > 0.0 {
            say!("  blocked     {} by a full send buffer", format::duration(all.blocked_s * 1e6));
        }
        if !self.errors.is_empty() {
            let errors: Vec<ErrorCount> = self.errors.iter().copied().cloned().collect();
            let nobody = if self.is_refused() { format!(": nobody listens at {}", self.to) } else { String::new() };
            say!("  errors      {}{nobody}", in_words(&errors));
        }
        if self.not_written > 0 {
            say!("  not written {} messages: the file of --messages could not be written", self.not_written);
        }
        if all.stopped {
            say!("  stopped early");
        }
        for stream in &self.streams {
            let rate = stream.msgs_per_s.map(|rate| format!(", {}/s", format::short(rate))).unwrap_or_default();
            let from = stream.from.map(|from| format!(" from {from}")).unwrap_or_default();
            say!("  session {}{from}: sent {}{rate}", stream.session, stream.sent);
        }
    }

    /// Whether the other end has answered that nobody wants the datagrams (ICMP).
    fn is_refused(&self) -> bool {
        let errors = &self.errors;
        self.transport == Transport::Udp
            && errors.iter().any(|error| error.operation == "send" && error.error == "connection refused")
    }

    fn print_transport(&self) {
        if let Some(retransmits) = self.all.retransmits {
            let trip = self.reports.iter().filter_map(|report| report.tcp_after_drain).map(|tcp| tcp.rtt_us).max();
            let trip =
                trip.map(|trip| format!(", round trip {}", format::duration(f64::from(trip)))).unwrap_or_default();
            say!("  tcp         {retransmits} segments sent again{trip}");
        }
        if let Some(lost) = self.all.lost_packets {
            say!("  quic        {lost} packets declared lost");
        }
        if let Some(bytes) = self.all.outstanding_bytes.filter(|&bytes| bytes > 0) {
            say!("              {bytes} bytes not acknowledged when the drain ended");
        }
        if let Some(messages) = self.all.never_left.filter(|&messages| messages > 0) {
            say!("              {messages} messages had not left when the drain ended: they were never sent");
        }
        match self.all.outstanding_at_most_bytes.filter(|&bytes| bytes > 0) {
            Some(bytes) => say!("              up to {bytes} bytes not acknowledged when the drain ended"),
            None if self.all.acknowledged == Some(false) => {
                say!(
                    "              nothing acknowledged behind the last message when the drain ended: what came is unknown"
                );
            }
            None => {}
        }
    }
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
            blocked_s: report.blocked.as_secs_f64(),
            connect_s: report.connect.map(|connect| connect.as_secs_f64()),
            retransmits: tcp.map(|tcp| tcp.retransmits),
            outstanding_bytes: tcp.map(|tcp| tcp.outstanding_bytes()).or((stream == Some(true)).then_some(0)),
            acknowledged: report.acknowledged,
            outstanding_at_most_bytes: (stream == Some(false)).then_some(at_most),
            never_left: (settings.transport == Transport::QuicDatagram).then_some(report.never_left),
            partial_bytes: report.partial_bytes,
            lost_packets: report.lost_packets,
            stopped: report.stopped,
        }
    }

    /// All of them together: counts and rates are sums, times those of the longest.
    fn sum(streams: &[Stream], reports: &[SendReport], payload_bytes: usize) -> Self {
        let (mut all, mut lateness) = (streams[0].clone(), reports[0].lateness.clone());
        for (stream, report) in streams.iter().zip(reports).skip(1) {
            let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
            all.sent += stream.sent;
            all.sent_bytes += stream.sent_bytes;
            all.announcements += stream.announcements;
            all.due = sum(all.due, stream.due);
            all.shortfall += stream.shortfall;
            all.duration_s = all.duration_s.max(stream.duration_s);
            all.msgs_per_s = all.msgs_per_s.zip(stream.msgs_per_s).map(|(a, b)| a + b);
            all.blocked_s += stream.blocked_s;
            all.connect_s = all.connect_s.zip(stream.connect_s).map(|(a, b)| a.max(b));
            all.retransmits = all.retransmits.zip(stream.retransmits).map(|(a, b)| a + b);
            all.outstanding_bytes = sum(all.outstanding_bytes, stream.outstanding_bytes);
            all.acknowledged = all.acknowledged.zip(stream.acknowledged).map(|(a, b)| a && b);
            let more = stream.outstanding_at_most_bytes;
            all.outstanding_at_most_bytes = all.outstanding_at_most_bytes.map_or(more, |a| Some(a + more.unwrap_or(0)));
            all.never_left = sum(all.never_left, stream.never_left);
            all.partial_bytes += stream.partial_bytes;
            all.lost_packets = sum(all.lost_packets, stream.lost_packets);
            all.stopped |= stream.stopped;
            lateness.merge(&report.lateness);
        }
        all.mbit_per_s = all.msgs_per_s.map(|rate| rate * payload_bytes as f64 * 8e-6);
        (all.lateness_mean_us, all.lateness_max_us) = (lateness.mean_us(), lateness.max_us());
        all
    }
}
