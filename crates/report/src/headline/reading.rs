//! What a chart of the run shows, as courses: a quantity along one axis of numbers, a course for each value of the
//! others.

use std::collections::BTreeMap;
use std::hash::Hash;

use indexmap::{IndexMap, IndexSet};

use super::words::{self, Label};
use crate::cells::{Cell, Measured};
use crate::columns;
use crate::record::{Chart, ChartKind, Manifest};

/// A quantity of the run, arranged.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The column.
    pub(super) column: String,
    /// What the scenario calls it; empty if it has no chart of it.
    pub(super) title: String,
    /// Whether it is of some cells only, by the chart's choice: its title says which.
    pub(super) selected: bool,
    /// What the axis of numbers is called, e.g. `loss`; empty if there is none.
    pub(super) noun: String,
    /// One for each combination of the other axes, in the order of the run.
    pub(super) courses: Vec<Series>,
    /// How many places the axis of numbers has in the run, with those that nothing is known of.
    pub(super) places: usize,
}

/// How a quantity goes along the axis of numbers.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// What it is of; several where these are alike.
    pub(super) labels: Vec<Label>,
    /// Ascending; a single one where there is no axis of numbers.
    pub(super) points: Vec<Point>,
}

/// A valid cell, or several that are alike.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Where on the axis.
    pub(super) x: f64,
    /// The same as a reader would write it, e.g. `10 %`.
    pub(super) place: String,
    /// The least of those that are alike.
    pub(super) least: f64,
    /// The most.
    pub(super) most: f64,
    /// What was measured in the first of them.
    pub(super) measured: Measured,
}

/// Courses that a sentence can hold.
pub(super) const MOST_COURSES: usize = 4;

/// Courses that each further one is held against.
const MOST_HELD: usize = 64;

/// An interval whose ends are farther apart than this ratio says too little for `at every loss`.
const VAGUE: f64 = 3.0;

/// Quantities that an answer is made of.
const MOST_READINGS: usize = 2;

