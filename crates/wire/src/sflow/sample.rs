//! Samples: of packets that pass, of counters, of packets that were discarded.

use super::identity::{DataFormat, DataSource, Interface};
use super::record::Records;
use super::structure::Space;
use super::xdr::Reader;
use super::{Malformed, Part};

/// One sample of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample<'a> {
    /// `flow_sample` (0:1), `flow_sample_expanded` (0:3): a packet, chosen at random.
    Flow(FlowSample<'a>),
    /// `counters_sample` (0:2), `counters_sample_expanded` (0:4).
    Counters(CounterSample<'a>),
    /// `discarded_packet` (0:5).
    Discarded(DiscardedPacket<'a>),
    /// Another, of a vendor or of a later specification.
    Unknown {
        /// Which.
        format: DataFormat,
        /// What is in it.
        body: &'a [u8],
    },
}

/// A packet that stands for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSample<'a> {
    /// `sequence_number`: samples that the data source has made.
    pub sequence: u32,
    /// `source_id`.
    pub source: DataSource,
    /// `sampling_rate`: one packet of so many is chosen, on average, as configured.
    pub sampling_rate: u32,
    /// `sample_pool`: packets that could have been chosen; a total, which wraps.
    pub sample_pool: u32,
    /// `drops`: samples that the agent lost for want of resources; a total.
    pub drops: u32,
    /// Where the packet came in.
    pub input: Interface,
    /// Where it went out.
    pub output: Interface,
    /// Whether it came in the expanded form, 0:3.
    pub expanded: bool,
    records: Parts<'a>,
}

/// Counters of a data source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSample<'a> {
    /// `sequence_number`: counter samples that the data source has made.
    pub sequence: u32,
    /// `source_id`.
    pub source: DataSource,
    /// Whether it came in the expanded form, 0:4.
    pub expanded: bool,
    records: Parts<'a>,
}

/// A packet that a device dropped (`sflow_drops`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscardedPacket<'a> {
    /// `sequence_number`: such samples that the data source has made.
    pub sequence: u32,
    /// `source_id`.
    pub source: DataSource,
    /// `drops`: such samples that the agent did not send, for a limit of their rate or for want of resources; a total.
    pub drops: u32,
    /// `inputifindex`.
    pub input: Interface,
    /// `outputifindex`; unknown unless it was dropped on the way out.
    pub output: Interface,
    /// `reason`; [`super::reason_name`] tells its name.
    pub reason: u32,
    records: Parts<'a>,
}

/// Records as they say how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts<'a> {
    count: u32,
    reader: Reader<'a>,
}

impl<'a> Sample<'a> {
    #[inline]
    pub(super) fn parse(format: DataFormat, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let sample = match format {
            DataFormat { enterprise: 0, format: 1 } => FlowSample::compact(&mut reader).map(Self::Flow),
            DataFormat { enterprise: 0, format: 2 } => CounterSample::compact(&mut reader).map(Self::Counters),
            DataFormat { enterprise: 0, format: 3 } => FlowSample::expanded(&mut reader).map(Self::Flow),
            DataFormat { enterprise: 0, format: 4 } => CounterSample::expanded(&mut reader).map(Self::Counters),
            DataFormat { enterprise: 0, format: 5 } => DiscardedPacket::read(&mut reader).map(Self::Discarded),
            format => Some(Self::Unknown { format, body }),
        };
        sample.ok_or(Malformed::Cut(Part::Sample))
    }

    /// Its records; none where it is unknown.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        match self {
            Self::Flow(sample) => sample.records(),
            Self::Counters(sample) => sample.records(),
            Self::Discarded(sample) => sample.records(),
            Self::Unknown { .. } => Records::none(),
        }
    }
}

impl<'a> FlowSample<'a> {
    #[inline]
    fn compact(reader: &mut Reader<'a>) -> Option<Self> {
        let [sequence, source, sampling_rate, sample_pool, drops, input, output, count] = reader.words()?;
        let source = DataSource::compact(source);
        let (input, output) = (Interface::compact(input), Interface::compact(output));
        let records = Parts { count, reader: *reader };
        Some(Self { sequence, source, sampling_rate, sample_pool, drops, input, output, expanded: false, records })
    }

    fn expanded(reader: &mut Reader<'a>) -> Option<Self> {
        let (sequence, source) = (reader.u32()?, DataSource::expanded(reader)?);
        let (sampling_rate, sample_pool, drops) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (input, output) = (Interface::expanded(reader)?, Interface::expanded(reader)?);
        let records = Parts::read(reader)?;
        Some(Self { sequence, source, sampling_rate, sample_pool, drops, input, output, expanded: true, records })
    }

    /// What is known of the packet. One that is malformed costs the others nothing, unless nobody knows where it ends.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        self.records.of(Space::Flow)
    }
}

impl<'a> CounterSample<'a> {
    #[inline]
    fn compact(reader: &mut Reader<'a>) -> Option<Self> {
        let [sequence, source, count] = reader.words()?;
        let records = Parts { count, reader: *reader };
        Some(Self { sequence, source: DataSource::compact(source), expanded: false, records })
    }

    fn expanded(reader: &mut Reader<'a>) -> Option<Self> {
        let (sequence, source) = (reader.u32()?, DataSource::expanded(reader)?);
        Some(Self { sequence, source, expanded: true, records: Parts::read(reader)? })
    }

    /// Blocks of counters. One that is malformed costs the others nothing, unless nobody knows where it ends.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        self.records.of(Space::Counter)
    }
}

impl<'a> DiscardedPacket<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let (sequence, source) = (reader.u32()?, DataSource::expanded(reader)?);
        let [drops, input, output, reason, count] = reader.words()?;
        let (input, output) = (Interface::index(input), Interface::index(output));
        Some(Self { sequence, source, drops, input, output, reason, records: Parts { count, reader: *reader } })
    }

    /// What is known of the packet and of why it was dropped: flow records.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        self.records.of(Space::Flow)
    }
}

impl<'a> Parts<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self { count: reader.u32()?, reader: *reader })
    }

    #[inline]
    fn of(self, space: Space) -> Records<'a> {
        Records::new(self.reader, self.count, space)
    }
}
