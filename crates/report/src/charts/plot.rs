//! Lines and points over two axes.

use super::lines::{self, Arranged, Line, Point};
use super::{COLOURS, FAINT, INK, LEFT, RIGHT, WIDTH, colour, stroke};
use crate::axis::Axis;
use crate::cells::Cell;
use crate::columns::Columns;
use crate::palette::Rgb;
use crate::record::{Chart, Published, Scale};
use crate::svg::{Anchor, Svg, width_of};

const HEIGHT: f64 = 440.0;
/// Height of a chart of many lines.
const TALL: f64 = 580.0;
const BOTTOM: f64 = 58.0;

/// A chart's values, arranged.
pub(super) struct Drawing<'a> {
    chart: &'a Chart,
    lines: Vec<Line>,
    source: Option<&'a str>,
    x: Axis,
    y: Axis,
    /// Whether the lines are too many for colours of their own, but have an order.
    graded: bool,
    /// Whether points are of several cells each.
    summed: bool,
    /// Whether points are too many for elements of their own.
    crowded: bool,
    height: f64,
    /// Where the lines end, so that their names fit behind.
    right: f64,
}

impl<'a> Drawing<'a> {
    /// Arranges the cells.
    pub(super) fn new(chart: &'a Chart, cells: &[Cell<'_>], published: Option<&'a Published>) -> Self {
        let Arranged { lines, words, ordered, summed } = lines::arrange(chart, cells, published);
        let shown = || lines.iter().flat_map(|line| &line.points);
        let theirs = || lines.iter().flat_map(|line| &line.published);
        let xs: Vec<f64> = shown().map(|p| p.x).chain(theirs().map(|p| p.0)).collect();
        let tops = shown().filter(|p| p.valid).filter_map(|p| p.interval.map(|(_, high)| high));
        let ys: Vec<f64> = shown().map(|p| p.y).chain(theirs().map(|p| p.1)).chain(tops).collect();
        let x = match (words.is_empty(), chart.x_scale) {
            (true, Scale::Linear) => Axis::linear(&xs, false, &chart.x),
            (true, Scale::Log) => log_axis(&xs, &chart.x, true),
            (false, _) => Axis::words(&words),
        };
        let y = match chart.scale {
            Scale::Linear => Axis::linear(&ys, true, &chart.y),
            Scale::Log => log_axis(&ys, &chart.y, false),
        };
        let source = published.map(|p| p.source.as_str()).filter(|_| theirs().next().is_some());
        let graded = ordered && lines.len() > COLOURS.len();
        let height = if graded { TALL } else { HEIGHT };
        let names = lines.iter().map(|line| width_of(&line.name, 11.0)).fold(0.0, f64::max);
        let right = if graded { WIDTH - RIGHT - names - 18.0 } else { WIDTH - RIGHT };
        let crowded = shown().count() > MOST_MARKED;
        Self { chart, lines, source, x, y, graded, summed, crowded, height, right }
    }

    /// As a picture.
    pub(super) fn render(&self) -> String {
        let mut svg = Svg::new(WIDTH, self.height);
        let border = "fill=\"#ffffff\" stroke=\"#d1d9e0\"";
        svg.rect((0.5, 0.5), (WIDTH - 1.0, self.height - 1.0), 10.0, border);
        svg.text((24.0, 34.0), 17.0, Anchor::Start, &format!("font-weight=\"600\" {INK}"), &self.chart.title);
        svg.text((24.0, 55.0), 13.0, Anchor::Start, FAINT, &self.chart.y_label);
        let top = self.legend(&mut svg, 80.0) + 22.0;
        let frame = Frame { top, bottom: self.height - BOTTOM, right: self.right };
        self.axes(&mut svg, &frame);
        if self.lines.iter().all(|line| line.points.is_empty() && line.published.is_empty()) {
            let middle = ((LEFT + self.right) / 2.0, (frame.top + frame.bottom) / 2.0);
            svg.text(middle, 14.0, Anchor::Middle, FAINT, "nothing was measured");
        }
        for (index, line) in self.lines.iter().enumerate() {
            self.band(&mut svg, &frame, line, &self.colour(index));
        }
        for (index, line) in self.lines.iter().enumerate() {
            self.line(&mut svg, &frame, line, index);
        }
        for (index, line) in self.lines.iter().enumerate() {
            self.published(&mut svg, &frame, line, &self.colour(index));
        }
        if self.graded {
            self.names(&mut svg, &frame);
        }
        let description = format!("{} over {}", self.chart.y_label, self.chart.x_label);
        svg.finish(&self.chart.title, &description)
    }

    /// Entries from left to right, in as many rows as they need; gives the lowest baseline.
    fn legend(&self, svg: &mut Svg, mut y: f64) -> f64 {
        let mut x = 24.0;
        let mut entry = |svg: &mut Svg, name: &str, mark: &dyn Fn(&mut Svg, (f64, f64))| {
            let width = 26.0 + width_of(name, 13.0) + 20.0;
            if x > 24.0 && x + width > WIDTH - 24.0 {
                (x, y) = (24.0, y + 20.0);
            }
            mark(svg, (x, y - 4.5));
            svg.text((x + 26.0, y), 13.0, Anchor::Start, INK, name);
            x += width;
        };
        let few = self.lines.iter().enumerate().filter(|_| !self.graded);
        for (index, line) in few {
            let name = if line.name.is_empty() { &self.chart.y } else { &line.name };
            entry(svg, name, &|svg, (x, y)| {
                svg.line((x, y), (x + 20.0, y), &self.stroke(index));
                svg.circle((x + 10.0, y), 3.5, &format!("fill=\"{}\"", self.colour(index)), "");
            });
        }
        if let (true, [first, .., last]) = (self.graded, &self.lines[..]) {
            let name = format!("{} from {} to {}", self.chart.series, first.name, last.name);
            entry(svg, &name, &|svg, (x, y)| {
                for step in 0..self.lines.len() {
                    let width = 20.0 / self.lines.len() as f64;
                    let style = format!("fill=\"{}\"", self.colour(step));
                    svg.rect((x + step as f64 * width, y - 5.0), (width + 0.3, 10.0), 0.0, &style);
                }
            });
        }
        if self.lines.iter().flat_map(|line| &line.points).any(|p| p.valid && p.interval.is_some()) {
            entry(svg, self.band_name(), &|svg, (x, y)| {
                svg.rect((x, y - 5.0), (20.0, 10.0), 2.0, "fill=\"#59636e\" fill-opacity=\"0.22\"");
            });
        }
        if let Some(source) = self.source {
            let name = if source.chars().count() <= 40 { format!("published: {source}") } else { "published".into() };
            entry(svg, &name, &|svg, at| {
                svg.diamond((at.0 + 10.0, at.1), 5.5, &hollow("#59636e"), "");
            });
        }
        if self.lines.iter().flat_map(|line| &line.points).any(|p| !p.valid) {
            entry(svg, "not valid", &|svg, at| {
                svg.circle((at.0 + 10.0, at.1), 3.5, INVALID, "");
            });
        }
        if self.lines.iter().flat_map(|line| &line.points).any(|p| self.on_floor(p.y)) {
            entry(svg, "0", &|svg, at| {
                svg.path(&triangle((at.0 + 10.0, at.1), 4.0), true, "fill=\"#59636e\"");
            });
        }
        y
    }

    /// What the band along a line is: a maximum has no interval, only a part that stalls could explain.
    fn band_name(&self) -> &'static str {
        match Columns::default().kind(&self.chart.y) {
            _ if self.summed => "least to most of the cells at a place, line: median",
            Some(crate::columns::Kind::Extreme) => "may be the machine's stalls",
            _ => "95 % interval",
        }
    }

    fn axes(&self, svg: &mut Svg, frame: &Frame) {
        for (value, label) in &self.y.ticks {
            let Some(y) = self.y.place(*value).map(|place| frame.y(place)) else {
                continue;
            };
            svg.line((LEFT, y), (self.right, y), "stroke=\"#e6eaef\"");
            svg.text((LEFT - 10.0, y + 4.0), 12.0, Anchor::End, FAINT, label);
        }
        svg.line((LEFT, frame.bottom), (self.right, frame.bottom), "stroke=\"#818b98\"");
        // Leave out labels that would touch.
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &self.x.ticks {
            let Some(x) = self.x.place(*value).map(|place| frame.x(place)) else {
                continue;
            };
            svg.line((x, frame.bottom), (x, frame.bottom + 5.0), "stroke=\"#818b98\"");
            let half = width_of(label, 12.0) / 2.0;
            if x - half > free {
                svg.text((x, frame.bottom + 20.0), 12.0, Anchor::Middle, FAINT, label);
                free = x + half + 6.0;
            }
        }
        let middle = (LEFT + self.right) / 2.0;
        svg.text((middle, self.height - 16.0), 13.0, Anchor::Middle, FAINT, &self.chart.x_label);
    }

    fn band(&self, svg: &mut Svg, frame: &Frame, line: &Line, colour: &str) {
        // A cell that is not valid breaks band and line.
        for run in line.points.split(|p| !p.valid) {
            let shown = run.iter().filter(|p| self.place(frame, p.x, p.y).is_some());
            let ends = shown.filter_map(|p| Some((frame.x(self.x.clamped(p.x)), p.interval?)));
            let at = |end| frame.y(self.y.clamped(end));
            let edges: Vec<(f64, f64, f64)> = ends.map(|(x, (low, high))| (x, at(low), at(high))).collect();
            if edges.len() > 1 && line.has_own_places() {
                let there = edges.iter().map(|&(x, _, high)| (x, high));
                let outline: Vec<(f64, f64)> = there.chain(edges.iter().rev().map(|&(x, low, _)| (x, low))).collect();
                let opacity = if self.graded { "0.1" } else { "0.16" };
                svg.path(&outline, true, &format!("fill=\"{colour}\" fill-opacity=\"{opacity}\""));
                continue;
            }
            let style = format!("stroke=\"{colour}\" stroke-width=\"1.5\" stroke-opacity=\"0.6\"");
            if self.crowded {
                svg.strokes(&edges, &style);
                continue;
            }
            for (x, low, high) in edges {
                svg.line((x, low), (x, high), &style);
                for y in [low, high] {
                    svg.line((x - 4.0, y), (x + 4.0, y), &style);
                }
            }
        }
    }

    fn line(&self, svg: &mut Svg, frame: &Frame, line: &Line, index: usize) {
        if line.has_own_places() {
            for run in line.points.split(|p| !p.valid) {
                let through: Vec<(f64, f64)> = run.iter().filter_map(|p| self.place(frame, p.x, p.y)).collect();
                svg.path(&through, false, &format!("fill=\"none\" stroke-linejoin=\"round\" {}", self.stroke(index)));
            }
        }
        if self.crowded {
            let (valid, not): (Vec<&Point>, Vec<&Point>) = line.points.iter().partition(|point| point.valid);
            let own = self.colour(index);
            for (points, colour) in [(valid, own.as_str()), (not, "#9aa2ab")] {
                let places: Vec<_> = points.iter().filter_map(|p| self.place(frame, p.x, p.y)).collect();
                svg.dots(&places, 4.0, &format!("stroke=\"{colour}\""));
            }
            return;
        }
        for point in &line.points {
            let Some(at) = self.place(frame, point.x, point.y) else {
                continue;
            };
            if self.on_floor(point.y) {
                let ground = if point.valid { self.colour(index) } else { "#ffffff".into() };
                let style = format!("fill=\"{ground}\" stroke=\"{}\"", self.colour(index));
                svg.path(&triangle(at, 5.0), true, &style);
                svg.circle(at, 5.0, "fill=\"#ffffff\" fill-opacity=\"0\"", &point.tooltip);
            } else if point.valid {
                let style = format!("fill=\"{}\" stroke=\"#ffffff\"", self.colour(index));
                svg.circle(at, if self.graded { 3.0 } else { 4.0 }, &style, &point.tooltip);
            } else {
                let style = format!("fill=\"#ffffff\" stroke=\"{}\" stroke-opacity=\"0.5\"", self.colour(index));
                svg.circle(at, 3.5, &style, &point.tooltip);
            }
        }
    }

    fn published(&self, svg: &mut Svg, frame: &Frame, line: &Line, colour: &str) {
        for &(x, y) in &line.published {
            let Some(at) = self.place(frame, x, y) else { continue };
            let tooltip = format!("{}, published: {}", line.name, Columns::default().words(&self.chart.y, y));
            svg.diamond(at, if self.graded { 5.0 } else { 6.5 }, &hollow(colour), &tooltip);
        }
    }

    /// The lines' names behind their ends, moved apart where they would touch.
    fn names(&self, svg: &mut Svg, frame: &Frame) {
        const LEAST: f64 = 12.5;
        const MOST: usize = 36;
        // Of more names than have room those at equal steps.
        let step = self.lines.len().div_ceil(MOST);
        let end = |line: &Line| line.points.iter().rev().find_map(|p| self.place(frame, p.x, p.y));
        let mut ends: Vec<(usize, (f64, f64), f64)> = self
            .lines
            .iter()
            .enumerate()
            .step_by(step)
            .filter_map(|(index, line)| {
                let at = end(line)?;
                Some((index, at, at.1))
            })
            .collect();
        // Of equal ends, the higher number is lower, as a surface that falls has it.
        ends.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.0.cmp(&b.0)));
        let wanted: Vec<f64> = ends.iter().map(|(_, _, y)| *y).collect();
        for (end, y) in ends.iter_mut().zip(parted(&wanted, LEAST, frame.bottom + 4.0)) {
            end.2 = y;
        }
        for (index, at, y) in ends {
            let colour = self.colour(index);
            let style = format!("stroke=\"{colour}\" stroke-opacity=\"0.6\"");
            svg.line((at.0 + 4.0, at.1), (self.right + 6.0, y), &style);
            svg.text((self.right + 9.0, y + 4.0), 11.0, Anchor::Start, INK, &self.lines[index].name);
        }
    }

    fn on_floor(&self, y: f64) -> bool {
        self.chart.scale == Scale::Log && y == 0.0 && self.y.place(0.0).is_some()
    }

    fn colour(&self, index: usize) -> String {
        if !self.graded {
            return colour(index).to_owned();
        }
        // The lightest would hardly be seen as a line.
        let place = index as f64 / (self.lines.len() - 1).max(1) as f64;
        Rgb::sequential(0.16 + 0.84 * place).hex()
    }

    fn stroke(&self, index: usize) -> String {
        if self.graded { format!("stroke=\"{}\" stroke-width=\"1.6\"", self.colour(index)) } else { stroke(index) }
    }

    fn place(&self, frame: &Frame, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((frame.x(self.x.place(x)?), frame.y(self.y.place(y)?)))
    }
}

