//! Heat maps: a grid with a value in each field, and as its colour.
//!
//! A field of a cell that is not valid is hatched; a 0 on a logarithmic scale, which has no colour there, is grey. Of very
//! many fields those of about one colour are one element, without figures and tooltips of their own.

use crate::columns::Columns;
use indexmap::IndexMap;
use weir_units::format;

use super::plot::MOST_MARKED;
use super::{FAINT, INK, WIDTH};
use crate::axis::Axis;
use crate::cells::{Cell, Measured};
use crate::grid::{Grid, Place};
use crate::palette::Rgb;
use crate::record::{Chart, Scale};
use crate::svg::{Anchor, Svg, width_of};

const MARGIN: f64 = 24.0;
const ROW: f64 = 23.0;
/// Widest field: a small grid need not fill the width.
const WIDEST: f64 = 96.0;
/// Narrowest field that holds a number.
const NARROWEST: f64 = 18.0;
/// Grids of one picture: who has more looks them up.
const MOST_GRIDS: usize = 100;
const GREY: &str = "#e9ecef";

/// A heat map, whatever its values are of.
pub(crate) struct HeatMap {
    pub(crate) title: String,
    /// What the colours stand for.
    pub(crate) value_label: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) colours: Colours,
    /// What a grey 0 says, and what a frame says, for the legend.
    pub(crate) zero: &'static str,
    pub(crate) flag: &'static str,
    pub(crate) blocks: Vec<Block>,
}

/// How values become colours.
pub(crate) enum Colours {
    /// From the least to the largest.
    Values(Scale, &'static str),
    /// A ratio: from a tenth over 1 to ten.
    Ratio,
}

/// A grid of a heat map.
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) rows: Vec<String>,
    pub(crate) columns: Vec<String>,
    /// `fields[row][column]`; `None` where nothing was measured.
    pub(crate) fields: Vec<Vec<Option<Field>>>,
}

/// A field of a heat map.
pub(crate) struct Field {
    pub(crate) value: f64,
    pub(crate) text: String,
    pub(crate) tooltip: String,
    pub(crate) valid: bool,
    /// Gets a frame.
    pub(crate) flagged: bool,
}

/// Draws a chart of kind `heatmap`.
pub(super) fn render(chart: &Chart, cells: &[Cell<'_>]) -> String {
    let blocks = Grid::all(cells, &chart.y, &chart.x).iter().map(|grid| block(chart, grid)).collect();
    let or = |label: &str, column: &str| if label.is_empty() { column.to_owned() } else { label.to_owned() };
    let unit = Columns::default().unit(&chart.value);
    let value = if unit.is_empty() { chart.value.clone() } else { format!("{}, {unit}", chart.value) };
    let map = HeatMap {
        title: chart.title.clone(),
        value_label: or(&chart.value_label, &value),
        x_label: or(&chart.x_label, &chart.x),
        y_label: or(&chart.y_label, &chart.y),
        // Durations name their units themselves.
        colours: Colours::Values(chart.scale, if unit == "us" { "delay_us" } else { "" }),
        zero: if unit == "Mbit/s" { "0: nothing got through" } else { "0" },
        flag: "",
        blocks,
    };
    map.render()
}

fn block(chart: &Chart, grid: &Grid<'_>) -> Block {
    let field = |cell: Option<&Cell<'_>>, row: &str, column: &str| {
        let cell = cell?;
        let measured = cell.measured(&chart.value)?;
        let word = |value| Columns::default().words(&chart.value, value);
        let ends = match measured {
            Measured::Estimate(e) => format!(" ({} to {})", word(e.low), word(e.high)),
            Measured::Exact(_, low, high) if low < high => format!(" ({} to {})", word(low), word(high)),
            _ => String::new(),
        };
        let name = if grid.name.is_empty() { String::new() } else { format!("{}, ", grid.name) };
        let believed = cell.believes(&chart.value);
        let mark = if believed { "" } else { ", not valid" };
        let value = measured.value();
        Some(Field {
            value,
            text: number(&chart.value, value),
            tooltip: format!("{name}{row}, {column}: {}{ends}{mark}", word(value)),
            valid: believed,
            flagged: false,
        })
    };
    Block::new(grid, &chart.y, &chart.x, field)
}

/// A value as it fits into a field: rates in three digits at most, durations with their unit.
pub(crate) fn number(column: &str, value: f64) -> String {
    match Columns::default().unit(column) {
        "Mbit/s" => format::rate(value),
        "us" | "ms" | "bytes" => Columns::default().words(column, value),
        _ => format::short(value),
    }
}

