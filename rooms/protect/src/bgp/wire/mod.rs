//! Routes as BGP writes them.

mod attributes;
mod family;
mod nlri;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ipnet::IpNet;

pub(super) use attributes::Attributes;
pub(super) use family::Family;

use super::marker::Marker;
use crate::config::values::{Community, RouteTarget};
use crate::model::{Action, Route};

/// What tells one path from another in a table: family and NLRI.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) family: Family,
    pub(super) nlri: Vec<u8>,
}

impl Key {
    /// The prefix of a unicast path; `None`: FlowSpec, or no prefix at all.
    pub(super) fn prefix(&self) -> Option<IpNet> {
        if self.family.is_flow { None } else { nlri::unicast(self.family.is_v6, &self.nlri) }
    }
}

/// A route as it is announced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Announcement {
    pub(super) key: Key,
    pub(super) attributes: Attributes,
}

impl Announcement {
    /// What announces a route, and says that it is ours.
    ///
    /// # Errors
    /// One line: what BGP has no way to say.
    pub(super) fn new(route: &Route, marker: Marker) -> Result<Self, String> {
        let rule = &route.rule;
        let mut attributes = Attributes::default();
        attributes.large.insert(marker.own());
        for community in route.communities.iter().copied().chain(marker.community) {
            match community {
                Community::Standard(asn, number) => {
                    attributes.communities.insert(u32::from(asn) << 16 | u32::from(number));
                }
                Community::Extended(bytes) => drop(attributes.extended.insert(bytes)),
                Community::Large(parts) => {
                    let bytes = parts.map(u32::to_be_bytes).concat();
                    attributes.large.extend(<[u8; 12]>::try_from(bytes));
                }
            }
        }
        let destination = rule.destination.trunc();
        let is_v6 = matches!(destination, IpNet::V6(_));
        if route.action == Action::Blackhole {
            let next_hop = route.next_hop.ok_or("a blackhole route needs a next hop (set next_hop)")?;
            // An IPv6 next hop for IPv4 needs a capability (RFC 8950) that these neighbours need not have.
            if next_hop.is_ipv6() != is_v6 {
                let version = if is_v6 { 6 } else { 4 };
                return Err(format!("next hop {next_hop} of {destination} is no IPv{version} address"));
            }
            attributes.next_hop = Some(next_hop);
            let key = Key { family: Family { is_v6, is_flow: false }, nlri: nlri::prefix(destination) };
            return Ok(Self { key, attributes });
        }
        attributes.extended.extend(extended(route.action)?);
        let key = Key { family: Family { is_v6, is_flow: true }, nlri: nlri::rule(rule)? };
        Ok(Self { key, attributes })
    }
}

/// The extended community of an action (RFC 8955, section 7).
fn extended(action: Action) -> Result<Option<[u8; 8]>, String> {
    let community = |kind: [u8; 2], value: [u8; 6]| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&kind);
        bytes[2..].copy_from_slice(&value);
        bytes
    };
    // The AS of a rate informs, and nobody reads it.
    let rate = |bytes_per_s: f32| {
        let [a, b, c, d] = bytes_per_s.to_be_bytes();
        community([0x80, 0x06], [0, 0, a, b, c, d])
    };
    Ok(Some(match action {
        Action::Blackhole => return Ok(None),
        Action::Drop => rate(0.0),
        Action::Limit { bytes_per_s } if bytes_per_s.is_finite() && bytes_per_s >= 0.0 => rate(bytes_per_s),
        Action::Limit { bytes_per_s } => return Err(format!("{bytes_per_s} bytes/s is no rate")),
        Action::Mark { dscp } if dscp < 64 => community([0x80, 0x09], [0, 0, 0, 0, 0, dscp]),
        Action::Mark { dscp } => return Err(format!("{dscp} is no DSCP (write 0 to 63)")),
        Action::Redirect { asn, number } => match (RouteTarget { asn, number }).extended(0x80, 0x08) {
            Some(community) => community,
            None => {
                return Err(format!("route target {asn}:{number}: the number of an AS past 65535 is at most 65535"));
            }
        },
    }))
}

/// The address that stands for none.
fn unspecified(is_v6: bool) -> IpAddr {
    if is_v6 { std::net::Ipv6Addr::UNSPECIFIED.into() } else { std::net::Ipv4Addr::UNSPECIFIED.into() }
}
