//! Values of the file that have a form of their own.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

/// An agent, or a network of them, and where its datagrams come from, if not from itself: `10.0.0.1 from 192.0.2.9`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter {
    /// Its address as its datagrams tell it.
    pub agent: IpNet,
    /// Where they come from; `None`: from that same address.
    pub from: Option<IpNet>,
}

/// A community, as routers write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Community {
    /// RFC 1997: `65535:666`.
    Standard(u16, u16),
    /// RFC 4360: `rt:64500:666`, `soo:64500:666`, or eight bytes as `0x0002fbf40000029a`.
    Extended([u8; 8]),
    /// RFC 8092: `64500:666:0`.
    Large([u32; 3]),
}

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
    times: f64,
    /// In what: its name, and how many days it has.
    per: (&'static str, f64),
}

const PER: [(&str, f64); 4] = [("day", 1.0), ("week", 7.0), ("month", 365.25 / 12.0), ("year", 365.25)];

impl Rarity {
    /// Times a second.
    pub fn per_second(self) -> f64 {
        self.times / (self.per.1 * 86_400.0)
    }
}

impl Network {
    /// The prefix.
    ///
    /// # Errors
    /// It has bits after its prefix, or is IPv4 in IPv6's form: in words, and what to write.
    pub fn whole(self) -> Result<IpNet, String> {
        if let Some(meant) = ipv4_of(self.0) {
            return Err(format!("is IPv4 in IPv6's form, which no packet has: write \"{meant}\""));
        }
        let (meant, alone) = (self.0.trunc(), self.0.addr());
        let after = || format!("has bits after its prefix: write \"{meant}\", or \"{alone}\" alone");
        (meant == self.0).then_some(meant).ok_or_else(after)
    }
}

/// The IPv4 network that an IPv4-mapped one (RFC 4291) is.
fn ipv4_of(network: IpNet) -> Option<IpNet> {
    let IpAddr::V6(address) = network.addr() else { return None };
    let length = network.prefix_len().checked_sub(96)?;
    Some(IpNet::new(IpAddr::V4(address.to_ipv4_mapped()?), length).ok()?.trunc())
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network
            .map(Self)
            .map_err(|_| format!("`{text}`: write a network or an address, e.g. \"192.0.2.0/24\" or \"2001:db8::/48\""))
    }
}

impl FromStr for Exporter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = |text: &str| Some(text.trim().parse::<Network>().ok()?.0);
        let parts = || {
            let (agent, from) = text.split_once(" from ").map_or((text, None), |(agent, from)| (agent, Some(from)));
            Some(Self { agent: network(agent)?, from: from.map_or(Some(None), |from| network(from).map(Some))? })
        };
        parts().ok_or_else(|| {
            format!("`{text}`: write an agent, e.g. \"10.0.0.1\", \"10.0.0.0/24\" or \"10.0.0.1 from 192.0.2.9\"")
        })
    }
}

impl FromStr for Community {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let read = || match parts[..] {
            [kind, asn, number] if EXTENDED.iter().any(|(_, name)| *name == kind) => {
                let (subtype, _) = EXTENDED.iter().find(|(_, name)| *name == kind)?;
                format!("{asn}:{number}").parse::<RouteTarget>().ok()?.extended(0, *subtype).map(Self::Extended)
            }
            [asn, first, second] => Some(Self::Large([asn.parse().ok()?, first.parse().ok()?, second.parse().ok()?])),
            [asn, number] => Some(Self::Standard(asn.parse().ok()?, number.parse().ok()?)),
            _ => {
                let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 16)?;
                u64::from_str_radix(digits, 16).ok().map(|bytes| Self::Extended(bytes.to_be_bytes()))
            }
        };
        read().ok_or_else(|| {
            format!(
                "`{text}`: write a community, e.g. \"65535:666\", large \"64500:666:0\", or extended \"rt:64500:666\""
            )
        })
    }
}