/// The quantities of a run: those that its charts show first, one of a topic; without charts, delay and throughput.
pub(super) fn readings(manifest: &Manifest, cells: &[Cell<'_>]) -> Vec<Reading> {
    let swept: Vec<&Cell<'_>> = cells.iter().filter(|cell| !cell.beside).collect();
    let mut found: Vec<Reading> = Vec::new();
    for chart in &manifest.charts {
        let new = |reading: &Reading| found.iter().all(|known| topic(&known.column) != topic(&reading.column));
        found.extend(of_chart(chart, &swept).filter(new));
    }
    if found.is_empty() {
        let is_bulk = swept.iter().any(|cell| columns::is_bulk(cell.first()));
        let usual: &[&str] = if is_bulk { &["mbit_per_s"] } else { &["delay_mean_us", "msgs_per_s"] };
        let axis = longest(&axes(&swept));
        found.extend(usual.iter().filter_map(|column| arrange(&swept, column, axis.as_deref())));
    }
    found.truncate(MOST_READINGS);
    found
}

/// What a chart draws; `None` if that is no quantity along an axis of the sweep, or the largest of something: one
/// message says little of the others.
fn of_chart(chart: &Chart, swept: &[&Cell<'_>]) -> Option<Reading> {
    let (column, along): (_, &[&String]) = match chart.kind {
        ChartKind::Lines => (&chart.y, &[&chart.x]),
        ChartKind::Heatmap => (&chart.value, &[&chart.y, &chart.x]),
        ChartKind::Time | ChartKind::Distribution | ChartKind::Signal => return None,
    };
    if column.split('_').any(|word| word == "max") {
        return None;
    }
    let selects = |cell: &&&Cell<'_>| chart.selection.iter().all(|(key, v)| columns::matches(cell.first(), key, v));
    let cells: Vec<&Cell<'_>> = swept.iter().filter(selects).copied().collect();
    let axes = axes(&cells);
    let axis = along.iter().find_map(|name| axis_of(name, &axes, &cells));
    let varies =
        |name: &&&String| distinct(cells.iter().filter_map(|cell| columns::text(cell.first(), name))).len() > 1;
    if axis.is_none() && along.iter().any(|name| varies(&name) && !axes.iter().any(|axis| axis.key == ***name)) {
        return None;
    }
    let axis = axis.or_else(|| longest(&axes));
    let mut reading = arrange(&cells, column, axis.as_deref())?;
    reading.title.clone_from(&chart.title);
    reading.selected = !chart.selection.is_empty();
    Some(reading)
}

/// An axis of the sweep that takes several values among some cells.
struct Axis {
    key: String,
    /// Whether all its values are numbers.
    numeric: bool,
    values: usize,
}

fn axes(cells: &[&Cell<'_>]) -> Vec<Axis> {
    let keys = distinct(cells.iter().flat_map(|cell| cell.first().axes.iter().map(|(key, _)| key.clone())));
    let axis = |key: String| {
        let values = distinct(cells.iter().filter_map(|cell| columns::text(cell.first(), &key)));
        Axis { numeric: values.iter().all(|value| number(value).is_some()), values: values.len(), key }
    };
    keys.into_iter().map(axis).filter(|axis| axis.values > 1).collect()
}

fn longest(axes: &[Axis]) -> Option<String> {
    // Of equal ones the first.
    let numeric = axes.iter().rev().filter(|axis| axis.numeric);
    numeric.max_by_key(|axis| axis.values).map(|axis| axis.key.clone())
}

/// The axis of numbers that a column goes with: each value of one has its own of the other.
fn axis_of(column: &str, axes: &[Axis], cells: &[&Cell<'_>]) -> Option<String> {
    let goes_with = |axis: &&Axis| {
        let mut pairs = BTreeMap::new();
        let same = cells.iter().all(|cell| {
            let (text, value) = (columns::text(cell.first(), &axis.key), columns::text(cell.first(), column));
            value.is_some() && *pairs.entry(text).or_insert_with(|| value.clone()) == value
        });
        same && distinct(pairs.into_values()).len() == axis.values
    };
    axes.iter().filter(|axis| axis.numeric).find(goes_with).map(|axis| axis.key.clone())
}

fn arrange(cells: &[&Cell<'_>], column: &str, axis: Option<&str>) -> Option<Reading> {
    // Axes are those of all cells: that only cells of one value are valid must not hide which value.
    let others: Vec<Axis> = axes(cells).into_iter().filter(|other| Some(other.key.as_str()) != axis).collect();
    let places = axis.map_or(1, |key| distinct(cells.iter().filter_map(|cell| columns::text(cell.first(), key))).len());
    // Cells beside one another without an axis: as far as their transports tell them apart, these do.
    let transports = distinct(cells.iter().map(|cell| cell.first().row.transport.clone())).len();
    let nameless = axis.is_none() && others.is_empty() && transports < cells.len();
    let cells: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.believes(column)).copied().collect();
    let mut courses: IndexMap<Label, Series> = IndexMap::new();
    for cell in &cells {
        let Some(measured) = cell.measured(column).filter(|measured| measured.value().is_finite()) else { continue };
        let own: Vec<(&str, String)> = others
            .iter()
            .filter_map(|other| Some((other.key.as_str(), columns::text(cell.first(), &other.key)?)))
            .collect();
        let label = if nameless { Label::of_cell(cell.name) } else { Label::new(&cell.first().row.transport, &own) };
        let text = axis.and_then(|key| columns::text(cell.first(), key)).unwrap_or_default();
        let (x, value) = (number(&text).unwrap_or(0.0), measured.value());
        let point = Point { x, place: words::quantity(&text), least: value, most: value, measured };
        let course = || Series { labels: vec![label.clone()], points: Vec::new() };
        courses.entry(label.clone()).or_insert_with(course).points.push(point);
    }
    let mut courses: Vec<Series> = courses.into_values().collect();
    for course in &mut courses {
        course.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    let noun = axis.map(words::noun).unwrap_or_default();
    let mut reading = Reading { column: column.into(), title: String::new(), selected: false, noun, courses, places };
    reading.shorten(&others, &cells);
    reading.join_alike();
    (!reading.courses.is_empty()).then_some(reading)
}

impl Reading {
    /// Of a further axis with more numbers than a sentence can hold, the two ends stay.
    fn shorten(&mut self, others: &[Axis], cells: &[&Cell<'_>]) {
        for axis in others.iter().filter(|axis| axis.numeric && axis.values > 2) {
            if self.courses.len() <= MOST_COURSES {
                return;
            }
            let mut values = distinct(cells.iter().filter_map(|cell| columns::text(cell.first(), &axis.key)));
            values.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
            let [first, .., last] = &values[..] else { continue };
            let ends = [first, last];
            self.courses.retain(|course| ends.iter().any(|end| course.labels[0].has(&axis.key, end)));
        }
    }

    /// Courses that lie together everywhere become one; of very many, which no sentence holds, those that lie with one of
    /// the first.
    fn join_alike(&mut self) {
        let near = self.alike();
        let mut joined: Vec<Series> = Vec::new();
        for course in self.courses.drain(..) {
            let beside = |known: &&mut Series| {
                let pairs = || known.points.iter().zip(&course.points);
                known.points.len() == course.points.len()
                    && pairs().all(|(a, b)| a.x == b.x && ratio(a.least.min(b.least), a.most.max(b.most)) <= near)
            };
            match joined.iter_mut().take(MOST_HELD).find(beside) {
                Some(known) => {
                    known.labels.extend(course.labels);
                    for (point, more) in known.points.iter_mut().zip(&course.points) {
                        (point.least, point.most) = (point.least.min(more.least), point.most.max(more.most));
                    }
                }
                None => joined.push(course),
            }
        }
        self.courses = joined;
    }

    /// What it is called where something is left out of it.
    pub(super) fn of(&self) -> String {
        match topic(&self.column) {
            Topic::Delay => "the delays".into(),
            Topic::Delivery => "what was delivered".into(),
            Topic::Other(column) => words::title(column, &self.title).trim_end_matches(':').to_owned(),
        }
    }

    /// The ratio up to which two values are as good as the same: delays span decades, what arrives does not.
    pub(super) fn alike(&self) -> f64 {
        if topic(&self.column) == Topic::Delay { 1.2 } else { 1.02 }
    }

    /// Whether a course is the same at every place, and known there.
    pub(super) fn is_level(&self, course: &Series) -> bool {
        course.points.len() == self.places && course.is_level(self.level())
    }

    /// The ratio up to which a course is level.
    pub(super) fn level(&self) -> f64 {
        if topic(&self.column) == Topic::Delay { 1.5 } else { 1.05 }
    }
}

impl Series {
    /// The least and the most along it.
    pub(super) fn span(&self) -> (f64, f64) {
        let low = self.points.iter().map(|point| point.least).fold(f64::INFINITY, f64::min);
        (low, self.points.iter().map(|point| point.most).fold(f64::NEG_INFINITY, f64::max))
    }

    /// Whether nothing shows that it rises or falls: it spans no more than this ratio, or its intervals have a value
    /// in common and it spans less than a decade. Of what is hardly known nothing is shown.
    pub(super) fn is_level(&self, most: f64) -> bool {
        let (low, high) = self.span();
        let vague = |point: &Point| match point.measured {
            Measured::Estimate(estimate) => ratio(estimate.low, estimate.high) > VAGUE,
            Measured::Exact(..) | Measured::Bare(_) => false,
        };
        if self.points.iter().any(vague) {
            return false;
        }
        let ends = self.points.iter().map(|point| match point.measured {
            Measured::Estimate(estimate) if point.least == point.most => (estimate.low, estimate.high),
            _ => (f64::INFINITY, f64::NEG_INFINITY),
        });
        let (lowest, highest) =
            ends.fold((f64::NEG_INFINITY, f64::INFINITY), |all, own| (all.0.max(own.0), all.1.min(own.1)));
        ratio(low, high) <= most || (lowest <= highest && ratio(low, high) < 10.0)
    }

    /// Where it is highest or lowest, if that is between its ends and beyond both by more than this ratio.
    pub(super) fn turn(&self, most: f64) -> Option<f64> {
        let [first, inner @ .., last] = &self.points[..] else { return None };
        let (low, high) = (first.least.min(last.least), first.most.max(last.most));
        let top =
            inner.iter().max_by(|a, b| a.most.total_cmp(&b.most)).filter(|top| ratio(high, top.most.max(high)) > most);
        let bottom = inner.iter().min_by(|a, b| a.least.total_cmp(&b.least));
        let bottom = bottom.filter(|bottom| ratio(bottom.least.min(low), low) > most);
        top.or(bottom).map(|point| point.x)
    }
}

/// What a column is about: of a topic one column is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic<'a> {
    /// Time of messages under way.
    Delay,
    /// How much arrives.
    Delivery,
    /// Anything else.
    Other(&'a str),
}

pub(super) fn topic(column: &str) -> Topic<'_> {
    match column {
        "msgs_per_s" | "mbit_per_s" | "delivered_share" | "delivered" => Topic::Delivery,
        _ if column.starts_with("delay_") || column.contains("_delay_") || column.starts_with("age_") => Topic::Delay,
        _ => Topic::Other(column),
    }
}

/// How many times the smaller the larger is; without end if only one is 0.
pub(super) fn ratio(low: f64, high: f64) -> f64 {
    if low == high {
        1.0
    } else if low > 0.0 {
        high / low
    } else {
        f64::INFINITY
    }
}

/// An axis' value as a number: plain, or any quantity with its unit.
pub(super) fn number(text: &str) -> Option<f64> {
    let plain = || text.parse().ok().filter(|value: &f64| value.is_finite());
    let share = || text.parse::<weir_units::Share>().ok().map(weir_units::Share::percent);
    let span = || text.parse::<weir_units::Span>().ok().map(|span| span.nanos as f64);
    let size = || text.parse::<weir_units::Size>().ok().map(|size| size.bytes as f64);
    let rate = || text.parse::<weir_units::BitRate>().ok().map(|rate| rate.bits_per_second as f64);
    let often = || text.parse::<weir_units::Frequency>().ok().map(|often| often.micro_hertz as f64);
    plain().or_else(share).or_else(span).or_else(size).or_else(rate).or_else(often)
}

/// The different ones, in their order.
fn distinct<T: Eq + Hash>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.collect::<IndexSet<T>>().into_iter().collect()
}