impl Block {
    /// A grid's block; `field` makes a field of a cell and the names of its row and column.
    pub(crate) fn new(
        grid: &Grid<'_>,
        down: &str,
        across: &str,
        field: impl Fn(Option<&Cell<'_>>, &str, &str) -> Option<Field>,
    ) -> Self {
        let names = |places: &[Place], column: &str| -> Vec<String> {
            let name = |place: &Place| {
                place.number.map_or(place.text.clone(), |value| Columns::default().words(column, value))
            };
            places.iter().map(name).collect()
        };
        let (rows, columns) = (names(&grid.rows, down), names(&grid.columns, across));
        let line = |(cells, row): (&Vec<Option<&Cell<'_>>>, &String)| {
            cells.iter().zip(&columns).map(|(cell, column)| field(*cell, row, column)).collect()
        };
        let fields = grid.cells.iter().zip(&rows).map(line).collect();
        Self { name: grid.name.clone(), fields, rows, columns }
    }
}

impl HeatMap {
    /// As a picture.
    pub(crate) fn render(&self) -> String {
        let shown = || self.blocks.iter().flat_map(|block| block.fields.iter().flatten().flatten());
        let values: Vec<f64> = shown().map(|field| field.value).collect();
        let shades = Shades::new(&self.colours, &values);
        let named = self.blocks.iter().any(|block| !block.name.is_empty());
        let height_of = |block: &Block| block.rows.len() as f64 * ROW + 52.0 + if named { 28.0 } else { 0.0 };
        let drawn = &self.blocks[..self.blocks.len().min(MOST_GRIDS)];
        let left_out = self.blocks.len() - drawn.len();
        let blocks = if drawn.is_empty() { 80.0 } else { drawn.iter().map(height_of).sum() };
        let height = 122.0 + blocks + if left_out > 0 { ROW } else { 0.0 };

        let mut svg = Svg::new(WIDTH, height);
        let border = "fill=\"#ffffff\" stroke=\"#d1d9e0\"";
        svg.rect((0.5, 0.5), (WIDTH - 1.0, height - 1.0), 10.0, border);
        svg.text((MARGIN, 34.0), 17.0, Anchor::Start, &format!("font-weight=\"600\" {INK}"), &self.title);
        svg.text((MARGIN, 55.0), 13.0, Anchor::Start, FAINT, &self.value_label);
        self.legend(&mut svg, &shades);
        let mut top = 112.0;
        for block in drawn {
            if named {
                let style = format!("font-weight=\"600\" {INK}");
                svg.text((MARGIN, top + 18.0), 13.0, Anchor::Start, &style, &block.name);
                top += 28.0;
            }
            self.block(&mut svg, block, &shades, top);
            top += block.rows.len() as f64 * ROW + 52.0;
        }
        if left_out > 0 {
            let words = format!("and {left_out} more like these, which the results have");
            svg.text((MARGIN, top + 8.0), 12.0, Anchor::Start, FAINT, &words);
        }
        if self.blocks.is_empty() {
            svg.text((WIDTH / 2.0, 140.0), 14.0, Anchor::Middle, FAINT, "nothing was measured");
        }
        let description = format!("{} by {} and {}", self.value_label, self.y_label, self.x_label);
        svg.finish(&self.title, &description)
    }

    fn legend(&self, svg: &mut Svg, shades: &Shades) {
        let (left, top, width) = (MARGIN, 70.0, 250.0);
        let steps = 50u32;
        for step in 0..steps {
            let place = (f64::from(step) + 0.5) / f64::from(steps);
            let x = left + width * f64::from(step) / f64::from(steps);
            // Half a pixel of overlap, lest seams show.
            let size = (width / f64::from(steps) + 0.5, 10.0);
            svg.rect((x, top), size, 0.0, &format!("fill=\"{}\"", shades.colour(place).hex()));
        }
        let mut free = f64::NEG_INFINITY;
        for (place, label) in &shades.ticks {
            let x = left + width * place;
            let half = width_of(label, 11.0) / 2.0;
            svg.line((x, top + 10.0), (x, top + 13.0), "stroke=\"#818b98\"");
            if x - half > free {
                svg.text((x.max(left + half), top + 25.0), 11.0, Anchor::Middle, FAINT, label);
                free = x + half + 6.0;
            }
        }
        let fields = || self.blocks.iter().flat_map(|block| block.fields.iter().flatten().flatten());
        let mut x = left + width + 36.0;
        let mut entry = |svg: &mut Svg, name: &str, mark: &dyn Fn(&mut Svg, (f64, f64))| {
            mark(svg, (x, top - 2.0));
            svg.text((x + 28.0, top + 9.0), 12.0, Anchor::Start, INK, name);
            x += 28.0 + width_of(name, 12.0) + 18.0;
        };
        let size = (20.0, 14.0);
        if fields().any(|field| shades.place(field.value).is_none()) {
            entry(svg, self.zero, &|svg, at| svg.rect(at, size, 2.0, &format!("fill=\"{GREY}\"")));
        }
        if fields().any(|field| !field.valid) {
            entry(svg, "not valid", &|svg, at| {
                svg.rect(at, size, 2.0, "fill=\"#aeb6bf\"");
                hatch(svg, at, size, "#ffffff");
            });
        }
        if fields().any(|field| field.flagged) {
            entry(svg, self.flag, &|svg, at| svg.rect(at, size, 2.0, &framed(GREY)));
        }
    }

