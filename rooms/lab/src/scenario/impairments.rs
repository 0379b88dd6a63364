//! Impairments in the syntax of a scenario, and their form in the emulator.

use anyhow::{Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use toml::{Table, Value};
use weir_emulator::model;
use weir_program::config::one_line;
use weir_units::{Share, Size, Span, UnitError};

/// Planned loss: `"5%"`, `{ mean = "5%", burst = 4 }`, `{ to_bad = "1%", to_good = "25%" }` or `{ list = [3, 17] }`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Value", untagged)]
pub enum Loss {
    /// Each packet independently.
    Share(Share),
    /// In bursts, or a list of packets.
    Keys(LossKeys),
}

/// Loss by keys: `mean` and `burst`, `to_bad` and `to_good`, or `list`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LossKeys {
    /// Mean share of packets lost: all in the bad state, none in the good one.
    pub mean: Option<Share>,
    /// Mean length of a burst, packets; absent or 1: each packet independently.
    pub burst: Option<f64>,
    /// Probability per packet of turning bad, see [`weir_emulator::model::Loss::GilbertElliott`].
    pub to_bad: Option<Share>,
    /// Probability per packet of turning good again.
    pub to_good: Option<Share>,
    /// Loss in the good state; absent: 0.
    pub good: Option<Share>,
    /// Loss in the bad state; absent: all.
    pub bad: Option<Share>,
    /// Indexes of the lost packets of every flow, from 0.
    pub list: Option<Vec<u64>>,
}

/// Delay variation: exactly one distribution, and whether it may reorder.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a distribution, e.g. { uniform = \"2ms\" }")]
pub struct Variation {
    /// Uniform between 0 and this.
    pub uniform: Option<Span>,
    /// Mean and standard deviation.
    pub normal: Option<[Span; 2]>,
    /// Its mean.
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

/// A queue limit: packets (`100`), bytes (`"64kB"`), what the link sends in a time (`"100ms"`), or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Queue {
    /// Packets.
    Packets(u64),
    /// Bytes.
    Bytes(Size),
    /// What the rate, or on average the trace, sends in this time, but at least 15 kB.
    Time(Span),
    /// No limit.
    Unlimited,
}

/// Packets that are held back.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table, e.g. { probability = \"1%\", by = \"3ms\" }")]
pub struct Reorder {
    /// Share of packets.
    pub probability: Share,
    /// Time that they are held back.
    pub by: Span,
}

impl Loss {
    /// The same for the emulator.
    ///
    /// # Errors
    /// No process has these keys.
    pub fn model(&self) -> Result<model::Loss> {
        let keys = match self {
            Loss::Share(share) => &LossKeys { mean: Some(*share), ..LossKeys::default() },
            Loss::Keys(keys) => keys,
        };
        let LossKeys { mean, burst, to_bad, to_good, good, bad, list } = keys;
        let [has_mean, has_bursts] =
            [mean.is_some() || burst.is_some(), [to_bad, to_good, good, bad].iter().any(|key| key.is_some())];
        match (mean, to_bad.zip(*to_good), list) {
            (Some(mean), _, None) if !has_bursts => of_mean(*mean, burst.unwrap_or(1.0)),
            (_, Some((to_bad, to_good)), None) if !has_mean => Ok(model::Loss::GilbertElliott {
                to_bad: to_bad.fraction(),
                to_good: to_good.fraction(),
                good: good.map_or(0.0, Share::fraction),
                bad: bad.map_or(1.0, Share::fraction),
            }),
            (_, _, Some(list)) if !has_mean && !has_bursts => Ok(model::Loss::List(list.clone())),
            _ => bail!("a loss has either `mean`, `to_bad` and `to_good`, or `list`"),
        }
    }
}

