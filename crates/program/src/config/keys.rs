//! A table of a configuration in one declaration, to read, check, print and document it.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, Visitor};
use toml::de::DeValue;
use weir_units::{BitRate, Frequency, Share, Size, Span};

use super::node::{LeftOut, Node};
use super::{Address, Many, UserName};

/// A key for the reference.
#[derive(Debug)]
pub struct Key {
    /// Its name in its table.
    pub name: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// Its type, as text.
    pub kind: &'static str,
    /// Its default in TOML; empty: none.
    pub default: &'static str,
    /// Its min and max, and other allowed values; empty: unbounded.
    pub bounds: [&'static str; 3],
    /// Whether a reload does not change it.
    pub fixed: bool,
    /// Whether it is a list.
    pub is_list: bool,
    /// Whether it is required, if it has no default.
    pub is_required: fn() -> bool,
    /// Its keys, if it is a table.
    pub table: fn() -> Vec<(String, &'static [Key])>,
}

/// A declaration of [`keys!`](crate::keys).
pub trait Table {
    /// Its keys, in the order of declaration.
    const KEYS: &'static [Key];

    /// The fixed keys whose values differ in `other`.
    fn stays(&self, other: &Self) -> Vec<&'static str>;
}

/// A type of values.
pub trait Value: Sized {
    /// Its name in the reference.
    const KIND: &'static str;
    /// Whether it is a list.
    const IS_LIST: bool = false;

    /// Its value without the key. `None`: the key is required.
    fn absent() -> Option<Self> {
        None
    }

    /// Checks that it is within bounds.
    ///
    /// # Errors
    /// The value and its bounds.
    fn within(&self, _bounds: [&str; 3]) -> Result<(), String> {
        Ok(())
    }

    /// Its own keys, and the key that identifies its table.
    fn tables() -> Vec<(String, &'static [Key])> {
        Vec::new()
    }
}

/// Declares a table of a configuration, one key per line:
///
/// ```
/// use weir_program::config::Document;
/// use weir_program::keys;
/// use weir_units::Span;
///
/// keys! {
///     /// What somebody reads.
///     pub struct Reader {
///         /// The name that others know it by.
///         name: String;
///         /// From one look to the next.
///         every: Span = "20s", "1s" to "1h";
///         /// How many at once; a reload does not change it.
///         workers (fixed): Option<u16>, 1 to 64;
///     }
///     gone { speed: "it is measured: remove it"; }
/// }
///
/// let reader: Reader = Document::parse("a.toml", "name = \"a\"")?.read()?;
/// assert_eq!((reader.every, reader.workers), (Span::from_secs(20), None));
/// let mistake = Document::parse("a.toml", "name = \"a\"\nevery = \"2h\"")?.read::<Reader>().unwrap_err();
/// assert_eq!(mistake.to_string(), "a.toml:2: every: 2h (it must be 1s to 1h)");
/// # Ok::<(), anyhow::Error>(())
/// ```
#[macro_export]
macro_rules! keys {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident $(($fixed:ident))?: $type:ty
                    $(= $default:expr)? $(, $low:literal to $($high:literal $(or $other:literal)?)?)?;
            )*
        }
        $(gone { $($gone:ident: $remedy:literal;)* })?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize)]
        $vis struct $name {
            $( $(#[doc = $doc])* $vis $key: $type, )*
        }

        impl $crate::config::Table for $name {
            const KEYS: &'static [$crate::config::Key] = &[$($crate::config::Key {
                name: $crate::config::plain(stringify!($key)),
                about: concat!($($doc),*),
                kind: <$type as $crate::config::Value>::KIND,
                default: $crate::__text!($($default)?),
                bounds: [
                    $crate::__text!($($low)?), $crate::__text!($($($high)?)?), $crate::__text!($($($($other)?)?)?),
                ],
                fixed: $crate::__is_there!($($fixed)?),
                is_list: <$type as $crate::config::Value>::IS_LIST,
                is_required: || <$type as $crate::config::Value>::absent().is_none(),
                table: <$type as $crate::config::Value>::tables,
            }),*];

            fn stays(&self, other: &Self) -> Vec<&'static str> {
                let pairs = Self::KEYS.iter().zip([$(self.$key != other.$key),*]);
                pairs.filter(|(key, differs)| key.fixed && *differs).map(|(key, _)| key.name).collect()
            }
        }

        impl $crate::config::Value for $name {
            const KIND: &'static str = "table";

            fn tables() -> Vec<(String, &'static [$crate::config::Key])> {
                vec![(String::new(), <Self as $crate::config::Table>::KEYS)]
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
                const NAMES: &[&str] = &[$($crate::config::plain(stringify!($key))),*];
                const GONE: &[(&str, &str)] = &[$($((stringify!($gone), $remedy)),*)?];
                struct Keys;
                impl<'de> ::serde::de::Visitor<'de> for Keys {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("a table")
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        $(let mut $key: Option<$type> = None;)*
                        while let Some(at) = map.next_key_seed($crate::config::KeyName { names: NAMES, gone: GONE, is_key: true })? {
                            let mut number = 0;
                            $(
                                if at == number {
                                    let bounds = <$name as $crate::config::Table>::KEYS[number].bounds;
                                    $key = Some(map.next_value_seed($crate::config::Field::new(bounds))?);
                                }
                                number += 1;
                            )*
                            let _ = number;
                        }
                        let mut keys = <$name as $crate::config::Table>::KEYS.iter();
                        Ok($name { $($key: $crate::config::or_absent($key, keys.next())?),* })
                    }
                }
                reader.deserialize_struct(stringify!($name), NAMES, Keys)
            }
        }
    };
}

