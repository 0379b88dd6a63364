//! How floods were met, as columns.

use weir_report::record::Estimate;

use crate::protect::Judgement;

/// Empty fields for other traffic.
pub(super) fn columns(judgement: Option<&Judgement>) -> [(&'static str, Option<f64>); 12] {
    let value = |estimate: Option<Estimate>| estimate.map(|estimate| estimate.value);
    let count = |of: fn(&Judgement) -> u64| judgement.map(|judgement| of(judgement) as f64);
    let of_floods = judgement.filter(|judgement| judgement.floods > 0);
    let share =
        |of: fn(&Judgement) -> u64| of_floods.map(|judgement| of(judgement) as f64 / judgement.floods as f64 * 100.0);
    [
        ("floods", count(|judgement| judgement.floods)),
        ("found_pct", share(|judgement| judgement.found)),
        ("stopped_pct", share(|judgement| judgement.stopped)),
        ("reaction_p50_us", value(judgement.and_then(|judgement| judgement.reactions.quantile_us(0.5)))),
        ("reaction_p99_us", value(judgement.and_then(|judgement| judgement.reactions.quantile_us(0.99)))),
        ("reaction_max_us", judgement.and_then(|judgement| judgement.reactions.max_us())),
        ("decision_p99_us", value(judgement.and_then(|judgement| judgement.decisions.quantile_us(0.99)))),
        ("alarms", count(|judgement| judgement.alarms)),
        ("false_alarms", count(|judgement| judgement.false_alarms)),
        ("doubted", count(|judgement| judgement.doubted)),
        ("false_routes", count(|judgement| judgement.false_routes)),
        ("unexported", count(|judgement| judgement.unsent)),
    ]
}

/// Those with an interval.
pub(super) fn estimates(judgement: &Judgement) -> [(&'static str, Option<Estimate>); 3] {
    [
        ("reaction_p50_us", judgement.reactions.quantile_us(0.5)),
        ("reaction_p99_us", judgement.reactions.quantile_us(0.99)),
        ("decision_p99_us", judgement.decisions.quantile_us(0.99)),
    ]
}
