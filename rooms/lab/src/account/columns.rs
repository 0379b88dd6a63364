//! The columns after the fixed ones, the estimates with their intervals, and timelines.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_kernel::processors::{Activity, Line, Times as ProcessorTimes};
use weir_kernel::tcp::TcpInfo;
use weir_report::record::{Extra, Row, Timeline};
use weir_report::{columns, timelines};
use weir_stats::{Distribution, Estimate, binomial, intervals};
use weir_trace::Drop;
use weir_traffic::bulk::{BulkReport, Sample};
use weir_traffic::{ReceiveReport, SendReport, SessionReport, Transport};

use super::traced::{is_full_backlog, is_full_buffer};
use super::{PathAccount, rounded, window_of};
use crate::cell::Measured;
use crate::endpoints::Facts;
use crate::watch::{self, Look};

impl PathAccount<'_> {
    pub(super) fn extra(&self, row: &Row, lateness: &Distribution) -> Extra {
        let Measured { topology, machine, .. } = self.measured;
        let PathAccount { sent, received, session, bulk, delays, .. } = *self;
        let count = |n: u64| Some(n as f64);
        let quantile = |delays: &Distribution, q| Some(delays.quantile_us(q)?.value);
        let of_udp = self.transport == Transport::Udp;
        let share = sent.and_then(|sent| binomial::share(self.delivered(), sent.sent));
        let share = share.map(|share| share.value);
        let of_session = |n: fn(&SessionReport) -> u64| sent.map(|_| session.map_or(0, n) as f64);
        let intended = self.times.as_ref().map(|times| times.intended.delays());
        // Datagrams are known to be lost, not late.
        let by_datagrams = matches!(self.transport, Transport::Udp | Transport::QuicDatagram);
        let late = sent.filter(|_| !by_datagrams).zip(received);
        let censored = delays.zip(session).map(|(delays, session)| match late {
            Some((sent, received)) => with_undelivered(delays, session, sent, received),
            None => delays.clone(),
        });
        let connect = sent.map_or_else(|| bulk.and_then(|report| report.connect), |sent| sent.connect);
        let kernel_drops = self.kernel_drops().iter().map(|drop| drop.packets).sum::<u64>();
        let worst_at = session.and_then(|session| session.delays.worst_at());

        let samples = bulk.map(|report| &report.samples).filter(|samples| !samples.is_empty());
        let mean = |of: fn(&Sample) -> f64| samples.map(|all| all.iter().map(of).sum::<f64>() / all.len() as f64);
        let limited = |of: fn(&TcpInfo) -> u64| {
            let at_end = &bulk?.at_end;
            let busy: u64 = at_end.iter().map(|info| info.busy_us).sum();
            (busy > 0).then(|| at_end.iter().map(of).sum::<u64>() as f64 * 100.0 / busy as f64)
        };

        let datagrams = sent.filter(|_| of_udp);
        let offered = sent.and_then(offered);
        let direct = topology.links.iter().any(|link| link.direct);
        let looks = self.looks();
        let watched = self.measured.watched.as_ref();
        // Activity of the receiver's CPU in the window, or of all CPUs.
        let processor = topology.nodes[topology.traffic.receivers[self.receiver]].processor;
        let activity = watched.and_then(|watched| watched.activity_of(processor));
        let time = activity.as_ref().map(Activity::time).filter(|time| !time.total().is_zero());
        let part = |of: fn(&ProcessorTimes) -> Duration| {
            time.as_ref().map(|time| of(time).div_duration_f64(time.total()) * 100.0)
        };
        let seconds = watched.map(|watched| watched.seconds).filter(|seconds| *seconds > 0.0);
        let rate = |count: Option<u64>| Some(count? as f64 / seconds?);
        let lines = activity.as_ref().map(|activity| &activity.lines).filter(|lines| !lines.is_empty());
        let drops = self.traced_drops();
        let traced = |wanted: &dyn Fn(&Drop) -> bool| {
            let those = drops.as_ref()?.iter().filter(|drop| wanted(drop));
            Some(those.map(|drop| drop.datagrams).sum::<u64>() as f64)
        };
        let stall = self.traced_socket().map(|socket| socket.longest_stall_ns as f64 / 1e6);
        let seen = || watch::longest_stall(looks).map(|stall| stall.as_secs_f64() * 1e3);

        let values = BTreeMap::from([
            ("delivered_share", share),
            ("lost_share", share.filter(|_| by_datagrams).map(|share| 1.0 - share)),
            ("share_minus_expected", share.map(|share| share - (1.0 - row.loss_pct / 100.0))),
            ("host_drops", self.host_drops().filter(|_| of_udp).map(|drops| drops as f64)),
            ("kernel_drops", datagrams.map(|_| kernel_drops as f64)),
            ("duplicates", of_session(|session| session.duplicates)),
            ("reordered", of_session(|session| session.reordered)),
            ("longest_gap", sent.zip(session).and_then(|(sent, session)| longest_gap(session, sent.sent))),
            ("delay_p999_us", self.delay_us(0.999)),
            ("delay_max_at_s", worst_at.map(|at| at.as_secs_f64())),
            ("intended_delay_mean_us", intended.and_then(Distribution::mean_us)),
            ("intended_delay_p99_us", intended.and_then(|delays| quantile(delays, 0.99))),
            ("censored_delay_mean_us", censored.as_ref().and_then(Distribution::mean_us)),
            ("censored_delay_p99_us", censored.as_ref().and_then(|delays| quantile(delays, 0.99))),
            ("return_loss_pct", Some(rounded(topology.loss(&self.path.backward) * 100.0))),
            ("return_latency_ms", Some(rounded(topology.latency_ms(&self.path.backward)))),
            ("return_planned_drops", count(self.backward.planned)),
            ("return_queue_drops", count(self.backward.queue)),
            ("connect_ms", connect.map(|connect| connect.as_secs_f64() * 1e3)),
            ("lateness_max_us", lateness.max_us()),
            ("stall_max_us", machine.lateness.max_us()),
            ("standstill_pct", Some(self.conduct.share().0 * 100.0)),
            ("foreign_share", Some(self.measured.foreign)),
            ("load_mbit_per_s", self.load_mbit_per_s()),
            ("sent_msgs_per_s", offered),
            ("sent_mbit_per_s", offered.map(|rate| rate * self.message_bits() / 1e6)),
            ("sent_bytes", bulk.map(|report| report.sent_bytes as f64)),
            ("received_bytes", bulk.map(|report| report.received_bytes as f64)),
            ("streams_connected", bulk.map(|report| f64::from(report.connected))),
            ("cwnd_mean_bytes", mean(|sample| sample.congestion_window as f64)),
            ("rtt_mean_us", mean(|sample| sample.rtt.as_secs_f64() * 1e6)),
            ("receive_window_limited_pct", limited(|info| info.receive_window_limited_us)),
            ("send_buffer_limited_pct", limited(|info| info.send_buffer_limited_us)),
            ("jitter_us", bulk.and_then(|report| report.datagrams?.jitter_us)),
            ("backlog_drops", datagrams.filter(|_| direct).map(|_| self.forward.backlog as f64)),
            (
                "receive_buffer_bytes",
                datagrams.and(received).and_then(|received| Some(received.receive_buffer? as f64)),
            ),
            ("buffer_level_max_bytes", looks.iter().map(|look| look.level.bytes).max().map(f64::from)),
            ("buffer_full_pct", watch::share_above(looks, NEARLY_FULL).map(|share| share * 100.0)),
            ("longest_stall_ms", stall.or_else(seen)),
            ("cpu_user_pct", part(|time| time.user)),
            ("cpu_system_pct", part(|time| time.system)),
            ("cpu_irq_pct", part(|time| time.irq)),
            ("cpu_softirq_pct", part(|time| time.softirq)),
            ("interrupts_per_s", rate(lines.map(|lines| lines.iter().map(Line::total).sum()))),
            ("net_rx_per_s", rate(activity.as_ref().and_then(|activity| activity.softirq("NET_RX")))),
            ("traced_drops", traced(&|_| true)),
            ("traced_receive_buffer_drops", traced(&is_full_buffer)),
            ("traced_backlog_drops", traced(&is_full_backlog)),
        ]);
        let value = |name: &str| values.get(name).copied().flatten();
        columns::ADDED.iter().map(|column| (column.name.to_owned(), value(column.name))).collect()
    }

    pub(super) fn estimates(&self, row: &Row) -> BTreeMap<String, Estimate> {
        let mut estimates = BTreeMap::new();
        let mut insert = |name: &str, estimate: Option<Estimate>| {
            if let Some(estimate) = estimate {
                estimates.insert(name.into(), estimate);
            }
        };
        if let Some(session) = self.session {
            let recorder = &session.delays;
            // The batches divide the planned window.
            if !self.measured.traffic.stopped {
                let per_second = recorder.per_second();
                insert("msgs_per_s", per_second);
                insert("mbit_per_s", per_second.map(|rate| rate.times(self.message_bits() / 1e6)));
            }
            insert("delay_mean_us", recorder.mean_us());
            insert("delay_p50_us", recorder.delays().quantile_us(0.5));
            insert("delay_p99_us", recorder.delays().quantile_us(0.99));
        }
        if let Some(intended) = self.times.as_ref().map(|times| &times.intended) {
            insert("intended_delay_mean_us", intended.mean_us());
            insert("intended_delay_p99_us", intended.delays().quantile_us(0.99));
        }
        if let Some(report) = self.bulk {
            let throughput = throughput(report.batch, &report.batches);
            insert("mbit_per_s", throughput);
            insert("msgs_per_s", throughput.map(|rate| rate.times(1e6 / 8.0 / row.payload_bytes.max(1) as f64)));
        }
        // Independent losses: only then is the share binomial. Over TCP messages are late, not lost.
        if let Some(sent) = self.sent.filter(|_| self.transport == Transport::Udp) {
            // A full buffer drops several datagrams in a row.
            let lost_in_rows = self.forward.queue + self.forward.backlog;
            let in_rows = self.host_drops() != Some(0) || lost_in_rows > 0 || !self.kernel_drops().is_empty();
            let share = binomial::share(self.delivered(), sent.sent).filter(|_| !in_rows);
            let due = 1.0 - row.loss_pct / 100.0;
            insert("delivered_share", share);
            let lost = share.map(|it| Estimate { value: 1.0 - it.value, low: 1.0 - it.high, high: 1.0 - it.low, ..it });
            insert("lost_share", lost);
            let more = share.map(|it| Estimate { value: it.value - due, low: it.low - due, high: it.high - due, ..it });
            insert("share_minus_expected", more);
        }
        estimates
    }

    /// Samples over time: the largest delays of messages, and the level of the receiver's buffer.
    pub(super) fn timelines(&self) -> Vec<Timeline> {
        if let Some(report) = self.bulk {
            return of_bulk(report);
        }
        let course = self.times.iter().map(|times| ("largest_delay_us", times.course.clone()));
        let point = |look: &Look| ((look.at.as_secs_f64() * 1e4).round() / 1e4, f64::from(look.level.bytes));
        let level: Vec<_> = self.looks().iter().map(point).collect();
        let level = [("buffer_level_bytes", timelines::thinned(&level, MAX_POINTS))];
        let all = course.chain(level).filter(|(_, points)| !points.is_empty());
        all.map(|(name, points)| Timeline { name: name.into(), points }).collect()
    }

    fn load_mbit_per_s(&self) -> Option<f64> {
        let Facts { sent, received, bulk, .. } = self.measured.load.as_ref()?;
        if let Some(report) = bulk {
            return throughput_of(report.received_bytes, report.used.as_secs_f64());
        }
        let (sent, session) = (sent.as_ref()?, received.first()?.main_session()?);
        throughput_of(session.in_window * sent.sent_bytes / sent.sent.max(1), window_of(sent).as_secs_f64())
    }

    fn looks(&self) -> &[Look] {
        let watched = self.measured.watched.as_ref();
        watched.and_then(|watched| watched.buffers.get(self.receiver)).map_or(&[], Vec::as_slice)
    }
}

