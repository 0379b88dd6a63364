//! Values of the file: networks, lists that may be one value.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

pub use weir_program::config::Address;

/// `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Network(pub IpNet);

weir_program::values! { Network = "network" }

/// A value, or a list of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct List<T>(pub Vec<T>);

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
