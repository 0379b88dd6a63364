//! The file as it is written: every key with its type, nothing checked against anything else.

use std::fmt;
use std::net::IpAddr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_units::{BitRate, Frequency, Size, Span};

use super::values::{Address, List, Network};
use crate::settings::{Matching, OnLoop, Policy, Source, Target};

/// A configuration of `weir tee`. `None`: the default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Threads that move datagrams.
    pub workers: Option<usize>,
    /// Which of several matching rules count.
    #[serde(rename = "match")]
    pub matching: Option<Matching>,
    /// What is done about what is sent and comes back.
    #[serde(rename = "loop")]
    pub on_loop: Option<OnLoop>,
    /// How long a joined send may wait for more.
    pub gather: Option<Span>,
    /// How long a stop may take.
    pub drain: Option<Span>,
    /// Where `/metrics` and `/healthz` are served.
    pub admin: Option<Address>,
    /// The user to become once every socket is open.
    pub user: Option<String>,
    /// Where datagrams come in.
    #[serde(rename = "listener", default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Listener>,
    /// Where they go.
    #[serde(rename = "destination", default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<Destination>,
    /// Destinations under one name.
    #[serde(rename = "group", default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Which go where.
    #[serde(rename = "rule", default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// `[[listener]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Absent: its address.
    pub name: Option<String>,
    /// Address and port to bind.
    pub address: Address,
    /// The last of the ports to bind; absent: that of `address` alone.
    pub last_port: Option<u16>,
    /// Interface to listen on alone.
    pub interface: Option<String>,
    /// Multicast groups.
    pub join: Option<List<Join>>,
    /// Receive buffer; 0: the kernel's default.
    pub receive_buffer: Option<Size>,
}

/// `"239.1.1.1"` or `{ group, source, interface }`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Join {
    /// The multicast group.
    pub group: IpAddr,
    /// The one source to hear.
    pub source: Option<IpAddr>,
    /// Where to join.
    pub interface: Option<String>,
}

/// `[[destination]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Absent: its address as written.
    pub name: Option<String>,
    /// Address or host name, and port.
    pub to: Target,
    /// Which addresses of a host name.
    pub addresses: Option<Addresses>,
    /// What the destination sees as the source.
    pub source: Option<Source>,
    /// Local address and port to send from.
    pub from: Option<Address>,
    /// Interface to send through.
    pub interface: Option<String>,
    /// TTL or hop limit.
    pub ttl: Option<i64>,
    /// Whether each datagram leaves with one hop less than it came with.
    pub hop_guard: Option<bool>,
    /// Differentiated services code point.
    pub dscp: Option<i64>,
    /// Bytes of the longest packet with a kept source.
    pub mtu: Option<i64>,
    /// Whether this machine hears multicast that it sends.
    pub loopback: Option<bool>,
    /// Send buffer; 0: the kernel's default.
    pub send_buffer: Option<Size>,
    /// What may wait.
    pub queue: Option<Size>,
    /// Most datagrams a second.
    pub rate: Option<Frequency>,
    /// Most payload bits a second.
    pub bandwidth: Option<BitRate>,
    /// One of so many.
    pub sample: Option<u32>,
    /// The first of each so many.
    pub every: Option<u32>,
    /// Whether its answers go back.
    pub replies: Option<bool>,
    /// Clients that it may have at a time.
    pub sessions: Option<u32>,
    /// How long a session may be silent.
    pub session_timeout: Option<Span>,
    /// How to find out whether it lives.
    pub probe: Option<Probe>,
}

impl Destination {
    /// One with every default.
    pub fn to(to: Target) -> Self {
        Self {
            name: None,
            to,
            addresses: None,
            source: None,
            from: None,
            interface: None,
            ttl: None,
            hop_guard: None,
            dscp: None,
            mtu: None,
            loopback: None,
            send_buffer: None,
            queue: None,
            rate: None,
            bandwidth: None,
            sample: None,
            every: None,
            probe: None,
            replies: None,
            sessions: None,
            session_timeout: None,
        }
    }
}

/// Which addresses of a host name get a copy: `"first"`, `"all"` or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The first that the resolver gives.
    First,
    /// Each, as far as that is hardly a mistake.
    All,
    /// Each, but no more than so many.
    Most(u32),
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::First => serializer.serialize_str("first"),
            Self::All => serializer.serialize_str("all"),
            Self::Most(most) => serializer.serialize_u32(*most),
        }
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrNumber;

        impl Visitor<'_> for WordOrNumber {
            type Value = Addresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"first\", \"all\" or the most addresses to send to, e.g. 100")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Addresses, E> {
                match text {
                    "first" => Ok(Addresses::First),
                    "all" => Ok(Addresses::All),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Addresses, E> {
                u32::try_from(number)
                    .map(Addresses::Most)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }

        deserializer.deserialize_any(WordOrNumber)
    }
}

/// `{ tcp = 6514 }` or `{ ping = true }`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Connect to this TCP port.
    pub tcp: Option<u16>,
    /// ICMP echo.
    pub ping: Option<bool>,
    /// From one try to the next.
    pub interval: Option<Span>,
    /// When a try has failed.
    pub timeout: Option<Span>,
}

/// `[[group]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What rules call it.
    pub name: String,
    /// How datagrams are shared out.
    pub policy: Option<Policy>,
    /// Names of destinations.
    pub members: List<String>,
}

/// `[[rule]]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Absent: `rule 1` and so on.
    pub name: Option<String>,
    /// Sources; absent: any.
    pub from: Option<List<Network>>,
    /// Names of listeners; absent: any.
    pub listener: Option<List<String>>,
    /// Names of destinations and groups.
    pub to: List<String>,
}

impl<'de> Deserialize<'de> for Join {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            group: Group,
            source: Option<Group>,
            interface: Option<String>,
        }

        #[derive(Deserialize)]
        #[serde(try_from = "String")]
        struct Group(IpAddr);

        impl TryFrom<String> for Group {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse().map(Self).map_err(|_| format!("`{text}`: write an address, e.g. 239.1.1.1 or ff15::1"))
            }
        }

        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = Join;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a multicast group as \"239.1.1.1\" or { group, source, interface }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Join, E> {
                let Group(group) = text.to_owned().try_into().map_err(E::custom)?;
                Ok(Join { group, source: None, interface: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Join, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let source = table.source.map(|Group(source)| source);
                Ok(Join { group: table.group.0, source, interface: table.interface })
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}
