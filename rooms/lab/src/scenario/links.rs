//! Links, their impairments in each direction, and how these change while the traffic runs.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, de};
use weir_emulator::model::Alteration;
use weir_program::config::one_line;
use weir_units::{BitRate, Share, Size, Span};

use super::impairments::{Loss, Queue, Reorder, Variation, of_table};
use crate::traces::Traces;

/// An emulated link between two nodes. Its impairments apply to both directions, unless `forward` or `backward` overrides them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two nodes. `forward` is from the first to the second.
    #[serde(deserialize_with = "two_ends")]
    pub ends: [String; 2],
    /// Max IP packet, bytes.
    #[serde(default = "Link::default_mtu")]
    pub mtu: u32,
    /// A plain veth pair without impairments, for UDP by Weir alone.
    #[serde(default)]
    pub direct: bool,
    /// As in [`LinkDirection`], in both directions.
    pub loss: Option<Loss>,
    /// As in [`LinkDirection`], in both directions.
    pub delay: Option<Span>,
    /// As in [`LinkDirection`], in both directions.
    pub variation: Option<Variation>,
    /// As in [`LinkDirection`], in both directions.
    pub rate: Option<BitRate>,
    /// As in [`LinkDirection`], in both directions.
    pub burst: Option<Size>,
    /// As in [`LinkDirection`], in both directions.
    pub queue: Option<Queue>,
    /// As in [`LinkDirection`], in both directions.
    pub duplicate: Option<Share>,
    /// As in [`LinkDirection`], in both directions.
    pub corrupt: Option<Share>,
    /// As in [`LinkDirection`], in both directions.
    pub reorder: Option<Reorder>,
    /// As in [`LinkDirection`], in both directions.
    pub trace: Option<PathBuf>,
    /// As in [`LinkDirection`], in both directions.
    pub steps: Option<Vec<Step>>,
    /// As in [`LinkDirection`], in both directions.
    pub repeat: Option<Span>,
    /// Impairments from the first end to the second.
    #[serde(default, skip_serializing_if = "LinkDirection::is_empty")]
    pub forward: LinkDirection,
    /// Impairments from the second end to the first.
    #[serde(default, skip_serializing_if = "LinkDirection::is_empty")]
    pub backward: LinkDirection,
}

/// Impairments of one direction of a link. An absent key has no effect.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkDirection {
    /// A share (`"5%"`), `{ mean = "5%", burst = 4 }` (packets per burst), `{ to_bad = "1%", to_good = "25%" }`
    /// (Gilbert-Elliott) or `{ list = [3, 17] }`.
    pub loss: Option<Loss>,
    /// One-way delay.
    pub delay: Option<Span>,
    /// Random addition to the delay: `{ uniform = "2ms" }` (0 to 2 ms), `{ normal = [mean, deviation] }` or `{
    /// exponential = mean }`. `order = "reorder"` lets packets overtake.
    pub variation: Option<Variation>,
    /// Rate of the token bucket, counted from the IP header on.
    pub rate: Option<BitRate>,
    /// Bytes that pass at once. Default: packets are spaced evenly.
    pub burst: Option<Size>,
    /// What may wait for the shaper: packets (`100`), bytes (`"64kB"`), what the link sends in a time (`"50ms"`, at
    /// least 15 kB) or `"unlimited"`. Default with a rate or a trace: `"100ms"`.
    pub queue: Option<Queue>,
    /// Share of packets that are delivered twice.
    pub duplicate: Option<Share>,
    /// Share of packets with one bit flipped.
    pub corrupt: Option<Share>,
    /// Packets to hold back: `{ probability = "1%", by = "3ms" }`.
    pub reorder: Option<Reorder>,
    /// Instead of a rate: a file of times, in ms and one per line, at which 1500 bytes pass (mahimahi). It repeats.
    pub trace: Option<PathBuf>,
    /// Changes during the traffic: `[{ at = "5s", loss = "3%" }, { at = "10s" }]`.
    pub steps: Option<Vec<Step>>,
    /// Time from the start of sending after which the steps start again.
    pub repeat: Option<Span>,
}

/// A change of a direction: `{ at = "5s", loss = "3%" }`. Its keys replace the direction's initial values; all others are as
/// at the beginning. A rate replaces a trace, and a trace a rate.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "toml::Table")]
pub struct Step {
    /// Time from the start of sending.
    pub at: Span,
    /// The values that change.
    #[serde(flatten)]
    pub values: LinkDirection,
}

/// Impairments of the whole route, spread evenly over its links, each direction independently: n links of
/// 1 - (1 - loss)^(1/n) each multiply to `loss`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PathImpairments {
    /// One-way loss of the route, spread evenly over its links, in both directions.
    pub loss: Option<Share>,
    /// One-way delay of the route, spread in the same way.
    pub delay: Option<Span>,
}

