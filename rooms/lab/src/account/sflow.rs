//! What an analyser of sFlow agents made of their datagrams, as columns.

use weir_report::record::{Estimate, Row};

use crate::sflow::Judgement;

/// Empty fields for other traffic.
pub(super) fn columns(judgement: Option<&Judgement>, row: &Row) -> [(&'static str, Option<f64>); 15] {
    let value = |estimate: Option<Estimate>| estimate.map(|estimate| estimate.value);
    let count = |of: fn(&Judgement) -> u64| judgement.map(|judgement| of(judgement) as f64);
    let percent = |of: fn(&Judgement) -> (u64, u64)| {
        let (right, all) = of(judgement?);
        (all > 0).then(|| right as f64 / all as f64 * 100.0)
    };
    let missed = |judgement: &Judgement| row.sent as f64 - row.delivered as f64 - judgement.lost as f64;
    let errors = judgement.map(|judgement| &judgement.rate_errors[..]).unwrap_or_default();
    [
        ("unsent", count(|judgement| judgement.unsent)),
        ("age_p50_us", value(judgement.and_then(|judgement| judgement.ages.quantile_us(0.5)))),
        ("age_p99_us", value(judgement.and_then(|judgement| judgement.ages.quantile_us(0.99)))),
        ("age_max_us", judgement.and_then(|judgement| judgement.ages.max_us())),
        ("windows", count(|judgement| judgement.windows)),
        ("flow_samples", count(|judgement| judgement.samples)),
        ("frames_found_pct", value(judgement.and_then(|judgement| judgement.frames))),
        ("bytes_found_pct", value(judgement.and_then(|judgement| judgement.bytes))),
        ("nominal_found_pct", value(judgement.and_then(|judgement| judgement.nominal))),
        ("frames_covered_pct", percent(|judgement| judgement.frame_intervals)),
        ("bytes_covered_pct", percent(|judgement| judgement.byte_intervals)),
        ("counter_rates", judgement.map(|_| errors.len() as f64)),
        ("counter_error_p50_pct", errors.get(errors.len() / 2).copied()),
        ("counter_error_max_pct", errors.last().copied()),
        // Of a stream nothing is lost, it is late.
        ("missed_losses", judgement.filter(|_| row.undelivered.is_none()).map(missed)),
    ]
}

/// Those with an interval.
pub(super) fn estimates(judgement: &Judgement) -> [(&'static str, Option<Estimate>); 5] {
    [
        ("age_p50_us", judgement.ages.quantile_us(0.5)),
        ("age_p99_us", judgement.ages.quantile_us(0.99)),
        ("frames_found_pct", judgement.frames),
        ("bytes_found_pct", judgement.bytes),
        ("nominal_found_pct", judgement.nominal),
    ]
}
