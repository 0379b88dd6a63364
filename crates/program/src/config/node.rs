//! A value of a document for serde. Each visitor is compiled once, for this reader alone, and each error knows its
//! place.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor, value,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::did_you_mean;

/// A value, and the places left out of the document.
#[derive(Clone, Copy)]
pub(super) struct Node<'de> {
    value: &'de Spanned<DeValue<'de>>,
    left_out: &'de LeftOut,
    /// A key of the table that named the variant, and is not part of it.
    tag: &'de str,
}

/// The places that have errors already.
pub(super) type LeftOut = BTreeSet<(usize, usize)>;

/// Why a value does not fit its type.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) message: String,
    /// Place of the key or the value. `None`: not known yet.
    pub(super) place: Option<Range<usize>>,
    pub(super) kind: MistakeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MistakeKind {
    /// Of a value: the message does not name the key.
    Value,
    /// The message names the key.
    Key,
    /// Of a table that must be an element of a list.
    Several,
    /// A key is missing.
    Missing,
    /// A key is missing because it was left out: not an error of its own.
    LeftOut,
}

impl Mistake {
    fn new(message: String, kind: MistakeKind) -> Self {
        Self { message, place: None, kind }
    }

    fn at(mut self, place: Range<usize>) -> Self {
        self.place.get_or_insert(place);
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string().lines().collect::<Vec<_>>().join(" ");
        Self::new(message, MistakeKind::Value)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        Self::custom(format_args!("invalid type: {found}, expected {}", in_words(&expected.to_string())))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        Self::custom(format_args!("invalid value: {found}, expected {}", in_words(&expected.to_string())))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let near = did_you_mean(field, expected.iter().copied());
        Self::new(format!("unknown key `{}`{near}", field.escape_debug()), MistakeKind::Key)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("`{}`: write one of {}", variant.escape_debug(), expected.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("missing key `{field}`"), MistakeKind::Missing)
    }
}

/// Descriptions of types whose names only programmers know.
pub(super) fn in_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "a nonzero u32" | "a nonzero usize" => "a whole number from 1",
        "i64" => "a whole number",
        "f64" => "a number",
        _ if expected.starts_with("struct ") => "a table",
        other => other,
    }
}

impl<'de> Node<'de> {
    pub(super) fn new(value: &'de Spanned<DeValue<'de>>, left_out: &'de LeftOut) -> Self {
        Self { value, left_out, tag: "" }
    }

    fn table(self, table: &'de DeTable<'de>, is_left_out: &mut bool) -> Entries<'de> {
        let left_out = self.left_out;
        let is_out = |span: Range<usize>| left_out.contains(&(span.start, span.end));
        let (out, entries): (Vec<_>, Vec<_>) = table
            .iter()
            .filter(|(key, _)| self.tag.is_empty() || key.get_ref() != self.tag)
            .partition(|(key, value)| is_out(key.span()) || is_out(value.span()));
        *is_left_out = !out.is_empty();
        Entries { entries: entries.into_iter(), value: None, left_out }
    }

    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let mut is_left_out = false;
        let read = match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => match u64::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(number) => visitor.visit_u64(number),
                    Err(_) => Err(Mistake::custom("a number too large")),
                },
            },
            // TOML's floats are Rust's, except for underscores, which are removed already, and `+nan`.
            DeValue::Float(float) => match float.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => visitor.visit_f64(f64::NAN),
            },
            DeValue::Boolean(truth) => visitor.visit_bool(*truth),
            DeValue::Datetime(time) => visitor.visit_string(time.to_string()),
            DeValue::Array(array) => {
                let nodes =
                    array.iter().filter(|value| !self.left_out.contains(&(value.span().start, value.span().end)));
                let mut items = Items { values: nodes.collect::<Vec<_>>().into_iter(), left_out: self.left_out };
                visitor.visit_seq(&mut items)
            }
            DeValue::Table(table) => visitor.visit_map(self.table(table, &mut is_left_out)),
        };
        read.map_err(|mistake| {
            let is_own = mistake.place.is_none() && mistake.kind == MistakeKind::Missing && is_left_out;
            let kind = if is_own { MistakeKind::LeftOut } else { mistake.kind };
            Mistake { kind, ..mistake }.at(self.value.span())
        })
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self).map_err(|mistake| mistake.at(self.value.span()))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        if self.value.get_ref().is_table() {
            let several = Mistake::new("there can be several".into(), MistakeKind::Several);
            return Err(several.at(self.value.span()));
        }
        self.visit(visitor)
    }

    /// A word; or a table of one key, which is the variant; or if `name` is in brackets a table whose key of this name
    /// is the variant.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let tag = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let read = match (self.value.get_ref(), tag) {
            (DeValue::String(text), None) => {
                let text: StrDeserializer<'_, Mistake> = text.as_ref().into_deserializer();
                visitor.visit_enum(text)
            }
            (DeValue::Table(table), Some(tag)) => match table.get(tag) {
                Some(word) => visitor.visit_enum(Tagged { word, node: Node { tag, ..self } }),
                None => Err(Mistake::missing_field(tag)),
            },
            (DeValue::Table(table), None) => match table.iter().next() {
                Some((word, value)) if table.len() == 1 => {
                    let node = Node::new(value, self.left_out);
                    let word = word.get_ref().as_ref();
                    visitor.visit_enum(value::MapAccessDeserializer::new(One { word, node, is_read: false }))
                }
                _ => Err(Mistake::custom("a table with one key is expected")),
            },
            (value, _) => Err(Mistake::custom(format_args!("invalid type: {}, expected a word", value.type_str()))),
        };
        read.map_err(|mistake| mistake.at(self.value.span()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Entries<'de> {
    entries: std::vec::IntoIter<(&'de Spanned<toml::de::DeString<'de>>, &'de Spanned<DeValue<'de>>)>,
    value: Option<&'de Spanned<DeValue<'de>>>,
    left_out: &'de LeftOut,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        let name: StrDeserializer<'_, Mistake> = key.get_ref().as_ref().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|mistake| mistake.at(key.span()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let Some(value) = self.value.take() else { return Err(Mistake::custom("a value without a key")) };
        let node = Node::new(value, self.left_out);
        seed.deserialize(node).map_err(|mistake| mistake.at(value.span()))
    }
}

struct Items<'de> {
    values: std::vec::IntoIter<&'de Spanned<DeValue<'de>>>,
    left_out: &'de LeftOut,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some(value) = self.values.next() else { return Ok(None) };
        let node = Node::new(value, self.left_out);
        seed.deserialize(node).map(Some).map_err(|mistake| mistake.at(value.span()))
    }
}

/// A table of one key.
struct One<'de> {
    word: &'de str,
    node: Node<'de>,
    is_read: bool,
}

impl<'de> MapAccess<'de> for One<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(None);
        }
        let word: StrDeserializer<'_, Mistake> = self.word.into_deserializer();
        seed.deserialize(word).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        seed.deserialize(self.node)
    }
}

/// A table that names its variant.
struct Tagged<'de> {
    word: &'de Spanned<DeValue<'de>>,
    node: Node<'de>,
}

impl<'de> EnumAccess<'de> for Tagged<'de> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let word = Node::new(self.word, self.node.left_out);
        let variant = seed.deserialize(word).map_err(|mistake| mistake.at(self.word.span()))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Tagged<'de> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        seed.deserialize(self.node)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        self.node.visit(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Mistake> {
        self.node.visit(visitor)
    }
}
