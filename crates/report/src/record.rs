//! What a run of a scenario leaves behind, before it is rendered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::columns::Statistic;
pub use weir_stats::{Estimate, Method, Quantiles};

/// `manifest.json`: what ran, on what, and how to draw it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the result directory.
    pub format: u32,
    /// Version of the `weir` that ran.
    pub weir_version: String,
    /// The scenario's name.
    pub scenario: String,
    /// One line about it.
    pub title: String,
    /// What is measured and how; paragraphs are separated by an empty line.
    pub description: String,
    /// The command line.
    pub command: Vec<String>,
    /// The whole scenario as it ran, overrides applied, as TOML.
    pub source: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// Length of the run, s.
    pub elapsed_s: f64,
    /// Records that were planned: cells times repeats; of a cell with several receivers one for each.
    pub planned_cells: usize,
    /// Whether the run was stopped before all of them had ended.
    pub interrupted: bool,
    /// The axes of the sweep: scenario key and its values, in order.
    pub axes: Vec<(String, Vec<String>)>,
    /// Facts about the machine, name and value, in the order to print them.
    pub environment: Vec<(String, String)>,
    /// The emulated network in words, one line a host, router, switch or link, then one a path.
    pub network: Vec<String>,
    /// Charts to draw.
    pub charts: Vec<Chart>,
    /// Published values to lay over, and where they are from.
    pub published: Option<Published>,
    /// Published statements to judge.
    pub claims: Vec<Claim>,
    /// Bounds that fail the run.
    #[serde(default)]
    pub asserts: Vec<Assert>,
    /// What the lab itself adds to a path; `None`: not measured.
    #[serde(default)]
    pub own_cost: Option<OwnCost>,
}

/// The fact of the environment that says whether processors are kept from sleeping.
pub const PROCESSORS: &str = "processors";

/// The fact that says when they stood still, known when a run has ended.
pub const STANDSTILLS: &str = "standstills of 1 ms or more";

/// The delays of a control cell without impairments, measured beside the others: what the lab itself costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// One-way delay from the send call to the receiver's hand, us.
    pub delay: Quantiles,
    /// Messages behind it.
    pub n: u64,
    /// How long they were sent, s.
    pub seconds: f64,
    /// Over what: `udp`, `tcp`.
    pub transport: String,
}

/// The fixed first columns of `results.csv`, in this order. `None` is an empty field: not measured or not defined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Scenario name.
    pub scenario: String,
    /// Cell name: its axis values joined by `/`.
    pub cell: String,
    /// Repeat, from 1.
    pub repeat: u32,
    /// `udp`, `tcp`.
    pub transport: String,
    /// One-way loss of the whole path as configured, percent.
    pub loss_pct: f64,
    /// One-way delay of the whole path as configured, ms.
    pub latency_ms: f64,
    /// Smallest configured rate on the path, Mbit/s; `None`: unlimited.
    pub rate_mbit: Option<f64>,
    /// Bytes of a message.
    pub payload_bytes: u64,
    /// The sending window, s.
    pub duration_s: f64,
    /// Messages handed to the kernel.
    pub sent: u64,
    /// Messages received, the drain included, duplicates not.
    pub delivered: u64,
    /// TCP: messages sent and neither delivered nor known lost.
    pub undelivered: Option<u64>,
    /// Messages received within the sending window, over that window.
    pub msgs_per_s: f64,
    /// The same as payload, Mbit/s.
    pub mbit_per_s: f64,
    /// One-way delay of delivered messages from the actual send call, us.
    pub delay_mean_us: Option<f64>,
    /// Median; empty where the sample cannot support it. So are the others.
    pub delay_p50_us: Option<f64>,
    /// 99th percentile.
    pub delay_p99_us: Option<f64>,
    /// Largest.
    pub delay_max_us: Option<f64>,
    /// TCP segments sent again (tcpi_total_retrans).
    pub retransmits: Option<u64>,
    /// Packets dropped by the loss impairments on the way to the receiver.
    pub planned_drops: u64,
    /// Packets dropped by emulated queues on the way to the receiver.
    pub queue_drops: u64,
    /// Datagrams dropped at the receiver's socket (SK_MEMINFO_DROPS).
    pub socket_drops: Option<u64>,
    /// Packets the emulator or its interfaces could not carry, on the way to the receiver.
    pub emulator_drops: u64,
    /// What no counter accounts for; 0, or there is a fault.
    pub unexplained: Option<i64>,
    /// Whether the headline statistics of the row, throughput and delay, can be believed.
    pub valid: bool,
}

