//! The small picture beside the answer: its first quantity, as SVG for the page and as blocks for a terminal.

use super::reading::{Reading, Series, ratio};
use super::words;
use crate::svg::{Anchor, Svg, width_of};
use crate::{cells::Measured, charts};

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 200.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 34.0;
const LEFT: f64 = 14.0;
/// Size of the labels.
const SMALL: f64 = 12.0;

/// More lines or bars than these make no small picture.
const MOST: usize = 6;

/// More points than these are a line: dots would touch, and a browser takes seconds for thousands with tooltips.
const MOST_DOTS: usize = 400;

/// As SVG whose colours are the page's: `.headline .s0` and so on. `None`: there is nothing to draw.
pub(super) fn svg(reading: &Reading, answer: &str) -> Option<String> {
    let scale = Scale::new(reading)?;
    let mut svg = Svg::new(WIDTH, HEIGHT);
    let title = title(reading);
    svg.text((LEFT, 18.0), 13.0, Anchor::Start, "class=\"what\"", &title);
    svg.text((LEFT, 35.0), SMALL, Anchor::Start, "class=\"tick\"", &scale.text(reading));
    if reading.noun.is_empty() {
        bars(&mut svg, reading, &scale);
    } else {
        lines(&mut svg, reading, &scale);
    }
    Some(svg.finish(&title, answer))
}

fn lines(svg: &mut Svg, reading: &Reading, scale: &Scale) {
    let names: Vec<String> = reading.courses.iter().map(|course| words::names(&course.labels)).collect();
    let shown = shortened(&names);
    let widest = shown.iter().map(|name| width_of(name, SMALL)).fold(0.0, f64::max);
    let (right, floor) = (WIDTH - widest - 18.0, HEIGHT - BOTTOM);
    let at = |x: f64, y: f64| (LEFT + scale.x(x) * (right - LEFT), floor - scale.y(y) * (floor - TOP));
    svg.line((LEFT, floor), (right, floor), "class=\"rule\"");
    for (index, course) in reading.courses.iter().enumerate() {
        let ends = course.points.iter().map(|point| match point.measured {
            Measured::Estimate(estimate) if point.least == point.most => (point.x, estimate.low, estimate.high),
            _ => (point.x, point.least, point.most),
        });
        let ends: Vec<(f64, f64, f64)> = ends.collect();
        let above = ends.iter().map(|&(x, _, high)| at(x, high));
        let outline: Vec<(f64, f64)> = above.chain(ends.iter().rev().map(|&(x, low, _)| at(x, low))).collect();
        svg.path(&outline, true, &format!("class=\"band s{index}\""));
    }
    let crowded = reading.courses.iter().map(|course| course.points.len()).sum::<usize>() > MOST_DOTS;
    for (index, course) in reading.courses.iter().enumerate() {
        let through: Vec<(f64, f64)> = course.points.iter().map(|point| at(point.x, point.least)).collect();
        svg.path(&through, false, &format!("class=\"course s{index}\""));
        if crowded {
            continue;
        }
        for (point, place) in course.points.iter().zip(through) {
            let tooltip = format!("{}, {}: {}", names[index], point.place, words::value(&reading.column, point));
            svg.circle(place, 2.2, &format!("class=\"s{index}\""), &tooltip);
        }
    }
    let end = |course: &Series| course.points.last().map_or(floor, |point| at(point.x, point.least).1);
    let mut labels: Vec<(usize, f64)> = reading.courses.iter().map(end).enumerate().collect();
    labels.sort_by(|a, b| a.1.total_cmp(&b.1));
    let wanted: Vec<f64> = labels.iter().map(|(_, y)| *y).collect();
    for ((index, _), y) in labels.into_iter().zip(charts::parted(&wanted, SMALL + 2.0, floor)) {
        svg.text((right + 8.0, y + 4.0), SMALL, Anchor::Start, &format!("class=\"s{index}\""), &shown[index]);
    }
    let points = || reading.courses.iter().flat_map(|course| &course.points);
    let first = points().min_by(|a, b| a.x.total_cmp(&b.x));
    let last = points().max_by(|a, b| a.x.total_cmp(&b.x));
    for (point, x, anchor) in [(first, LEFT, Anchor::Start), (last, right, Anchor::End)] {
        let label = point.map(|point| words::clipped(&point.place)).unwrap_or_default();
        svg.text((x, floor + 17.0), SMALL, anchor, "class=\"tick\"", &label);
    }
    svg.text(((LEFT + right) / 2.0, floor + 17.0), SMALL, Anchor::Middle, "class=\"tick\"", &reading.noun);
}

/// Names that leave room for the lines; their tooltips have them whole. Those that only differ behind the cut lose their middle.
fn shortened(names: &[String]) -> Vec<String> {
    const LONGEST: usize = 24;
    const BEGINNING: usize = 8;
    let beginning = |name: &String| name.chars().take(LONGEST - 1).collect::<String>();
    let short = |name: &String| {
        let length = name.chars().count();
        if length <= LONGEST {
            return name.clone();
        }
        let begin = beginning(name);
        if names.iter().filter(|other| beginning(other) == begin).count() == 1 {
            return format!("{begin}…");
        }
        let ending = name.chars().skip(length - (LONGEST - 1 - BEGINNING));
        name.chars().take(BEGINNING).chain(['…']).chain(ending).collect()
    };
    names.iter().map(short).collect()
}

