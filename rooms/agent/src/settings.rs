//! What the agent is to do, validated: made by `config` from a file or by flags, carried out by everything else.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_service::Target;

/// Everything one `weir sflow agent` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who is told; each once, at least one.
    pub collectors: Vec<Target>,
    /// The address by which collectors know the agent; `None`: the one from which the first collector is reached.
    pub agent: Option<IpAddr>,
    /// Interfaces that are counted and sampled; empty: all but loopback.
    pub interfaces: Vec<Pattern>,
    /// From one counter sample of a data source to the next.
    pub polling: Duration,
    /// How many packets are sampled.
    pub sampling: Sampling,
    /// Most flow samples a second, at least 1; what is beyond is shed, and counted.
    pub most_samples: u32,
    /// Most dropped packets a second that a sample tells of; the others are counted alone. 0: drops are not traced.
    pub most_drops: u32,
}

/// Of how many packets one is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// None is sampled.
    Off,
    /// As many as the interface has Mbit/s, as host-sflow has it: 1,000 at 1 Gbit/s; 400 where its speed is not known.
    BySpeed,
    /// So many, at each interface.
    One(NonZeroU32),
}

impl Sampling {
    /// The rate of an interface of so many Mbit/s; `None`: it is not sampled.
    pub(crate) fn rate(self, speed_mbit: Option<u32>) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::BySpeed => Some(speed_mbit.map_or(UNKNOWN_SPEED, |speed| speed.max(LEAST))),
            Self::One(rate) => Some(rate.get()),
        }
    }
}

/// The rate where the speed is not known.
const UNKNOWN_SPEED: u32 = 400;

/// The rate of slow interfaces.
const LEAST: u32 = 100;

/// Names of interfaces: `eth0`, `eth*`; `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Pattern(pub String);

impl Pattern {
    /// Whether an interface has such a name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, matches) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth01", true),
            ("eth*", "veth0", false),
            ("*", "", true),
            ("*.7", "eth0.7", true),
            ("e*h*1", "eth01", true),
            ("e*h*1", "eth02", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(Pattern(pattern.into()).matches(name), matches, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_with_parts_left_out_matches(a in "[a-z]{0,4}", b in "[a-z]{0,4}", c in "[a-z]{0,4}", d in "[a-z]{0,4}") {
            let name = format!("{a}{b}{c}{d}");
            for pattern in [format!("{a}*{c}*"), format!("*{b}*{d}")] {
                prop_assert!(Pattern(pattern).matches(&name));
            }
        }
    }

    #[test]
    fn rates_follow_the_speed() {
        let rate = |speed| Sampling::BySpeed.rate(speed);
        assert_eq!(
            [rate(Some(10)), rate(Some(1000)), rate(Some(100_000)), rate(None)],
            [100, 1000, 100_000, 400].map(Some)
        );
        assert_eq!(Sampling::Off.rate(Some(1000)), None);
    }
}
