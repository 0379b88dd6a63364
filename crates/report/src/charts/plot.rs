//! Lines and points over two axes, in one panel or several over the same x: shared by charts of lines, over time and of
//! distributions.

use std::collections::HashSet;

use super::axis::Axis;
use super::palette::Rgb;
use super::svg::{Anchor, Svg, width_of};
use super::{COLOURS, WIDTH};

const LEFT: f64 = 78.0;
const RIGHT: f64 = 28.0;

/// Max points with tooltips; more are dots: a browser takes seconds for thousands of elements.
pub(super) const MAX_MARKED: usize = 1500;

/// A chart.
#[derive(Default)]
pub(super) struct Plot {
    pub(super) title: String,
    /// Description of the picture for screen readers.
    pub(super) about: String,
    /// Under the title.
    pub(super) subtitle: String,
    /// Names of the series.
    pub(super) series: Vec<String>,
    /// Whether the series are ordered, instead of with colours of their own; the column's name (`loss_pct`) for the
    /// legend.
    pub(super) ordered: Option<String>,
    /// Further entries of the legend.
    pub(super) notes: Vec<(Mark, String)>,
    pub(super) x: Axis,
    pub(super) x_label: String,
    pub(super) panels: Vec<Panel>,
    /// Text if there is no data.
    pub(super) nothing: &'static str,
}

/// A part of a chart with its own y axis.
#[derive(Default)]
pub(super) struct Panel {
    /// Headings above it at the left and right.
    pub(super) heading: String,
    pub(super) remark: String,
    pub(super) y: Axis,
    pub(super) height: f64,
    pub(super) curves: Vec<Curve>,
    pub(super) bands: Vec<Band>,
}

/// The data of a series in a panel.
#[derive(Default)]
pub(super) struct Curve {
    pub(super) series: usize,
    /// No line joins one part to the next.
    pub(super) parts: Vec<Vec<Point>>,
    /// Whether a line joins the points of a part.
    pub(super) joined: bool,
    /// Whether each point has a mark.
    pub(super) marked: bool,
    pub(super) published: Vec<(f64, f64, String)>,
}

/// A point of a curve.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) valid: bool,
    pub(crate) tooltip: String,
}

/// A range of x in the background.
pub(super) struct Band {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) tooltip: String,
}

/// The mark of a legend entry.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    Series(usize),
    Ordered,
    Band,
    Published,
    Invalid,
    Zero,
}

/// An entry of the legend: position, mark and text.
type Entry = ((f64, f64), Mark, String);

impl Plot {
    pub(super) fn render(&self) -> String {
        let (legend, below) = self.legend();
        let top = 60.0 + below + 24.0;
        let gap = |panel: &Panel| if panel.heading.is_empty() { 0.0 } else { 28.0 };
        let inner: f64 = self.panels.iter().map(|panel| gap(panel) + panel.height + 18.0).sum();
        let height = top + if self.panels.is_empty() { 120.0 } else { inner } + 42.0;
        let mut svg = Svg::new(WIDTH, height);
        svg.text((24.0, 34.0), 17.0, Anchor::Start, "class=\"ink bold\"", &self.title);
        svg.text((24.0, 55.0), 13.0, Anchor::Start, "class=\"faint\"", &self.subtitle);
        for (at, mark, name) in &legend {
            self.mark(&mut svg, *at, *mark);
            svg.text((at.0 + 26.0, at.1), 13.0, Anchor::Start, "class=\"ink\"", name);
        }
        if self.panels.iter().all(|panel| panel.curves.is_empty()) {
            svg.text((WIDTH / 2.0, height / 2.0), 14.0, Anchor::Middle, "class=\"faint\"", self.nothing);
        }
        let names = self.series.iter().map(|name| width_of(name, 11.0)).fold(0.0, f64::max);
        let right = WIDTH - RIGHT - if self.ordered.is_some() { names + 18.0 } else { 0.0 };
        let mut top = top;
        for panel in &self.panels {
            top += gap(panel);
            let frame = Frame { plot: self, panel, top, bottom: top + panel.height, right };
            frame.draw(&mut svg);
            top += panel.height + 18.0;
        }
        if let Some(panel) = self.panels.last() {
            let frame = Frame { plot: self, panel, top, bottom: top - 18.0, right };
            frame.x_axis(&mut svg, true);
        }
        svg.text(((LEFT + right) / 2.0, height - 14.0), 13.0, Anchor::Middle, "class=\"faint\"", &self.x_label);
        svg.finish(&self.title, &self.about)
    }