    fn block(&self, svg: &mut Svg, block: &Block, shades: &Shades, top: f64) {
        let widest = |names: &[String]| names.iter().map(|name| width_of(name, 12.0)).fold(0.0, f64::max);
        let left = MARGIN + widest(&block.rows).max(width_of(&self.y_label, 12.0).min(170.0)) + 10.0;
        let count = block.columns.len().max(1) as f64;
        let width = ((WIDTH - MARGIN - left) / count).min(WIDEST);
        let (gap, size) = (1.5, (width - 1.5, ROW - 1.5));
        svg.text((left - 8.0, top + 14.0), 12.0, Anchor::End, FAINT, &self.y_label);
        let mut free = f64::NEG_INFINITY;
        for (index, name) in block.columns.iter().enumerate() {
            let (x, half) = (left + (index as f64 + 0.5) * width, width_of(name, 11.5) / 2.0);
            if x - half > free {
                svg.text((x, top + 14.0), 11.5, Anchor::Middle, FAINT, name);
                free = x + half + 2.0;
            }
        }
        let top = top + 22.0;
        let (crowded, mut crowd) = (self.is_crowded(), Crowd::default());
        for (index, (name, fields)) in block.rows.iter().zip(&block.fields).enumerate() {
            let y = top + index as f64 * ROW;
            svg.text((left - 8.0, y + ROW / 2.0 + 3.5), 12.0, Anchor::End, FAINT, name);
            for (column, field) in fields.iter().enumerate() {
                let at = (left + column as f64 * width + gap / 2.0, y + gap / 2.0);
                match field {
                    _ if crowded => crowd.add(field.as_ref(), shades, at),
                    Some(field) => self.field(svg, field, shades, at, size),
                    None => svg.rect(at, size, 2.0, "fill=\"none\" stroke=\"#e6eaef\" stroke-dasharray=\"2 2\""),
                }
            }
        }
        crowd.draw(svg, size);
        let middle = left + count * width / 2.0;
        svg.text((middle, top + block.rows.len() as f64 * ROW + 20.0), 12.0, Anchor::Middle, FAINT, &self.x_label);
    }

    fn is_crowded(&self) -> bool {
        self.blocks.iter().map(|block| block.rows.len() * block.columns.len()).sum::<usize>() > MOST_MARKED
    }

    fn field(&self, svg: &mut Svg, field: &Field, shades: &Shades, at: (f64, f64), size: (f64, f64)) {
        let colour = shades.place(field.value).map(|place| shades.colour(place));
        let ground = colour.map_or(GREY.to_owned(), Rgb::hex);
        let style = if field.flagged { framed(&ground) } else { format!("fill=\"{ground}\" rx=\"2\"") };
        svg.field(at, size, &style, &field.tooltip);
        if !field.valid {
            hatch(svg, at, size, if colour.is_some_and(|c| c.ink() == "#ffffff") { "#ffffff" } else { "#1f2328" });
        }
        if size.0 >= NARROWEST {
            let fit = (size.0 - 3.0) / width_of(&field.text, 1.0).max(1e-3);
            let ink = colour.map_or("#1f2328", Rgb::ink);
            // The ground shines through around the figures, so that they read between the hatches too.
            let halo = format!("stroke=\"{ground}\" stroke-width=\"3\" paint-order=\"stroke\" ");
            let halo = if field.valid { "" } else { &halo };
            let style = format!("fill=\"{ink}\" {halo}pointer-events=\"none\"");
            let size_of = fit.clamp(6.0, 11.5);
            svg.text((at.0 + size.0 / 2.0, at.1 + size.1 / 2.0 + 4.0), size_of, Anchor::Middle, &style, &field.text);
        }
    }
}

/// Fields by how they look.
#[derive(Default)]
struct Crowd {
    grounds: IndexMap<String, Vec<(f64, f64)>>,
    /// Those that are not valid.
    void: Vec<(f64, f64)>,
}

impl Crowd {
    fn add(&mut self, field: Option<&Field>, shades: &Shades, at: (f64, f64)) {
        let style = match field {
            None => "fill=\"none\" stroke=\"#e6eaef\"".to_owned(),
            Some(field) => {
                let steps = |place: f64| shades.colour((place * STEPS).round() / STEPS).hex();
                let ground = shades.place(field.value).map_or(GREY.to_owned(), steps);
                if field.flagged { framed(&ground) } else { format!("fill=\"{ground}\"") }
            }
        };
        self.grounds.entry(style).or_default().push(at);
        if field.is_some_and(|field| !field.valid) {
            self.void.push(at);
        }
    }

