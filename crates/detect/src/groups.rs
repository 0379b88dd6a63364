//! Which group an address belongs to, and the prefixes around it over which a flood may be spread.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use super::settings::Group;

/// Most levels of a network: hosts, four lengths of prefixes, the network itself.
pub(super) const LEVELS: usize = 6;

/// Lengths of prefixes that are tested as a whole.
const V4: [u8; 4] = [28, 24, 20, 16];
/// As above.
const V6: [u8; 3] = [64, 56, 48];

/// A prefix of either family in one form: IPv4 as IPv4-mapped IPv6 (RFC 4291, section 2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Span {
    pub(super) bits: u128,
    pub(super) length: u8,
}

const MAPPED: u128 = 0xffff_0000_0000;

impl Span {
    pub(super) fn host(address: IpAddr) -> Self {
        let bits = match address {
            IpAddr::V4(address) => MAPPED | u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        Self { bits, length: 128 }
    }

    /// The first bits of it.
    #[inline]
    pub(super) fn cut(self, length: u8) -> Self {
        let mask = u128::MAX.checked_shl(u32::from(128 - length)).unwrap_or(0);
        Self { bits: self.bits & mask, length }
    }

    pub(super) fn contains(self, other: Span) -> bool {
        other.length >= self.length && other.cut(self.length) == self
    }

    pub(super) fn is_host(self) -> bool {
        self.length == 128
    }

    /// log2 of how many addresses it has.
    pub(super) fn size(self) -> u8 {
        128 - self.length
    }
}

impl From<IpNet> for Span {
    fn from(net: IpNet) -> Self {
        let length = match net {
            IpNet::V4(net) => net.prefix_len() + 96,
            IpNet::V6(net) => net.prefix_len(),
        };
        Self::host(net.addr()).cut(length)
    }
}

impl From<Span> for IpNet {
    fn from(span: Span) -> Self {
        if span.length >= 96 && span.bits >> 32 == MAPPED >> 32 {
            Ipv4Net::new_assert(Ipv4Addr::from(span.bits as u32), span.length - 96).into()
        } else {
            Ipv6Net::new_assert(Ipv6Addr::from(span.bits), span.length).into()
        }
    }
}

/// A network of a group.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) group: u16,
    /// Lengths of its levels, hosts first; [`Span`]'s.
    pub(super) lengths: Vec<u8>,
    /// Of each level the natural logarithm of how many hosts it is taken for.
    pub(super) ln_hosts: Vec<f64>,
}

/// Networks by address.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) names: Vec<String>,
    pub(super) networks: Vec<Network>,
    v4: PrefixMap<Ipv4Net, u32>,
    v6: PrefixMap<Ipv6Net, u32>,
}

impl Groups {
    pub(super) fn new(groups: &[Group]) -> Self {
        let mut built = Self::default();
        for (at, group) in groups.iter().enumerate().take(usize::from(u16::MAX)) {
            built.names.push(group.name.clone());
            for net in &group.networks {
                let number = built.networks.len() as u32;
                built.networks.push(Network::new(at as u16, net.trunc()));
                match net.trunc() {
                    IpNet::V4(net) => built.v4.insert(net, number),
                    IpNet::V6(net) => built.v6.insert(net, number),
                };
            }
        }
        built
    }

    /// The network that holds an address most narrowly: index in `networks`.
    #[inline]
    pub(super) fn find(&self, address: IpAddr) -> Option<usize> {
        let found = match address {
            IpAddr::V4(address) => self.v4.get_lpm(&address.into())?.1,
            IpAddr::V6(address) => self.v6.get_lpm(&address.into())?.1,
        };
        Some(*found as usize)
    }
}

impl Network {
    fn new(group: u16, net: IpNet) -> Self {
        let (base, lengths, widest) = match net {
            IpNet::V4(_) => (96, V4.as_slice(), 16),
            IpNet::V6(_) => (0, V6.as_slice(), 48),
        };
        let own = net.prefix_len();
        let most = if base == 96 { 32 } else { 128 };
        let mut levels = vec![most];
        levels.extend(lengths.iter().filter(|&&length| length > own && length < most));
        if own >= widest && own < most {
            levels.push(own);
        }
        // Nobody has as many IPv6 hosts as there are addresses.
        let hosts = |length: u8| match net {
            IpNet::V4(_) => 32 - length,
            IpNet::V6(_) if length == 128 => 0,
            IpNet::V6(_) if length > 64 => (128 - length).min(8),
            IpNet::V6(_) => 8 + (64 - length) / 4,
        };
        let ln_hosts = levels.iter().map(|&length| f64::from(hosts(length)) * std::f64::consts::LN_2).collect();
        Self { group, lengths: levels.into_iter().map(|length| length + base).collect(), ln_hosts }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(name: &str, networks: &[&str]) -> Group {
        let networks = networks.iter().map(|net| net.parse().unwrap()).collect();
        Group { name: name.into(), networks, thresholds: Vec::new() }
    }

    #[test]
    fn the_narrowest_network_counts() {
        let groups = Groups::new(&[
            group("all", &["10.0.0.0/8", "2001:db8::/32"]),
            group("web", &["10.1.0.0/22", "2001:db8:1::/64", "10.9.9.9/32"]),
        ]);
        let find = |address: &str| {
            groups.find(address.parse().unwrap()).map(|at| {
                let network = &groups.networks[at];
                (groups.names[usize::from(network.group)].as_str(), network.lengths.clone())
            })
        };
        assert_eq!(find("10.1.3.9"), Some(("web", vec![128, 124, 120, 118])));
        assert_eq!(find("10.1.4.9"), Some(("all", vec![128, 124, 120, 116, 112])));
        assert_eq!(find("10.9.9.9"), Some(("web", vec![128])));
        assert_eq!(find("2001:db8:1::7"), Some(("web", vec![128, 64])));
        assert_eq!(find("2001:db8:2::7"), Some(("all", vec![128, 64, 56, 48])));
        assert_eq!(find("192.0.2.1"), None);
        assert!(groups.networks.iter().all(|network| network.lengths.len() <= LEVELS));
    }

    proptest! {
        #[test]
        fn a_span_is_its_prefix(bits: u128, v6: bool, length in 0u8..=128) {
            let net = if v6 {
                // No mapped address: that is no address on a wire.
                IpNet::new(Ipv6Addr::from(bits | 1 << 127).into(), length).unwrap()
            } else {
                IpNet::new(Ipv4Addr::from(bits as u32).into(), length % 33).unwrap()
            };
            prop_assume!(!v6 || length > 0);
            let span = Span::from(net);
            prop_assert_eq!(IpNet::from(span), net.trunc());
            prop_assert!(span.contains(Span::host(net.addr())));
        }
    }
}
