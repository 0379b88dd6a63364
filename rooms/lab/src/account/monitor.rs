//! What a viewer knows of the stations' samples, as columns.

use weir_report::record::{Estimate, Row};
use weir_stats::Distribution;
use weir_wire::signal::Cause;

use super::{PathAccount, rounded};
use crate::monitor::{Report, Seen};

impl PathAccount<'_> {
    /// What became of the signals, and of this viewer's part.
    pub(super) fn seen(&self) -> Option<(&Report, &Seen)> {
        let report = self.measured.traffic.signals()?;
        Some((report, report.viewers.get(self.receiver)?))
    }

    /// Messages are samples.
    pub(super) fn row_of_signals(&self, row: Row, report: &Report, seen: &Seen) -> Row {
        let used = report.used().as_secs_f64();
        let per_second = if used > 0.0 { seen.in_window as f64 / used } else { 0.0 };
        let quantile = |q| Some(seen.delays.quantile_us(q)?.value);
        Row {
            duration_s: used,
            sent: report.sent,
            delivered: seen.shown,
            msgs_per_s: per_second,
            mbit_per_s: per_second * BYTES_OF_A_SAMPLE * 8.0 / 1e6,
            delay_mean_us: seen.delays.mean_us(),
            delay_p50_us: quantile(0.5),
            delay_p99_us: quantile(0.99),
            delay_max_us: seen.delays.max_us(),
            socket_drops: Some(seen.socket_drops),
            unexplained: Some(seen.unexplained),
            ..row
        }
    }
}

/// Empty fields for other traffic.
pub(super) fn columns(seen: Option<(&Report, &Seen)>) -> [(&'static str, Option<f64>); 15] {
    let of = |cause: Cause| seen.map(|(_, seen)| seen.missing[cause as usize] as f64);
    let known = [Cause::Station, Cause::Network, Cause::Host, Cause::Socket, Cause::Server];
    let others = seen.map(|(_, seen)| {
        let known: u64 = known.iter().map(|&cause| seen.missing[cause as usize]).sum();
        (seen.all_missing() - known) as f64
    });
    let age = |seen: &Seen| Some(seen.gap_ages.quantile_us(0.99)?.value);
    [
        ("before", seen.map(|(_, seen)| seen.before as f64)),
        ("missing_pct", seen.and_then(missing_pct)),
        ("missing_station", of(Cause::Station)),
        ("missing_network", of(Cause::Network)),
        ("missing_host", of(Cause::Host)),
        ("missing_socket", of(Cause::Socket)),
        ("missing_server", of(Cause::Server)),
        ("missing_others", others),
        ("unheard", seen.map(|(_, seen)| seen.unheard as f64)),
        ("lost_datagrams", seen.map(|(_, seen)| seen.datagrams.1 as f64)),
        ("samples_per_loss", seen.and_then(|(_, seen)| per_loss(seen))),
        ("gap_age_p99_us", seen.and_then(|(_, seen)| age(seen))),
        ("gap_age_max_us", seen.and_then(|(_, seen)| seen.gap_ages.max_us())),
        ("closed_us", seen.and_then(|(_, seen)| Some(seen.closed? as f64 / 1e3))),
        ("silence_max_us", seen.map(|(_, seen)| seen.silence as f64 / 1e3)),
    ]
}

/// Those with an interval.
pub(super) fn estimates(seen: &Seen) -> [(&'static str, Option<Estimate>); 2] {
    let quantile = |delays: &Distribution, q| delays.quantile_us(q);
    [("delay_p50_us", quantile(&seen.delays, 0.5)), ("delay_p99_us", quantile(&seen.delays, 0.99))]
}

fn missing_pct((report, seen): (&Report, &Seen)) -> Option<f64> {
    let known = report.sent.checked_sub(seen.before).filter(|known| *known > 0)?;
    Some(rounded(seen.all_missing() as f64 / known as f64 * 100.0))
}

/// The share of samples that is missing, over the share of datagrams: 1, where a lost datagram costs what was in it.
fn per_loss(seen: &Seen) -> Option<f64> {
    let (came, lost) = seen.datagrams;
    let samples = seen.shown + seen.all_missing();
    (lost > 0 && samples > 0).then(|| {
        let (of_samples, of_datagrams) =
            (seen.all_missing() as f64 / samples as f64, lost as f64 / (came + lost) as f64);
        of_samples / of_datagrams
    })
}

/// As f32.
const BYTES_OF_A_SAMPLE: f64 = 4.0;

/// Periods that are drawn.
const PERIODS: f64 = 10.0;

/// Gaps that are kept of a stretch.
const MOST_GAPS: usize = 1000;
