//! The critical rate: the offered rate beyond which fewer datagrams arrive, not only a smaller share of them.
//!
//! Cells that differ in their rate alone make a series. The rate is the one that was sent, not the one asked for. Less
//! arrives where the interval of a cell lies wholly below that of the cell in which most arrives, and more was offered;
//! the critical rate lies between the rates of the two. Intervals hold jointly for all comparisons of all series.

use indexmap::IndexMap;
use weir_units::format;

use crate::cells::Cell;
use crate::columns;

/// Axes that set the rate.
const AXES: [&str; 2] = ["traffic.interval", "traffic.rate"];

/// What was offered, and what arrived.
const COLUMNS: [&str; 2] = ["sent_msgs_per_s", "msgs_per_s"];

/// The joint confidence of all comparisons.
const CONFIDENCE: f64 = 0.95;

/// Rates of fewer cells make no series.
const FEWEST: usize = 3;

/// Cells that differ in their rate alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Their other axes' values, joined by ` · `.
    pub name: String,
    /// The cell in which most arrives.
    pub peak: Point,
    /// The slowest of those beyond it in which less arrives; `None`: the critical rate was not reached.
    pub beyond: Option<Point>,
    /// The highest rate offered.
    pub fastest: f64,
}

/// A cell of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Messages sent a second.
    pub offered: f64,
    /// Messages received a second.
    pub received: f64,
    /// The interval of that, at the joint level; `None`: it has none.
    pub interval: Option<(f64, f64)>,
}

/// The series of a run; empty where no rate is swept.
pub fn series(cells: &[Cell<'_>]) -> Vec<Series> {
    let believes = |cell: &Cell<'_>| COLUMNS.iter().all(|column| cell.believes(column));
    let mut found: IndexMap<String, Vec<&Cell<'_>>> = IndexMap::new();
    for cell in cells.iter().filter(|cell| !cell.beside && believes(cell) && !columns::is_bulk(cell.first())) {
        let axes = &cell.first().axes;
        if !axes.iter().any(|(key, _)| AXES.contains(&key.as_str())) {
            continue;
        }
        let others = axes.iter().filter(|(key, _)| !AXES.contains(&key.as_str()));
        let name = others.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" · ");
        found.entry(name).or_default().push(cell);
    }
    found.retain(|_, cells| cells.len() >= FEWEST);
    let comparisons: usize = found.values().map(|cells| cells.len() - 1).sum();
    let level = 1.0 - (1.0 - CONFIDENCE) / comparisons.max(1) as f64;
    found.into_iter().filter_map(|(name, cells)| judge(name, &cells, level)).collect()
}

fn judge(name: String, cells: &[&Cell<'_>], level: f64) -> Option<Series> {
    let point = |cell: &&Cell<'_>| {
        let [offered, received] = COLUMNS.map(|column| cell.measured(column));
        let received = received?;
        let interval = received.interval(level).map(|(_, low, high)| (low, high));
        Some(Point { offered: offered?.value(), received: received.value(), interval })
    };
    let mut points: Vec<Point> = cells.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let fastest = points.last().filter(|_| points.len() >= FEWEST)?.offered;
    let peak = points.iter().copied().max_by(|a, b| a.received.total_cmp(&b.received))?;
    let less = |point: &&Point| match (point.interval, peak.interval) {
        (Some((_, high)), Some((low, _))) => point.offered > peak.offered && high < low,
        _ => false,
    };
    let beyond = points.iter().find(less).copied();
    Some(Series { name, peak, beyond, fastest })
}

impl Series {
    /// The critical rate in words, in messages a second: `210,000 to 340,000`.
    pub fn critical(&self) -> String {
        match self.beyond {
            Some(beyond) => format!("{} to {}", number(self.peak.offered), number(beyond.offered)),
            None => format!("not reached up to {}", number(self.fastest)),
        }
    }

