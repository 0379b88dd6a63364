//! How a scenario is run: for how long, how often, how many cells at once, and when a cell is run again.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize, Serializer};
use toml::Value;
use weir_trace::Detail;
use weir_units::{Share, Span};

/// How a scenario is run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Sending window of a cell.
    pub duration: Span,
    /// How long receivers of messages continue after the window.
    pub drain: Span,
    /// How often each cell runs.
    pub repeat: NonZeroU32,
    /// Seed of all random choices.
    pub seed: u64,
    /// Cells at once: a number, `all` or `auto`: 8 of light messages, 16 slow TCP transfers, others alone.
    pub jobs: Jobs,
    /// Run the emulator and the ends of messages before ordinary threads (SCHED_RR), where the user may. Bulk never
    /// does: it would starve the kernel.
    pub realtime: bool,
    /// How often cells that are not valid run again. The better record is kept.
    pub reruns: u32,
    /// Share of the window for which the machine may stand still before rates and losses are not believed.
    pub max_standstill: Share,
    /// The same for bulk and loads: share of the CPUs that others may take while less than a quarter is idle.
    pub max_foreign: Share,
    /// Time between two readings of TCP_INFO; length of a batch of received bytes.
    pub sample: Span,
    /// Time between two readings of the receive buffers and the receivers' CPUs; 0: no readings.
    pub watch: Span,
    /// What tracepoints count, where the user may load eBPF: `off`, `drops`, `queues` (adds stalls of readers) or
    /// `everything` (adds time in NET_RX).
    pub trace: Tracing,
    /// Write when each message was due, sent and received (ns of CLOCK_MONOTONIC) to `messages/CELL.csv`.
    pub messages: bool,
    /// Whether links impair packets. If not, they only carry them.
    pub impaired: bool,
    /// How long the lab measures its own delay before the first cell; 0: not at all.
    pub control: Span,
}

/// Number of cells to run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Jobs {
    /// Every cell of the sweep.
    All,
    /// As many as two CPUs carry.
    Auto,
    /// This many.
    Count(usize),
}

/// What to trace; each level includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tracing {
    /// Nothing.
    #[default]
    Off,
    /// Drops.
    Drops,
    /// Receive queues and their readers.
    Queues,
    /// Packets that pass interfaces, and the CPUs' time in softirqs.
    Everything,
}

impl Tracing {
    /// The same for the kernel's tracer. `None`: off.
    pub fn detail(self) -> Option<Detail> {
        match self {
            Tracing::Off => None,
            Tracing::Drops => Some(Detail::Drops),
            Tracing::Queues => Some(Detail::Queues),
            Tracing::Everything => Some(Detail::Everything),
        }
    }
}

impl Default for Run {
    fn default() -> Self {
        Run {
            duration: Span::from_secs(60),
            drain: Span::from_secs(10),
            repeat: NonZeroU32::MIN,
            seed: 1,
            jobs: Jobs::Auto,
            realtime: false,
            reruns: 1,
            max_standstill: Share::from_fraction(0.05).unwrap_or(Share::ALL),
            max_foreign: Share::from_fraction(0.15).unwrap_or(Share::ALL),
            sample: Span::from_millis(100),
            watch: Span::from_millis(0),
            trace: Tracing::default(),
            messages: false,
            impaired: true,
            control: Span::from_secs(1),
        }
    }
}

impl TryFrom<Value> for Jobs {
    type Error = String;

    fn try_from(value: Value) -> Result<Jobs, String> {
        value.as_str().map_or_else(|| value.to_string().parse(), str::parse)
    }
}

impl Serialize for Jobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Jobs::Count(count) => count.serialize(serializer),
            Jobs::All => serializer.serialize_str("all"),
            Jobs::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl std::str::FromStr for Jobs {
    type Err = String;

    fn from_str(word: &str) -> Result<Jobs, String> {
        match (word, word.parse()) {
            ("all", _) => Ok(Jobs::All),
            ("auto", _) => Ok(Jobs::Auto),
            (_, Ok(count)) if count > 0 => Ok(Jobs::Count(count)),
            _ => Err(format!("`{word}`: write a number of cells, `all` or `auto`")),
        }
    }
}
