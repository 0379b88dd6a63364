//! Path attributes (RFC 4271, section 4.3): those that own routes have.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Family, unspecified};

/// What a path says besides its NLRI, as far as own paths differ in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::bgp) struct Attributes {
    /// `None`: FlowSpec, which has none.
    pub(in crate::bgp) next_hop: Option<IpAddr>,
    /// RFC 1997.
    pub(in crate::bgp) communities: BTreeSet<u32>,
    /// RFC 4360.
    pub(in crate::bgp) extended: BTreeSet<[u8; 8]>,
    /// RFC 8092.
    pub(in crate::bgp) large: BTreeSet<[u8; 12]>,
}

impl Attributes {
    /// Each apart, as gobgpd takes them. It makes MP_REACH_NLRI (RFC 4760) of the next hop itself, and wants one in any case.
    pub(in crate::bgp) fn encode(&self, family: Family) -> Vec<Vec<u8>> {
        let next_hop = match self.next_hop.unwrap_or(unspecified(family.is_v6)) {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let communities: Vec<u8> = self.communities.iter().flat_map(|community| community.to_be_bytes()).collect();
        let extended: Vec<u8> = self.extended.iter().flatten().copied().collect();
        let mut list = vec![attribute(WELL_KNOWN, ORIGIN, &[IGP]), attribute(WELL_KNOWN, NEXT_HOP, &next_hop)];
        let large: Vec<u8> = self.large.iter().flatten().copied().collect();
        for (kind, value) in
            [(COMMUNITIES, &communities), (EXTENDED_COMMUNITIES, &extended), (LARGE_COMMUNITIES, &large)]
        {
            if !value.is_empty() {
                list.push(attribute(OPTIONAL | TRANSITIVE, kind, value));
            }
        }
        list
    }

    /// Reads those of a path of gobgpd's table; what it does not know, or what makes no sense, is as if it were not there.
    pub(in crate::bgp) fn decode(list: &[Vec<u8>]) -> Self {
        let mut attributes = Self::default();
        for (kind, value) in list.iter().filter_map(|bytes| split(bytes)) {
            match kind {
                NEXT_HOP => attributes.next_hop = address(value),
                // AFI, SAFI, the next hop's length, the next hop, and the NLRI, which we have.
                MP_REACH_NLRI => {
                    let next_hop = value.get(3).and_then(|&length| value.get(4..4 + usize::from(length)));
                    attributes.next_hop = next_hop.and_then(address);
                }
                COMMUNITIES => {
                    let (communities, _) = value.as_chunks();
                    attributes.communities = communities.iter().map(|&bytes| u32::from_be_bytes(bytes)).collect();
                }
                EXTENDED_COMMUNITIES => {
                    let (extended, _) = value.as_chunks();
                    attributes.extended = extended.iter().copied().collect();
                }
                LARGE_COMMUNITIES => {
                    let (large, _) = value.as_chunks();
                    attributes.large = large.iter().copied().collect();
                }
                _ => {}
            }
        }
        attributes
    }
}

fn attribute(flags: u8, kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    let mut bytes = match u8::try_from(length) {
        Ok(length) => vec![flags, kind, length],
        Err(_) => {
            let [high, low] = length.to_be_bytes();
            vec![flags | EXTENDED_LENGTH, kind, high, low]
        }
    };
    bytes.extend(value);
    bytes
}

/// Its type and value.
fn split(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&[flags, kind], rest) = bytes.split_first_chunk()?;
    let (length, rest) = if flags & EXTENDED_LENGTH == 0 {
        let (&length, rest) = rest.split_first()?;
        (usize::from(length), rest)
    } else {
        let (&length, rest) = rest.split_first_chunk()?;
        (usize::from(u16::from_be_bytes(length)), rest)
    };
    Some((kind, rest.get(..length)?))
}

/// One that says where to; `None`: none of these lengths (a second, link-local one may follow), or unspecified.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let address: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        16 | 32 => <[u8; 16]>::try_from(&bytes[..16]).ok()?.into(),
        _ => return None,
    };
    (!address.is_unspecified()).then_some(address)
}

const ORIGIN: u8 = 1;
const NEXT_HOP: u8 = 3;
const COMMUNITIES: u8 = 8;
const MP_REACH_NLRI: u8 = 14;
const EXTENDED_COMMUNITIES: u8 = 16;
const LARGE_COMMUNITIES: u8 = 32;

const IGP: u8 = 0;

const OPTIONAL: u8 = 0x80;
const TRANSITIVE: u8 = 0x40;
const EXTENDED_LENGTH: u8 = 0x10;
const WELL_KNOWN: u8 = TRANSITIVE;
