//! Charts over time: one panel a quantity, one line a connection of each selected cell.

use crate::columns::Columns;
use weir_units::format;

use super::{FAINT, INK, LEFT, RIGHT, WIDTH, colour, stroke};
use crate::axis::Axis;
use crate::cells::Cell;
use crate::record::{Chart, Record};
use crate::svg::{Anchor, Svg, width_of};
use crate::timelines;

const PANEL: f64 = 118.0;
const BETWEEN: f64 = 46.0;
/// Points of a line: more than two a pixel are not seen.
const MOST_POINTS: usize = 600;
/// More lines than this are no chart.
const MOST_LINES: usize = 21;

/// Bands that are drawn of a record.
const MOST_BANDS: usize = 200;
/// What was taken is read every so often, s.
const TAKEN_WITHIN: f64 = 0.1;
const GREY: &str = "; grey: the machine stood still, orange: the host or a quota took processor time";

/// A line of a panel.
struct Line<'a> {
    quantity: &'a str,
    /// Which colour: lines of one connection share it.
    index: usize,
    /// No line leads from one part to the next.
    parts: Vec<Vec<(f64, f64)>>,
}

impl Line<'_> {
    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.parts.iter().flatten()
    }
}

/// Draws a chart of kind `time`.
pub(super) fn render(chart: &Chart, cells: &[Cell<'_>]) -> String {
    let records: Vec<&Record> = cells.iter().flat_map(|cell| cell.records.iter().copied()).collect();
    let wanted = |name: &&str| chart.quantities.is_empty() || chart.quantities.iter().any(|own| own == name);
    let panels: Vec<&str> = timelines::quantities(&records).into_iter().filter(wanted).collect();
    let (names, lines, left_out) = arrange(&records, &panels);

    let legend = legend_places(&names);
    let top = 74.0 + legend.last().map_or(0.0, |(_, y)| y + 34.0);
    let height = top + panels.len().max(1) as f64 * (PANEL + BETWEEN) + 34.0;
    let mut svg = Svg::new(WIDTH, height);
    svg.rect((0.5, 0.5), (WIDTH - 1.0, height - 1.0), 10.0, "fill=\"#ffffff\" stroke=\"#d1d9e0\"");
    svg.text((24.0, 34.0), 17.0, Anchor::Start, &format!("font-weight=\"600\" {INK}"), &chart.title);
    let more = if left_out > 0 { format!("; {left_out} more are not shown") } else { String::new() };
    let label = if chart.y_label.is_empty() { "sampled while the cell ran" } else { &chart.y_label };
    let grey = if records.iter().all(|record| record.standstills.list.is_empty()) { "" } else { GREY };
    svg.text((24.0, 55.0), 13.0, Anchor::Start, FAINT, &format!("{label}{more}{grey}"));
    for (index, (name, (x, y))) in names.iter().zip(&legend).enumerate() {
        let (x, y) = (24.0 + x, 80.0 + y);
        svg.line((x, y - 4.5), (x + 20.0, y - 4.5), &stroke(index));
        svg.text((x + 26.0, y), 13.0, Anchor::Start, INK, name);
    }
    let times: Vec<f64> = lines.iter().flat_map(|line| line.points()).map(|(t, _)| *t).chain([0.0]).collect();
    let x = Axis::linear(&times, false, "");
    let bands = bands(&records, times.iter().copied().fold(0.0, f64::max));
    if panels.is_empty() {
        svg.text((WIDTH / 2.0, top + PANEL / 2.0), 14.0, Anchor::Middle, FAINT, "nothing was sampled");
    }
    for (index, panel) in panels.iter().enumerate() {
        let own: Vec<&Line<'_>> = lines.iter().filter(|line| line.quantity == *panel).collect();
        let top = top + index as f64 * (PANEL + BETWEEN) + 20.0;
        bands.iter().for_each(|band| band.draw(&mut svg, &x, top));
        draw(&mut svg, panel, &own, &x, top);
    }
    if !panels.is_empty() {
        let bottom = top + panels.len() as f64 * (PANEL + BETWEEN) - BETWEEN + 20.0;
        for (value, label) in &x.ticks {
            if let Some(place) = x.place(*value) {
                svg.text((across(place), bottom + 19.0), 12.0, Anchor::Middle, FAINT, label);
            }
        }
        let name = if chart.x_label.is_empty() { "seconds since the start of sending" } else { &chart.x_label };
        svg.text(((LEFT + WIDTH - RIGHT) / 2.0, bottom + 42.0), 13.0, Anchor::Middle, FAINT, name);
    }
    svg.finish(&chart.title, "quantities of a connection over time")
}

/// A time in which the machine stood still, or something was taken from it.
struct Band {
    from: f64,
    to: f64,
    colour: &'static str,
    /// Part of the panel's height, from its top.
    part: f64,
    words: String,
}

/// Of all records: those that ran at once stood still together.
fn bands(records: &[&Record], end: f64) -> Vec<Band> {
    let mut bands = Vec::new();
    for record in records {
        for still in timelines::longest(&record.standstills.list, MOST_BANDS) {
            let words = format!("{} stood still for {} ms", still.place, format::short(still.ms));
            bands.push(Band { from: still.at_s, to: still.at_s + still.ms / 1e3, colour: "#d8dde3", part: 1.0, words });
        }
        let taken = [(&record.standstills.stolen, "the host"), (&record.standstills.throttled, "a quota")];
        for (list, who) in taken {
            bands.extend(list.iter().take(MOST_BANDS).map(|&(at, ms)| {
                let words = format!("{who} took {} ms", format::short(ms));
                Band { from: at - TAKEN_WITHIN, to: at, colour: "#d55e00", part: 0.06, words }
            }));
        }
    }
    bands.retain(|band| band.from >= 0.0 && band.from < end);
    bands.sort_by(|a, b| b.part.total_cmp(&a.part).then_with(|| a.from.total_cmp(&b.from)));
    bands.dedup_by(|a, b| a.part == b.part && a.from < b.to && a.to <= b.to);
    bands
}

impl Band {
    fn draw(&self, svg: &mut Svg, x: &Axis, top: f64) {
        let (Some(from), to) = (x.place(self.from), x.place(self.to).unwrap_or(1.0)) else { return };
        let width = (across(to) - across(from)).max(0.5);
        let style = format!("fill=\"{}\"", self.colour);
        svg.field((across(from), top), (width, PANEL * self.part), &style, &self.words);
    }
}

/// Names of the lines by colour, the lines, and how many there was no room for.
fn arrange<'a>(records: &[&'a Record], panels: &[&str]) -> (Vec<String>, Vec<Line<'a>>, usize) {
    let several_cells = records.iter().any(|record| record.row.cell != records[0].row.cell);
    let several_repeats = records.iter().any(|record| record.row.repeat != records[0].row.repeat);
    let mut names: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    let mut left_out = Vec::new();
    for record in records {
        // Quantities of a whole cell, like what was received, are drawn as those of its first connection.
        for timeline in &record.timelines {
            let (quantity, which) = timelines::quantity(timeline);
            if !panels.contains(&quantity) {
                continue;
            }
            let mut parts = Vec::new();
            if several_cells || (!several_repeats && which.is_empty()) {
                parts.push(record.row.cell.clone());
            }
            if several_repeats {
                parts.push(format!("repeat {}", record.row.repeat));
            }
            if !which.is_empty() {
                parts.push(format!("connection {which}"));
            }
            let name = parts.join(", ");
            let index = names.iter().position(|known| *known == name);
            if index.is_none() && names.len() >= MOST_LINES {
                if !left_out.contains(&name) {
                    left_out.push(name);
                }
                continue;
            }
            let index = index.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            lines.push(Line { quantity, index, parts: timelines::thinned_parts(timeline, MOST_POINTS) });
        }
    }
    (names, lines, left_out.len())
}