    /// What arrives there and beyond: `150,000 of 210,000, 92,000 (90,000 to 94,000) of 340,000`.
    pub fn evidence(&self) -> String {
        let ends = |point: &Point| {
            let interval = point.interval.filter(|(low, high)| low < high);
            interval.map(|(low, high)| format!(" ({} to {})", number(low), number(high))).unwrap_or_default()
        };
        let word = |point: &Point| format!("{}{} of {}", number(point.received), ends(point), number(point.offered));
        std::iter::once(&self.peak).chain(&self.beyond).map(word).collect::<Vec<_>>().join(", then ")
    }
}

/// All series in a sentence; `None` without any.
pub fn sentence(series: &[Series]) -> Option<String> {
    let reached: Vec<&Series> = series.iter().filter(|series| series.beyond.is_some()).collect();
    let all = series.len();
    match reached.as_slice() {
        _ if all == 0 => None,
        [] => {
            Some(format!("A critical rate, beyond which fewer datagrams arrive, was reached in none of {all} series."))
        }
        [first, ..] => Some(format!(
            "Beyond a critical rate fewer datagrams arrive in {} of {all} series; {}: {} a second.",
            reached.len(),
            first.name,
            first.critical()
        )),
    }
}

fn number(value: f64) -> String {
    format::count(value.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;
    use crate::record::{Estimate, Method, Record, Row};

    /// Cells of one series: offered, received, half the width of the interval.
    fn records(payload: &str, points: &[(f64, f64, f64)]) -> Vec<Record> {
        let record = |(place, &(offered, received, half)): (usize, &(f64, f64, f64))| Record {
            row: Row { cell: format!("{payload}/{place}"), valid: true, msgs_per_s: received, ..Row::default() },
            axes: vec![("traffic.payload".into(), payload.into()), (AXES[0].into(), place.to_string())],
            extra: [("sent_msgs_per_s".into(), Some(offered))].into(),
            estimates: [("msgs_per_s".into(), estimate(received, half))].into(),
            ..Record::default()
        };
        points.iter().enumerate().map(record).collect()
    }

    fn estimate(value: f64, half: f64) -> Estimate {
        Estimate { value, low: value - half, high: value + half, n: 32, method: Method::BatchMeans }
    }

    fn of(points: &[(f64, f64, f64)]) -> Vec<Series> {
        let records = records("16B", points);
        series(&cells::group(&records))
    }

    #[test]
    fn less_arrives_only_where_the_intervals_say_so() {
        let found = of(&[(50e3, 50e3, 10.0), (400e3, 60e3, 100.0), (200e3, 150e3, 100.0), (300e3, 149.9e3, 100.0)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].peak.offered, found[0].beyond.unwrap().offered), (200e3, 400e3), "300,000 is undecided");
        assert_eq!(found[0].critical(), format!("{} to {}", format::count(200_000), format::count(400_000)));
        assert!(sentence(&found).unwrap().contains("in 1 of 1 series; 16B: "));
    }

    #[test]
    fn a_smaller_share_alone_is_no_collapse() {
        let found = of(&[(50e3, 50e3, 10.0), (200e3, 150e3, 10.0), (400e3, 151e3, 10.0)]);
        assert_eq!((found[0].beyond, found[0].fastest), (None, 400e3));
        assert!(found[0].critical().starts_with("not reached"), "{}", found[0].critical());
        assert!(sentence(&found).unwrap().contains("none of 1 series"));
        // What lies before the peak is less, too, but not beyond it.
        assert!(found[0].evidence().starts_with(&format::count(151_000)), "{}", found[0].evidence());
    }

    #[test]
    fn two_rates_or_none_make_no_series() {
        assert_eq!(of(&[(50e3, 50e3, 10.0), (200e3, 1e3, 10.0)]), []);
        assert_eq!(sentence(&[]), None);
        let mut several = records("16B", &[(1e3, 1e3, 1.0); 3]);
        several.extend(records("64B", &[(1e3, 1e3, 1.0); 3]));
        assert_eq!(series(&cells::group(&several)).len(), 2, "one a payload");
    }
}
