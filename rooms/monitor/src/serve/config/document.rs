//! The file as it is written: every key, none of it checked.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_program::config::{Address, one_or_many};
use weir_units::{Frequency, Share, Size, Span};

use crate::outputs::config::Document as Output;

/// A configuration of `weir monitor serve`. `None`: the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Where the page is served.
    pub http: Option<Address>,
    /// Names by which clients know this host.
    pub hosts: Option<Vec<String>>,
    /// Origins whose pages may read.
    pub origins: Option<Vec<String>>,
    /// Whether the API changes nothing.
    pub read_only: Option<bool>,
    /// Other servers of this feed.
    pub peers: Option<Vec<String>>,
    /// How long signals are kept.
    pub history: Option<Span>,
    /// What they may take.
    pub memory: Option<Size>,
    /// Receive buffer of each socket.
    pub receive_buffer: Option<Size>,
    /// How long a datagram waits for what is before it.
    pub reorder: Option<Span>,
    /// File of the group's key.
    pub key: Option<PathBuf>,
    /// Files of the senders' public keys.
    pub senders: Option<Vec<PathBuf>>,
    /// File of the key by which requests to stations are signed.
    pub sign: Option<PathBuf>,
    /// Share of what is between limits that a value has to come back by.
    pub hysteresis: Option<Share>,
    /// How long a channel may be without samples.
    pub stale: Option<Span>,
    /// Where `/metrics` and `/healthz` are served.
    pub admin: Option<Address>,
    /// The user to become once everything is open.
    pub user: Option<String>,
    /// How signals are sent on.
    pub publish: Option<Publish>,
    /// Where signals come in.
    #[serde(rename = "listen", default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<Listen>,
    /// Channels made of others.
    #[serde(rename = "derive", default, skip_serializing_if = "Vec::is_empty")]
    pub derive: Vec<Derive>,
    /// Other tools that are sent signals.
    #[serde(rename = "output", default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    /// Limits beside those of the stations.
    #[serde(rename = "limit", default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
}

weir_program::keys! {
    /// Where signals come in.
    pub struct Listen {
        /// A group, or an address of this machine, with its port.
        address: Address;
        /// Of a group: the interface to join it on. Without it: where a route leads.
        interface: Option<String>;
        /// Of a group: the one source to hear. Without it: any.
        source: Option<IpAddr>;
    }
}

/// `[[derive]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Derive {
    /// Its name.
    pub name: String,
    /// Unit of what it measures.
    pub unit: Option<String>,
    /// Of what it is made.
    pub expression: String,
    /// What is made of its last samples.
    pub statistic: Option<Statistic>,
    /// Over how long a time.
    pub window: Option<Span>,
    /// Of an amplitude: at which frequency.
    pub frequency: Option<Frequency>,
}

/// A statistic by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Of the last samples: their mean.
    Mean,
    /// The root of the mean of their squares.
    Rms,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their standard deviation.
    Std,
    /// Of their spectrum: the frequency of the greatest amplitude.
    PeakFrequency,
    /// The amplitude at one frequency.
    Amplitude,
}

/// `[publish]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Publish {
    /// Groups or addresses, with their ports.
    #[serde(default, deserialize_with = "one_or_many")]
    pub to: Option<Vec<Address>>,
    /// Of groups: where to send through.
    pub interface: Option<String>,
    /// TTL or hop limit of groups.
    pub ttl: Option<u8>,
    /// By which viewers know this server.
    pub name: Option<String>,
    /// What servers of the same signals have in common.
    pub feed: Option<String>,
    /// The least is followed.
    pub priority: Option<u8>,
    /// Buckets of a channel a second.
    pub rate: Option<Frequency>,
    /// How long samples wait for others.
    pub delay: Option<Span>,
    /// File of the key to sign with.
    pub sign: Option<PathBuf>,
}

/// `[[limit]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// `station/channel`; `*` stands for any characters.
    pub channel: String,
    /// Below it is a major alarm.
    pub very_low: Option<f64>,
    /// Below it is a minor alarm.
    pub low: Option<f64>,
    /// Above it is a minor alarm.
    pub high: Option<f64>,
    /// Above it is a major alarm.
    pub very_high: Option<f64>,
}
