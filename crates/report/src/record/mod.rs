//! The results of a run before rendering.

mod asked;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::asked::{Chart, ChartKind, Claim, IntervalUse, OwnColumn, Published, Scale, Value};
pub use crate::columns::Statistic;
use crate::columns::{Columns, RECEIVER};
use indexmap::IndexMap;
pub use weir_stats::{Estimate, Method, Quantiles};

/// `manifest.json`: the scenario, the machine, and the charts.
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
    /// Description; paragraphs are separated by an empty line.
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
    /// Planned records: cells times repeats, times receivers.
    pub planned_cells: usize,
    /// Whether the run was stopped before all of them ended.
    pub interrupted: bool,
    /// The axes of the sweep: scenario key and its values, in order.
    pub axes: Vec<(String, Vec<String>)>,
    /// Facts about the machine, name and value, in the order to print them.
    pub environment: Vec<(String, String)>,
    /// The emulated network as text, one line per host, router, switch or link, then one per path.
    pub network: Vec<String>,
    /// Charts to draw.
    pub charts: Vec<Chart>,
    /// Published values to show, and their source.
    pub published: Option<Published>,
    /// Statements to judge, and requirements for the run.
    pub claims: Vec<Claim>,
    /// The columns that the scenario defines.
    #[serde(default)]
    pub columns: Vec<OwnColumn>,
    /// The delay that the lab itself adds to a path. `None`: not measured.
    #[serde(default)]
    pub own_cost: Option<OwnCost>,
}

impl Manifest {
    /// The columns of the run.
    pub fn columns(&self) -> Columns<'_> {
        Columns(&self.columns)
    }
}

/// Name of the fact about standstills, known at the end of a run.
pub const STANDSTILLS: &str = "standstills of 1 ms or more";

/// Beginning of a remark about a sender that could not keep its schedule.
pub const LATE_SENDER: &str = "the sender fell behind";

/// Beginning of a remark about messages that the sender's kernel did not accept, or that were refused.
pub const SENDER_FAILED: &str = "the sender met errors";

/// Beginning of a remark about packets missing in a capture.
pub const CAPTURE_LACKS: &str = "the capture lacks";

/// The counter of a ledger for datagrams that the receiver's socket dropped for a wrong checksum.
pub const WRONG_CHECKSUM: &str = "wrong checksum";

/// Beginning of a remark about messages missing in their file.
pub const MESSAGES_LACK: &str = "the file of messages lacks";

/// Beginning of a remark about an empty column of the scenario.
pub const EMPTY_COLUMN: &str = "column";

/// The delays of a control cell without impairments: what the lab itself costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// One-way delay from the send call to the receive call, us.
    pub delay: Quantiles,
    /// Number of messages.
    pub n: u64,
    /// Length of sending, s.
    pub seconds: f64,
    /// Transport: `udp`, `tcp`.
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
    /// Lowest configured rate on the path, Mbit/s. `None`: unlimited.
    pub rate_mbit: Option<f64>,
    /// Bytes of a message.
    pub payload_bytes: u64,
    /// The sending window, s.
    pub duration_s: f64,
    /// Whether programs send instead of the lab: `sent`, `delivered` and rates are not measured then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_programs: bool,
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
    /// Median; like the other quantiles empty if the sample is too small.
    pub delay_p50_us: Option<f64>,
    /// 99th percentile.
    pub delay_p99_us: Option<f64>,
    /// Largest.
    pub delay_max_us: Option<f64>,
    /// Retransmitted TCP segments (tcpi_total_retrans).
    pub retransmits: Option<u64>,
    /// Packets dropped by the loss impairments on the way to the receiver.
    pub planned_drops: u64,
    /// Packets dropped by emulated queues on the way to the receiver.
    pub queue_drops: u64,
    /// Datagrams dropped at the receiver's socket (SK_MEMINFO_DROPS).
    pub socket_drops: Option<u64>,
    /// Packets the emulator or its interfaces could not carry, on the way to the receiver.
    pub emulator_drops: u64,
    /// Messages that no counter accounts for; not 0: a bug in Weir.
    pub unexplained: Option<i64>,
    /// Whether rates, mean and 99th percentile of the row are valid.
    pub valid: bool,
}

/// Added columns: name and value, in order. A value is absent where it was not measured.
pub type Extra = IndexMap<String, Option<f64>>;

