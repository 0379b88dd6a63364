//! What a server is to do, validated: made by `config` from a file or by flags, carried out by everything else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_service::http;
use weir_units::Frequency;
use weir_wire::signal::{Channel, Limits};

pub use super::derive::Statistic;
use crate::outputs::Output;
use weir_signal::history::Bounds;
use weir_signal::receive;

/// Everything one `weir monitor serve` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where signals come in.
    pub receive: receive::Settings,
    /// By what they are opened.
    pub keys: Keys,
    /// Where the page is served.
    pub http: SocketAddr,
    /// Who may ask there.
    pub api: http::Settings,
    /// Other servers of this feed, as a browser reaches them.
    pub peers: Vec<String>,
    /// How much is kept.
    pub history: Bounds,
    /// Limits, times, and what is made of channels.
    pub watching: Arc<Watching>,
    /// How they are sent on; `None`: they are not.
    pub publish: Option<Publish>,
    /// Other tools that are sent signals.
    pub outputs: Vec<Output>,
}

/// A channel made of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Derive {
    /// Its name; it is shown under the station `derived`.
    pub name: String,
    /// Unit of what it measures.
    pub unit: String,
    /// Of what it is made: `sqrt({coil/I1}^2 + {coil/I2}^2)`.
    pub expression: String,
    /// What is made of its last samples; `None`: each sample is as it is.
    pub window: Option<Window>,
}

/// What is made of the last samples, and over how long a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    /// A statistic, anew with each sample.
    Moving(Statistic, Duration),
    /// Of their spectrum the frequency of the greatest amplitude, Hz.
    PeakFrequency(Duration),
    /// Of their spectrum the amplitude at a frequency.
    Amplitude(Frequency, Duration),
}

impl Window {
    /// Over how long a time.
    pub(super) fn length(self) -> Duration {
        let (Self::Moving(_, length) | Self::PeakFrequency(length) | Self::Amplitude(_, length)) = self;
        length
    }
}

/// How signals are sent on to viewers.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// Groups, or addresses; all get the same.
    pub to: Vec<SocketAddr>,
    /// Of groups: the interface to send through; `None`: where a route leads.
    pub interface: Option<String>,
    /// TTL or hop limit.
    pub ttl: u8,
    /// By which viewers know this server.
    pub name: String,
    /// What servers of the same signals have in common.
    pub feed: String,
    /// Of the servers of a feed, viewers follow the one with the least.
    pub priority: u8,
    /// Buckets of a channel a second, in millionths.
    pub rate: u64,
    /// How long samples wait for others.
    pub delay: Duration,
    /// File of the key by which what is sent on is signed.
    pub sign: Option<PathBuf>,
}

impl Publish {
    /// Samples a bucket of a channel.
    pub(super) fn bucket(&self, rate: weir_wire::signal::Rate) -> u32 {
        (rate.per_s() * 1e6 / self.rate as f64).floor().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

/// Files of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// What is encrypted is read with it, and nothing else is taken; `None`: nothing is encrypted.
    pub group: Option<PathBuf>,
    /// Public keys of those who may send; empty: anybody, unsigned.
    pub senders: Vec<PathBuf>,
}

impl Keys {
    /// An empty list would let everybody in whom its writer meant to keep out.
    pub(crate) const NO_SENDERS: &str =
        "it names nobody (name the files of those who may send, or leave it out: then anybody may)";
}

/// When somebody is told of a channel, and which are made of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Watching {
    /// Share of what is between the limits that a value has to come back by.
    pub hysteresis: f64,
    /// How long a channel may be without samples; `None`: three times what its longest block, or a sample of it, stands for, half a
    /// second at least.
    pub stale: Option<Duration>,
    /// Limits beside those of the stations; the first that fits is taken.
    pub rules: Vec<Rule>,
    /// Channels made of others.
    pub derive: Vec<Derive>,
}

/// Limits of some channels.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// `station/channel`; `*` stands for any characters.
    pub channel: String,
    /// Those that are told replace the station's.
    pub limits: Limits,
}

impl Default for Watching {
    fn default() -> Self {
        Self { hysteresis: 0.01, stale: None, rules: Vec::new(), derive: Vec::new() }
    }
}

impl Watching {
    /// The channel of that name that is made here.
    pub(super) fn made(&self, station: &str, channel: &str) -> Option<&Derive> {
        self.derive.iter().find(|made| station == super::derive::STATION && made.name == channel)
    }

    /// The limits that are in force for a channel: the station's, as far as no rule has others.
    pub(super) fn limits(&self, station: &str, channel: &Channel) -> Limits {
        let own = channel.limits;
        let name = format!("{station}/{}", channel.name);
        let rule = self.rules.iter().find(|rule| matches(&rule.channel, &name)).map(|rule| rule.limits);
        let rule = rule.unwrap_or_default();
        Limits {
            very_low: rule.very_low.or(own.very_low),
            low: rule.low.or(own.low),
            high: rule.high.or(own.high),
            very_high: rule.very_high.or(own.very_high),
            ..own
        }
    }

    /// How long a channel may be without samples, whose longest block stood for so long.
    pub(super) fn stale(&self, longest: Duration) -> Duration {
        self.stale.unwrap_or_else(|| SHORTEST_STALE.max(longest.saturating_mul(3)))
    }
}

/// Whether a name is of a pattern, in which `*` stands for any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

const SHORTEST_STALE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, fits) in [
            ("s/I", "s/I", true),
            ("s/I", "s/I2", false),
            ("s/*", "s/I2", true),
            ("*/I*", "coil/I2", true),
            ("*/I*x", "coil/I2", false),
            ("*a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