/// A packet turns good again with probability 1/burst, and bad as often as the mean requires.
fn of_mean(share: Share, burst: f64) -> Result<model::Loss> {
    let mean = share.fraction();
    ensure!(burst.is_finite() && burst >= 1.0, "loss.burst of {burst}: must be at least 1 packet");
    let to_bad = mean / (burst * (1.0 - mean));
    ensure!(burst == 1.0 || to_bad <= 1.0, "loss: a mean of {share} needs bursts longer than {burst} packets");
    Ok(match burst {
        _ if mean == 0.0 => model::Loss::None,
        1.0 => model::Loss::Bernoulli(mean),
        _ => model::Loss::GilbertElliott { to_bad, to_good: 1.0 / burst, good: 0.0, bad: 1.0 },
    })
}

impl Variation {
    /// The same for the emulator.
    ///
    /// # Errors
    /// It has no distribution, or several.
    pub fn model(&self) -> Result<model::Variation> {
        let distribution = match (self.uniform, self.normal, self.exponential) {
            (Some(max), None, None) => model::Distribution::Uniform(max.into()),
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

impl TryFrom<Value> for Loss {
    type Error = String;

    fn try_from(value: Value) -> Result<Loss, String> {
        let loss = match value {
            Value::String(share) => share.parse().map(Loss::Share).map_err(|error: UnitError| error.to_string()),
            Value::Integer(number) => share_of_number(&number).map(Loss::Share),
            Value::Float(number) => share_of_number(&number).map(Loss::Share),
            Value::Table(table) => of_table(table).map(Loss::Keys),
            other => Err(format!("{other}: a loss is a share, e.g. \"5%\", or a table of keys")),
        }?;
        loss.model().map(|_| loss).map_err(|error| error.to_string())
    }
}

/// Only 0 needs no unit.
fn share_of_number(number: &impl ToString) -> Result<Share, String> {
    number.to_string().parse().map_err(|error: UnitError| error.to_string())
}

/// Reads a table; a mistake in a value names its key.
pub(super) fn of_table<T: DeserializeOwned>(table: Table) -> Result<T, String> {
    T::deserialize(table).map_err(|error| {
        let (message, said) = (one_line(&error), error.to_string());
        let key = said.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
        match key.filter(|_| !message.starts_with("unknown key")) {
            Some(key) => format!("{key}: {message}"),
            None => message,
        }
    })
}

impl Queue {
    /// The default for a link with a rate or a trace.
    pub const DEFAULT: Queue = Queue::Time(Span::from_millis(100));

    /// The same for the emulator, for a link of this many bits per second.
    pub fn model(self, bits_per_second: f64) -> model::QueueLimit {
        match (self, self.bytes(bits_per_second)) {
            (Queue::Packets(packets), _) => model::QueueLimit::Packets(packets),
            (_, Some(bytes)) => model::QueueLimit::Bytes(bytes),
            (_, None) => model::QueueLimit::Unlimited,
        }
    }

    /// Its limit in bytes. `None`: a limit in packets, or no limit.
    fn bytes(self, bits_per_second: f64) -> Option<u64> {
        match self {
            Queue::Bytes(size) => Some(size.bytes),
            Queue::Time(time) => Some(TEN_PACKETS.max((time.duration().as_secs_f64() * bits_per_second / 8.0) as u64)),
            Queue::Packets(_) | Queue::Unlimited => None,
        }
    }
}

/// Min bytes of a queue given as a time: at a low rate it would not hold a single packet.
const TEN_PACKETS: u64 = 15_000;

impl TryFrom<Value> for Queue {
    type Error = String;

    fn try_from(value: Value) -> Result<Queue, String> {
        const FORMS: &str =
            "a queue is packets (100), bytes (\"64kB\"), what the link sends in a time (\"100ms\"), or \"unlimited\"";
        match &value {
            Value::Integer(packets) => {
                u64::try_from(*packets).map(Queue::Packets).map_err(|_| format!("{packets}: {FORMS}"))
            }
            Value::String(word) if word == "unlimited" => Ok(Queue::Unlimited),
            Value::String(text) => match (text.parse(), text.parse()) {
                (Ok(size), _) => Ok(Queue::Bytes(size)),
                (_, Ok(time)) => Ok(Queue::Time(time)),
                _ => Err(format!("`{text}`: {FORMS}")),
            },
            other => Err(format!("{other}: {FORMS}")),
        }
    }
}

impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Queue::Packets(packets) => packets.serialize(serializer),
            Queue::Bytes(size) => size.serialize(serializer),
            Queue::Time(time) => time.serialize(serializer),
            Queue::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl Reorder {
    /// The same for the emulator.
    pub fn model(self) -> model::Reorder {
        model::Reorder { probability: self.probability.fraction(), by: self.by.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_bounded_by_what_the_link_sends() {
        let queue = |text: &str| Queue::try_from(Value::String(text.into()));
        let limit = |text: &str, rate| queue(text).map(|queue| queue.model(rate));
        // 10 Mbit/s for a tenth of a second.
        assert_eq!(limit("100ms", 1e7), Ok(model::QueueLimit::Bytes(125_000)));
        assert_eq!(limit("64kB", 1e6), Ok(model::QueueLimit::Bytes(64_000)));
        assert_eq!(limit("unlimited", 1e6), Ok(model::QueueLimit::Unlimited));
        assert_eq!(Queue::try_from(Value::Integer(9)).map(|queue| queue.model(1.0)), Ok(model::QueueLimit::Packets(9)));
        for (rate, bytes) in [(1e9, 12_500_000), (1.2e6, 15_000), (1e6, 15_000), (8.0, 15_000)] {
            assert_eq!(Queue::DEFAULT.model(rate), model::QueueLimit::Bytes(bytes), "{rate}");
        }
        for wrong in [Value::String("64".into()), Value::String("many".into()), Value::Integer(-1), Value::Float(0.5)] {
            let mistake = Queue::try_from(wrong).unwrap_err();
            assert!(mistake.ends_with("what the link sends in a time (\"100ms\"), or \"unlimited\""), "{mistake}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_loss_is_said() {
        let mistakes = [
            "\"105%\"",
            "5",
            "0.05",
            "{ mean = \"5\", burst = 4 }",
            "{ mean = \"5%\", brust = 4 }",
            "{ maen = \"5%\" }",
            "{ to_bad = \"1%\" }",
            "{ list = \"3\" }",
            "true",
            "{}",
        ];
        let said = mistakes.map(|text| {
            let value = format!("loss = {text}").parse::<Table>().unwrap().remove("loss").unwrap();
            Loss::try_from(value).unwrap_err()
        });
        assert_eq!(
            said,
            [
                "`105%`: a share is between 0% and 100%",
                "`5`: a share needs a unit, e.g. 5%",
                "`0.05`: a share is written in percent, e.g. \"5%\"",
                "mean: `5`: a share needs a unit, e.g. \"5%\"",
                "unknown key `brust`, did you mean `burst`?",
                "unknown key `maen`, did you mean `mean`?",
                "a loss has either `mean`, `to_bad` and `to_good`, or `list`",
                "list: invalid type: string \"3\", expected a sequence",
                "true: a loss is a share, e.g. \"5%\", or a table of keys",
                "a loss has either `mean`, `to_bad` and `to_good`, or `list`",
            ]
        );
        assert_eq!(Loss::try_from(Value::Integer(0)), Ok(Loss::Share(Share::default())));
    }

    #[test]
    fn bursts_of_any_length_lose_the_same_mean() {
        let loss = |burst| of_mean("5%".parse().unwrap(), burst).map_err(|error| error.to_string());
        assert_eq!(loss(1.0), Ok(model::Loss::Bernoulli(0.05)));
        for burst in [2.0, 4.0, 16.0, 100.0] {
            let model::Loss::GilbertElliott { to_bad, to_good, good, bad } = loss(burst).unwrap() else { panic!() };
            // The stationary share of the bad state, by its balance: as often in as out.
            assert!((to_bad * 0.95 - to_good * 0.05).abs() < 1e-12);
            assert_eq!((to_good, good, bad), (1.0 / burst, 0.0, 1.0));
        }
        assert_eq!(loss(0.5).unwrap_err(), "loss.burst of 0.5: must be at least 1 packet");
    }
}