/// Where the axes' ends lie.
struct Frame {
    top: f64,
    bottom: f64,
    right: f64,
}

impl Frame {
    fn x(&self, place: f64) -> f64 {
        LEFT + 12.0 + place * (self.right - 12.0 - LEFT - 12.0)
    }

    fn y(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }
}

/// More points than these are dots without words of their own: a browser takes seconds for thousands of such.
pub(super) const MOST_MARKED: usize = 1500;

const INVALID: &str = "fill=\"#ffffff\" stroke=\"#9aa2ab\" stroke-width=\"1.5\"";

/// A logarithmic axis, in whole decades or just as long as needed, with a floor if there is a 0 among the values.
fn log_axis(values: &[f64], column: &str, tight: bool) -> Axis {
    let axis = Axis::log(values, column);
    let axis = if tight { axis.tight(values) } else { axis };
    if values.contains(&0.0) && values.iter().any(|value| *value > 0.0) { axis.with_floor() } else { axis }
}

/// Ascending places moved as little as possible (in squares) so that they lie `least` apart and none beyond `most`.
pub(crate) fn parted(places: &[f64], least: f64, most: f64) -> Vec<f64> {
    // Without the distances that is a regression to ascending values: neighbours that are not become their mean.
    let mut runs: Vec<(f64, usize)> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        runs.push((place - index as f64 * least, 1));
        while let [.., (before, n), (after, m)] = runs[..]
            && before > after
        {
            runs.truncate(runs.len() - 2);
            runs.push(((before * n as f64 + after * m as f64) / (n + m) as f64, n + m));
        }
    }
    let flat = runs.iter().flat_map(|&(place, n)| std::iter::repeat_n(place, n));
    let highest = most - places.len().saturating_sub(1) as f64 * least;
    flat.enumerate().map(|(index, place)| place.min(highest) + index as f64 * least).collect()
}

fn triangle((x, y): (f64, f64), size: f64) -> [(f64, f64); 3] {
    [(x - size, y - size * 0.7), (x + size, y - size * 0.7), (x, y + size)]
}

fn hollow(colour: &str) -> String {
    format!("fill=\"#ffffff\" fill-opacity=\"0.4\" stroke=\"{colour}\" stroke-width=\"2\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parted_and_stay_above_the_floor() {
        assert_eq!(parted(&[10.0, 50.0], 12.0, 100.0), [10.0, 50.0]);
        assert_eq!(parted(&[50.0, 50.0, 50.0], 12.0, 100.0), [38.0, 50.0, 62.0]);
        assert_eq!(parted(&[90.0, 99.0], 12.0, 100.0), [88.0, 100.0]);
        assert!(parted(&[], 12.0, 100.0).is_empty());
    }
}
