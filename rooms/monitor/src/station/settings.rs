//! What a station is to do, validated: made by `config` from a file or by flags, carried out by everything else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_wire::signal::{ClockSource, Element, Limits, Rate};

use super::config::Wave;
use super::readers::Format;
pub use crate::send::Group;

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
            Kind::Wave(_, Wave { copies: Some(copies), .. }) => {
                (0..*copies).map(|copy| format!("{}{copy}", self.name)).collect()
            }
            Kind::Wave(..) => vec![self.name.clone()],
            _ => Vec::new(),
        }
    }
}

/// How a source comes by its samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// By arithmetic.
    Wave(Shape, Wave),
    /// This machine's own metrics.
    Host,
    /// What comes by standard input.
    Stdin(Feed),
    /// What is appended to a file.
    Tail(PathBuf, Feed),
    /// Datagrams that others send.
    Udp(SocketAddr, Feed),
}

/// Values that others write.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// How.
    pub format: Format,
    /// When they were.
    pub time: Time,
}

/// When values were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// A point has a time of its own, else that of its arrival.
    Points,
    /// Each row is the next sample; of standard input and files read at `rate`.
    Rows,
    /// When they came.
    Arrival,
    /// A point says how long its sender had run.
    Start,
}

/// What a wave is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A sine.
    Sine,
    /// Each value from -1 to 1 is as likely.
    Noise,
    /// Half a period low, half a period high.
    Step,
    /// The index.
    Counter,
}