fn draw(svg: &mut Svg, quantity: &str, lines: &[&Line<'_>], x: &Axis, top: f64) {
    let bottom = top + PANEL;
    let style = format!("font-weight=\"600\" {FAINT}");
    svg.text((24.0, top - 14.0), 12.0, Anchor::Start, &style, &timelines::heading(quantity));
    let values: Vec<f64> = lines.iter().flat_map(|line| line.points()).map(|(_, v)| *v).collect();
    let y = Axis::linear(&values, true, quantity);
    let down = |place: f64| bottom - place * PANEL;
    for (value, label) in y.ticks.iter().step_by(if y.ticks.len() > 5 { 2 } else { 1 }) {
        let Some(at) = y.place(*value).map(down) else { continue };
        svg.line((LEFT, at), (WIDTH - RIGHT, at), "stroke=\"#e6eaef\"");
        svg.text((LEFT - 10.0, at + 4.0), 11.0, Anchor::End, FAINT, label);
    }
    svg.line((LEFT, bottom), (WIDTH - RIGHT, bottom), "stroke=\"#818b98\"");
    for value in x.ticks.iter().filter_map(|(value, _)| x.place(*value)) {
        svg.line((across(value), bottom), (across(value), bottom + 4.0), "stroke=\"#818b98\"");
    }
    for line in lines {
        let at = |(t, v): &(f64, f64)| Some((across(x.place(*t)?), down(y.place(*v)?)));
        let width = if lines.len() > 3 { "1.2" } else { "1.6" };
        let style = stroke(line.index).replace("stroke-width=\"2\"", &format!("stroke-width=\"{width}\""));
        for part in &line.parts {
            let through: Vec<(f64, f64)> = part.iter().filter_map(at).collect();
            svg.path(&through, false, &format!("fill=\"none\" stroke-linejoin=\"round\" {style}"));
            if let [only] = through[..] {
                let radius = if line.parts.len() > 1 { 1.5 } else { 3.0 };
                svg.circle(only, radius, &format!("fill=\"{}\"", colour(line.index)), "");
            }
        }
    }
    // The last values in figures, where there is one line.
    if let [line] = lines
        && let Some((_, last)) = line.points().last()
    {
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let word = |v: f64| match Columns::default().unit(quantity) {
            "us" | "ms" | "bytes" => Columns::default().words(quantity, v),
            _ => format::short(v),
        };
        let text = format!("largest {}, at the end {}", word(largest), word(*last));
        svg.text((WIDTH - RIGHT, top - 14.0), 11.0, Anchor::End, FAINT, &text);
    }
}

fn across(place: f64) -> f64 {
    LEFT + place * (WIDTH - RIGHT - LEFT)
}

/// Where each entry of the legend begins, from its corner.
pub(super) fn legend_places(names: &[String]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (0.0, 0.0);
    let mut places = Vec::new();
    for name in names {
        let width = 26.0 + width_of(name, 13.0) + 20.0;
        if x > 0.0 && x + width > WIDTH - 48.0 {
            (x, y) = (0.0, y + 20.0);
        }
        places.push((x, y));
        x += width;
    }
    places
}
