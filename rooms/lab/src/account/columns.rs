//! The columns behind the fixed ones, and the estimates with their intervals.

use std::collections::BTreeMap;

use weir_report::columns;
use weir_report::record::{Extra, Row};
use weir_stats::{Distribution, Estimate, Method, binomial};
use weir_traffic::{ReceiveReport, SendReport, SessionReport, Transport};

use super::times::Times;
use super::{PathAccount, bulk, rounded, window_of};
use crate::cell::Measured;
use crate::endpoints::Facts;

impl PathAccount<'_> {
    pub(super) fn extra(&self, row: &Row, lateness: &Distribution) -> Extra {
        let Measured { topology, .. } = self.measured;
        let sent = self.messages().map(|(sent, _)| sent);
        let datagrams = self.cell.scenario.traffic.transport == Transport::Udp;
        let session = self.session();
        let backward = self.totals(&self.path.backward);
        let delays = self.delays();
        let intended = self.times.as_ref().map(|times| times.intended.delays());
        let censored = delays.zip(session).zip(sent.zip(self.received()));
        let censored =
            censored.map(|((delays, session), (sent, received))| with_undelivered(delays, session, sent, received));
        let share = sent.and_then(|_| binomial::share(row.delivered, row.sent)).map(|share| share.value);
        let connect = sent.map_or_else(|| self.bulk().and_then(|report| report.connect), |sent| sent.connect);
        let quantile = |delays: Option<&Distribution>, q| delays.and_then(|delays| Some(delays.quantile_us(q)?.value));
        let count = |n: u64| Some(n as f64);
        let of_session = |n: fn(&SessionReport) -> u64| sent.map(|_| session.map_or(0, n) as f64);
        let columns = [
            ("delivered_share", share),
            ("share_minus_expected", share.map(|share| share - (1.0 - row.loss_pct / 100.0))),
            ("host_drops", self.host_drops().filter(|_| datagrams).map(|drops| drops as f64)),
            (
                "kernel_drops",
                (sent.is_some() || !datagrams && self.bulk().is_some())
                    .then(|| self.kernel_drops().iter().map(|drop| drop.packets).sum::<u64>() as f64),
            ),
            ("duplicates", of_session(|session| session.duplicates)),
            ("reordered", of_session(|session| session.reordered)),
            ("longest_gap", sent.zip(session).and_then(|(sent, session)| longest_gap(session, sent.sent))),
            ("delay_p999_us", quantile(delays, 0.999)),
            ("delay_max_at_s", session.and_then(|session| session.delays.worst_at()).map(|at| at.as_secs_f64())),
            ("intended_delay_mean_us", intended.and_then(Distribution::mean_us)),
            ("intended_delay_p99_us", quantile(intended, 0.99)),
            ("censored_delay_mean_us", censored.as_ref().and_then(Distribution::mean_us)),
            ("censored_delay_p99_us", quantile(censored.as_ref(), 0.99)),
            ("return_loss_pct", Some(rounded(topology.loss(&self.path.backward) * 100.0))),
            ("return_latency_ms", Some(rounded(topology.latency_ms(&self.path.backward)))),
            ("return_planned_drops", count(backward.planned)),
            ("return_queue_drops", count(backward.queue)),
        ];
        let more = [
            ("connect_ms", connect.map(|connect| connect.as_secs_f64() * 1e3)),
            ("lateness_max_us", lateness.max_us()),
            ("stall_max_us", self.measured.machine.lateness.max_us()),
            ("standstill_pct", Some(self.conduct.share().0 * 100.0)),
            ("foreign_share", Some(self.measured.foreign)),
            ("load_mbit_per_s", self.load_mbit_per_s()),
        ];
        let all = columns.into_iter().chain(more).chain(bulk::columns(self.bulk())).chain(self.load_columns(row));
        let values: BTreeMap<&str, Option<f64>> = all.collect();
        let value = |name: &str| values.get(name).copied().flatten();
        columns::ADDED.iter().map(|column| (column.name.to_owned(), value(column.name))).collect()
    }

    pub(super) fn estimates(&self, row: &Row) -> BTreeMap<String, Estimate> {
        let mut estimates = BTreeMap::new();
        let forward = self.totals(&self.path.forward);
        let mut insert = |name: &str, estimate: Option<Estimate>| {
            if let Some(estimate) = estimate {
                estimates.insert(name.into(), estimate);
            }
        };
        if let Some(session) = self.session() {
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
        if let Some(Times { intended, .. }) = &self.times {
            insert("intended_delay_mean_us", intended.mean_us());
            insert("intended_delay_p99_us", intended.delays().quantile_us(0.99));
        }
        if let Some(report) = self.bulk() {
            let throughput = bulk::throughput(report);
            insert("mbit_per_s", throughput);
            insert("msgs_per_s", throughput.map(|rate| rate.times(1e6 / 8.0 / row.payload_bytes.max(1) as f64)));
        }
        // Independent losses: only then is the share binomial. TCP loses nothing, it is late.
        if self.messages().is_some() && self.cell.scenario.traffic.transport == Transport::Udp {
            // A full buffer loses in rows.
            let in_rows =
                self.host_drops() != Some(0) || forward.queue + forward.backlog > 0 || !self.kernel_drops().is_empty();
            let share = binomial::share(row.delivered, row.sent).filter(|_| !in_rows);
            let expected = 1.0 - row.loss_pct / 100.0;
            insert("delivered_share", share);
            insert(
                "share_minus_expected",
                share.map(|share| Estimate {
                    value: share.value - expected,
                    low: share.low - expected,
                    high: share.high - expected,
                    n: share.n,
                    method: Method::Binomial,
                }),
            );
        }
        estimates
    }

    fn load_mbit_per_s(&self) -> Option<f64> {
        let Facts { sent, received, bulk, .. } = self.measured.load.as_ref()?;
        if let Some(report) = bulk {
            return throughput_of(report.received_bytes, report.used.as_secs_f64());
        }
        let (sent, session) = (sent.as_ref()?, received.first()?.main_session()?);
        throughput_of(session.in_window * sent.sent_bytes / sent.sent.max(1), window_of(sent).as_secs_f64())
    }
}

fn throughput_of(bytes: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / 1e6 / seconds)
}

/// Messages in a row that are missing, at most; `None`: the receiver could not keep track of all.
fn longest_gap(session: &SessionReport, sent: u64) -> Option<f64> {
    let missing = session.numbers.missing(sent)?;
    let runs = missing.chunk_by(|a, b| a + 1 == *b).map(<[u64]>::len);
    Some(runs.max().unwrap_or(0) as f64)
}

/// Delays with every undelivered message taken at the least delay it can have: until the receiver gave up.
fn with_undelivered(
    delays: &Distribution,
    session: &SessionReport,
    sent: &SendReport,
    received: &ReceiveReport,
) -> Distribution {
    let mut delays = delays.clone();
    for (number, time) in (0..).zip(&sent.send_times) {
        if !session.numbers.contains(number) {
            delays.record(received.finished.saturating_sub(*time));
        }
    }
    delays
}