fn two_ends<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[String; 2], D::Error> {
    let ends = Vec::<String>::deserialize(deserializer)?;
    let wrong =
        |ends: Vec<String>| format!("ends: a link has two ends, not {}. Use a switch to join more.", ends.len());
    ends.try_into().map_err(|ends| de::Error::custom(wrong(ends)))
}

impl Link {
    fn default_mtu() -> u32 {
        1500
    }

    /// Both directions, forward first, with the values for both filled in.
    pub fn directions(&self) -> [LinkDirection; 2] {
        let both = LinkDirection {
            loss: self.loss.clone(),
            delay: self.delay,
            variation: self.variation.clone(),
            rate: self.rate,
            burst: self.burst,
            queue: self.queue,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
            trace: self.trace.clone(),
            steps: self.steps.clone(),
            repeat: self.repeat,
        };
        [&self.forward, &self.backward].map(|own| own.over(&both))
    }
}

impl LinkDirection {
    /// Whether it has no values of its own.
    fn is_empty(&self) -> bool {
        *self == LinkDirection::default()
    }

    /// Share of packets with this alteration.
    pub fn share_of(&self, kind: Alteration) -> Option<Share> {
        match kind {
            Alteration::Corrupt => self.corrupt,
        }
    }

    /// The default queue. `None`: a queue is given, or there is no rate and no trace.
    pub fn default_queue(&self) -> Option<Queue> {
        if self.queue.is_some() {
            return None;
        }
        let limited = |values: &LinkDirection| values.rate.is_some() || values.trace.is_some();
        let ever = limited(self) || self.steps().iter().any(|step| limited(&step.values));
        ever.then_some(Queue::DEFAULT)
    }

    /// Bits per second of its rate, or on average of its trace. `None`: unlimited.
    pub fn capacity(&self, traces: &Traces) -> Option<f64> {
        let traced = || Some(traces.get(self.trace.as_ref()?)?.mean_bits_per_second());
        self.rate.map(|rate| rate.bits_per_second as f64).or_else(traced)
    }

    /// Its changes, in order.
    pub fn steps(&self) -> &[Step] {
        self.steps.as_deref().unwrap_or_default()
    }

    /// Its own values, and those of `other` for the rest. A rate replaces a trace, and a trace a rate.
    pub fn over(&self, other: &LinkDirection) -> LinkDirection {
        let has_capacity = self.rate.is_some() || self.trace.is_some();
        let (rate, trace) =
            if has_capacity { (self.rate, self.trace.clone()) } else { (other.rate, other.trace.clone()) };
        // An inherited rate does not apply to a trace of its own.
        let burst = if self.trace.is_some() { self.burst } else { self.burst.or(other.burst) };
        LinkDirection {
            loss: self.loss.clone().or_else(|| other.loss.clone()),
            delay: self.delay.or(other.delay),
            variation: self.variation.clone().or_else(|| other.variation.clone()),
            rate,
            burst,
            queue: self.queue.or(other.queue),
            duplicate: self.duplicate.or(other.duplicate),
            corrupt: self.corrupt.or(other.corrupt),
            reorder: self.reorder.or(other.reorder),
            trace,
            steps: self.steps.clone().or_else(|| other.steps.clone()),
            repeat: self.repeat.or(other.repeat),
        }
    }
}

impl TryFrom<toml::Table> for Step {
    type Error = String;

    fn try_from(mut table: toml::Table) -> Result<Step, String> {
        let at = table.remove("at").ok_or("a step needs `at`, its time from the start of sending")?;
        let at = Span::deserialize(at).map_err(|error| format!("at: {}", one_line(&error)))?;
        let values: LinkDirection = of_table(table)?;
        match (&values.steps, &values.repeat) {
            (None, None) => Ok(Step { at, values }),
            _ => Err("a step cannot have `steps` or `repeat`".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_two_ends_and_one_kind_of_loss() {
        let error = |text: &str| toml::from_str::<Link>(text).unwrap_err().message().to_owned();
        let three = error("ends = [\"a\", \"b\", \"c\"]");
        assert_eq!(three, "ends: a link has two ends, not 3. Use a switch to join more.");
        let twice = error("ends = [\"a\", \"b\"]\nloss = { mean = \"5%\", to_bad = \"1%\" }");
        assert!(twice.starts_with("a loss has either `mean`, `to_bad` and `to_good`, or `list`"), "{twice}");
        assert!(toml::from_str::<Link>("ends = [\"a\", \"b\"]").is_ok());
    }
}