/// One line of `cells.jsonl`: a row and all that does not fit in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The fixed columns.
    pub row: Row,
    /// Added columns, in order: name and value, written behind the fixed ones. Every record of a run has the same
    /// names.
    pub extra: Vec<(String, Option<f64>)>,
    /// The cell's axes: scenario key and value as written.
    pub axes: Vec<(String, String)>,
    /// Estimates with their uncertainty, by column name (fixed or added).
    pub estimates: BTreeMap<String, Estimate>,
    /// Every counter behind the ledger, by place, in the order of the packet's way.
    pub ledger: Vec<LedgerEntry>,
    /// Planned drops, flow by flow.
    pub drops: Vec<DropList>,
    /// Distribution of the one-way delay, us.
    pub delays: Quantiles,
    /// What was sampled over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Messages as the samples of a signal: a stretch of it as it arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// How much later than planned the emulator released packets, us.
    pub lateness: Quantiles,
    /// How late a thread that only sleeps woke up meanwhile, us: the machine's own disturbance.
    pub heartbeat: Quantiles,
    /// When the machine stood still meanwhile.
    #[serde(default)]
    pub standstills: Standstills,
    /// Which statistics of the row the machine's disturbance may have changed, and why. A row that is not valid and names
    /// none can be believed in nothing: it is of an earlier version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disturbed: BTreeMap<Statistic, String>,
    /// How often the cell ran again because it was disturbed.
    pub reruns: u32,
    /// Whether it was stopped before its window was over.
    #[serde(default)]
    pub stopped: bool,
    /// Why the cell is not valid, or what else a reader must know.
    pub remarks: Vec<String>,
}

impl Record {
    /// Whether the machine left a statistic alone, so that it can be believed.
    pub fn believes(&self, statistic: Statistic) -> bool {
        match statistic {
            Statistic::Counter | Statistic::Setting => true,
            _ if self.disturbed.is_empty() => self.row.valid,
            _ => !self.disturbed.contains_key(&statistic),
        }
    }

    /// Why the row is not valid, in words; empty if it is.
    pub fn doubts(&self) -> Vec<&str> {
        self.disturbed.values().map(String::as_str).collect()
    }
}

/// When the machine stood still while a cell ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standstills {
    /// The start of sending, ns of CLOCK_MONOTONIC.
    pub origin_ns: u64,
    /// A standstill may have begun so much earlier than it says, ms; shorter ones are not seen.
    pub resolution_ms: f64,
    /// In order of time; of many the longest ones.
    pub list: Vec<Standstill>,
    /// How many more there were.
    pub more: u64,
    /// What the host of this virtual machine took of all processors (steal): seconds since the start of sending, and how
    /// many ms since the entry before, told every tenth of a second or, of a long list, in larger steps. Times without are
    /// left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stolen: Vec<(f64, f64)>,
    /// The same of the quota of the lab's control group (throttling).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<(f64, f64)>,
}

/// A time in which something that had to run did not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standstill {
    /// When it had to run, seconds since the start of sending.
    pub at_s: f64,
    /// How long it did not, ms.
    pub ms: f64,
    /// What: `cpu 0`, or of the emulator `uplink ->`.
    pub place: String,
}

/// A quantity of a cell over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// What, with its unit at the end as in a column's name: `received_mbit`, `cwnd_bytes`, `rtt_us`, `retransmits`,
    /// `delivery_rate_mbit`. Of several connections each has its own: `cwnd_bytes #2`.
    pub name: String,
    /// Seconds since the start of sending, and the value there.
    pub points: Vec<(f64, f64)>,
}

