//! The data of a chart: its cells as points of lines, and the published points.

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use weir_units::format;

use super::axis::Axis;
use super::plot::{Curve, Mark, Panel, Plot, Point};
use super::{COLOURS, known};
use crate::cells::{self, Cell, Measured};
use crate::columns::{self, Columns};
use crate::record::{Chart, Published, Scale, Value};

/// The lines of a chart.
pub(crate) struct Arranged {
    pub(crate) lines: Vec<Line>,
    /// The names of the whole numbers on the x axis, if the column is text.
    pub(crate) words: Vec<String>,
    /// Whether the lines are in ascending numeric order.
    pub(crate) ordered: bool,
    /// Whether points are medians of several cells, with their range as interval.
    pub(crate) summed: bool,
}

/// The lines of one colour.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Value of the chart's series column, also used to find published points.
    pub(crate) key: String,
    pub(crate) points: Vec<Point>,
    pub(crate) published: Vec<(f64, f64)>,
}

impl Line {
    /// Whether no two points have the same x, so that a line through them makes sense.
    pub(super) fn has_own_places(&self) -> bool {
        self.points.windows(2).all(|pair| pair[0].x < pair[1].x)
    }

    /// Merges points with the same x: their median, with their range. Points that are not valid are ignored if there
    /// are valid ones.
    fn sum_up(&mut self, chart: &Chart, known: Columns<'_>) {
        let mut summed: Vec<Point> = Vec::new();
        let mut points = std::mem::take(&mut self.points).into_iter().peekable();
        while let Some(first) = points.next() {
            let mut here = vec![first];
            while let Some(next) = points.next_if(|next| next.x == here[0].x) {
                here.push(next);
            }
            let valid = here.iter().any(|point| point.valid);
            here.retain(|point| point.valid == valid);
            here.sort_by(|a, b| a.y.total_cmp(&b.y));
            let count = here.len();
            let (min, max) = (here[0].y, here[count - 1].y);
            let mut median = here.swap_remove(count / 2);
            if count > 1 {
                let word = |value| known.words(&chart.y, value);
                let [at, y, min_word, max_word] =
                    [known.words(&chart.x, median.x), word(median.y), word(min), word(max)];
                let mark = if valid { "" } else { ", not valid" };
                median.tooltip =
                    format!("{}, {at}: {y}, median of {count} cells ({min_word} to {max_word}){mark}", self.name);
                median.interval = Some((min, max));
            }
            summed.push(median);
        }
        self.points = summed;
    }
}

