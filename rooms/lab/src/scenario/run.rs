//! How a scenario is run: for how long, how often, how many cells at once, and when one is to run again.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize, Serializer};
use toml::Value;
use weir_trace::Detail;
use weir_units::{Share, Span};

/// How a scenario is run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// The sending window of a cell.
    pub duration: Span,
    /// How long a receiver goes on after the window has ended.
    pub drain: Span,
    /// How often each cell is run.
    pub repeat: NonZeroU32,
    /// Seed of every random choice.
    pub seed: u64,
    /// Cells at once, `all`, or `auto`: 8 of light messages, 16 of slow transfers, else 1 (see What to trust).
    pub jobs: Jobs,
    /// The emulator, and senders and receivers of messages, run before every ordinary thread of the machine, where the user
    /// may have that. Bulk transfers never do: a thread that fills a processor this way starves the kernel's own.
    pub realtime: bool,
    /// How often, at the end, cells are run again whose rates, mean or p99 cannot be believed.
    pub reruns: u32,
    /// Up to this share of the sending window the machine may have stood still: beyond it throughput and loss are not
    /// believed.
    pub max_standstill: Share,
    /// Nor are they, of bulk transfers and of what runs beside one, if other programs, and the host of this virtual
    /// machine, took more than this share of the processors while none was left over: those wait for a processor like
    /// any program.
    pub max_foreign: Share,
    /// Time between two looks at the state of connections, and length of a batch of received bytes.
    pub sample: Span,
    /// Time between two looks at receivers' buffers, and whether to look at what the processors do; 0: not at all.
    pub watch: Span,
    /// How much of what the kernel does with the traffic's datagrams is traced, where the user may: `off`, `drops`, `queues`
    /// or `everything`.
    pub trace: Tracing,
    /// Whether the times of every message are written to a file of each cell, as CSV.
    pub messages: bool,
    /// Whether links do what they are told to; if not, all of them only carry packets.
    pub impaired: bool,
    /// How long the lab measures, before the first cell, the delay that it adds itself; 0: not at all.
    pub control: Span,
}

/// Cells at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Jobs {
    /// Every cell of the sweep.
    All,
    /// As many as two processors carry.
    Auto,
    /// This many.
    Count(usize),
}

/// How much is traced; each includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tracing {
    /// Nothing.
    #[default]
    Off,
    /// Drops.
    Drops,
    /// Receive queues and who reads them.
    Queues,
    /// What passes interfaces, and the processors' time in softirqs.
    Everything,
}

impl Tracing {
    /// As the kernel's tracer has it; `None`: off.
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
            _ => Err(format!("`{word}`: a number of cells at once, `all` or `auto`")),
        }
    }
}
