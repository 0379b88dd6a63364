//! Traffic of the mode `monitor`: stations, servers, and what viewers follow.

use serde::{Deserialize, Serialize};
use weir_units::{Frequency, Span};

use super::Traffic;

/// Stations that send the same kind of signals, each from a host of its own, to a group of viewers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Monitor {
    /// Hosts with a station each; `traffic.from` is one of them. Empty: it alone.
    pub stations: Vec<String>,
    /// Hosts with a server each, which sends on what it receives; the first one is to be followed.
    pub servers: Vec<String>,
    /// Whom viewers listen to.
    pub follow: Follow,
    /// Groups that stations send the same bytes to: 1, or 2 (A/B), the second one over the next link of each host.
    pub groups: u8,
    /// Of each station: sines.
    pub channels: u16,
    /// Samples of a channel a second.
    pub rate: Frequency,
    /// Of the sines.
    pub frequency: Frequency,
    /// Buckets of a channel a second; 0: each sample is sent.
    pub display: Frequency,
    /// Longest time from a sample to its datagram: how large blocks become.
    pub delay: Span,
    /// After so long the first server is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<Span>,
}

/// Whom viewers listen to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Follow {
    /// The stations themselves.
    #[default]
    Stations,
    /// Servers.
    Servers,
}

impl Monitor {
    /// Hosts with a station each.
    pub fn stations<'a>(&'a self, traffic: &'a Traffic) -> &'a [String] {
        if self.stations.is_empty() { std::slice::from_ref(&traffic.from) } else { &self.stations }
    }

    /// Datagrams a second that stations and servers send, about.
    pub fn datagrams_per_second(&self) -> f64 {
        let (rate, display) = (hertz(self.rate), hertz(self.display));
        // A bucket takes as much as four samples of 4 bytes.
        let values = if display > 0.0 && rate > 4.0 * display { 4.0 * display } else { rate };
        let bytes = values * 4.0 * f64::from(self.channels);
        let each = (1.0 / self.delay.duration().as_secs_f64().max(1e-3)).max(bytes / 1400.0);
        let stations = self.stations.len().max(1) as f64;
        each * stations * f64::from(self.groups.max(1)) + each * self.servers.len() as f64
    }
}

/// Times a second.
pub(crate) fn hertz(frequency: Frequency) -> f64 {
    frequency.micro_hertz as f64 / 1e6
}

impl Default for Monitor {
    fn default() -> Self {
        let hertz = |hertz: u64| Frequency { micro_hertz: hertz * 1_000_000 };
        Monitor {
            stations: Vec::new(),
            servers: Vec::new(),
            follow: Follow::Stations,
            groups: 1,
            channels: 4,
            rate: hertz(1000),
            frequency: hertz(1),
            display: hertz(200),
            delay: Span::from_millis(10),
            kill: None,
        }
    }
}
