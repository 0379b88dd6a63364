//! Lists and tables that people write as something else: what is expected is told as it is written, not by its type.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::document::Allow;

/// A list of texts: `["10.0.0.1"]`.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(List(PhantomData))
}

/// As [`list`], of a key that may be absent.
pub(super) fn some_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    list(deserializer).map(Some)
}

/// `[protect.allow]`, which is no list.
pub(super) fn allow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Allow>, D::Error> {
    deserializer.deserialize_any(Allowed).map(Some)
}

struct List<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts: write [\"...\"]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        Err(E::custom(format_args!("`{text}` is no list: write [{text:?}]")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

struct Allowed;

impl<'de> Visitor<'de> for Allowed {
    type Value = Allow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table: write allow = { sources = [\"192.0.2.9\"], destinations = [\"192.0.2.1\"] }")
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Allow, A::Error> {
        Allow::deserialize(MapAccessDeserializer::new(table))
    }
}