fn bars(svg: &mut Svg, reading: &Reading, scale: &Scale) {
    let step = (HEIGHT - TOP - 8.0) / reading.courses.len() as f64;
    for (index, course) in reading.courses.iter().enumerate() {
        let Some(point) = course.points.first() else { continue };
        let y = TOP + index as f64 * step;
        let text = format!("{} {}", words::names(&course.labels), words::value(&reading.column, point));
        svg.text((LEFT, y + SMALL - 2.0), SMALL, Anchor::Start, &format!("class=\"s{index}\""), &text);
        let long = (scale.y(point.least) * (WIDTH - 2.0 * LEFT)).max(1.0);
        svg.rect(
            (LEFT, y + SMALL + 3.0),
            (long, (step - SMALL - 12.0).clamp(2.0, 10.0)),
            2.0,
            &format!("class=\"s{index}\""),
        );
    }
}

/// As lines of a terminal, a course each: a block for each place, then from where to where. Empty if there is nothing to
/// draw, or it would be wider than this.
pub(super) fn blocks(reading: &Reading, width: usize) -> Vec<String> {
    let Some(scale) = Scale::new(reading).filter(|_| !reading.noun.is_empty()) else { return Vec::new() };
    if reading.courses.iter().any(|course| course.points.len() > width) {
        return Vec::new();
    }
    let mut places: Vec<(f64, &str)> = Vec::new();
    for point in reading.courses.iter().flat_map(|course| &course.points) {
        if !places.iter().any(|(x, _)| *x == point.x) {
            places.push((point.x, &point.place));
        }
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Few places make wider blocks.
    let wide = (24 / places.len()).clamp(1, 4);
    let names: Vec<String> = reading.courses.iter().map(|course| words::names(&course.labels)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!("{}: {}", title(reading), scale.text(reading))];
    for (course, name) in reading.courses.iter().zip(&names) {
        let block = |(x, _): &(f64, &str)| match course.points.iter().find(|point| point.x == *x) {
            Some(point) => BLOCKS[((scale.y(point.least) * 7.0).round() as usize).min(7)],
            None => ' ',
        };
        let drawn: String = places.iter().flat_map(|place| std::iter::repeat_n(block(place), wide)).collect();
        let ends = match (course.points.first(), course.points.last()) {
            (Some(first), Some(last)) => [first, last].map(|point| words::value(&reading.column, point)).join(" … "),
            _ => String::new(),
        };
        lines.push(format!("{name:longest$}  {drawn}  {ends}"));
    }
    if let [(_, first), .., (_, last)] = places[..] {
        let (first, last) = (words::clipped(first), words::clipped(last));
        let room = (places.len() * wide).saturating_sub(first.chars().count() + last.chars().count()).max(1);
        lines.push(format!("{:longest$}  {first}{}{last}", "", " ".repeat(room)));
    }
    if lines.iter().any(|line| line.chars().count() > width) { Vec::new() } else { lines }
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// From values to places between 0 and 1.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
    /// Whether by ratios.
    log_x: bool,
    log_y: bool,
}

impl Scale {
    /// `None`: fewer than two points, or too many courses.
    fn new(reading: &Reading) -> Option<Self> {
        let points = || reading.courses.iter().flat_map(|course| &course.points);
        if points().count() < 2 || reading.courses.len() > MOST || points().any(|p| !p.most.is_finite()) {
            return None;
        }
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |all, v| (all.0.min(v), all.1.max(v)))
        };
        let x = range(&mut points().map(|point| point.x));
        let top = range(&mut points().map(|point| point.most)).1;
        let positive = range(&mut points().map(|point| point.least).filter(|least| *least > 0.0));
        let low = range(&mut points().map(|point| point.least)).0;
        let log_y = low >= 0.0 && positive.0.is_finite() && ratio(positive.0, top) > DECADES;
        let y = if log_y { (positive.0, top) } else { (low.min(0.0), top) };
        Some(Self { log_x: x.0 > 0.0 && ratio(x.0, x.1) > DECADES, log_y, x, y })
    }

    fn x(&self, value: f64) -> f64 {
        place(self.x, value, self.log_x)
    }

    /// A value of 0 on a scale of ratios lies at its low end.
    fn y(&self, value: f64) -> f64 {
        place(self.y, value, self.log_y)
    }

    /// From where to where, and how.
    fn text(&self, reading: &Reading) -> String {
        let scale = if self.log_y { ", logarithmic" } else { "" };
        format!("{}{scale}", words::range(&reading.column, self.y.0, self.y.1))
    }
}

fn title(reading: &Reading) -> String {
    let title = if reading.title.is_empty() { &reading.column } else { &reading.title };
    words::clipped(title.trim_end_matches(['.', ':']))
}

/// Values over more than this ratio are drawn by ratios.
const DECADES: f64 = 20.0;

fn place((low, high): (f64, f64), value: f64, log: bool) -> f64 {
    let share = match log {
        true => (value.max(low) / low).ln() / (high / low).ln(),
        false => (value - low) / (high - low),
    };
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_cut_still_differ() {
        let names = [
            "TCP with 100 ms delay, 1 stream",
            "TCP with 100 ms delay, 2 streams",
            "TCP",
            "UDP over a path of 1000 links",
        ];
        let names = names.map(str::to_owned);
        let short = shortened(&names);
        assert_eq!(short[2..], ["TCP", "UDP over a path of 1000…"]);
        assert!(short[0] != short[1] && short[1].ends_with(" 2 streams"), "{short:?}");
        assert!(short.iter().all(|name| name.chars().count() <= 24), "{short:?}");
    }
}
