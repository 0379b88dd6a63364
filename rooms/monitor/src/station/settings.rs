//! What a station is to do, validated: made by `config` from a file or by flags, carried out by everything else.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_wire::signal::{ClockSource, Element, Limits, Rate};

/// Everything one `weir monitor station` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// By which others know it.
    pub name: String,
    /// Where the thinned stream goes: one place, or two that get the same bytes.
    pub groups: Vec<Group>,
    /// Where the full-rate stream goes, likewise; empty: there is none.
    pub full: Vec<Group>,
    /// Hops to groups.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Most bytes of a datagram.
    pub most_bytes: usize,
    /// A sample is sent at most so long after it was taken.
    pub delay: Duration,
    /// Buckets a second, of channels that do not say.
    pub display: f64,
    /// What keeps the clock; `None`: ask the kernel.
    pub clock: Option<ClockSource>,
    /// The file of the key that datagrams are encrypted with.
    pub encrypt: Option<PathBuf>,
    /// The file of the key that they are signed with.
    pub sign: Option<PathBuf>,
    /// At most so many channels.
    pub most_channels: usize,
    /// Where samples come from; at least one.
    pub sources: Vec<Source>,
    /// What is said of channels, by name.
    pub channels: Vec<ChannelSettings>,
}

/// A place that datagrams are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Group or host.
    pub address: SocketAddr,
    /// The interface to send through; `None`: where a route leads.
    pub interface: Option<String>,
}

/// `239.192.77.1:5110 through eth0`.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{} through {interface}", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// What is said of a channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSettings {
    /// Which.
    pub name: String,
    /// Empty: as its source has it.
    pub unit: String,
    /// Empty: as its source has it.
    pub description: String,
    /// Its limits.
    pub limits: Limits,
    /// What it measures is value x scale + offset.
    pub scale: f64,
    /// See `scale`.
    pub offset: f64,
    /// What its values are on the wire; `None`: as its source has it.
    pub element: Option<Element>,
    /// Buckets a second; 0: each sample; `None`: as the station has it.
    pub display: Option<f64>,
    /// Whether it is in the full-rate stream.
    pub full: bool,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            unit: String::new(),
            description: String::new(),
            limits: Limits::default(),
            scale: 1.0,
            offset: 0.0,
            element: None,
            display: None,
            full: false,
        }
    }
}

/// Where samples come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Of its channel, or in front of the names of its channels; may be empty where those have names.
    pub name: String,
    /// Samples a second of each of its channels.
    pub rate: Rate,
    /// What its values are on the wire.
    pub element: Element,
    /// How it comes by them.
    pub kind: Kind,
}

impl Source {
    /// Of its channels, where they are known from the start.
    pub(super) fn names(&self) -> Vec<String> {
        match &self.kind {
            Kind::Generator(Generator { copies: Some(copies), .. }) => {
                (0..*copies).map(|copy| format!("{}{copy}", self.name)).collect()
            }
            Kind::Generator(_) | Kind::Wav { .. } => vec![self.name.clone()],
            _ => Vec::new(),
        }
    }
}

/// How a source comes by its samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// By arithmetic.
    Generator(Generator),
    /// This machine's own metrics.
    Host,
    /// Lines of standard input.
    Stdin(Lines),
    /// Lines that are appended to a file.
    Tail(PathBuf, Lines),
    /// Datagrams that others send.
    Udp(SocketAddr, Format),
    /// A ring in shared memory.
    Ring(PathBuf, Vec<String>),
    /// A file of sound.
    Wav {
        /// Which.
        path: PathBuf,
        /// Whether it begins anew when it is over.
        repeat: bool,
    },
}

/// Lines, and when their values were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// How they are written.
    pub format: Format,
    /// Whether each row is the next sample, whenever it comes.
    pub rows: bool,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, the first line has names.
    Csv,
    /// An object, or an array of objects.
    Json,
    /// Influx line protocol.
    Influx,
    /// StatsD.
    Statsd,
}

/// Samples by arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// Which.
    pub wave: Wave,
    /// Half of its height; the step of a counter.
    pub amplitude: f64,
    /// Its middle; the first of a counter.
    pub offset: f64,
    /// Periods in a million seconds.
    pub micro_hertz: u64,
    /// Where it begins, in periods.
    pub phase: f64,
    /// Of noise.
    pub seed: u64,
    /// Channels that differ in phase or seed, numbered from 0; `None`: one, without a number.
    pub copies: Option<u16>,
}

/// A wave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wave {
    /// A sine.
    Sine,
    /// A sine whose frequency goes up evenly to so many micro hertz, in so many seconds, and begins anew.
    Chirp(u64, f64),
    /// Each value from -1 to 1 is as likely.
    Noise,
    /// Half a period low, half a period high.
    Step,
    /// The index.
    Counter,
}