/// The chart of these cells.
pub(super) fn plot(chart: &Chart, cells: &[Cell<'_>], published: Option<&Published>) -> Plot {
    let Arranged { lines, words, ordered, summed } = arrange(chart, cells, published);
    let known = known(cells);
    let shown = || lines.iter().flat_map(|line| &line.points);
    let theirs = || lines.iter().flat_map(|line| &line.published);
    let xs: Vec<f64> = shown().map(|p| p.x).chain(theirs().map(|p| p.0)).collect();
    let tops = shown().filter(|p| p.valid).filter_map(|p| p.interval.map(|(_, high)| high));
    let ys: Vec<f64> = shown().map(|p| p.y).chain(theirs().map(|p| p.1)).chain(tops).collect();
    let [x_unit, y_unit] = [&chart.x, &chart.y].map(|column| known.unit(column));
    let x = match (words.is_empty(), chart.x_scale) {
        (true, Scale::Linear) => Axis::linear(&xs, false, x_unit),
        (true, Scale::Log) => Axis::log(&xs, x_unit).tight(&xs).with_floor_for(&xs),
        (false, _) => Axis::words(&words),
    };
    let y = match chart.scale {
        Scale::Linear => Axis::linear(&ys, true, y_unit),
        Scale::Log => Axis::log(&ys, y_unit).with_floor_for(&ys),
    };
    let mut notes = Vec::new();
    if shown().any(|point| point.valid && point.interval.is_some()) {
        let band = match known.kind(&chart.y) {
            _ if summed => "range of the cells at a place, line: median",
            _ if cells.iter().any(|cell| matches!(cell.measured(&chart.y), Some(Measured::Exact(..)))) => {
                "range of the repeats"
            }
            _ => "95 % interval",
        };
        notes.push((Mark::Band, band.to_owned()));
    }
    if let Some(published) = published.filter(|_| theirs().next().is_some()) {
        let source = Some(&published.source).filter(|source| source.chars().count() <= 40);
        notes.push((Mark::Published, source.map_or("published".into(), |source| format!("published: {source}"))));
    }
    notes.extend(shown().any(|point| !point.valid).then(|| (Mark::Invalid, "not valid".into())));
    notes.extend(shown().any(|point| y.is_on_floor(point.y)).then(|| (Mark::Zero, "0".into())));
    let ordered = (ordered && lines.len() > COLOURS).then(|| chart.series.clone());
    let series = lines.iter().map(|line| line.name.clone()).collect();
    let theirs = |line: &Line| {
        let tooltip = |y| format!("{}, published: {}", line.name, known.words(&chart.y, y));
        line.published.iter().map(|&(x, y)| (x, y, tooltip(y))).collect()
    };
    let curve = |(series, line): (usize, Line)| {
        let (published, joined) = (theirs(&line), line.has_own_places());
        Curve { series, published, joined, marked: true, parts: vec![line.points] }
    };
    let (about, height) =
        (format!("{} over {}", chart.y_label, chart.x_label), if ordered.is_some() { 440.0 } else { 290.0 });
    let curves = lines.into_iter().enumerate().map(curve).collect();
    Plot {
        title: chart.title.clone(),
        about,
        subtitle: chart.y_label.clone(),
        series,
        ordered,
        notes,
        x,
        x_label: chart.x_label.clone(),
        panels: vec![Panel { y, height, curves, ..Panel::default() }],
        nothing: "nothing was measured",
    }
}

/// Makes a line for each value of the chart's series, and for each value of an axis that is neither that nor x; the
/// same for each additional column.
pub(super) fn arrange(chart: &Chart, cells: &[Cell<'_>], published: Option<&Published>) -> Arranged {
    let known = known(cells);
    let numeric = cells.iter().all(|cell| columns::number(cell.first(), &chart.x).is_some());
    let words: Vec<String> = if numeric { Vec::new() } else { distinct(cells, &chart.x) };
    let all: Vec<&Cell<'_>> = cells.iter().collect();
    let further = cells::further_axes(&all, &[&chart.x, &chart.series]);
    let mut split = further.as_slice();
    let mut lines = drawn(chart, cells, &words, split, &further);
    // A line of one point is a point: tooltips name points in the same place, not a legend of all.
    let single = lines.iter().filter(|line| line.points.len() < 2).count();
    let many = cells.len() > MANY;
    if lines.len() > MAX_SINGLE && 2 * single > lines.len() || lines.len() > MAX_NAMED && many {
        split = &[];
        lines = drawn(chart, cells, &words, split, &further);
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let summed = many && words.is_empty() && !lines.iter().all(Line::has_own_places);
    if summed {
        lines.iter_mut().for_each(|line| line.sum_up(chart, known));
    }
    for (key, x, y) in published_points(chart, published, &words) {
        match lines.iter_mut().find(|line| line.key == key) {
            Some(line) => line.published.push((x, y)),
            None => {
                lines.push(Line {
                    name: in_words(known, &chart.series, &key),
                    key,
                    points: Vec::new(),
                    published: vec![(x, y)],
                });
            }
        }
    }
    // Numbers have their own order, words that of the run.
    let number = |line: &Line| line.key.parse::<f64>().ok().filter(|key| key.is_finite());
    let ordered = split.is_empty() && chart.beside.is_empty() && lines.iter().all(|line| number(line).is_some());
    if ordered {
        lines.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    Arranged { lines, words, ordered, summed }
}

/// The lines of the cells, named by series and by the axes of `split`; their points by those of `further`. Without `words`
/// x is a number.
fn drawn(chart: &Chart, cells: &[Cell<'_>], words: &[String], split: &[String], further: &[String]) -> Vec<Line> {
    let mut lines: IndexMap<String, Line> = IndexMap::new();
    let places: HashMap<&str, usize> = words.iter().enumerate().map(|(place, word)| (word.as_str(), place)).collect();
    for cell in cells {
        let first = cell.first();
        let word = columns::text(first, &chart.x);
        let x = match words.is_empty() {
            true => columns::number(first, &chart.x),
            false => word.and_then(|word| places.get(word.as_str())).map(|place| *place as f64),
        };
        let Some(x) = x else { continue };
        let known = cell.columns;
        let key = columns::text(first, &chart.series).unwrap_or_default();
        let beside = chart.beside.iter().map(|(column, called)| (column, Some(called.clone())));
        let own = std::iter::once((&chart.y, chart.beside.get(&chart.y).cloned()));
        for (column, called) in own.chain(beside.filter(|(column, _)| **column != chart.y)) {
            let Some(measured) = cell.measured(column) else { continue };
            let named = |axes: &[String]| {
                let values = axes.iter().filter_map(|axis| Some(cells::heading(axis, columns::text(first, axis)?)));
                let all = std::iter::once(in_words(known, &chart.series, &key)).chain(values).chain(called.clone());
                all.collect::<Vec<_>>().join(" · ")
            };
            let name = named(split);
            let point = point(chart, column, cell, x, &named(further), &measured);
            let line = || Line { name: name.clone(), key: key.clone(), points: Vec::new(), published: Vec::new() };
            lines.entry(name.clone()).or_insert_with(line).points.push(point);
        }
    }
    lines.into_values().collect()
}

/// Max lines that mostly have one point; more become points of their series.
const MAX_SINGLE: usize = 12;

/// With more cells than these, a chart limits its lines, and shows one point for all in the same place.
const MANY: usize = 500;
const MAX_NAMED: usize = 28;

/// A value of the series as text: a number with its unit.
fn in_words(known: Columns<'_>, series: &str, key: &str) -> String {
    key.parse().ok().filter(|key: &f64| key.is_finite()).map_or(key.to_owned(), |key| known.words(series, key))
}

fn point(chart: &Chart, column: &str, cell: &Cell<'_>, x: f64, name: &str, measured: &Measured) -> Point {
    let interval = match measured {
        Measured::Estimate(e) => Some((e.low, e.high)),
        Measured::Exact(_, low, high) => (low < high).then_some((*low, *high)),
        Measured::Bare(_) => None,
    };
    let word = |value| cell.columns.words(column, value);
    let ends = interval.map(|(low, high)| format!(" ({} to {})", word(low), word(high))).unwrap_or_default();
    let at = columns::text(cell.first(), &chart.x).unwrap_or_default();
    let at = columns::number(cell.first(), &chart.x).map_or(at, |x| cell.columns.words(&chart.x, x));
    let valid = cell.believes(column);
    let mark = if valid { "" } else { ", not valid" };
    let tooltip = format!("{name}, {at}: {}{ends}{mark}", word(measured.value()));
    Point { x, y: measured.value(), interval, valid, tooltip }
}

/// Published points that have both of the chart's columns: series, x, y.
fn published_points(chart: &Chart, published: Option<&Published>, words: &[String]) -> Vec<(String, f64, f64)> {
    let points = published.map(|p| p.points.as_slice()).unwrap_or_default();
    let found = points.iter().filter_map(|point| {
        let x = match point.get(&chart.x)? {
            Value::Number(x) => *x,
            Value::Text(word) => words.iter().position(|w| w == word)? as f64,
        };
        let Value::Number(y) = *point.get(&chart.y)? else {
            return None;
        };
        let key = match point.get(&chart.series)? {
            Value::Text(word) => word.clone(),
            Value::Number(number) => format::plain(*number),
        };
        Some((key, x, y))
    });
    found.filter(|(_, x, y)| x.is_finite() && y.is_finite()).collect()
}

/// The different values of a column, in the order of the cells.
fn distinct(cells: &[Cell<'_>], column: &str) -> Vec<String> {
    let found: IndexSet<String> = cells.iter().filter_map(|cell| columns::text(cell.first(), column)).collect();
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cells, fixture};

    /// Many receivers, each behind a loss of its own or of another, are points of their series and no legend.
    #[test]
    fn many_lines_of_one_point_are_points() {
        let chart = Chart {
            x: "loss_pct".into(),
            y: "msgs_per_s".into(),
            series: "transport".into(),
            ..fixture::manifest().charts[0].clone()
        };
        let mut records = fixture::records();
        for (index, record) in records.iter_mut().enumerate() {
            record.row.loss_pct = (index / 4) as f64;
            record.axes.push(("receiver".into(), format!("v{index:02}")));
        }
        let arranged = arrange(&chart, &cells::group(Columns::default(), &records), None);
        let names: Vec<&str> = arranged.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["udp", "tcp"]);
        assert_eq!(arranged.lines[0].points.len(), 21);
        assert!(arranged.lines[0].points[0].tooltip.contains("v00"), "{}", arranged.lines[0].points[0].tooltip);
        // A few have names.
        let few = arrange(&chart, &cells::group(Columns::default(), &records[..8]), None);
        assert_eq!(few.lines.len(), 8);
    }

    #[test]
    fn of_many_cells_those_at_one_place_are_one_point() {
        let (manifest, mut records) = fixture::large(fixture::Shape::Messages, 42 * 20);
        // The first twenty are those without loss over UDP, in twenty different queues.
        for (index, record) in records[..20].iter_mut().enumerate() {
            record.row.msgs_per_s = 50.0 + index as f64;
            record.row.valid = index != 19;
            record.estimates.remove("msgs_per_s");
        }
        let arranged = arrange(&manifest.charts[0], &cells::group(Columns::default(), &records), None);
        let names: Vec<&str> = arranged.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!((names, arranged.lines[0].points.len(), arranged.summed), (vec!["udp", "tcp"], 21, true));
        let point = &arranged.lines[0].points[0];
        assert_eq!((point.y, point.interval), (59.0, Some((50.0, 68.0))));
        assert_eq!(point.tooltip, "udp, 0 %: 59/s, median of 19 cells (50/s to 68/s)");
        assert!(arranged.lines.iter().all(Line::has_own_places));
    }
}
