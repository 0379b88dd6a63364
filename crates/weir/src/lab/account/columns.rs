//! The columns behind the fixed ones, and the estimates with their intervals.

use std::collections::BTreeMap;

use super::{Account, Direction};
use crate::lab::cell::Measured;
use crate::report::record::Row;
use crate::stats::{Distribution, Estimate, Method, binomial};
use crate::traffic::{ReceiveReport, SendReport, SessionReport, Transport};

impl Account<'_> {
    pub(super) fn extra(
        &self,
        row: &Row,
        lateness: &Distribution,
        heartbeat: &Distribution,
    ) -> Vec<(String, Option<f64>)> {
        let Measured { sent, received, .. } = self.measured;
        let session = self.session();
        let back = self.passage(Direction::Back);
        let there = self.passage(Direction::There);
        let intended = session.map(|session| session.intended_delays.delays());
        let censored = session.map(|session| with_undelivered(session, sent, received));
        let share = binomial::share(row.delivered, row.sent).map(|share| share.value);
        let quantile = |delays: Option<&Distribution>, q| delays.and_then(|delays| Some(delays.quantile_us(q)?.value));
        let count = |n: u64| Some(n as f64);
        [
            ("delivered_share", share),
            ("share_minus_expected", share.map(|share| share - (1.0 - row.loss_pct / 100.0))),
            ("duplicates", count(session.map_or(0, |session| session.duplicates))),
            ("reordered", count(session.map_or(0, |session| session.reordered))),
            ("delay_n", count(session.map_or(0, |session| session.delays.n()))),
            ("delay_p999_us", quantile(session.map(|session| session.delays.delays()), 0.999)),
            ("delay_max_at_s", session.and_then(|session| session.delays.worst_at()).map(|at| at.as_secs_f64())),
            ("intended_delay_mean_us", intended.and_then(Distribution::mean_us)),
            ("intended_delay_p50_us", quantile(intended, 0.5)),
            ("intended_delay_p99_us", quantile(intended, 0.99)),
            ("intended_delay_max_us", intended.and_then(Distribution::max_us)),
            ("censored_delay_mean_us", censored.as_ref().and_then(Distribution::mean_us)),
            ("censored_delay_p99_us", quantile(censored.as_ref(), 0.99)),
            ("censored_delay_max_us", censored.as_ref().and_then(Distribution::max_us)),
            ("return_planned_drops", count(back.planned)),
            ("return_queue_drops", count(back.queue)),
            ("return_emulator_drops", count(back.emulator)),
            ("control_packets", count(there.control + back.control)),
            ("corrupted_packets", count(there.corrupted + back.corrupted)),
            ("connect_ms", sent.connect.map(|connect| connect.as_secs_f64() * 1e3)),
            ("lateness_p99_us", quantile(Some(lateness), 0.99)),
            ("lateness_max_us", lateness.max_us()),
            ("stall_max_us", heartbeat.max_us()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    pub(super) fn estimates(
        &self,
        row: &Row,
        lateness: &Distribution,
        heartbeat: &Distribution,
    ) -> BTreeMap<String, Estimate> {
        let mut estimates = BTreeMap::new();
        let mut insert = |name: &str, estimate: Option<Estimate>| {
            if let Some(estimate) = estimate {
                estimates.insert(name.to_owned(), estimate);
            }
        };
        if let Some(session) = self.session() {
            // The batches divide the planned window: one that was cut short has no such estimate.
            if !self.measured.sent.stopped {
                let per_second = session.delays.per_second();
                insert("msgs_per_s", per_second);
                insert("mbit_per_s", per_second.map(|rate| rate.times(row.payload_bytes as f64 * 8.0 / 1e6)));
            }
            insert("delay_mean_us", session.delays.mean_us());
            insert("delay_p50_us", session.delays.delays().quantile_us(0.5));
            insert("delay_p99_us", session.delays.delays().quantile_us(0.99));
            // The worst message may have met the worst stall of the emulator and of the machine.
            let stalls = lateness.max_us().unwrap_or(0.0) + heartbeat.max_us().unwrap_or(0.0);
            insert(
                "delay_max_us",
                row.delay_max_us.map(|most| Estimate {
                    value: most,
                    low: (most - stalls).max(row.delay_p50_us.unwrap_or(0.0).min(most)),
                    high: most,
                    n: session.delays.n(),
                    method: Method::Stalls,
                }),
            );
            insert("intended_delay_mean_us", session.intended_delays.mean_us());
        }
        // Independent losses: only then is the share binomial. TCP loses nothing, it is late.
        if self.cell.scenario.traffic.transport == Transport::Udp {
            let share = binomial::share(row.delivered, row.sent);
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
}

/// Delays with every undelivered message taken at the least delay it can have: until the receiver gave up.
fn with_undelivered(session: &SessionReport, sent: &SendReport, received: &ReceiveReport) -> Distribution {
    let mut delays = session.delays.delays().clone();
    for (number, time) in (0..).zip(&sent.send_times) {
        if !session.numbers.contains(number) {
            delays.record(received.finished.saturating_sub(*time));
        }
    }
    delays
}