/// A stretch of a sine whose samples the messages are, as it arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Seconds from one sample to the next.
    pub interval_s: f64,
    /// Seconds of a period of the sine.
    pub period_s: f64,
    /// Number of the stretch's first sample, counted from the start of sending.
    pub first: u64,
    /// Samples of the stretch.
    pub samples: u64,
    /// What is missing of them, ascending: the first sample, counted from the stretch's, and how many in a row.
    pub missing: Vec<(u64, u64)>,
    /// Why most of them are, as the receiver knows; `None`: it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// One counter of a cell's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Where: `sender`, `link uplink ->`, `receiver socket`.
    pub place: String,
    /// What: `sent`, `planned loss`, `delivered`.
    pub name: String,
    /// `messages`, `packets` or `frames`.
    pub unit: String,
    /// The count.
    pub count: i64,
    /// The counter's source, e.g. `emulator` or `SK_MEMINFO_DROPS`.
    pub source: String,
}

/// The planned drops of one flow on one direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropList {
    /// `uplink ->` or `uplink <-`.
    pub link: String,
    /// By what it is known in every run: `udp 10.0.0.2 > 10.0.0.1:65432`, and `#2` for the second one alike.
    pub flow: String,
    /// Packets of the flow.
    pub packets: u64,
    /// Indexes of the dropped ones, ascending.
    pub indexes: Vec<u64>,
    /// Whether `indexes` has all of them.
    pub complete: bool,
}

/// A chart. Which of its keys mean something depends on its kind; [`Chart::problem`] tells which are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// File name without `.svg`.
    pub name: String,
    /// Heading.
    pub title: String,
    /// What is drawn.
    #[serde(default)]
    pub kind: ChartKind,
    /// Column on the x axis.
    #[serde(default)]
    pub x: String,
    /// Column on the y axis. Drawn with its interval where the record has an estimate. Of a heat map: what goes down.
    #[serde(default)]
    pub y: String,
    /// Further columns in the same unit, each with what its lines are called behind the name of the series; maybe `y` with
    /// what its own are called.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, String>,
    /// One line for each value of this column or axis key.
    #[serde(default)]
    pub series: String,
    /// Of a heat map: the column that is printed and coloured.
    #[serde(default)]
    pub value: String,
    /// Which cells: column or axis key to value; all if empty.
    #[serde(rename = "where", default)]
    pub selection: BTreeMap<String, Value>,
    /// Of a chart over time: names of the timelines, one panel each; all if empty.
    #[serde(default)]
    pub quantities: Vec<String>,
    /// Of a chart of kind `signal`: as a screen shows it that knows of no gaps, one sample that arrived behind the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_arrived: bool,
    /// `linear` or `log`: the y axis, or the colours of a heat map.
    #[serde(default)]
    pub scale: Scale,
    /// `linear` or `log`: the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Axis label, with the unit.
    #[serde(default)]
    pub x_label: String,
    /// Axis label, with the unit.
    #[serde(default)]
    pub y_label: String,
    /// What the colours of a heat map stand for, with the unit; by default the column.
    #[serde(default)]
    pub value_label: String,
    /// One or two sentences under the chart.
    #[serde(default)]
    pub caption: String,
}

impl Chart {
    /// What keeps the chart from being drawn: a key that its kind needs, or one that it does not know. `None`: nothing.
    pub fn problem(&self) -> Option<String> {
        let (kind, needed, foreign): (_, &[&str], &[&str]) = match self.kind {
            ChartKind::Lines => ("lines", &["x", "y", "series"], &["value", "quantities", "as_arrived"]),
            ChartKind::Heatmap => ("heatmap", &["x", "y", "value"], &["series", "beside", "quantities", "as_arrived"]),
            ChartKind::Time => ("time", &[], &["x", "y", "series", "beside", "value", "as_arrived"]),
            ChartKind::Signal => ("signal", &[], &["x", "y", "series", "beside", "value", "quantities"]),
        };
        let given = |key: &str| match key {
            "x" => !self.x.is_empty(),
            "y" => !self.y.is_empty(),
            "series" => !self.series.is_empty(),
            "beside" => !self.beside.is_empty(),
            "value" => !self.value.is_empty(),
            "as_arrived" => self.as_arrived,
            _ => !self.quantities.is_empty(),
        };
        let missing = needed.iter().find(|key| !given(key)).map(|key| format!("needs `{key}`"));
        let unknown = foreign.iter().find(|key| given(key)).map(|key| format!("has no `{key}`"));
        missing.or(unknown).map(|what| format!("chart {}: kind \"{kind}\" {what}", self.name))
    }
}