/// Declares a table whose key `kind` selects one of several variants: `[[source]]` with `kind = "sine"`. Each has its
/// own keys.
#[macro_export]
macro_rules! kinds {
    (
        $(#[doc = $about:literal])*
        $vis:vis enum $name:ident { $( $(#[doc = $doc:literal])* $variant:ident($type:ty) = $word:literal, )* }
        $(gone { $($gone:literal: $remedy:literal;)* })?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        $vis enum $name { $( $(#[doc = $doc])* $variant($type), )* }

        impl $crate::config::Value for $name {
            const KIND: &'static str = "table";

            fn tables() -> Vec<(String, &'static [$crate::config::Key])> {
                vec![$((format!("kind = \"{}\"", $word), <$type as $crate::config::Table>::KEYS)),*]
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$variant(rest) => $crate::config::Kind { kind: $word, rest }.serialize(writer)),* }
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
                use ::serde::de::VariantAccess;

                const NAMES: &[&str] = &[$($word),*];
                const GONE: &[(&str, &str)] = &[$($(($gone, $remedy)),*)?];
                struct Kinds;
                impl<'de> ::serde::de::Visitor<'de> for Kinds {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("a table with a kind")
                    }

                    fn visit_enum<A: ::serde::de::EnumAccess<'de>>(self, kinds: A) -> Result<$name, A::Error> {
                        let name = $crate::config::KeyName { names: NAMES, gone: GONE, is_key: false };
                        let (at, rest) = kinds.variant_seed(name)?;
                        $(if NAMES[at] == $word { return rest.newtype_variant().map($name::$variant); })*
                        unreachable!("a name is one of them")
                    }
                }
                reader.deserialize_enum("[kind]", NAMES, Kinds)
            }
        }
    };
}

/// Its form in TOML.
#[doc(hidden)]
#[macro_export]
macro_rules! __text {
    () => {
        ""
    };
    ($value:expr) => {
        stringify!($value)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __is_there {
    () => {
        false
    };
    (fixed) => {
        true
    };
}

/// A name without the mark of Rust's raw identifiers.
#[doc(hidden)]
pub const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// A table with the key of its kind.
#[doc(hidden)]
#[derive(Debug, Serialize)]
pub struct Kind<'a, T> {
    pub kind: &'a str,
    #[serde(flatten)]
    pub rest: &'a T,
}

/// Parses the name of a key or a kind, and returns its index.
#[doc(hidden)]
#[derive(Debug)]
pub struct KeyName {
    pub names: &'static [&'static str],
    pub gone: &'static [(&'static str, &'static str)],
    pub is_key: bool,
}

impl<'de> DeserializeSeed<'de> for KeyName {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<usize, D::Error> {
        reader.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeyName {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.names.join(", "))
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<usize, E> {
        if let Some((name, remedy)) = self.gone.iter().find(|(name, _)| *name == found) {
            return Err(E::custom(format_args!("{name} is gone: {remedy}")));
        }
        let at = self.names.iter().position(|name| *name == found);
        let unknown = if self.is_key { E::unknown_field } else { E::unknown_variant };
        at.ok_or_else(|| unknown(found, self.names))
    }
}

/// Reads a value and checks its bounds.
#[doc(hidden)]
#[derive(Debug)]
pub struct Field<T> {
    bounds: [&'static str; 3],
    value: PhantomData<T>,
}

impl<T> Field<T> {
    pub fn new(bounds: [&'static str; 3]) -> Self {
        Self { bounds, value: PhantomData }
    }
}

impl<'de, T: serde::Deserialize<'de> + Value> DeserializeSeed<'de> for Field<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<T, D::Error> {
        let value = T::deserialize(reader)?;
        value.within(self.bounds).map_err(D::Error::custom)?;
        Ok(value)
    }
}

/// The value that was read, or the default.
#[doc(hidden)]
pub fn or_absent<T: Value + DeserializeOwned, E: Error>(read: Option<T>, key: Option<&'static Key>) -> Result<T, E> {
    let Key { name, default, .. } = key.expect("a key for each field");
    let absent = read.or_else(|| if default.is_empty() { T::absent() } else { text(default) });
    absent.ok_or_else(|| E::missing_field(name))
}

/// A value in TOML from a declaration.
fn text<T: DeserializeOwned>(written: &str) -> Option<T> {
    let value = DeValue::parse(written).ok()?;
    T::deserialize(Node::new(&value, &LeftOut::new())).ok()
}

/// Checks that it is `low` to `high`, or `other`.
fn within<T: PartialOrd + Display + DeserializeOwned>(value: &T, bounds: [&str; 3]) -> Result<(), String> {
    let [Some(low), high, other] = bounds.map(text::<T>) else { return Ok(()) };
    if (*value >= low && high.as_ref().is_none_or(|high| value <= high)) || other.as_ref() == Some(value) {
        return Ok(());
    }
    let high = high.map_or(" or more".to_owned(), |high| format!(" to {high}"));
    let or = other.map(|other| format!(", or {other}")).unwrap_or_default();
    Err(format!("{value} (it must be {low}{high}{or})"))
}

macro_rules! quantities {
    ($($type:ty = $kind:literal),* $(,)?) => { $(
        impl Value for $type {
            const KIND: &'static str = $kind;

            fn within(&self, bounds: [&str; 3]) -> Result<(), String> {
                within(self, bounds)
            }
        }
    )* };
}

quantities! {
    u8 = "number", u16 = "number", u32 = "number", u64 = "number", usize = "number", Span = "time", Frequency = "a second",
    Size = "bytes", BitRate = "bit rate", Share = "share",
}

/// Gives types a name in the reference.
#[macro_export]
macro_rules! values {
    ($($type:ty = $kind:literal),* $(,)?) => { $(
        impl $crate::config::Value for $type {
            const KIND: &'static str = $kind;
        }
    )* };
}

values! {
    String = "text", PathBuf = "path", IpAddr = "address", SocketAddr = "address:port", Address = "address:port",
    UserName = "user",
    IpNet = "network",
}

impl Value for f64 {
    const KIND: &'static str = "number";

    fn within(&self, bounds: [&str; 3]) -> Result<(), String> {
        if self.is_finite() { within(self, bounds) } else { Err(format!("{self} is not a number")) }
    }
}

impl Value for bool {
    const KIND: &'static str = "true or false";

    fn absent() -> Option<Self> {
        Some(false)
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;
    const IS_LIST: bool = T::IS_LIST;

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn within(&self, bounds: [&str; 3]) -> Result<(), String> {
        self.as_ref().map_or(Ok(()), |value| value.within(bounds))
    }

    fn tables() -> Vec<(String, &'static [Key])> {
        T::tables()
    }
}

impl<T: Value> Value for Vec<T> {
    const KIND: &'static str = T::KIND;
    const IS_LIST: bool = true;

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn within(&self, bounds: [&str; 3]) -> Result<(), String> {
        self.iter().try_for_each(|value| value.within(bounds))
    }

    fn tables() -> Vec<(String, &'static [Key])> {
        T::tables()
    }
}

/// Tables with names from the file: `[groups.NAME]`.
impl<K, T: Value> Value for BTreeMap<K, T> {
    const KIND: &'static str = "tables by name";

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn tables() -> Vec<(String, &'static [Key])> {
        T::tables()
    }
}

impl<T: Value> Value for Many<T> {
    const KIND: &'static str = T::KIND;
    const IS_LIST: bool = true;

    fn absent() -> Option<Self> {
        Vec::absent().map(Self)
    }

    fn within(&self, bounds: [&str; 3]) -> Result<(), String> {
        self.0.within(bounds)
    }
}

/// All keys of a file as Markdown: a table for the file, and one for each of its tables.
pub fn reference(keys: &'static [Key]) -> String {
    rows(keys, false)
}

/// `is_fixed`: a reload does not change any of the table.
fn rows(keys: &'static [Key], is_fixed: bool) -> String {
    let mut text = "| key | | type | default | bounds | reload |\n|---|---|---|---|---|---|\n".to_owned();
    let bare = |text: &str| text.trim_matches('"').to_owned();
    for Key { name, about, kind, default, bounds: [low, high, other], fixed, is_list, is_required, .. } in keys {
        let reload = if *fixed || is_fixed { "no" } else { "yes" };
        let or = if other.is_empty() { String::new() } else { format!(", or {}", bare(other)) };
        let high = if high.is_empty() { " or more".to_owned() } else { format!(" to {}", bare(high)) };
        let bounds = if low.is_empty() { String::new() } else { format!("{}{high}{or}", bare(low)) };
        let default = match (default.is_empty(), is_required()) {
            (false, _) => format!("`{default}`"),
            (true, true) => "required".to_owned(),
            (true, false) => String::new(),
        };
        let list = if *is_list { "list: " } else { "" };
        let _ = writeln!(text, "| `{name}` |{about} | {list}{kind} | {default} | {bounds} | {reload} |");
    }
    for Key { name, table, fixed, is_list, .. } in keys {
        for (kind, keys) in table() {
            let with = if kind.is_empty() { String::new() } else { format!(" with `{kind}`") };
            let name = if *is_list { format!("[[{name}]]") } else { format!("[{name}]") };
            let _ = write!(text, "\n`{name}`{with}:\n\n{}", rows(keys, *fixed || is_fixed));
        }
    }
    text
}
