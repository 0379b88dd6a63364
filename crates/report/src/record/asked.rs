//! What a scenario requests of its report: charts, published values, claims, assertions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::columns::{Better, Statistic};

/// A column that a scenario defines (`[columns]`). Its values are in [`Record::extra`](super::Record::extra), by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnColumn {
    /// Its name.
    pub name: String,
    /// Unit, empty where there is none.
    #[serde(default)]
    pub unit: String,
    /// Which direction is better; absent: neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// What must have been undisturbed for it to be valid.
    #[serde(default)]
    pub statistic: Statistic,
}

/// A chart. Its kind decides which keys apply; [`Chart::problem`] reports which are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// File name without `.svg`.
    pub name: String,
    /// Heading.
    pub title: String,
    /// `lines`, `heatmap`, `time` (timelines) or `distribution` (delays by percentile, one line per cell).
    #[serde(default)]
    pub kind: ChartKind,
    /// Column on the x axis.
    #[serde(default)]
    pub x: String,
    /// Column on the y axis, with its interval if there is one. Heat map: from top to bottom.
    #[serde(default)]
    pub y: String,
    /// Lines: further columns in the same unit, each with a name for its lines; also `y`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, String>,
    /// Lines: one line for each value of this column or axis.
    #[serde(default)]
    pub series: String,
    /// Heat map: the column to print and colour.
    #[serde(default)]
    pub value: String,
    /// Cells: column or axis to value. Default: all.
    #[serde(rename = "where", default)]
    pub selection: BTreeMap<String, Value>,
    /// Time: names of the timelines, one panel each. Default: all.
    #[serde(default)]
    pub quantities: Vec<String>,
    /// `linear` or `log`: the y axis, or the colours of a heat map.
    #[serde(default)]
    pub scale: Scale,
    /// `linear` or `log`: the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Label of the x axis, with its unit.
    #[serde(default)]
    pub x_label: String,
    /// Label of the y axis, with its unit.
    #[serde(default)]
    pub y_label: String,
    /// Heat map: label of the colours, with the unit. Default: the column.
    #[serde(default)]
    pub value_label: String,
    /// Text below the chart.
    #[serde(default)]
    pub caption: String,
}

impl Chart {
    /// Why the chart cannot be drawn: a key that its kind needs, or does not have. `None`: it can.
    pub fn problem(&self) -> Option<String> {
        let (kind, needed, foreign): (_, &[&str], &[&str]) = match self.kind {
            ChartKind::Lines => ("lines", &["x", "y", "series"], &["value", "quantities"]),
            ChartKind::Heatmap => ("heatmap", &["x", "y", "value"], &["series", "beside", "quantities"]),
            ChartKind::Time => ("time", &[], &["x", "y", "series", "beside", "value"]),
            ChartKind::Distribution => ("distribution", &[], &["x", "y", "series", "beside", "value", "quantities"]),
        };
        let given = |key: &str| match key {
            "x" => !self.x.is_empty(),
            "y" => !self.y.is_empty(),
            "series" => !self.series.is_empty(),
            "beside" => !self.beside.is_empty(),
            "value" => !self.value.is_empty(),
            _ => !self.quantities.is_empty(),
        };
        let missing = needed.iter().find(|key| !given(key)).map(|key| format!("needs `{key}`"));
        let unknown = foreign.iter().find(|key| given(key)).map(|key| format!("has no `{key}`"));
        missing.or(unknown).map(|what| format!("kind \"{kind}\" {what}"))
    }
}

/// Kind of chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChartKind {
    /// A line per series, a point per cell; only points if several cells share a place.
    #[default]
    Lines,
    /// A grid of two columns; the value of a third one is printed in each field and sets its colour.
    Heatmap,
    /// Samples over time of the selected cells, one panel per quantity.
    Time,
    /// Delays by percentile, a line per selected cell.
    Distribution,
}

/// Scale of an axis or of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// From 0.
    #[default]
    Linear,
    /// Decades.
    Log,
}

/// Published results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Who published them.
    pub source: String,
    /// Column name to value: text selects (`transport = "udp"`), numbers are coordinates or values.
    pub points: Vec<BTreeMap<String, Value>>,
}

/// A cell of a table: text or number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number, in the column's unit.
    Number(f64),
    /// A word.
    Text(String),
}

/// A bound on a column of some cells: a published statement (`[[claims]]`), or a requirement for the run (`[[assert]]`).
///
/// It is *reproduced* if the interval of every selected cell lies within the bounds, *refuted* if the interval of one
/// lies entirely outside, else *undecided*. With several cells the intervals are widened so that they hold jointly
/// (Bonferroni).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The statement, or the name of the assertion. Default: its bounds in words.
    #[serde(default, alias = "name")]
    pub text: String,
    /// How the statement is read as bounds.
    #[serde(default)]
    pub reading: String,
    /// Whether the run fails (status 3) unless it holds: an `[[assert]]`.
    #[serde(default)]
    pub required: bool,
    /// Cells: column or axis to value. Default: all of the sweep.
    #[serde(rename = "where", default)]
    pub selection: BTreeMap<String, Value>,
    /// Divide by the column of the cell with these values and the same on all other axes.
    #[serde(default)]
    pub relative_to: Option<BTreeMap<String, Value>>,
    /// The column.
    pub column: String,
    /// Lower bound, in the column's unit or as a ratio.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Upper bound, likewise.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Joint confidence of the intervals.
    #[serde(default = "Claim::default_confidence")]
    pub confidence: f64,
    /// What must lie within the bounds: `inside` (all of the interval), `touching` (some) or `ignored` (the value
    /// alone).
    #[serde(default)]
    pub interval: IntervalUse,
    /// In a shorter window (s) a claim is undecided and an assertion skipped.
    #[serde(default)]
    pub min_duration_s: Option<f64>,
}

impl Claim {
    fn default_confidence() -> f64 {
        0.95
    }
}

/// How much of an interval must lie within the bounds of a [`Claim`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntervalUse {
    /// All of it.
    #[default]
    Inside,
    /// A part of it: it fails only if the interval lies entirely outside.
    Touching,
    /// None: the value alone counts.
    Ignored,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_chart_needs_its_own_keys() {
        let chart = |rest: &str| -> Chart { toml::from_str(&format!("name = \"c\"\ntitle = \"C\"\n{rest}")).unwrap() };
        let lines = "x = \"loss_pct\"\ny = \"sent\"\n";
        assert_eq!(chart(&format!("{lines}series = \"transport\"")).problem(), None);
        assert_eq!(chart(lines).problem().unwrap(), "kind \"lines\" needs `series`");
        let map = chart(&format!("kind = \"heatmap\"\n{lines}value = \"sent\"\nseries = \"cell\""));
        assert_eq!(map.problem().unwrap(), "kind \"heatmap\" has no `series`");
        let time = chart("kind = \"time\"\nwhere = { loss_pct = 1 }\nquantities = [\"cwnd_bytes\"]");
        assert_eq!((time.problem(), time.selection["loss_pct"].clone()), (None, Value::Number(1.0)));
        assert!(toml::from_str::<Chart>("name = \"c\"\ntitle = \"C\"\nkind = \"pie\"").is_err());
    }
}