/// One line of `cells.jsonl`: a row and all data besides.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The fixed columns.
    pub row: Row,
    /// Added columns, in order: name and value, written after the fixed ones. All records of a run have the same names.
    #[serde(with = "indexmap::map::serde_seq")]
    pub extra: Extra,
    /// The cell's axes: scenario key and value as written.
    pub axes: Vec<(String, String)>,
    /// Hash of its settings: two records of one cell that differ in it are not repeats of each other. Empty in results
    /// of earlier versions.
    #[serde(default)]
    pub settings: String,
    /// Estimates with their uncertainty, by column name, fixed or added.
    pub estimates: BTreeMap<String, Estimate>,
    /// All counters of the ledger, by place, in the order of a packet's path.
    pub ledger: Vec<LedgerEntry>,
    /// Planned drops, flow by flow.
    pub drops: Vec<DropList>,
    /// Distribution of the one-way delay, us.
    pub delays: Quantiles,
    /// Samples over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Lateness of the emulator's packets, us.
    pub lateness: Quantiles,
    /// Lateness of a thread that only sleeps, us: the machine's own disturbance.
    pub heartbeat: Quantiles,
    /// The machine's standstills.
    #[serde(default)]
    pub standstills: Standstills,
    /// The statistics of the row that the machine may have disturbed, and why. If a row is not valid and names none,
    /// all are invalid: it is of an earlier version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disturbed: BTreeMap<Statistic, String>,
    /// Number of reruns because of disturbance.
    pub reruns: u32,
    /// Whether it was stopped before its window was over.
    #[serde(default)]
    pub stopped: bool,
    /// Whether the file was changed after the measurement: nothing in it is valid.
    #[serde(skip)]
    pub changed: bool,
    /// Why the cell is not valid, and other remarks.
    pub remarks: Vec<String>,
}

impl Record {
    /// The run of a cell that it belongs to, for any receiver: the cell's name, and the repeat.
    pub fn run(&self) -> (&str, u32) {
        let cell = self.row.cell.as_str();
        let receiver = self.axes.iter().find(|(key, _)| key == RECEIVER);
        let without = receiver.and_then(|(_, name)| cell.strip_suffix(name.as_str())?.strip_suffix('@'));
        (without.unwrap_or(cell), self.row.repeat)
    }

    /// Whether a statistic is valid: undisturbed, and no program failed.
    pub fn believes(&self, statistic: Statistic) -> bool {
        match statistic {
            Statistic::Setting => true,
            _ if self.changed => false,
            Statistic::Counter => !self.disturbed.contains_key(&statistic),
            _ if self.disturbed.is_empty() => self.row.valid,
            _ => !self.disturbed.contains_key(&statistic),
        }
    }

    /// Why the row is not valid, as text; empty if it is.
    pub fn doubts(&self) -> Vec<&str> {
        self.disturbed.values().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// When the machine stood still while a cell ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standstills {
    /// The start of sending, ns of CLOCK_MONOTONIC.
    pub origin_ns: u64,
    /// A standstill may have begun this much earlier than recorded, ms; shorter ones are not seen.
    pub resolution_ms: f64,
    /// In order of time; only the longest ones if there are many.
    pub list: Vec<Standstill>,
    /// Number of others.
    pub more: u64,
}

/// A time in which something that was due did not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standstill {
    /// When it was due, seconds since the start of sending.
    pub at_s: f64,
    /// Its length, ms.
    pub ms: f64,
    /// Its place: `cpu 0`, or for the emulator `uplink ->`.
    pub place: String,
}

/// A quantity of a cell over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Its name, with the unit at the end as in columns: `received_mbit`, `cwnd_bytes`, `rtt_us`, `retransmits`,
    /// `delivery_rate_mbit`. Each of several connections has its own: `cwnd_bytes #2`.
    pub name: String,
    /// Seconds since the start of sending, and the value there.
    pub points: Vec<(f64, f64)>,
}

/// One counter of a cell's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Its place: `sender`, `link uplink ->`, `receiver socket`.
    pub place: String,
    /// Its name: `sent`, `planned loss`, `delivered`.
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
    /// Its name in every run: `udp 10.0.0.2 > 10.0.0.1:65432`, and `#2` for a second one with the same name.
    pub flow: String,
    /// Packets of the flow.
    pub packets: u64,
    /// Indexes of the dropped ones, ascending.
    pub indexes: Vec<u64>,
    /// Whether `indexes` has all of them.
    pub complete: bool,
}