    /// The entries of the legend from left to right, in as many rows as needed, and the lowest baseline.
    fn legend(&self) -> (Vec<Entry>, f64) {
        let series = self.series.iter().enumerate().filter(|(_, name)| self.ordered.is_none() && !name.is_empty());
        let series = series.map(|(index, name)| (Mark::Series(index), name.clone()));
        let ordered = self.ordered.as_ref().map(|name| {
            let [first, last] = [self.series.first(), self.series.last()].map(|name| name.cloned().unwrap_or_default());
            (Mark::Ordered, format!("{name} from {first} to {last}"))
        });
        let (mut x, mut y, mut placed) = (24.0, 20.0, Vec::new());
        for (mark, name) in series.chain(ordered).chain(self.notes.iter().cloned()) {
            let width = 46.0 + width_of(&name, 13.0);
            if x > 24.0 && x + width > WIDTH - 24.0 {
                (x, y) = (24.0, y + 20.0);
            }
            placed.push(((x, 60.0 + y), mark, name));
            x += width;
        }
        let below = if placed.is_empty() { 0.0 } else { y };
        (placed, below)
    }

    fn mark(&self, svg: &mut Svg, (x, y): (f64, f64), mark: Mark) {
        let middle = (x + 10.0, y - 4.5);
        match mark {
            Mark::Series(index) => {
                svg.line((x, y - 4.5), (x + 20.0, y - 4.5), &self.style("l", index));
                if self.panels.iter().flat_map(|panel| &panel.curves).any(|curve| curve.marked) {
                    svg.circle(middle, 3.5, &self.style("f", index), "");
                }
            }
            Mark::Ordered => {
                let width = 20.0 / self.series.len() as f64;
                for step in 0..self.series.len() {
                    // A third of a pixel of overlap avoids seams.
                    svg.rect((x + step as f64 * width, y - 9.5), (width + 0.3, 10.0), &self.style("f", step), "");
                }
            }
            Mark::Band => svg.rect((x, y - 9.5), (20.0, 10.0), "class=\"b s6\" rx=\"2\"", ""),
            Mark::Published => svg.path(&diamond(middle, 5.5), true, "class=\"h s6\"", ""),
            Mark::Invalid => svg.circle(middle, 3.5, "class=\"h pale\"", ""),
            Mark::Zero => svg.path(&triangle(middle, 4.0), true, "class=\"f s6\"", ""),
        }
    }

    /// The class and colour of a series.
    fn style(&self, class: &str, series: usize) -> String {
        if self.ordered.is_some() {
            let place = series as f64 / (self.series.len() - 1).max(1) as f64;
            return format!("class=\"{class}\" style=\"color:{}\"", Rgb::ordered(place).hex());
        }
        // Colours repeat with dashes.
        let dash = ["", " d1", " d2"][series / COLOURS % 3];
        format!("class=\"{class} s{}{dash}\"", series % COLOURS)
    }
}

/// The position of a panel.
struct Frame<'a> {
    plot: &'a Plot,
    panel: &'a Panel,
    top: f64,
    bottom: f64,
    right: f64,
}

