//! Kinds of impairments as a scenario writes them, and what each is in the emulator.

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use weir_emulator::model;
use weir_units::{Share, Size, Span};

/// Planned loss: `"5%"`, `{ mean = "5%", burst = 4 }`, `{ to_bad = "1%", to_good = "25%" }` or `{ list = [3, 17] }`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "expected a share as \"5%\", { mean, burst }, { to_bad, to_good, good, bad } or { list }"
)]
pub enum Loss {
    /// Each packet independently.
    Share(Share),
    /// A share, in bursts of a mean length.
    Mean(MeanLoss),
    /// Gilbert-Elliott bursts.
    Bursts(Bursts),
    /// These packets of each flow, from 0.
    List(DropList),
}

/// Gilbert-Elliott loss by its mean: all is lost in the bad state, nothing in the good one.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeanLoss {
    /// Share of packets lost in the long run.
    pub mean: Share,
    /// Mean length of a burst, packets; 1: each packet independently.
    #[serde(default = "MeanLoss::single")]
    pub burst: f64,
}

/// Gilbert-Elliott loss, see [`weir_emulator::model::Loss::GilbertElliott`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Chance a packet to turn bad.
    pub to_bad: Share,
    /// Chance a packet to turn good again.
    pub to_good: Share,
    /// Loss in the good state; absent: 0.
    #[serde(default)]
    pub good: Share,
    /// Loss in the bad state; absent: all.
    pub bad: Option<Share>,
}

/// Explicit losses.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DropList {
    /// Indexes, from 0, of the packets of every flow.
    pub list: Vec<u64>,
}

/// Delay variation: exactly one distribution, and whether it may reorder.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Evenly between 0 and this.
    pub uniform: Option<Span>,
    /// Mean and standard deviation.
    pub normal: Option<[Span; 2]>,
    /// Mean.
    pub exponential: Option<Span>,
    /// `keep` (packets stay in order) or `reorder`.
    #[serde(default)]
    pub order: Order,
}

/// Whether delay variation may reorder packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Packets stay in order.
    #[default]
    Keep,
    /// Each packet has its own delay.
    Reorder,
}

/// A queue limit: `100` packets, or bytes as `"64kB"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a number of packets (100) or a size (\"64kB\")")]
pub enum Queue {
    /// Packets.
    Packets(u64),
    /// Bytes.
    Bytes(Size),
}

/// Holding packets back.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets.
    pub probability: Share,
    /// For how long.
    pub by: Span,
}

impl Loss {
    /// As the emulator has it.
    ///
    /// # Errors
    /// There is no such process.
    pub fn model(&self) -> Result<model::Loss> {
        Ok(match self {
            Loss::Share(share) if share.fraction() == 0.0 => model::Loss::None,
            Loss::Share(share) => model::Loss::Bernoulli(share.fraction()),
            Loss::Mean(mean) => mean.model()?,
            Loss::Bursts(bursts) => model::Loss::GilbertElliott {
                to_bad: bursts.to_bad.fraction(),
                to_good: bursts.to_good.fraction(),
                good: bursts.good.fraction(),
                bad: bursts.bad.map_or(1.0, |bad| bad.fraction()),
            },
            Loss::List(list) => model::Loss::List(list.list.clone()),
        })
    }
}

impl MeanLoss {
    fn single() -> f64 {
        1.0
    }

    /// A packet turns good again with 1/burst, and bad as often as the mean wants it.
    fn model(&self) -> Result<model::Loss> {
        let (mean, burst) = (self.mean.fraction(), self.burst);
        ensure!(burst.is_finite() && burst >= 1.0, "loss.burst of {burst}: a burst has at least 1 packet");
        let to_bad = mean / (burst * (1.0 - mean));
        ensure!(
            burst == 1.0 || to_bad <= 1.0,
            "loss: a mean of {} needs bursts longer than {burst} packets",
            self.mean
        );
        Ok(match burst {
            _ if mean == 0.0 => model::Loss::None,
            1.0 => model::Loss::Bernoulli(mean),
            _ => model::Loss::GilbertElliott { to_bad, to_good: 1.0 / burst, good: 0.0, bad: 1.0 },
        })
    }
}

impl Variation {
    /// As the emulator has it.
    ///
    /// # Errors
    /// It has no distribution, or several.
    pub fn model(&self) -> Result<model::Variation> {
        let distribution = match (self.uniform, self.normal, self.exponential) {
            (Some(most), None, None) => model::Distribution::Uniform(most.into()),
            (None, Some([mean, deviation]), None) => model::Distribution::Normal(mean.into(), deviation.into()),
            (None, None, Some(mean)) => model::Distribution::Exponential(mean.into()),
            _ => bail!("variation: give exactly one of `uniform`, `normal` and `exponential`"),
        };
        let order = match self.order {
            Order::Keep => model::Order::Keep,
            Order::Reorder => model::Order::Reorder,
        };
        Ok(model::Variation { distribution, order })
    }
}

impl Queue {
    /// As the emulator has it.
    pub fn model(self) -> model::QueueLimit {
        match self {
            Queue::Packets(packets) => model::QueueLimit::Packets(packets),
            Queue::Bytes(size) => model::QueueLimit::Bytes(size.bytes),
        }
    }
}

impl Reorder {
    /// As the emulator has it.
    pub fn model(self) -> model::Reorder {
        model::Reorder { probability: self.probability.fraction(), by: self.by.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_of_any_length_lose_the_same_mean() {
        let loss = |burst| {
            let loss = MeanLoss { mean: "5%".parse().unwrap(), burst };
            loss.model().map_err(|error| error.to_string())
        };
        assert_eq!(loss(1.0), Ok(model::Loss::Bernoulli(0.05)));
        for burst in [2.0, 4.0, 16.0, 100.0] {
            let model::Loss::GilbertElliott { to_bad, to_good, good, bad } = loss(burst).unwrap() else { panic!() };
            // The stationary share of the bad state, by its balance: as often in as out.
            assert!((to_bad * 0.95 - to_good * 0.05).abs() < 1e-12);
            assert_eq!((to_good, good, bad), (1.0 / burst, 0.0, 1.0));
        }
        assert_eq!(loss(0.5).unwrap_err(), "loss.burst of 0.5: a burst has at least 1 packet");
    }
}
