//! What a source is to do, validated: made by `config` from a file or by flags.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_wire::signal::{Element, Rate};

use super::config::Wave;
use super::readers::Format;

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
