//! The file as it is written: every key with its type, nothing checked against anything else.

use std::path::PathBuf;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_program::config::{Address, one_or_many};
use weir_units::{Frequency, Size, Span};

/// A configuration of `weir monitor station`. `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// By which others know the station.
    pub name: Option<String>,
    /// Where the thinned stream goes: one place or two.
    #[serde(default, deserialize_with = "one_or_many")]
    pub to: Option<Vec<String>>,
    /// Interfaces to send through: one for all, or one for each of `to`.
    #[serde(default, deserialize_with = "one_or_many")]
    pub interface: Option<Vec<String>>,
    /// Where the full-rate stream goes.
    #[serde(default, deserialize_with = "one_or_many")]
    pub full_to: Option<Vec<String>>,
    /// Likewise for `full_to`.
    #[serde(default, deserialize_with = "one_or_many")]
    pub full_interface: Option<Vec<String>>,
    /// Hops to groups.
    pub ttl: Option<u8>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Most bytes of a datagram.
    pub most_bytes: Option<Size>,
    /// Longest time from a sample to its datagram.
    pub delay: Option<Span>,
    /// Buckets a second.
    pub display: Option<Frequency>,
    /// Networks whose wishes are granted.
    pub control: Option<Vec<IpNet>>,
    /// What keeps the clock.
    pub clock: Option<Keeper>,
    /// The key of the group.
    pub encrypt: Option<PathBuf>,
    /// The key of this station.
    pub sign: Option<PathBuf>,
    /// Public keys of those who may ask.
    pub servers: Option<Vec<PathBuf>>,
    /// Most channels.
    pub most_channels: Option<u16>,
    /// Where `/metrics` and `/healthz` are served.
    pub admin: Option<Address>,
    /// The user to become once everything is open.
    pub user: Option<String>,
    /// Where samples come from.
    #[serde(rename = "source", default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// What channels are.
    #[serde(rename = "channel", default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Channel>,
}

/// What keeps a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// Nothing.
    FreeRunning,
    /// The network time protocol.
    Ntp,
    /// The precision time protocol.
    Ptp,
}

/// `[[source]]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// How it comes by its samples.
    pub kind: Kind,
    /// Of its channel, or in front of the names of its channels.
    pub name: Option<String>,
    /// Samples a second.
    pub rate: Option<Frequency>,
    /// What values are on the wire.
    pub element: Option<Element>,
    /// Of a wave.
    pub amplitude: Option<f64>,
    /// Of a wave.
    pub offset: Option<f64>,
    /// Of a wave.
    pub frequency: Option<Frequency>,
    /// The highest of a chirp.
    pub highest: Option<Frequency>,
    /// In which a chirp gets there.
    pub period: Option<Span>,
    /// Of a wave, degrees.
    pub phase: Option<f64>,
    /// Of noise.
    pub seed: Option<u64>,
    /// So many channels of a wave.
    pub copies: Option<u16>,
    /// How lines and datagrams are written.
    pub format: Option<Format>,
    /// When rows were.
    pub time: Option<Time>,
    /// Where datagrams are received.
    pub listen: Option<Address>,
    /// Of a file.
    pub path: Option<PathBuf>,
    /// Of the channels of a ring.
    pub names: Option<Vec<String>>,
    /// Whether a file of sound begins anew.
    pub repeat: Option<bool>,
}

/// `kind`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A wave.
    Sine,
    /// A wave of rising frequency.
    Chirp,
    /// Random numbers.
    Noise,
    /// Low and high in turn.
    Step,
    /// Numbers.
    Counter,
    /// This machine's metrics.
    Host,
    /// Standard input.
    Stdin,
    /// What is appended to a file.
    Tail,
    /// Datagrams.
    Udp,
    /// Shared memory.
    Ring,
    /// Sound.
    Wav,
}

/// `element`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// 16 bits.
    I16,
    /// 32 bits.
    I32,
}

/// `format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Comma-separated values.
    Csv,
    /// Objects.
    Json,
    /// Influx line protocol.
    Influx,
    /// StatsD.
    Statsd,
}

/// `time`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// A point has its own, else that of its arrival.
    Points,
    /// Each row is the next sample.
    Rows,
}

/// `[[channel]]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Which.
    pub name: String,
    /// Of what it measures.
    pub unit: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// The lower end of its display.
    pub display_low: Option<f64>,
    /// The upper end of its display.
    pub display_high: Option<f64>,
    /// Below it is an alarm of high severity.
    pub very_low: Option<f64>,
    /// Below it is an alarm.
    pub low: Option<f64>,
    /// Above it is an alarm.
    pub high: Option<f64>,
    /// Above it is an alarm of high severity.
    pub very_high: Option<f64>,
    /// What it measures is value x scale + offset.
    pub scale: Option<f64>,
    /// See `scale`.
    pub offset: Option<f64>,
    /// What values are on the wire.
    pub element: Option<Element>,
    /// Buckets a second; 0: each sample.
    pub display: Option<Frequency>,
    /// Whether it is in the full-rate stream.
    pub full: Option<bool>,
}
