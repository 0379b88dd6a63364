//! How a scenario is run: for how long, how often, how many cells at once, and when a cell is run again.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize, Serializer};
use toml::Value;
use weir_kernel::trace::Detail;
use weir_units::{Share, Span};

/// How a scenario is run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// The sending window of a cell.
    pub duration: Span,
    /// How long a receiver keeps receiving after the window.
    pub drain: Span,
    /// Number of runs of each cell.
    pub repeat: NonZeroU32,
    /// Seed of all random choices.
    pub seed: u64,
    /// Cells to run at once, `all`, or `auto`: 8 with light messages, 16 with slow transfers, else 1 (see What to trust).
    pub jobs: Jobs,
    /// Whether the emulator, and senders and receivers of messages, run with real-time priority, if permitted. Bulk
    /// transfers never do: at that priority a thread that fills a CPU starves the kernel's own threads.
    pub realtime: bool,
    /// How often cells whose rates, mean or p99 are not valid are run again at the end.
    pub reruns: u32,
    /// Max share of the sending window in which the machine may stand still: above it throughput and loss are not valid.
    pub max_standstill: Share,
    /// Max share of the CPUs that other programs, and the host of this virtual machine, may use while none is left over:
    /// above it bulk transfers, and traffic next to one, are not valid, since they wait for a CPU like any program.
    pub max_foreign: Share,
    /// Time between two readings of the connections' state, and length of a batch of received bytes.
    pub sample: Span,
    /// Time between two readings of the receivers' buffers and the CPUs' activity; 0: none.
    pub watch: Span,
    /// What to trace in the kernel about the traffic's datagrams, if permitted: `off`, `drops`, `queues` or `everything`.
    pub trace: Tracing,
    /// Whether to write the times of every message to one CSV file per cell.
    pub messages: bool,
    /// Whether links have their impairments; if not, they only carry packets.
    pub impaired: bool,
    /// How long the lab measures, before the first cell, the delay that it adds itself; 0: not at all.
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