fn throughput_of(bytes: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / 1e6 / seconds)
}

/// Max messages missing in a row. `None`: the receiver could not keep track of all.
fn longest_gap(session: &SessionReport, sent: u64) -> Option<f64> {
    let missing = session.numbers.missing(sent)?;
    let runs = missing.chunk_by(|a, b| a + 1 == *b).map(<[u64]>::len);
    Some(runs.max().unwrap_or(0) as f64)
}

/// Delays with every undelivered message counted with its min possible delay: until the receiver gave up.
fn with_undelivered(
    delays: &Distribution,
    session: &SessionReport,
    sent: &SendReport,
    received: &ReceiveReport,
) -> Distribution {
    let mut delays = delays.clone();
    for (number, departure) in (0..).zip(&sent.departures) {
        if !session.numbers.contains(number) {
            delays.record(received.finished.saturating_sub(departure.sent));
        }
    }
    delays
}

/// Throughput with its interval, Mbit/s. `None`: too few batches.
fn throughput(batch: Duration, batches: &[u64]) -> Option<Estimate> {
    let bits: Vec<f64> = batches.iter().map(|&bytes| bytes as f64 * 8.0 / 1e6).collect();
    intervals::batch_means(&bits, &vec![batch.as_secs_f64(); bits.len()])
}