    fn draw(&self, svg: &mut Svg, size: (f64, f64)) {
        self.grounds.iter().for_each(|(style, at)| svg.fields(at, size, style));
        // One slanted line each.
        let across = |&(x, y): &(f64, f64)| [(x, y + size.1), (x + size.0, y)];
        let lines: Vec<_> = self.void.iter().map(across).collect();
        svg.segments(&lines, "stroke=\"#1f2328\" stroke-opacity=\"0.55\"");
    }
}

/// Colours that a crowd is drawn in.
const STEPS: f64 = 63.0;

/// Where values lie among the colours.
struct Shades {
    ratio: bool,
    scale: Scale,
    low: f64,
    high: f64,
    /// Place and label.
    ticks: Vec<(f64, String)>,
}

impl Shades {
    fn new(colours: &Colours, values: &[f64]) -> Self {
        let Colours::Values(scale, column) = *colours else {
            let marks = [0.1, 1.0 / 3.0, 1.0, 3.0, 10.0].map(|m: f64| m.log10() / 2.0 + 0.5);
            let labels = ["≤ 0.1", "⅓", "1", "3", "≥ 10"].map(String::from);
            return Self {
                ratio: true,
                scale: Scale::Log,
                low: 0.1,
                high: 10.0,
                ticks: marks.into_iter().zip(labels).collect(),
            };
        };
        let usable = |v: &&f64| v.is_finite() && (scale == Scale::Linear || **v > 0.0);
        let low = values.iter().filter(usable).copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().filter(usable).copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match (low < high, scale) {
            (true, Scale::Linear) => (low.min(0.0), high),
            (true, Scale::Log) => (low, high),
            (false, Scale::Linear) => (0.0, if high > 0.0 { high } else { 1.0 }),
            (false, Scale::Log) if low.is_finite() => (low / 2.0, high * 2.0),
            (false, Scale::Log) => (1.0, 10.0),
        };
        let mut shades = Self { ratio: false, scale, low, high, ticks: Vec::new() };
        let axis = match scale {
            Scale::Linear => Axis::linear(&[low, high], false, column),
            Scale::Log => Axis::log(&[low, high], column),
        };
        let inside = |v: f64| v >= low * (1.0 - 1e-9) && v <= high * (1.0 + 1e-9);
        let marks = axis.ticks.into_iter().filter(|(v, _)| inside(*v));
        shades.ticks = marks.filter_map(|(v, label)| Some((shades.place(v)?, label))).collect();
        shades
    }

    /// Between the ends, 0 to 1; `None` where there is no colour: of a 0 on a logarithmic scale.
    fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value > 0.0 => (value / self.low).log10() / (self.high / self.low).log10(),
            Scale::Log => return None,
        };
        place.is_finite().then(|| place.clamp(0.0, 1.0))
    }

    fn colour(&self, place: f64) -> Rgb {
        if self.ratio { Rgb::diverging(place) } else { Rgb::sequential(place) }
    }
}

fn framed(ground: &str) -> String {
    format!("fill=\"{ground}\" rx=\"2\" stroke=\"#d1242f\" stroke-width=\"2\"")
}

/// Slanted lines across a rectangle.
fn hatch(svg: &mut Svg, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
    let style = format!("stroke=\"{colour}\" stroke-opacity=\"0.55\" pointer-events=\"none\"");
    let step = 6.0;
    let mut offset = step / 2.0 - height;
    while offset < width {
        // From the lower edge up to the right, cut off at the sides.
        let from = if offset < 0.0 { (x, y + height + offset) } else { (x + offset, y + height) };
        let over = offset + height - width;
        let to = if over > 0.0 { (x + width, y + over) } else { (x + offset + height, y) };
        svg.line(from, to, &style);
        offset += step;
    }
}
