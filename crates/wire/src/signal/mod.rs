//! Signals: samples of channels in datagrams that each decode alone, version 1.
//!
//! All numbers are little-endian, as the processors that sample and draw them have them. A datagram is a header, then what its
//! kind says; it fits one Ethernet frame ([`MOST_BYTES_V4`], [`MOST_BYTES_V6`]), so that a lost frame costs one datagram.
//!
//! | offset | bytes | header | |
//! |---|---|---|---|
//! | 0 | 2 | magic | `WS` |
//! | 2 | 1 | version, kind | version 1 in the upper four bits; kind: 0 data, 1 heartbeat, 2 end, 3 metadata, 4 reserved |
//! | 3 | 1 | flags | 1 signed, 2 encrypted |
//! | 4 | 1 | clock | what keeps the sender's time: 0 unknown, 1 free running, 2 NTP, 3 PTP |
//! | 5 | 1 | clock error | at most 2^n ns; 255: unknown |
//! | 6 | 2 | count | of blocks (data) or positions (heartbeat, end); else 0 |
//! | 8 | 8 | session | random at each start of a sender: a new one is a new sender |
//! | 16 | 8 | sequence | of data: its number in the session, from 0; of all else: the number that the next data will have |
//!
//! **Data** is blocks one behind another. A block has samples of one channel, one after another in time:
//!
//! | offset | bytes | block | |
//! |---|---|---|---|
//! | 0 | 2 | channel | as the metadata has it |
//! | 2 | 1 | element | 0 f32, 1 f64, 2 i16, 3 i32 |
//! | 3 | 1 | form | 0 samples, 1 buckets, 2 a gap |
//! | 4 | 2 | count | of samples or buckets; of a gap 1 |
//! | 6 | 2 | | 0 |
//! | 8 | 8 | first | index of the first sample that it stands for, from 0 at the sender's start, of the full rate |
//! | 16 | 8 | time | of that sample, ns since 1970 UTC, signed |
//! | 24 | 4 | ticks per second | resolution of the sampling clock |
//! | 28 | 4 | ticks per sample | sample i is i x this / ticks per second behind the first |
//! | 32 | 4 | bucket | samples that a bucket stands for; of samples and gaps 1 |
//! | 36 | | values | samples: one value each; buckets: four each, least, greatest, first, last; a gap: [`Gap`] |
//!
//! A float that is not a number is a sample that the source could not measure. A **gap** says which samples are not coming, by whose
//! fault (8 bytes how many, 1 byte [`Cause`], 3 bytes 0).
//!
//! **Heartbeat** and **end** say for each channel (2 bytes) which index (8 bytes) its next sample has: what was lost at the end is known
//! without a further sample.
//!
//! **Metadata** is fields: 1 byte key, 1 byte length, so many bytes ([`field`]). Unknown keys are to be skipped.

mod block;
pub mod encode;
pub mod field;
mod header;
mod malformed;
mod metadata;
mod packer;
mod position;
#[cfg(test)]
mod tests;

pub use block::{BLOCK_LEN, Block, Blocks, Bucket, Cause, Element, Form, GAP_LEN, Gap, OwnedBlock, Rate, Values};
pub use header::{Clock, ClockSource, Flags, HEADER_LEN, Header, Kind};
pub use malformed::Malformed;
pub use metadata::{Channel, Limits, Metadata};
pub use packer::Packer;
pub use position::{Position, Positions};

/// Port where none is said.
pub const PORT: u16 = 5110;

/// Most bytes of a datagram over IPv4: one Ethernet frame of 1,500 bytes.
pub const MOST_BYTES_V4: usize = 1472;

/// Most bytes of a datagram over IPv6.
pub const MOST_BYTES_V6: usize = 1452;

/// A datagram that is neither signed nor encrypted.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// What all have.
    pub header: Header,
    /// What it says.
    pub body: Body<'a>,
}

/// What a datagram says.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// Samples.
    Data(Blocks<'a>),
    /// Nothing new, so far.
    Heartbeat(Positions<'a>),
    /// Nothing more in this session.
    End(Positions<'a>),
    /// What channels are: [`Metadata::parse`].
    Metadata(&'a [u8]),
    /// A request of an earlier version: to be ignored.
    Reserved,
}

impl<'a> Datagram<'a> {
    /// Reads a datagram. Every block and position is checked here: reading them fails no more. Metadata is checked when it is
    /// parsed.
    ///
    /// # Errors
    /// What is wrong with the bytes; a signed or encrypted one has to be opened first.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = Header::parse(bytes)?;
        if header.flags != Flags::default() {
            return Err(Malformed::Sealed);
        }
        let body = match header.kind {
            Kind::Data => Body::Data(Blocks::parse(rest, header.count)?),
            Kind::Heartbeat => Body::Heartbeat(Positions::parse(rest, header.count)?),
            Kind::End => Body::End(Positions::parse(rest, header.count)?),
            Kind::Metadata => Body::Metadata(rest),
            Kind::Reserved => Body::Reserved,
        };
        Ok(Self { header, body })
    }
}
