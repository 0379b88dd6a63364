//! Traffic of the mode `protect`: which floods there are, what agents tell of them, and what is protected how.

use serde::{Deserialize, Serialize};
use weir_units::{Frequency, Span};

/// Agents at the edge of a network, behind one exporter, and who is flooded.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Protect {
    /// How many agents; each has one interface, which traffic comes in at.
    pub agents: u32,
    /// Packets a second that each receives besides, on average: benign ones.
    pub packets_per_second: u32,
    /// One packet of so many is sampled, on average.
    pub sampling: u32,
    /// Between two counter samples of an interface.
    pub polling: Span,
    /// Packets a second to one host above which they are a flood.
    pub threshold: Frequency,
    /// How often at most something may be taken for a flood that is none: `times/year`.
    pub false_alarms: String,
    /// What there is besides benign traffic.
    pub attack: Attack,
    /// How many times the threshold comes in a flood.
    pub size: f64,
    /// What comes in a flood above the threshold: as much as the threshold lets pass in this time. Large ones are short.
    pub excess: Span,
    /// From the start of one flood to that of the next, which is against another host.
    pub apart: Span,
}

/// What there is besides benign traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Attack {
    /// Nothing.
    None,
    /// Floods.
    #[default]
    Flood,
    /// Samples and counters that tell of floods of which there are none: by turns in the name of an agent that nobody lists, and of one
    /// that is listed and sends itself.
    Forged,
}

impl Protect {
    /// How long a flood lasts, in seconds.
    pub fn length(&self) -> f64 {
        self.excess.duration().as_secs_f64() / (self.size - 1.0).max(0.01)
    }

    /// Datagrams a second that agents send, about.
    pub fn datagrams_per_second(&self) -> f64 {
        let benign = f64::from(self.agents) * f64::from(self.packets_per_second);
        let at_once = self.length() / self.apart.duration().as_secs_f64().max(1e-3);
        let floods = match self.attack {
            Attack::None => 0.0,
            Attack::Flood | Attack::Forged => at_once * self.size * self.threshold.micro_hertz as f64 / 1e6,
        };
        let samples = (benign + floods) / f64::from(self.sampling.max(1));
        let counters = f64::from(self.agents) / self.polling.duration().as_secs_f64().max(1e-3);
        samples / SAMPLES_OF_A_DATAGRAM + counters
    }
}

impl Default for Protect {
    fn default() -> Self {
        Protect {
            agents: 4,
            packets_per_second: 100_000,
            sampling: 1000,
            polling: Span::from_secs(1),
            threshold: Frequency { micro_hertz: 50_000_000_000 },
            false_alarms: "1/year".into(),
            attack: Attack::Flood,
            size: 5.0,
            excess: Span::from_secs(10),
            apart: Span::from_millis(250),
        }
    }
}

/// As many as fit into a datagram of 1400 bytes.
const SAMPLES_OF_A_DATAGRAM: f64 = 7.0;