impl Frame<'_> {
    fn draw(&self, svg: &mut Svg) {
        let Panel { heading, remark, y, curves, bands, .. } = self.panel;
        svg.text((24.0, self.top - 12.0), 12.0, Anchor::Start, "class=\"faint bold\"", heading);
        svg.text((self.right, self.top - 12.0), 11.0, Anchor::End, "class=\"faint\"", remark);
        for band in bands {
            let Some(from) = self.plot.x.place(band.from) else { continue };
            let (from, to) = (self.across(from), self.across(self.plot.x.clamped(band.to)));
            svg.rect((from, self.top), ((to - from).max(0.5), self.panel.height), "class=\"still\"", &band.tooltip);
        }
        let spacing = if self.panel.height < 160.0 && y.ticks.len() > 5 { 2 } else { 1 };
        for (value, label) in y.ticks.iter().step_by(spacing) {
            let Some(at) = y.place(*value).map(|place| self.down(place)) else { continue };
            svg.line((LEFT, at), (self.right, at), "class=\"grid\"");
            svg.text((LEFT - 10.0, at + 4.0), 12.0, Anchor::End, "class=\"faint\"", label);
        }
        svg.line((LEFT, self.bottom), (self.right, self.bottom), "class=\"axis\"");
        self.x_axis(svg, false);
        let crowded = curves.iter().flat_map(|curve| &curve.parts).map(Vec::len).sum::<usize>() > MAX_MARKED;
        curves.iter().for_each(|curve| self.intervals(svg, curve, crowded));
        for (index, curve) in curves.iter().enumerate() {
            self.curve(svg, curve, crowded, curves[..index].iter().any(|earlier| self.hides(curve, earlier)));
        }
        for curve in curves {
            for (x, y, tooltip) in &curve.published {
                let Some(at) = self.at(*x, *y) else { continue };
                svg.path(&diamond(at, 6.0), true, &self.plot.style("h", curve.series), tooltip);
            }
        }
        if self.plot.ordered.is_some() {
            self.names(svg);
        }
    }

    /// The marks below the panel; with labels if these do not overlap.
    fn x_axis(&self, svg: &mut Svg, labels: bool) {
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &self.plot.x.ticks {
            let Some(x) = self.plot.x.place(*value).map(|place| self.across(place)) else { continue };
            let half = width_of(label, 12.0) / 2.0;
            if !labels {
                svg.line((x, self.bottom), (x, self.bottom + 4.0), "class=\"axis\"");
            } else if x - half > free {
                svg.text((x, self.bottom + 19.0), 12.0, Anchor::Middle, "class=\"faint\"", label);
                free = x + half + 6.0;
            }
        }
    }

    fn intervals(&self, svg: &mut Svg, curve: &Curve, crowded: bool) {
        // A cell that is not valid interrupts band and line.
        for run in curve.parts.iter().flat_map(|part| part.split(|point| !point.valid)) {
            let ends = run.iter().filter_map(|point| {
                let (x, _) = self.at(point.x, point.y)?;
                let (low, high) = point.interval?;
                let [low, high] = [low, high].map(|end| self.down(self.panel.y.clamped(end)));
                Some((x, low, high))
            });
            let ends: Vec<(f64, f64, f64)> = ends.collect();
            if curve.joined && ends.len() > 1 {
                let there = ends.iter().map(|&(x, _, high)| (x, high));
                let outline: Vec<_> = there.chain(ends.iter().rev().map(|&(x, low, _)| (x, low))).collect();
                svg.path(&outline, true, &self.plot.style("b", curve.series), "");
                continue;
            }
            for (x, low, high) in ends {
                svg.line((x, low), (x, high), &self.plot.style("l thin", curve.series));
                if !crowded {
                    [low, high].iter().for_each(|&y| {
                        svg.line((x - 4.0, y), (x + 4.0, y), &self.plot.style("l thin", curve.series));
                    });
                }
            }
        }
    }

    /// Whether one would hide half or more of the points of an earlier curve.
    fn hides(&self, curve: &Curve, earlier: &Curve) -> bool {
        let places = |curve: &Curve| -> Vec<(i64, i64)> {
            let places = curve.parts.iter().flatten().filter_map(|point| self.at(point.x, point.y));
            places.map(|(x, y)| (x.round() as i64, y.round() as i64)).collect()
        };
        let (own, others) = (places(curve), places(earlier).into_iter().collect::<HashSet<_>>());
        let hidden = own.iter().filter(|place| others.contains(place)).count();
        hidden > 0 && 2 * hidden >= others.len()
    }

    /// `above`: over another curve, which its dashes and smaller marks leave visible.
    fn curve(&self, svg: &mut Svg, curve: &Curve, crowded: bool, above: bool) {
        let points = || curve.parts.iter().flatten();
        let dashed = if above { " d1" } else { "" };
        if curve.joined {
            let class = format!("{}{dashed}", if curve.marked { "l" } else { "l thin" });
            for run in curve.parts.iter().flat_map(|part| part.split(|point| !point.valid)) {
                let through: Vec<_> = run.iter().filter_map(|point| self.at(point.x, point.y)).collect();
                svg.path(&through, false, &self.plot.style(&class, curve.series), "");
                if let ([only], false) = (&through[..], curve.marked) {
                    svg.circle(*only, 2.0, &self.plot.style("f", curve.series), "");
                }
            }
        }
        if curve.marked && crowded {
            let places: Vec<_> = points().filter_map(|point| self.at(point.x, point.y)).collect();
            svg.scatter(&places, "h0", &self.plot.style("l", curve.series));
        }
        for point in points().filter(|_| curve.marked && !crowded) {
            let Some(at) = self.at(point.x, point.y) else { continue };
            let class = if point.valid { "m" } else { "h" };
            let pale = if point.valid { "" } else { " opacity=\"0.6\"" };
            let style = self.plot.style(class, curve.series) + pale;
            match self.panel.y.is_on_floor(point.y) {
                true => svg.path(&triangle(at, 5.0), true, &style, &point.tooltip),
                false => {
                    let radius = if above {
                        2.0
                    } else if self.plot.ordered.is_some() {
                        3.0
                    } else {
                        4.0
                    };
                    svg.circle(at, radius, &style, &point.tooltip);
                }
            }
        }
    }

    /// The names of the series at their ends, if these do not overlap.
    fn names(&self, svg: &mut Svg) {
        let ends = self.panel.curves.iter().filter_map(|curve| {
            let end = curve.parts.iter().flatten().rev().find_map(|point| self.at(point.x, point.y))?;
            Some((curve.series, end))
        });
        let mut ends: Vec<(usize, (f64, f64))> = ends.collect();
        ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let mut free = f64::NEG_INFINITY;
        for (series, (_, y)) in ends {
            if y > free {
                svg.text((self.right + 9.0, y + 4.0), 11.0, Anchor::Start, "class=\"ink\"", &self.plot.series[series]);
                free = y + 12.5;
            }
        }
    }

    fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.across(self.plot.x.place(x)?), self.down(self.panel.y.place(y)?)))
    }

    fn across(&self, place: f64) -> f64 {
        LEFT + 12.0 + place * (self.right - LEFT - 24.0)
    }

    fn down(&self, place: f64) -> f64 {
        self.bottom - place * self.panel.height
    }
}

