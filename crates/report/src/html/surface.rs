//! What the page says of a run over loss and latency: against a model, against what was published, and its fall.

use std::collections::HashMap;

use weir_units::format;

use crate::cells::Cell;
use crate::charts::heatmap::{Block, Colours, Field, HeatMap};
use crate::columns;
use crate::comparison::{Compared, ComparedGrid};
use crate::grid::{Grid, MATRIX, Place};
use crate::monotony::{Monotony, Violation};
use crate::oracle::{self, Expectation};
use crate::palette::Rgb;
use crate::record::OwnCost;

/// Rows of what is listed beside the results: of a run of thousands of cells there may be as many.
const LISTED: usize = 200;

/// The run against a model of TCP.
pub(super) struct ModelView {
    pub(super) sentence: String,
    pub(super) svg: String,
    /// The first of them.
    pub(super) outside: Vec<OutsideView>,
    /// How many there are.
    pub(super) all_outside: usize,
}

/// A cell outside the model's band.
pub(super) struct OutsideView {
    pub(super) cell: String,
    pub(super) measured: String,
    pub(super) model: String,
    pub(super) band: String,
    pub(super) ratio: String,
}

/// A published grid beside ours.
pub(super) struct GridView {
    pub(super) name: String,
    pub(super) corner: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<GridRowView>,
}

