//! What structures are made of: the types of the one table from which decoding, encoding, names and meanings come.

use super::DataFormat;
use super::table;

/// A structure as its specification has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Structure {
    /// Whether its number is one of flow records or of counter records.
    pub space: Space,
    /// Its number.
    pub format: DataFormat,
    /// Its name in the specification, e.g. `if_counters`.
    pub name: &'static str,
    /// Its fields, in the order in which they follow one another.
    pub fields: &'static [Field],
    /// How many of the fields are always there; newer agents append the others.
    pub required: usize,
}

impl Structure {
    /// The structure of a number, if it is known.
    #[inline]
    pub fn find(space: Space, format: DataFormat) -> Option<&'static Self> {
        table::find(space, format)
    }

    /// The structure of a name; of two versions with one name the newer.
    pub fn named(space: Space, name: &str) -> Option<&'static Self> {
        Self::all(space).iter().copied().rfind(|structure| structure.name == name)
    }

    /// All that are known, by number.
    pub fn all(space: Space) -> &'static [&'static Self] {
        match space {
            Space::Flow => table::FLOW,
            Space::Counter => table::COUNTER,
        }
    }
}

/// Flow records and counter records have the same numbers for different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// `flow_data`.
    Flow,
    /// `counter_data`.
    Counter,
}

/// A field of a structure.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the specification, e.g. `ifInOctets`.
    pub name: &'static str,
    /// How it is written.
    pub kind: Kind,
    /// What its value is.
    pub meaning: Meaning,
}

/// How a field is written (RFC 4506).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One byte of a fixed `opaque`.
    U8,
    /// `unsigned int`, also an enumeration.
    U32,
    /// `int`.
    I32,
    /// `unsigned hyper`.
    U64,
    /// `float`.
    F32,
    /// `mac`: 6 bytes, filled up to 8.
    Mac,
    /// `ip_v4`.
    Ipv4,
    /// `ip_v6`.
    Ipv6,
    /// `address`: IPv4, IPv6 or unknown.
    Address,
    /// 16 bytes.
    Uuid,
    /// `string<max>`; 0: without a bound. Longer ones than their specification allows are read all the same.
    Text(u16),
    /// `opaque<>`.
    Opaque,
    /// A structure within this one.
    Structure(&'static [Field]),
    /// How many, then so many of one kind.
    List(&'static Kind),
    /// Flow records, as in a sample.
    Records,
}

/// What a value is: what can be done with it over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A total that only grows and wraps at its width. All ones: the agent does not count it.
    Counter,
    /// A level, which goes up and down.
    Gauge,
    /// Tells what the structure is about: an index, a name.
    Identity,
    /// A state or a setting: a number that is no quantity.
    State,
    /// Tells of one sampled packet or operation.
    Sampled,
}

impl Kind {
    /// Bytes of one, where all are equally long.
    pub(super) const fn size(&self) -> Option<usize> {
        match self {
            Self::U8 => Some(1),
            Self::U32 | Self::I32 | Self::F32 | Self::Ipv4 => Some(4),
            Self::U64 | Self::Mac => Some(8),
            Self::Ipv6 | Self::Uuid => Some(16),
            Self::Address | Self::Text(_) | Self::Opaque | Self::Structure(_) | Self::List(_) | Self::Records => None,
        }
    }
}