fn triangle((x, y): (f64, f64), size: f64) -> [(f64, f64); 3] {
    [(x - size, y - size * 0.7), (x + size, y - size * 0.7), (x, y + size)]
}

fn diamond((x, y): (f64, f64), radius: f64) -> [(f64, f64); 4] {
    [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_over_an_equal_one_is_dashed() {
        let drawn = |second: f64| {
            let curve = |series, y| {
                let point = |x| Point { x, y, valid: true, ..Point::default() };
                Curve {
                    series,
                    parts: vec![[0.0, 1.0].map(point).to_vec()],
                    joined: true,
                    marked: true,
                    published: vec![],
                }
            };
            let axis = || Axis::linear(&[0.0, 1.0], true, "");
            let (heading, remark, curves) = (String::new(), String::new(), vec![curve(0, 0.5), curve(1, second)]);
            let plot = Plot {
                title: String::new(),
                about: String::new(),
                subtitle: String::new(),
                series: vec!["a".into(), "b".into()],
                ordered: None,
                notes: vec![],
                x: axis(),
                x_label: String::new(),
                panels: vec![Panel { heading, remark, y: axis(), height: 290.0, curves, bands: vec![] }],
                nothing: "",
            };
            plot.render().matches("class=\"l d1 s").count()
        };
        assert_eq!((drawn(0.5), drawn(0.9)), (1, 0));
    }
}
