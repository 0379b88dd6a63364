//! What a run of a scenario leaves behind, before it is rendered.

mod asked;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::asked::{Chart, ChartKind, Claim, IntervalUse, OwnColumn, Published, Scale, Value};
pub use crate::columns::Statistic;
use crate::columns::{Columns, RECEIVER};
use indexmap::IndexMap;
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
    /// Statements to judge, and what the run must meet.
    pub claims: Vec<Claim>,
    /// The columns that the scenario defines.
    #[serde(default)]
    pub columns: Vec<OwnColumn>,
    /// What the lab itself adds to a path; `None`: not measured.
    #[serde(default)]
    pub own_cost: Option<OwnCost>,
}

impl Manifest {
    /// The columns of the run.
    pub fn columns(&self) -> Columns<'_> {
        Columns(&self.columns)
    }
}

/// The fact that says when they stood still, known when a run has ended.
pub const STANDSTILLS: &str = "standstills of 1 ms or more";

/// How a remark begins that tells of a sender which could not do what it was told to.
pub const LATE_SENDER: &str = "the sender fell behind";

/// How a remark begins that tells of messages which the sender's own kernel did not take, or others refused.
pub const SENDER_FAILED: &str = "the sender met errors";

/// How a remark begins that tells of packets which a capture does not have.
pub const CAPTURE_LACKS: &str = "the capture lacks";

/// The counter of a ledger that has the datagrams which the receiver's socket dropped for their checksum.
pub const WRONG_CHECKSUM: &str = "wrong checksum";

/// How a remark begins that tells of messages which their file does not have.
pub const MESSAGES_LACK: &str = "the file of messages lacks";

/// How a remark begins that tells why a column of the scenario's own is empty.
pub const EMPTY_COLUMN: &str = "column";

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
    /// Whether programs send, not the lab: `sent`, `delivered` and rates are not measured then.
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
    /// Whether rates, mean and 99th percentile of the row can be believed.
    pub valid: bool,
}

/// Added columns: name and value, in order. A value is absent where it was not measured.
pub type Extra = IndexMap<String, Option<f64>>;

/// One line of `cells.jsonl`: a row and all that does not fit in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The fixed columns.
    pub row: Row,
    /// Added columns, in order: name and value, written after the fixed ones. Every record of a run has the same names.
    #[serde(with = "indexmap::map::serde_seq")]
    pub extra: Extra,
    /// The cell's axes: scenario key and value as written.
    pub axes: Vec<(String, String)>,
    /// Tells by which settings it was measured: two records of one cell that differ in it are no repeats of each other.
    /// Empty in results of earlier versions.
    #[serde(default)]
    pub settings: String,
    /// Estimates with their uncertainty, by column name, fixed or added.
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
    /// Whether the file was changed since it was measured: it can be believed in nothing.
    #[serde(skip)]
    pub changed: bool,
    /// Why the cell is not valid, or what else a reader must know.
    pub remarks: Vec<String>,
}

impl Record {
    /// The run of a cell that it is of, whichever receiver it tells of: the cell's name, and the repeat.
    pub fn run(&self) -> (&str, u32) {
        let cell = self.row.cell.as_str();
        let receiver = self.axes.iter().find(|(key, _)| key == RECEIVER);
        let without = receiver.and_then(|(_, name)| cell.strip_suffix(name.as_str())?.strip_suffix('@'));
        (without.unwrap_or(cell), self.row.repeat)
    }

    /// Whether the machine left a statistic alone and no program failed, so that it can be believed.
    pub fn believes(&self, statistic: Statistic) -> bool {
        match statistic {
            Statistic::Setting => true,
            _ if self.changed => false,
            Statistic::Counter => !self.disturbed.contains_key(&statistic),
            _ if self.disturbed.is_empty() => self.row.valid,
            _ => !self.disturbed.contains_key(&statistic),
        }
    }

    /// Why the row is not valid, in words; empty if it is.
    pub fn doubts(&self) -> Vec<&str> {
        self.disturbed.values().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
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
