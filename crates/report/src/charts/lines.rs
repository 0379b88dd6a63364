//! What a chart shows: its cells as points of lines, and the published points beside them.

use weir_units::format;

use crate::cells::{self, Cell, Measured};
use crate::columns;
use crate::record::{Chart, Published, Value};

/// The lines of a chart.
pub(super) struct Arranged {
    pub(super) lines: Vec<Line>,
    /// What the whole numbers on the x axis stand for, if the column holds words.
    pub(super) words: Vec<String>,
    /// Whether the lines are by number, ascending.
    pub(super) ordered: bool,
}

/// One colour of a chart.
pub(super) struct Line {
    pub(super) name: String,
    /// Value of the chart's series column, by which published points are found.
    pub(super) key: String,
    pub(super) points: Vec<Point>,
    pub(super) published: Vec<(f64, f64)>,
}

/// A cell of a chart.
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<(f64, f64)>,
    pub(super) valid: bool,
    pub(super) tooltip: String,
}

impl Line {
    /// Whether no two points lie above one another, so that a line through them means something.
    pub(super) fn has_own_places(&self) -> bool {
        self.points.windows(2).all(|pair| pair[0].x < pair[1].x)
    }
}

/// Makes a line for each value of the chart's series, and for each value of an axis that is neither that nor x; as many for
/// each further column.
pub(super) fn arrange(chart: &Chart, cells: &[Cell<'_>], published: Option<&Published>) -> Arranged {
    let numeric = cells.iter().all(|cell| columns::number(cell.first(), &chart.x).is_some());
    let words: Vec<String> = if numeric { Vec::new() } else { distinct(cells, &chart.x) };
    let all: Vec<&Cell<'_>> = cells.iter().collect();
    let split = cells::further_axes(&all, &[&chart.x, &chart.series]);
    let mut lines: Vec<Line> = Vec::new();
    for cell in cells {
        let first = cell.first();
        let word = columns::text(first, &chart.x);
        let x = match numeric {
            true => columns::number(first, &chart.x),
            false => words.iter().position(|w| Some(w) == word.as_ref()).map(|index| index as f64),
        };
        let Some(x) = x else { continue };
        let key = columns::text(first, &chart.series).unwrap_or_default();
        let beside = chart.beside.iter().map(|(column, called)| (column, Some(called.clone())));
        let own = std::iter::once((&chart.y, chart.beside.get(&chart.y).cloned()));
        for (column, called) in own.chain(beside.filter(|(column, _)| **column != chart.y)) {
            let Some(measured) = cell.measured(column) else { continue };
            let more = split.iter().filter_map(|axis| columns::text(first, axis)).chain(called);
            let name = std::iter::once(in_words(&chart.series, &key)).chain(more).collect::<Vec<_>>().join(" · ");
            let point = point(chart, column, cell, x, &name, &measured);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name, key: key.clone(), points: vec![point], published: Vec::new() }),
            }
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    for (key, x, y) in published_points(chart, published, &words) {
        match lines.iter_mut().find(|line| line.key == key) {
            Some(line) => line.published.push((x, y)),
            None => {
                lines.push(Line {
                    name: in_words(&chart.series, &key),
                    key,
                    points: Vec::new(),
                    published: vec![(x, y)],
                });
            }
        }
    }
    // Numbers have an order of their own, words that of the run.
    let number = |line: &Line| line.key.parse::<f64>().ok().filter(|key| key.is_finite());
    let ordered = split.is_empty() && chart.beside.is_empty() && lines.iter().all(|line| number(line).is_some());
    if ordered {
        lines.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    Arranged { lines, words, ordered }
}

/// A value of the series as a reader would write it: a number with its unit.
fn in_words(series: &str, key: &str) -> String {
    key.parse().ok().filter(|key: &f64| key.is_finite()).map_or(key.to_owned(), |key| columns::words(series, key))
}

fn point(chart: &Chart, column: &str, cell: &Cell<'_>, x: f64, name: &str, measured: &Measured) -> Point {
    let interval = match measured {
        Measured::Estimate(e) => Some((e.low, e.high)),
        Measured::Exact(_, low, high) => (low < high).then_some((*low, *high)),
        Measured::Bare(_) => None,
    };
    let word = |value| columns::words(column, value);
    let ends = interval.map(|(low, high)| format!(" ({} to {})", word(low), word(high))).unwrap_or_default();
    let at = columns::text(cell.first(), &chart.x).unwrap_or_default();
    let at = columns::number(cell.first(), &chart.x).map_or(at, |x| columns::words(&chart.x, x));
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
    let mut found: Vec<String> = Vec::new();
    for text in cells.iter().filter_map(|cell| columns::text(cell.first(), column)) {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}