/// The columns of a bulk transfer.
fn of_bulk(report: &BulkReport) -> Vec<Timeline> {
    let (batch, mut timelines) = (report.batch.as_secs_f64(), Vec::new());
    if batch > 0.0 && !report.batches.is_empty() {
        let point = |(index, &bytes): (usize, &u64)| ((index as f64 + 1.0) * batch, bytes as f64 * 8.0 / 1e6 / batch);
        let points = report.batches.iter().enumerate().map(point).collect();
        timelines.push(Timeline { name: "received_mbit".into(), points });
    }
    let mut streams: BTreeMap<u32, Vec<&Sample>> = BTreeMap::new();
    report.samples.iter().for_each(|sample| streams.entry(sample.stream).or_default().push(sample));
    for (stream, samples) in streams {
        let suffix = if stream == 0 { String::new() } else { format!(" #{}", stream + 1) };
        let mut add = |name: &str, of: fn(&Sample) -> Option<f64>| {
            let point = |sample: &&Sample| Some((sample.at.as_secs_f64(), of(sample)?));
            let points: Vec<_> = samples.iter().filter_map(point).collect();
            if !points.is_empty() {
                timelines.push(Timeline { name: format!("{name}{suffix}"), points });
            }
        };
        add("cwnd_bytes", |sample| Some(sample.congestion_window as f64));
        add("rtt_us", |sample| Some(sample.rtt.as_secs_f64() * 1e6));
        add("retransmits", |sample| Some(sample.retransmits as f64));
        add("delivery_rate_mbit", |sample| Some(sample.delivery_rate? as f64 / 1e6));
    }
    timelines
}

