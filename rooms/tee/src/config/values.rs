//! Values of the file: addresses, networks, lists that may be one value, choices.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::settings::Target;

pub use weir_program::config::Address;

/// `10.0.0.1:514`, `siem.example:514`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoint(pub Target);

/// `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Network(pub IpNet);

/// A value, or a list of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct List<T>(pub Vec<T>);

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `192.0.2.7:514`, `[2001:db8::7]:514` or `siem.example:514`; nothing is looked up.
    fn from_str(text: &str) -> Result<Self, String> {
        let example =
            || format!("`{text}`: write HOST:PORT, e.g. 192.0.2.7:514, [2001:db8::7]:514 or siem.example:514");
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(example)?;
        if let Some((address, interface)) = host.split_once('%') {
            return Err(format!(
                "`{text}`: write {address}]:{port} and the interface by itself: interface = \"{}\"",
                interface.trim_end_matches(']')
            ));
        }
        let port = port.parse().map_err(|_| example())?;
        // Underscores are no part of host names, and part of service names.
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let labels = host.strip_suffix('.').unwrap_or(host);
        // What ends in a number is meant as an address, and is none.
        let is_number = labels.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        if labels.len() > 253 || is_number || !labels.split('.').all(is_label) {
            return Err(example());
        }
        Ok(Self::Name(host.to_owned(), port))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network: IpNet = network
            .map_err(|_| format!("`{text}`: write a network or an address, e.g. 10.0.0.0/8 or 2001:db8::/32"))?;
        if network.trunc() != network {
            let (all, one) = (network.trunc(), network.addr());
            return Err(format!(
                "`{text}`: an address behind which a prefix stands (write {all} for all, {one} for one)"
            ));
        }
        Ok(Self(network))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for OneOrMore<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
                T::deserialize(StrDeserializer::new(text)).map(|one| vec![one])
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = sequence.next_element()? {
                    list.push(value);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_any(OneOrMore(PhantomData)).map(List)
    }
}
