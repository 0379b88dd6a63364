//! Charts over time, one panel per quantity, and of the distribution of delays: lines of the records themselves.

use weir_units::format;

use super::axis::{Axis, nines};
use super::known;
use super::plot::{Band, Curve, Panel, Plot, Point};
use crate::cells::Cell;
use crate::columns::in_unit;
use crate::record::{Chart, Record};
use crate::timelines;

/// Max points of a line: more than two per pixel are not visible.
const MAX_POINTS: usize = 600;

/// Max lines of one panel: the seven colours three times, with different dashes.
const MAX_LINES: usize = 21;

/// Max bands of a record.
const MAX_BANDS: usize = 200;

/// The column that decides whether a cell's delays are valid.
const DELAYS: &str = "delay_p50_us";

/// A chart over time of these cells.
pub(super) fn over_time(chart: &Chart, cells: &[Cell<'_>]) -> Plot {
    let records: Vec<&Record> = cells.iter().flat_map(|cell| cell.records.iter().copied()).collect();
    let wanted = |name: &&str| chart.quantities.is_empty() || chart.quantities.iter().any(|own| own == name);
    let quantities: Vec<&str> = timelines::quantities(&records).into_iter().filter(wanted).collect();
    let several_cells = records.iter().any(|record| record.row.cell != records[0].row.cell);
    let several_repeats = records.iter().any(|record| record.row.repeat != records[0].row.repeat);
    let (mut series, mut left_out, mut end) = (Vec::<String>::new(), Vec::new(), 0.0_f64);
    let mut curves: Vec<Vec<Curve>> = quantities.iter().map(|_| Vec::new()).collect();
    for (record, timeline) in records.iter().flat_map(|record| record.timelines.iter().map(move |line| (record, line)))
    {
        let (quantity, which) = timelines::quantity(timeline);
        let Some(panel) = quantities.iter().position(|known| *known == quantity) else { continue };
        let mut parts = Vec::new();
        if several_cells || (!several_repeats && which.is_empty()) {
            parts.push(record.row.cell.clone());
        }
        parts.extend(several_repeats.then(|| format!("repeat {}", record.row.repeat)));
        parts.extend((!which.is_empty()).then(|| format!("connection {which}")));
        let name = parts.join(", ");
        let index = series.iter().position(|known| *known == name);
        if index.is_none() && series.len() == MAX_LINES {
            left_out.extend((!left_out.contains(&name)).then_some(name));
            continue;
        }
        let series = index.unwrap_or_else(|| {
            series.push(name);
            series.len() - 1
        });
        let point = |(x, y)| Point { x, y, valid: true, ..Point::default() };
        let parts = timelines::thinned_parts(timeline, MAX_POINTS);
        end = parts.iter().flatten().map(|(x, _)| *x).fold(end, f64::max);
        let parts = parts.into_iter().map(|part| part.into_iter().map(point).collect()).collect();
        curves[panel].push(Curve { series, parts, joined: true, ..Curve::default() });
    }
    let panel = |(quantity, curves): (&&str, Vec<Curve>)| {
        let values = || curves.iter().flat_map(|curve| curve.parts.iter().flatten()).map(|point| point.y);
        let unit = known(cells).unit(quantity);
        // The values as text, if there is one line.
        let remark = match (&curves[..], values().next_back()) {
            ([_], Some(last)) => {
                let [largest, last] = [values().fold(f64::NEG_INFINITY, f64::max), last].map(|v| in_unit(unit, v));
                format!("max {largest}, at the end {last}")
            }
            _ => String::new(),
        };
        let y = Axis::linear(&values().collect::<Vec<_>>(), true, unit);
        let heading = timelines::heading(quantity);
        Panel { heading, remark, y, height: 118.0, curves, bands: bands(&records, end) }
    };
    let mut subtitle = if chart.y_label.is_empty() { "sampled while the cell ran" } else { &chart.y_label }.to_owned();
    if !left_out.is_empty() {
        subtitle += &format!("; {} more are not shown", left_out.len());
    }
    if records.iter().any(|record| !record.standstills.list.is_empty()) {
        subtitle += "; grey: the machine stood still";
    }
    let x_label = if chart.x_label.is_empty() { "seconds since the start of sending" } else { &chart.x_label };
    Plot {
        title: chart.title.clone(),
        about: "quantities over time".into(),
        subtitle,
        series,
        x: Axis::linear(&[0.0, end], false, ""),
        x_label: x_label.to_owned(),
        panels: quantities.iter().zip(curves).map(panel).collect(),
        nothing: "nothing was sampled",
        ..Plot::default()
    }
}

/// The standstills of all records: parallel cells stood still together.
fn bands(records: &[&Record], end: f64) -> Vec<Band> {
    let mut bands = Vec::new();
    for record in records {
        for still in timelines::longest(&record.standstills.list, MAX_BANDS) {
            let tooltip = format!("{} stood still for {} ms", still.place, format::short(still.ms));
            bands.push(Band { from: still.at_s, to: still.at_s + still.ms / 1e3, tooltip });
        }
    }
    bands.retain(|band| band.from >= 0.0 && band.from < end);
    bands.sort_by(|a, b| a.from.total_cmp(&b.from));
    bands.dedup_by(|a, b| a.from < b.to && a.to <= b.to);
    bands
}

/// Delays by percentile: one line per cell, with the range of its repeats as a band.
pub(super) fn distribution(chart: &Chart, cells: &[Cell<'_>]) -> Plot {
    let lines = cells.iter().map(|cell| (cell.name.to_owned(), quantiles(cell))).filter(|(_, line)| !line.is_empty());
    let mut lines: Vec<(String, Vec<(f64, Point)>)> = lines.collect();
    let left_out = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    let mut shares: Vec<f64> = lines.iter().flat_map(|(_, line)| line).map(|(q, _)| *q).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    let ends = |(_, point): &(f64, Point)| [point.y, point.interval.map_or(point.y, |(low, _)| low)];
    let tops = |(_, point): &(f64, Point)| point.interval.map(|(_, high)| high);
    let delays = lines.iter().flat_map(|(_, line)| line);
    let delays: Vec<f64> = delays.clone().flat_map(ends).chain(delays.filter_map(tops)).collect();
    let label = if chart.y_label.is_empty() { "delay; band: range of the repeats" } else { &chart.y_label };
    let more = if left_out > 0 { format!("; {left_out} more are not shown") } else { String::new() };
    let (series, points): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
    let curve = |(series, line): (usize, Vec<(f64, Point)>)| {
        let parts = vec![line.into_iter().map(|(_, point)| point).collect()];
        Curve { series, parts, joined: true, marked: true, published: Vec::new() }
    };
    let curves = points.into_iter().enumerate().map(curve).collect();
    let y = Axis::log(&delays, "us");
    let x_label = if chart.x_label.is_empty() { "percentile of the messages" } else { &chart.x_label };
    Plot {
        title: chart.title.clone(),
        about: "delays by percentile, a line for each cell".into(),
        subtitle: format!("{label}{more}"),
        series,
        x: Axis::nines(&shares),
        x_label: x_label.to_owned(),
        panels: vec![Panel { y, height: 300.0, curves, ..Panel::default() }],
        nothing: "no delays were measured",
        ..Plot::default()
    }
}

/// The quantiles of a cell: over its repeats the median, min and max.
fn quantiles(cell: &Cell<'_>) -> Vec<(f64, Point)> {
    let all = || cell.records.iter().flat_map(|record| record.delays.values.iter().copied());
    let mut shares: Vec<f64> = all().map(|(q, _)| q).filter(|q| (0.0..1.0).contains(q)).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    let valid = cell.believes(DELAYS);
    let point = |q: f64| {
        let values = all().filter(|(own, us)| *own == q && us.is_finite() && *us > 0.0);
        let mut values: Vec<f64> = values.map(|(_, us)| us).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let y = values[values.len() / 2];
        let ends = if low < high {
            format!(" ({} to {})", format::duration(low), format::duration(high))
        } else {
            String::new()
        };
        // 0.999 * 100 is not quite 99.9.
        let percentile = format::plain((q * 1e6).round() / 1e4);
        let mark = if valid { "" } else { ", not valid" };
        let tooltip = format!("{}, p{percentile}: {}{ends}{mark}", cell.name, format::duration(y));
        Some((q, Point { x: nines(q), y, interval: (low < high).then_some((low, high)), valid, tooltip }))
    };
    shares.into_iter().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use weir_stats::Quantiles;

    use super::*;
    use crate::cells;
    use crate::columns::Columns;
    use crate::record::{ChartKind, Row};

    fn record(cell: &str, repeat: u32, values: &[(f64, f64)]) -> Record {
        Record {
            row: Row { cell: cell.into(), repeat, valid: true, ..Row::default() },
            delays: Quantiles { n: 1000, mean: None, max: None, values: values.to_vec() },
            ..Record::default()
        }
    }

    #[test]
    fn each_cell_has_a_line_of_its_quantiles_and_a_band_of_its_repeats() {
        let records = [
            record("udp", 1, &[(0.5, 100.0), (0.99, 900.0)]),
            record("udp", 2, &[(0.5, 120.0), (0.99, 1000.0), (0.999, 5000.0)]),
            record("udp", 3, &[(0.5, 110.0), (0.99, 800.0)]),
            record("a <b>", 1, &[(0.5, 10.0), (0.99, f64::NAN)]),
            record("none", 1, &[]),
        ];
        let chart = Chart { kind: ChartKind::Distribution, title: "Delays".into(), ..Chart::default() };
        let drawn = distribution(&chart, &cells::group(Columns::default(), &records)).render();
        for words in [
            "udp, p50: 110 µs (100 µs to 120 µs)</title>",
            "udp, p99: 900 µs (800 µs to 1 ms)</title>",
            "udp, p99.9: 5 ms</title>",
            "a &lt;b&gt;, p50: 10 µs</title>",
            ">p99.9</text>",
        ] {
            assert!(drawn.contains(words), "{words}: {drawn}");
        }
        assert_eq!(drawn.matches("</title></circle>").count(), 4);
        assert!(!drawn.contains("NaN") && !drawn.contains(">none</text>"));
        let none = distribution(&chart, &cells::group(Columns::default(), &records[4..])).render();
        assert!(none.contains("no delays were measured"));
    }
}