/// Extended communities that have names: their subtypes (RFC 4360, sections 4 and 5).
const EXTENDED: [(u8, &str); 2] = [(2, "rt"), (3, "soo")];

impl RouteTarget {
    /// As an extended community: of this type if its AS has two bytes, else of that of four bytes (RFC 5668). `None`: it does not fit.
    pub(crate) fn extended(self, kind: u8, subtype: u8) -> Option<[u8; 8]> {
        let (asn, number) = (self.asn.to_be_bytes(), self.number.to_be_bytes());
        match (asn, number) {
            ([0, 0, a, b], [c, d, e, f]) => Some([kind, subtype, a, b, c, d, e, f]),
            ([a, b, c, d], [0, 0, e, f]) => Some([kind | 2, subtype, a, b, c, d, e, f]),
            _ => None,
        }
    }
}

impl FromStr for RouteTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(asn, number)| {
            let target = Self { asn: asn.parse().ok()?, number: number.parse().ok()? };
            (target.asn <= 0xffff || target.number <= 0xffff).then_some(target)
        });
        parts.ok_or_else(|| format!("`{text}`: write a route target, AS:NN, e.g. \"65000:100\""))
    }
}

impl FromStr for Rarity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(times, per)| {
            let times: f64 = times.trim().parse().ok().filter(|times| (1e-6..=1e6).contains(times))?;
            let per = PER.into_iter().find(|(name, _)| *name == per.trim())?;
            Some(Self { times, per })
        });
        parts.ok_or_else(|| {
            format!("`{text}`: write how often, e.g. \"1/year\", \"0.5/month\", \"2/week\" or \"1/day\"")
        })
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
        self.from.map_or(Ok(()), |from| write!(f, " from {from}"))
    }
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Standard(asn, number) => write!(f, "{asn}:{number}"),
            Self::Large([asn, first, second]) => write!(f, "{asn}:{first}:{second}"),
            Self::Extended(bytes) => write!(f, "0x{:016x}", u64::from_be_bytes(bytes)),
        }
    }
}

impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.asn, self.number)
    }
}

impl fmt::Display for Rarity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.times, self.per.0)
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
        for text in ["10.0.0.1/32", "10.0.0.0/24 from 192.0.2.9/32", "2001:db8::/32"] {
            assert_eq!(text.parse::<Exporter>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1 sub-agents 0", "10.0.0.1 from"] {
            assert!(text.parse::<Exporter>().is_err(), "{text}");
        }
        for text in ["65535:666", "0:1", "64500:4200000000:0", "0x0002fbf40000029a"] {
            assert_eq!(text.parse::<Community>().unwrap().to_string(), text);
        }
        for text in ["65000:100", "4200000000:65535", "65535:4200000000"] {
            assert_eq!(text.parse::<RouteTarget>().unwrap().to_string(), text);
        }
        for text in ["1", "1/s", "0/year", "-1/year", "nan/year", "1e9/day"] {
            assert!(text.parse::<Rarity>().is_err(), "{text}");
        }
        for (text, bytes) in [("rt:64500:666", 0x0002_fbf4_0000_029a_u64), ("soo:4200000000:7", 0x0203_fa56_ea00_0007)]
        {
            assert_eq!(text.parse::<Community>(), Ok(Community::Extended(bytes.to_be_bytes())));
        }
        for text in ["1", "rt:1", "4294967296:1:1", "0x12", "rt:70000:70000", "color:1:1"] {
            assert!(text.parse::<Community>().is_err(), "{text}");
        }
        assert!("65536:1".parse::<Community>().is_err() && "70000:70000".parse::<RouteTarget>().is_err());
        let (year, day) = ("365.25/year".parse::<Rarity>().unwrap(), "1/day".parse::<Rarity>().unwrap());
        assert!((year.per_second() / day.per_second() - 1.0).abs() < 1e-12);
    }
}
