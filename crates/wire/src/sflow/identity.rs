//! What formats, data sources and interfaces are known by.

use std::fmt;

use super::xdr::Reader;

/// Which structure something is: `data_format`. Samples, flow records and counter records number theirs apart from each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataFormat {
    /// SMI private enterprise number of who defined it, 20 bits; 0: sflow.org.
    pub enterprise: u32,
    /// Which of theirs, 12 bits.
    pub format: u32,
}

impl From<u32> for DataFormat {
    fn from(word: u32) -> Self {
        Self { enterprise: word >> 12, format: word & 0xfff }
    }
}

impl From<DataFormat> for u32 {
    fn from(format: DataFormat) -> Self {
        format.enterprise << 12 | format.format & 0xfff
    }
}

impl fmt::Display for DataFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.enterprise, self.format)
    }
}

/// What samples are taken from: `sflow_data_source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataSource {
    /// `source_id_type`: [`Self::IF_INDEX`], [`Self::SMON_VLAN`], [`Self::ENT_PHYSICAL`], or one that agents made up.
    pub class: u32,
    /// `source_id_index`: which of its class.
    pub index: u32,
}

impl DataSource {
    /// An interface, by its `ifIndex`.
    pub const IF_INDEX: u32 = 0;
    /// A VLAN: `smonVlanDataSource`.
    pub const SMON_VLAN: u32 = 1;
    /// A physical entity: `entPhysicalEntry`.
    pub const ENT_PHYSICAL: u32 = 2;

    /// The compact form: the class in the upper 8 bits.
    #[inline]
    pub(super) fn compact(word: u32) -> Self {
        Self { class: word >> 24, index: word & 0xff_ffff }
    }

    #[inline]
    pub(super) fn expanded(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { class: reader.u32()?, index: reader.u32()? })
    }
}

/// As the specification's MIB has it: `ifIndex.5`; a class without a name by its number.
impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Self::IF_INDEX => write!(f, "ifIndex.{}", self.index),
            Self::SMON_VLAN => write!(f, "smonVlanDataSource.{}", self.index),
            Self::ENT_PHYSICAL => write!(f, "entPhysicalEntry.{}", self.index),
            class => write!(f, "{class}.{}", self.index),
        }
    }
}

/// The way of a packet in or out: `interface`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interface {
    /// The agent does not say.
    Unknown,
    /// One interface, by its `ifIndex`.
    Index(u32),
    /// None: the packet comes from the device itself, or is for it. 0x3FFFFFFF; expanded 0xFFFFFFFF, of late.
    Internal,
    /// Out: it was dropped; [`super::reason_name`] tells the name of the reason.
    Discarded(u32),
    /// Out: so many interfaces; 0: several, unknown how many.
    Multiple(u32),
}

impl Interface {
    /// Values of 30 bits.
    const INTERNAL: u32 = 0x3fff_ffff;

    /// The compact form: which meaning it has in the upper 2 bits.
    #[inline]
    pub(super) fn compact(word: u32) -> Self {
        Self::new(word >> 30, word & 0x3fff_ffff)
    }

    #[inline]
    pub(super) fn expanded(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self::new(reader.u32()?, reader.u32()?))
    }

    /// One that has no other meaning than an `ifIndex`.
    #[inline]
    pub(super) fn index(value: u32) -> Self {
        Self::new(0, value)
    }

    #[inline]
    fn new(format: u32, value: u32) -> Self {
        match (format, value) {
            (0, 0) => Self::Unknown,
            (0, Self::INTERNAL | u32::MAX) => Self::Internal,
            (0, index) => Self::Index(index),
            (1, reason) => Self::Discarded(reason),
            (2, count) => Self::Multiple(count),
            // Reserved.
            _ => Self::Unknown,
        }
    }

    /// As the expanded form has it: `format` and `value`.
    pub fn parts(self) -> (u32, u32) {
        match self {
            Self::Unknown => (0, 0),
            Self::Index(index) => (0, index),
            Self::Internal => (0, Self::INTERNAL),
            Self::Discarded(reason) => (1, reason),
            Self::Multiple(count) => (2, count),
        }
    }
}