/// What a chart draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChartKind {
    /// A line for each series, a point for each cell; points alone where several cells share a place.
    #[default]
    Lines,
    /// A grid of two columns with a third one's value in each field, and as its colour.
    Heatmap,
    /// What was sampled while the selected cells ran, one panel a quantity.
    Time,
    /// Messages as the samples of a sine, as they arrived in the selected cells: one panel a cell.
    Signal,
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

/// Somebody's published results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Whose.
    pub source: String,
    /// Each point: column name to value; text columns select (`transport = "udp"`), number columns are coordinates or
    /// values in the unit of the column.
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

/// A published statement, as a bound that can fail.
///
/// The statement is *reproduced* if the interval of every selected cell lies within the bounds, *refuted* if the
/// interval of one lies outside altogether, else *undecided*. With several cells the intervals are widened so that they
/// hold jointly (Bonferroni).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The statement, in the words of who made it.
    pub text: String,
    /// How it is read as bounds, if that needs a word.
    #[serde(default)]
    pub reading: String,
    /// Which cells: column or axis key to value.
    #[serde(rename = "where", default)]
    pub selection: BTreeMap<String, Value>,
    /// If given, the column is divided by that of the cells selected here. A key left out of it, but given in `where`
    /// or differing between cells, is matched cell by cell.
    #[serde(default)]
    pub relative_to: Option<BTreeMap<String, Value>>,
    /// The column.
    pub column: String,
    /// Lower bound, in the column's unit (or as a ratio).
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Upper bound.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Joint confidence of the intervals.
    #[serde(default = "Claim::default_confidence")]
    pub confidence: f64,
    /// Below this length of the sending window (s) the statement stays undecided.
    #[serde(default)]
    pub min_duration_s: Option<f64>,
}

impl Claim {
    fn default_confidence() -> f64 {
        0.95
    }
}

/// A bound that fails a run: exit status 3.
///
/// Cells are selected, compared and their intervals widened as those of a [`Claim`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assert {
    /// What it is called in reports; absent: its bounds in words.
    #[serde(default)]
    pub name: Option<String>,
    /// Which cells: column or axis key to value; absent: all of the sweep.
    #[serde(rename = "where", default)]
    pub selection: BTreeMap<String, Value>,
    /// As [`Claim::relative_to`].
    #[serde(default)]
    pub relative_to: Option<BTreeMap<String, Value>>,
    /// The column.
    pub column: String,
    /// Lower bound, in the column's unit (or as a ratio).
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Upper bound.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Joint confidence of the intervals.
    #[serde(default = "Claim::default_confidence")]
    pub confidence: f64,
    /// How much of the interval must lie within the bounds.
    #[serde(default)]
    pub interval: IntervalUse,
    /// Below this length of the sending window (s) it is skipped.
    #[serde(default)]
    pub min_duration_s: Option<f64>,
}

/// How much of an interval must lie within the bounds of an [`Assert`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntervalUse {
    /// All of it.
    #[default]
    Inside,
    /// A part of it: it fails only if the interval lies outside altogether.
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
        assert_eq!(chart(lines).problem().unwrap(), "chart c: kind \"lines\" needs `series`");
        let map = chart(&format!("kind = \"heatmap\"\n{lines}value = \"sent\"\nseries = \"cell\""));
        assert_eq!(map.problem().unwrap(), "chart c: kind \"heatmap\" has no `series`");
        let time = chart("kind = \"time\"\nwhere = { loss_pct = 1 }\nquantities = [\"cwnd_bytes\"]");
        assert_eq!((time.problem(), time.selection["loss_pct"].clone()), (None, Value::Number(1.0)));
        assert!(toml::from_str::<Chart>("name = \"c\"\ntitle = \"C\"\nkind = \"pie\"").is_err());
    }
}
