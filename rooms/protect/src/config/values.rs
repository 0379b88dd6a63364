//! Values of the file that have a form of their own.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

/// An agent, or a network of them; its sub-agents, and where its datagrams come from, if not from itself: `10.0.0.1 sub-agents 0,3 from
/// 192.0.2.9`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter {
    /// Its address as its datagrams tell it.
    pub agent: IpNet,
    /// Where they come from; `None`: from that same address.
    pub from: Option<IpNet>,
    /// Its sub-agents; `None`: the one that is heard first, and others after their probation.
    pub sub_agents: Option<Vec<u32>>,
}

/// A standard community (RFC 1997): `65535:666`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Community(pub u16, pub u16);

/// A route target, AS:NN (RFC 4360, RFC 5668): of an AS above 65,535 the number has 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTarget {
    /// The AS.
    pub asn: u32,
    /// The number within it.
    pub number: u32,
}

/// How often at most: `1/year`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rarity {
    /// Times.
    pub times: f64,
    /// In what.
    pub per: Per,
}

/// A length of time that [`Rarity`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// 86,400 s.
    Day,
    /// 7 days.
    Week,
    /// A twelfth of a year.
    Month,
    /// 365.25 days.
    Year,
}

impl Rarity {
    /// Times a second.
    pub fn per_second(self) -> f64 {
        self.times / self.per.seconds()
    }
}

impl Per {
    const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    fn seconds(self) -> f64 {
        const DAY: f64 = 86_400.0;
        match self {
            Self::Day => DAY,
            Self::Week => 7.0 * DAY,
            Self::Month => 365.25 / 12.0 * DAY,
            Self::Year => 365.25 * DAY,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network
            .map(Self)
            .map_err(|_| format!("`{text}`: write a network or an address, e.g. 192.0.2.0/24 or 2001:db8::/48"))
    }
}

impl FromStr for Exporter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = |text: &str| Some(text.trim().parse::<Network>().ok()?.0);
        let parts = || {
            let (agent, from) = text.split_once(" from ").map_or((text, None), |(agent, from)| (agent, Some(from)));
            let (agent, named) =
                agent.split_once(" sub-agents ").map_or((agent, None), |(agent, named)| (agent, Some(named)));
            let numbers = |named: &str| -> Option<Vec<u32>> {
                named.split(',').map(|number| number.trim().parse().ok()).collect()
            };
            Some(Self {
                agent: network(agent)?,
                from: from.map_or(Some(None), |from| network(from).map(Some))?,
                sub_agents: named.map_or(Some(None), |named| numbers(named).map(Some))?,
            })
        };
        parts().ok_or_else(|| {
            format!(
                "`{text}`: write an agent, e.g. 10.0.0.1, 10.0.0.0/24, 10.0.0.1 from 192.0.2.9 or 10.0.0.1 sub-agents 0,3"
            )
        })
    }
}

impl FromStr for Community {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(asn, number)| Some(Self(asn.parse().ok()?, number.parse().ok()?)));
        parts.ok_or_else(|| format!("`{text}`: write a community, AS:NN of 16 bits each, e.g. 65535:666"))
    }
}

impl FromStr for RouteTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(asn, number)| {
            let target = Self { asn: asn.parse().ok()?, number: number.parse().ok()? };
            (target.asn <= 0xffff || target.number <= 0xffff).then_some(target)
        });
        parts.ok_or_else(|| format!("`{text}`: write a route target, AS:NN, e.g. 65000:100"))
    }
}

impl FromStr for Rarity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(times, per)| {
            let times: f64 = times.trim().parse().ok().filter(|times| (1e-6..=1e6).contains(times))?;
            let per = Per::ALL.into_iter().find(|known| known.name() == per.trim())?;
            Some(Self { times, per })
        });
        parts.ok_or_else(|| format!("`{text}`: write how often, e.g. 1/year, 0.5/month, 2/week or 1/day"))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.agent.fmt(f)?;
        let named: Vec<String> = self.sub_agents.iter().flatten().map(u32::to_string).collect();
        if !named.is_empty() {
            write!(f, " sub-agents {}", named.join(","))?;
        }
        self.from.map_or(Ok(()), |from| write!(f, " from {from}"))
    }
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.asn, self.number)
    }
}

impl fmt::Display for Rarity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.times, self.per.name())
    }
}

/// Configuration form: a string.
macro_rules! as_text {
    ($($type:ident),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

as_text!(Network, Exporter, Community, RouteTarget, Rarity);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        for text in ["1/year", "0.5/month", "2/week", "10/day"] {
            assert_eq!(text.parse::<Rarity>().unwrap().to_string(), text);
        }
        for text in [
            "10.0.0.1/32",
            "10.0.0.0/24 from 192.0.2.9/32",
            "2001:db8::/32",
            "10.0.0.1/32 sub-agents 0,3",
            "10.0.0.1/32 sub-agents 7 from 192.0.2.9/32",
        ] {
            assert_eq!(text.parse::<Exporter>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1 sub-agents", "10.0.0.1 sub-agents a", "10.0.0.1 sub-agents 0,", "10.0.0.1 from"] {
            assert!(text.parse::<Exporter>().is_err(), "{text}");
        }
        for text in ["65535:666", "0:1"] {
            assert_eq!(text.parse::<Community>().unwrap().to_string(), text);
        }
        for text in ["65000:100", "4200000000:65535", "65535:4200000000"] {
            assert_eq!(text.parse::<RouteTarget>().unwrap().to_string(), text);
        }
        for text in ["1", "1/s", "0/year", "-1/year", "nan/year", "1e9/day"] {
            assert!(text.parse::<Rarity>().is_err(), "{text}");
        }
        assert!("65536:1".parse::<Community>().is_err() && "70000:70000".parse::<RouteTarget>().is_err());
        let (year, day) = ("365.25/year".parse::<Rarity>().unwrap(), "1/day".parse::<Rarity>().unwrap());
        assert!((year.per_second() / day.per_second() - 1.0).abs() < 1e-12);
    }
}
