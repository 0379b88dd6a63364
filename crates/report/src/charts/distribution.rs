//! Charts of the distribution of delays: a line a cell, over the share of the messages that were at least as fast.
//!
//! The axis is that of the slower ones, by decades: p50, p90, p99 and p99.9 are as far apart as they are for who waits.

use crate::columns::Columns;
use weir_units::format;

use super::time::legend_places;
use super::{FAINT, INK, LEFT, RIGHT, WIDTH, colour, stroke};
use crate::axis::Axis;
use crate::cells::Cell;
use crate::record::Chart;
use crate::svg::{Anchor, Svg};

const HEIGHT: f64 = 300.0;
/// More lines than this are no chart.
const MOST_LINES: usize = 21;
/// What rests on delays.
const COLUMN: &str = "delay_mean_us";

/// A cell.
struct Line {
    name: String,
    valid: bool,
    points: Vec<Point>,
}

/// A quantile of a cell: over its repeats the median, the least and the largest.
struct Point {
    q: f64,
    us: f64,
    low: f64,
    high: f64,
}

/// Draws a chart of kind `distribution`.
pub(super) fn render(chart: &Chart, cells: &[Cell<'_>]) -> String {
    let mut lines: Vec<Line> = cells.iter().map(Line::of).filter(|line| !line.points.is_empty()).collect();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    let names: Vec<String> = lines.iter().map(|line| line.name.clone()).collect();
    let legend = legend_places(&names);
    let top = 86.0 + legend.last().map_or(0.0, |(_, y)| y + 34.0);
    let bottom = top + HEIGHT;

    let mut svg = Svg::new(WIDTH, bottom + 64.0);
    svg.rect((0.5, 0.5), (WIDTH - 1.0, bottom + 63.0), 10.0, "fill=\"#ffffff\" stroke=\"#d1d9e0\"");
    svg.text((24.0, 34.0), 17.0, Anchor::Start, &format!("font-weight=\"600\" {INK}"), &chart.title);
    let label = if chart.y_label.is_empty() { "delay; band: least and largest of the repeats" } else { &chart.y_label };
    let more = if left_out > 0 { format!("; {left_out} more are not shown") } else { String::new() };
    svg.text((24.0, 55.0), 13.0, Anchor::Start, FAINT, &format!("{label}{more}"));
    for (index, (line, (x, y))) in lines.iter().zip(&legend).enumerate() {
        let (x, y) = (24.0 + x, 80.0 + y);
        svg.line((x, y - 4.5), (x + 20.0, y - 4.5), &stroke(index));
        svg.text((x + 26.0, y), 13.0, Anchor::Start, INK, &line.name);
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let delays: Vec<f64> = points().flat_map(|point| [point.low, point.high]).collect();
    let mut shares: Vec<f64> = points().map(|point| point.q).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    if shares.is_empty() {
        svg.text((WIDTH / 2.0, top + HEIGHT / 2.0), 14.0, Anchor::Middle, FAINT, "no delays were measured");
        return svg.finish(&chart.title, DESCRIPTION);
    }
    let y = Axis::log(&delays, COLUMN);
    let down = |us: f64| bottom - y.clamped(us) * HEIGHT;
    for (value, label) in &y.ticks {
        svg.line((LEFT, down(*value)), (WIDTH - RIGHT, down(*value)), "stroke=\"#e6eaef\"");
        svg.text((LEFT - 10.0, down(*value) + 4.0), 11.0, Anchor::End, FAINT, label);
    }
    svg.line((LEFT, bottom), (WIDTH - RIGHT, bottom), "stroke=\"#818b98\"");
    let ends = (decades(shares[0]), decades(shares[shares.len() - 1]));
    let across = |q: f64| {
        let place = if ends.1 > ends.0 { (decades(q) - ends.0) / (ends.1 - ends.0) } else { 0.5 };
        LEFT + 12.0 + place * (WIDTH - RIGHT - LEFT - 24.0)
    };
    for q in &shares {
        svg.line((across(*q), bottom), (across(*q), bottom + 4.0), "stroke=\"#818b98\"");
        svg.text((across(*q), bottom + 19.0), 12.0, Anchor::Middle, FAINT, &percentile(*q));
    }
    let words = if chart.x_label.is_empty() { "percentile of the messages" } else { &chart.x_label };
    svg.text(((LEFT + WIDTH - RIGHT) / 2.0, bottom + 42.0), 13.0, Anchor::Middle, FAINT, words);
    for (index, line) in lines.iter().enumerate() {
        line.draw(&mut svg, index, across, down);
    }
    svg.finish(&chart.title, DESCRIPTION)
}

impl Line {
    fn of(cell: &Cell<'_>) -> Self {
        let mut shares: Vec<f64> =
            cell.records.iter().flat_map(|record| record.delays.values.iter().map(|(q, _)| *q)).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let point = |q: f64| {
            let of = |record: &&crate::record::Record| {
                record.delays.values.iter().find(|(own, _)| *own == q).map(|own| own.1)
            };
            let mut values: Vec<f64> =
                cell.records.iter().filter_map(of).filter(|us| us.is_finite() && *us > 0.0).collect();
            values.sort_by(f64::total_cmp);
            let (low, high) = (*values.first()?, *values.last()?);
            (0.0..1.0).contains(&q).then(|| Point { q, us: values[values.len() / 2], low, high })
        };
        let points = shares.into_iter().filter_map(point).collect();
        Line { name: cell.name.to_owned(), valid: cell.believes(COLUMN), points }
    }

    fn draw(&self, svg: &mut Svg, index: usize, across: impl Fn(f64) -> f64, down: impl Fn(f64) -> f64) {
        let through =
            |end: fn(&Point) -> f64| self.points.iter().map(|point| (across(point.q), down(end(point)))).collect();
        let (middle, low, mut band): (Vec<_>, Vec<_>, Vec<_>) =
            (through(|point| point.us), through(|point| point.low), through(|point| point.high));
        band.extend(low.into_iter().rev());
        svg.path(&band, true, &format!("fill=\"{}\" fill-opacity=\"0.12\"", colour(index)));
        svg.path(&middle, false, &format!("fill=\"none\" stroke-linejoin=\"round\" {}", stroke(index)));
        let fill = if self.valid { colour(index) } else { "#ffffff" };
        let mark = if self.valid { "" } else { ", not valid" };
        for (point, at) in self.points.iter().zip(middle) {
            let word = |us| Columns::default().words(COLUMN, us);
            let (name, q, us) = (&self.name, percentile(point.q), word(point.us));
            let ends = if point.low < point.high {
                format!(" ({} to {})", word(point.low), word(point.high))
            } else {
                String::new()
            };
            let style = format!("fill=\"{fill}\" stroke=\"{}\"", colour(index));
            svg.circle(at, 3.0, &style, &format!("{name}, {q}: {us}{ends}{mark}"));
        }
    }
}

/// How many tenths of the tenths were slower.
fn decades(q: f64) -> f64 {
    -(1.0 - q).log10()
}

fn percentile(q: f64) -> String {
    // 0.999 * 100 is not quite 99.9.
    format!("p{}", format::plain((q * 1e6).round() / 1e4))
}

const DESCRIPTION: &str = "delays by percentile, a line for each cell";

#[cfg(test)]
mod tests {
    use weir_stats::Quantiles;

    use super::*;
    use crate::cells;
    use crate::record::{ChartKind, Record, Row};

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
        let drawn = render(&chart, &cells::group(&records));
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
        assert!(render(&chart, &cells::group(&records[4..])).contains("no delays were measured"));
    }
}