/// The three lines of a row of a published grid.
pub(super) struct GridRowView {
    pub(super) name: String,
    pub(super) published: Vec<String>,
    pub(super) ours: Vec<String>,
    /// Ratio, ground and ink; empty where there is none.
    pub(super) ratios: Vec<(String, String, &'static str)>,
}

/// Whether the surface falls.
pub(super) struct MonotonyView {
    pub(super) sentence: String,
    pub(super) level: String,
    /// The first of them.
    pub(super) violations: Vec<ViolationView>,
    /// How many there are.
    pub(super) all: usize,
}

/// Where it does not.
pub(super) struct ViolationView {
    pub(super) cell: String,
    pub(super) before: String,
    pub(super) along: &'static str,
    pub(super) measured: String,
    pub(super) earlier: String,
}

/// What the lab itself adds.
pub(super) struct CostView {
    pub(super) sentence: String,
    /// Name and value of each quantile.
    pub(super) quantiles: Vec<(String, String)>,
}

impl ModelView {
    /// `None` where no model says anything.
    pub(super) fn new(cells: &[Cell<'_>]) -> Option<Self> {
        let expectations = oracle::expectations(cells);
        let sentence = oracle::sentence(&expectations)?;
        let [down, across, rate] = MATRIX;
        let word = |value| columns::words(rate, value);
        let by_name: HashMap<&str, &Expectation<'_>> =
            expectations.iter().rev().map(|expectation| (expectation.cell.name, expectation)).collect();
        let field = |cell: Option<&Cell<'_>>, row: &str, column: &str| {
            let name = cell?.name;
            let found = by_name.get(name)?;
            let (low, high) = found.band;
            Some(Field {
                value: found.ratio(),
                text: two_digits(found.ratio()),
                tooltip: format!(
                    "{row}, {column}: {} measured, {} by the model ({} to {})",
                    word(found.measured),
                    word(found.model),
                    word(low),
                    word(high)
                ),
                valid: true,
                flagged: !found.holds(),
            })
        };
        let grids = Grid::all(cells, down, across);
        let map = HeatMap {
            title: "Measured over model".into(),
            value_label: "Mean throughput over what Mathis (below 2 % loss) or PFTK expects".into(),
            x_label: "Latency, one way".into(),
            y_label: "Loss".into(),
            colours: Colours::Ratio,
            zero: "",
            flag: "outside the band",
            blocks: grids.iter().map(|grid| Block::new(grid, down, across, field)).collect(),
        };
        let outside: Vec<_> = expectations.iter().filter(|expectation| !expectation.holds()).collect();
        let all_outside = outside.len();
        let outside = outside.into_iter().take(LISTED).map(OutsideView::new).collect();
        Some(Self { sentence, svg: map.render(), outside, all_outside })
    }
}

impl OutsideView {
    fn new(of: &Expectation<'_>) -> Self {
        let word = |value| columns::words(MATRIX[2], value);
        Self {
            cell: of.cell.name.to_owned(),
            measured: word(of.measured),
            model: word(of.model),
            band: format!("{} to {}", word(of.band.0), word(of.band.1)),
            ratio: two_digits(of.ratio()),
        }
    }
}

impl GridView {
    /// Arranges a grid.
    pub(super) fn new(grid: &ComparedGrid) -> Self {
        let names = |places: &[Place], column: &str| -> Vec<String> {
            places.iter().map(|place| place.number.map_or_else(String::new, |n| columns::words(column, n))).collect()
        };
        let unit = columns::unit(&grid.column);
        let number =
            |value: f64| if unit == "Mbit/s" { format::rate(value) } else { columns::words(&grid.column, value) };
        let row = |(name, fields): (String, &Vec<Option<Compared>>)| {
            let published = fields.iter().map(|field| field.map_or_else(String::new, |field| number(field.published)));
            let ours = |field: &Option<Compared>| match field {
                Some(Compared { ours: Some(ours), .. }) => number(ours.value()),
                Some(_) => "–".into(),
                None => String::new(),
            };
            let ratio = |field: &Option<Compared>| match field {
                Some(Compared { published, ours: Some(ours) }) if *published > 0.0 => shaded(ours.value() / published),
                _ => (String::new(), "transparent".into(), "inherit"),
            };
            GridRowView {
                name,
                published: published.collect(),
                ours: fields.iter().map(ours).collect(),
                ratios: fields.iter().map(ratio).collect(),
            }
        };
        let what = if unit.is_empty() { grid.column.clone() } else { unit.to_owned() };
        Self {
            name: if grid.name.is_empty() { what } else { format!("{}, {what}", grid.name) },
            corner: "Loss ↓  Latency →".into(),
            columns: names(&grid.columns, &grid.across),
            rows: names(&grid.rows, &grid.down).into_iter().zip(&grid.fields).map(row).collect(),
        }
    }
}

impl MonotonyView {
    /// Puts a check in words.
    pub(super) fn new(of: &Monotony) -> Self {
        let view = |violation: &Violation| {
            let word = |value| columns::words(MATRIX[2], value);
            let ends = |(value, low, high)| format!("{} ({} to {})", word(value), word(low), word(high));
            ViolationView {
                cell: violation.cell.clone(),
                before: violation.before.clone(),
                along: violation.along,
                measured: ends(violation.measured),
                earlier: ends(violation.earlier),
            }
        };
        Self {
            sentence: of.sentence(),
            level: format!("{:.3} %", of.level * 100.0),
            violations: of.violations.iter().take(LISTED).map(view).collect(),
            all: of.violations.len(),
        }
    }
}

impl CostView {
    /// Puts the control cell in words.
    pub(super) fn new(cost: &OwnCost) -> Self {
        let mut quantiles = Vec::new();
        let mut add = |name: String, value: Option<f64>| {
            if let Some(value) = value {
                quantiles.push((name, format::duration(value)));
            }
        };
        add("mean".into(), cost.delay.mean);
        for &(q, value) in &cost.delay.values {
            add(format!("p{}", format::plain(q * 100.0)), Some(value));
        }
        add("largest".into(), cost.delay.max);
        Self { sentence: super::super::summary::own_cost(cost), quantiles }
    }
}

/// A ratio with its colours, even from a tenth over 1 to ten.
fn shaded(ratio: f64) -> (String, String, &'static str) {
    let colour = Rgb::diverging(ratio.max(1e-3).log10() / 2.0 + 0.5);
    (two_digits(ratio), colour.hex(), colour.ink())
}

/// A ratio as it is read: two digits, more would be noise.
fn two_digits(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "–".into(),
        ratio if ratio >= 10.0 => format::short(ratio.round()),
        ratio if ratio >= 1.0 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}
