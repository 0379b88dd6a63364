//! A datagram: who sends, and samples.

use std::net::{IpAddr, Ipv4Addr};

use super::sample::Sample;
use super::xdr::Reader;
use super::{DataFormat, Malformed, Part};

/// A datagram of one agent (`sample_datagram_v5`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// `agent_address`: whom the samples are about; not always the address that the datagram came from. 0.0.0.0: the
    /// agent does not say.
    pub agent: IpAddr,
    /// `sub_agent_id`: tells streams of datagrams of one agent apart.
    pub sub_agent: u32,
    /// `sequence_number`: datagrams that the sub-agent has sent.
    pub sequence: u32,
    /// `uptime`, ms; wraps after 49.7 days.
    pub uptime: u32,
    sample_count: u32,
    samples: Reader<'a>,
}

/// `VERSION5`, the first word of a datagram.
pub(super) const VERSION: u32 = 5;

impl<'a> Datagram<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// Another version, a header that ends early, an agent address of no known type.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let cut = Malformed::Cut(Part::Datagram);
        let version = reader.u32().ok_or(cut)?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let agent = address(&mut reader, Part::Datagram)?.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let [sub_agent, sequence, uptime, sample_count] = reader.words().ok_or(cut)?;
        Ok(Self { agent, sub_agent, sequence, uptime, sample_count, samples: reader })
    }

    /// How many samples it says that it has.
    pub fn sample_count(&self) -> u32 {
        self.sample_count
    }

    /// The samples. One that is malformed costs the others nothing, unless nobody knows where it ends: then it is the
    /// last.
    #[inline]
    pub fn samples(&self) -> Samples<'a> {
        Samples { reader: self.samples, left: self.sample_count }
    }
}

/// Samples of a datagram, in its order.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Iterator for Samples<'a> {
    type Item = Result<Sample<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        tagged(&mut self.reader, &mut self.left, Part::Sample)
            .map(|part| part.and_then(|(format, body)| Sample::parse(format, body)))
    }
}

/// The next of a counted list of parts, each a format and a length, then so many bytes.
#[inline]
pub(super) fn tagged<'a>(
    reader: &mut Reader<'a>,
    left: &mut u32,
    part: Part,
) -> Option<Result<(DataFormat, &'a [u8]), Malformed>> {
    *left = left.checked_sub(1)?;
    let Some([format, said]) = reader.words() else {
        *left = 0;
        return Some(Err(Malformed::Cut(part)));
    };
    let there = reader.rest().len();
    let Some(body) = reader.padded(said as usize) else {
        *left = 0;
        return Some(Err(Malformed::Length { part, said, left: there as u32 }));
    };
    Some(Ok((DataFormat::from(format), body)))
}

/// `union address`. `None`: unknown.
#[inline]
pub(super) fn address(reader: &mut Reader<'_>, part: Part) -> Result<Option<IpAddr>, Malformed> {
    let cut = Malformed::Cut(part);
    match reader.u32().ok_or(cut)? {
        0 => Ok(None),
        1 => reader.ipv4().map(Some).ok_or(cut),
        2 => reader.ipv6().map(Some).ok_or(cut),
        other => Err(Malformed::AddressType(other)),
    }
}
