//! The file as it is written: every key with its type, default and bounds, nothing checked against anything else.

use std::fmt;
use std::net::IpAddr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use weir_program::config::{Address, Checked, Many, UserName};
use weir_program::{config, keys, values};
use weir_units::{Size, Span};

use super::values::Network;
use weir_forward::settings::{self, Matching, OnLoop, Policy};

pub use weir_forward::settings::Destination;

keys! {
    /// A configuration of `weir tee`.
    pub struct Document {
        /// Threads that move datagrams. Without it: one per CPU, 4 at most.
        workers (fixed): Option<u16>, 1 to 256;
        /// Which rules count: the `first` that matches, or `all`; a destination still gets each datagram once.
        r#match: Matching = "first";
        /// What is done about sources that are also destinations: `off`, `warn` or `stop`.
        r#loop: OnLoop = "warn";
        /// How long a worker waits before it receives again when less than 64 messages came, so that more leave together.
        gather: Span = "0", "0" to "100ms";
        /// How long a stop may take to send what was received.
        drain: Span = "5s";
        /// Where `/metrics`, `/healthz`, `/readyz` and `/ledger` are served.
        admin (fixed): Option<Address>;
        /// The user to become once everything is open.
        user (fixed): Option<UserName>;
        /// Where datagrams come in.
        listener: Vec<Listener>;
        /// Where they go.
        destination: Vec<Destination>;
        /// Destinations under one name.
        group: Vec<Group>;
        /// Which go where. Without any: everything to every group, and to every destination that is in none.
        rule: Vec<Rule>;
    }
}

/// What its values have to be to one another is for [`Config`](super::Config) to say.
impl Checked for Document {
    fn check(&self, _: &config::Document<'_>) -> anyhow::Result<()> {
        Ok(())
    }
}

keys! {
    /// Where datagrams come in.
    pub struct Listener {
        /// What rules and metrics call it. Without it: its address.
        name: Option<String>;
        /// Address and port to bind; a multicast group is joined.
        address: Address;
        /// The last of a range of ports, of which `address` has the first. Each is a listener called `name:PORT`; in rules
        /// `name` is all of them.
        last_port: Option<u16>;
        /// Listen on this interface alone.
        interface: Option<String>;
        /// Multicast groups: `"239.1.1.1"`, or `{ group = "232.1.1.1", source = "10.0.0.9", interface = "eth1" }`.
        join: Option<Many<Join>>;
        /// Receive buffer to ask for; 0: the kernel's default. Without it: 8MiB, in `weir sflow serve` 16MiB. The log and the ledger
        /// show what the kernel grants: twice that.
        receive_buffer: Option<Size>;
    }
}

impl From<&settings::Listener> for Listener {
    fn from(listener: &settings::Listener) -> Self {
        let join = |joined: &settings::Membership| Join {
            group: joined.group,
            source: joined.source,
            interface: joined.interface.clone(),
        };
        let bytes = listener.receive_buffer.unwrap_or_default() as u64;
        Self {
            name: Some(listener.name.clone()),
            address: Address(listener.address),
            last_port: None,
            interface: listener.interface.clone(),
            join: (!listener.groups.is_empty()).then(|| Many(listener.groups.iter().map(join).collect())),
            receive_buffer: Some(Size { bytes }),
        }
    }
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

keys! {
    /// Destinations under one name.
    pub struct Group {
        /// What rules call it.
        name: String;
        /// How datagrams are shared out: `replicate`, `hash`, `round-robin` or `failover`.
        policy: Policy = "replicate";
        /// Names of destinations.
        members: Vec<String>;
    }
}

keys! {
    /// Which datagrams go where.
    pub struct Rule {
        /// What the ledger counts its datagrams under. Without it: `rule 1` and so on.
        name: Option<String>;
        /// Source networks or addresses. Without it: any.
        from: Option<Many<Network>>;
        /// Names of listeners. Without it: any.
        listener: Option<Many<String>>;
        /// Names of destinations and groups; `[]`: nowhere, and counted as discarded. It is required.
        to: Option<Many<String>>;
    }
}

values! { Join = "group", Network = "network" }

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