/// Messages sent per second of the sending window; if the sender fell behind, of the time until its last one left.
fn offered(sent: &SendReport) -> Option<f64> {
    let until_last = sent.last_send.zip(sent.first_send).map_or(0, |(last, first)| last.saturating_sub(first));
    let seconds = window_of(sent).as_secs_f64().max(until_last as f64 / 1e9);
    (sent.sent > 0 && seconds > 0.0).then(|| sent.sent as f64 / seconds)
}

/// From this level on a buffer counts as full: another datagram may not fit.
const NEARLY_FULL: f64 = 0.9;

/// Max points of a timeline.
const MAX_POINTS: usize = 400;

#[cfg(test)]
mod tests {
    use weir_traffic::Window;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Seconds that rates are over, and messages sent a second, of 100 from `first` to `last` in a window of ten seconds that
    /// begins at 5 s.
    fn of(first: u64, last: u64, stopped: bool) -> (u64, Option<f64>) {
        let (window, used) = (Window { start: 5 * SECOND, end: 15 * SECOND }, Duration::from_nanos(last - 5 * SECOND));
        let (first_send, last_send) = (Some(first), Some(last));
        let report = SendReport {
            sent: 100,
            window: Some(window),
            used,
            first_send,
            last_send,
            stopped,
            ..SendReport::default()
        };
        (window_of(&report).as_secs(), offered(&report))
    }

    #[test]
    fn rates_are_over_the_window_whatever_part_of_it_is_silent() {
        // In one burst of a second; to the end; 10 s longer; stopped.
        assert_eq!(of(5 * SECOND, 6 * SECOND, false), (10, Some(10.0)));
        assert_eq!(of(5 * SECOND, 15 * SECOND, false), (10, Some(10.0)));
        assert_eq!(of(5 * SECOND, 25 * SECOND, false), (10, Some(5.0)));
        assert_eq!(of(5 * SECOND, 9 * SECOND, true), (4, Some(25.0)));
        assert_eq!(offered(&SendReport::default()), None);
    }
}
