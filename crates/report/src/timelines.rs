//! The samples of a cell for renderers: sorted by quantity, named, and thinned.

use crate::columns::{Columns, QUANTITIES};
use crate::record::{Record, Standstill, Timeline};

/// A timeline's quantity and its connection: `cwnd_bytes #2` is `cwnd_bytes` and `#2`.
pub fn quantity(timeline: &Timeline) -> (&str, &str) {
    timeline.name.split_once(' ').unwrap_or((&timeline.name, ""))
}

/// The quantities of records, in the order of their panels; those of other versions follow.
pub fn quantities<'a>(records: &[&'a Record]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for timeline in records.iter().flat_map(|record| &record.timelines) {
        let (name, _) = quantity(timeline);
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found.sort_by_key(|name| QUANTITIES.iter().position(|quantity| quantity.name == *name).unwrap_or(QUANTITIES.len()));
    found
}

/// A quantity as text, with its unit unless each value has it: `Congestion window`, `Received, Mbit/s`.
pub fn heading(quantity: &str) -> String {
    let known = QUANTITIES.iter().find(|known| known.name == quantity);
    let words = known.map_or_else(|| quantity.replace('_', " "), |known| known.about.to_owned());
    let mut letters = words.chars();
    let capital = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    let unit = Columns::default().unit(quantity);
    let unit = if ["", "us", "ms", "bytes", "segments"].contains(&unit) { String::new() } else { format!(", {unit}") };
    format!("{capital}{}{unit}", letters.as_str())
}

/// The `max` longest standstills, in order of time.
pub fn longest(standstills: &[Standstill], max: usize) -> Vec<&Standstill> {
    let mut longest: Vec<&Standstill> = standstills.iter().collect();
    longest.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    longest.truncate(max);
    longest.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    longest
}

/// At most `max` of a line's points: the min and max of each stretch of time, in order, so that no peak is lost.
/// Points that are not finite are left out.
pub fn thinned(points: &[(f64, f64)], max: usize) -> Vec<(f64, f64)> {
    let finite: Vec<(f64, f64)> = points.iter().copied().filter(|(t, v)| t.is_finite() && v.is_finite()).collect();
    if finite.len() <= max {
        return finite;
    }
    let stretches = (max / 2).max(1);
    let mut kept = Vec::with_capacity(stretches * 2);
    for stretch in 0..stretches {
        let range = stretch * finite.len() / stretches..(stretch + 1) * finite.len() / stretches;
        let by_value = |a: &usize, b: &usize| finite[*a].1.total_cmp(&finite[*b].1);
        let (Some(min), Some(largest)) = (range.clone().min_by(by_value), range.max_by(by_value)) else {
            continue;
        };
        let (first, second) = (min.min(largest), min.max(largest));
        kept.push(finite[first]);
        if second != first {
            kept.push(finite[second]);
        }
    }
    kept
}

/// The points of a timeline, about `max` at most, in parts separated by gaps without samples, over which no line
/// leads.
pub fn thinned_parts(timeline: &Timeline, max: usize) -> Vec<Vec<(f64, f64)>> {
    let points = &timeline.points;
    let mut steps: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps.sort_by(f64::total_cmp);
    let usual = steps.get(steps.len() / 2).copied().unwrap_or_default();
    // A quantity that is always sampled has gaps only when the sampler did not run.
    let is_sparse = quantity(timeline).0 == OF_ARRIVALS;
    let joined = |a: &(f64, f64), b: &(f64, f64)| !is_sparse || b.0 - a.0 <= usual * LONGEST_STEP;
    let share = |part: &[(f64, f64)]| (max * part.len() / points.len().max(1)).max(2);
    let parts = points.chunk_by(joined).map(|part| thinned(part, share(part)));
    parts.filter(|part| !part.is_empty()).collect()
}

/// The quantity that has points only when messages arrived.
const OF_ARRIVALS: &str = "largest_delay_us";

/// Points further apart than this many usual steps have a gap between them.
const LONGEST_STEP: f64 = 2.5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_have_words_and_an_order() {
        let timeline = |name: &str| Timeline { name: name.into(), points: Vec::new() };
        let record = Record {
            timelines: ["queue_bytes", "rtt_us", "rtt_us #2", "received_mbit"].map(timeline).into(),
            ..Record::default()
        };
        assert_eq!(quantities(&[&record]), ["received_mbit", "rtt_us", "queue_bytes"]);
        assert_eq!(quantity(&record.timelines[2]), ("rtt_us", "#2"));
        let words = ["received_mbit", "cwnd_bytes", "queue_bytes", "load_mbit"].map(heading);
        assert_eq!(words, ["Received, Mbit/s", "Congestion window", "Queue bytes", "Load mbit"]);
    }

    #[test]
    fn no_line_leads_over_an_outage() {
        let points: Vec<_> =
            (0..100).filter(|part| !(50..82).contains(part)).map(|part| (f64::from(part), 1.0)).collect();
        let of = |name: &str, points: &[(f64, f64)], max| {
            let parts = thinned_parts(&Timeline { name: name.into(), points: points.to_vec() }, max);
            let ends = |part: &Vec<(f64, f64)>| (part[0].0, part[part.len() - 1].0);
            (parts.iter().map(ends).collect::<Vec<_>>(), parts.iter().map(Vec::len).sum::<usize>())
        };
        assert_eq!(of("largest_delay_us", &points, 200), (vec![(0.0, 49.0), (82.0, 99.0)], 68));
        assert!(of("largest_delay_us", &points, 10).1 <= 10);
        assert_eq!(of("cwnd_bytes", &points, 200), (vec![(0.0, 99.0)], 68));
        // Few messages are no outage, nor is one that was lost.
        let few: Vec<_> = (0..10).filter(|place| *place != 5).map(|place| (f64::from(place) * 7.0, 1.0)).collect();
        assert_eq!(of("largest_delay_us", &few, 200), (vec![(0.0, 63.0)], 9));
        assert_eq!(of("largest_delay_us", &[], 200), (vec![], 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn peaks_survive(values in proptest::collection::vec(-1e6f64..1e6, 0..2000), max in 2usize..300) {
            let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect();
            let kept = thinned(&points, max);
            prop_assert!(kept.len() <= max);
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let extremes = |points: &[(f64, f64)]| {
                points.iter().fold((f64::MAX, f64::MIN), |(low, high), (_, v)| (low.min(*v), high.max(*v)))
            };
            prop_assert_eq!(extremes(&kept), extremes(&points));
        }
    }
}
