//! Which rules take a datagram: by its listener and its source.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::settings::{Matching, Rule};

/// Rules in a form that is quick to ask.
#[derive(Debug)]
pub struct Matcher {
    rules: Vec<Compiled>,
    matching: Matching,
}

#[derive(Debug)]
struct Compiled {
    /// `None`: any.
    sources: Option<Sources>,
    /// Empty: any.
    listeners: Vec<usize>,
}

/// Ranges of addresses, sorted and disjoint.
#[derive(Debug)]
struct Sources(Vec<RangeInclusive<Key>>);

/// An address as something to compare: whether it is of IPv6, and its bits.
type Key = (bool, u128);

impl Matcher {
    /// Prepares rules.
    pub fn new(rules: &[Rule], matching: Matching) -> Self {
        let compile = |rule: &Rule| Compiled {
            sources: (!rule.sources.is_empty()).then(|| Sources::new(&rule.sources)),
            listeners: rule.listeners.clone(),
        };
        Self { rules: rules.iter().map(compile).collect(), matching }
    }

    /// The rules that take datagrams of this source from this listener, in their order: at most one unless all count.
    /// An IPv4 address mapped to IPv6, as a listener of both families reports it, is the IPv4 address.
    pub fn matching(&self, listener: usize, source: IpAddr) -> impl Iterator<Item = usize> {
        let source = key(source.to_canonical());
        let takes = move |rule: &Compiled| {
            (rule.listeners.is_empty() || rule.listeners.contains(&listener))
                && rule.sources.as_ref().is_none_or(|sources| sources.contains(source))
        };
        let most = match self.matching {
            Matching::First => 1,
            Matching::All => usize::MAX,
        };
        self.rules.iter().enumerate().filter(move |(_, rule)| takes(rule)).map(|(index, _)| index).take(most)
    }
}

impl Sources {
    fn new(nets: &[IpNet]) -> Self {
        let mut ranges: Vec<_> = nets.iter().map(|net| key(net.network())..=key(net.broadcast())).collect();
        ranges.sort_by_key(|range| (*range.start(), Reverse(*range.end())));
        // Networks contain one another or are disjoint: what begins within a wider one before it ends there, too.
        ranges.dedup_by(|next, before| before.contains(next.start()));
        Self(ranges)
    }

    fn contains(&self, source: Key) -> bool {
        let after = self.0.partition_point(|range| *range.start() <= source);
        after > 0 && self.0[after - 1].contains(&source)
    }
}

fn key(address: IpAddr) -> Key {
    match address {
        IpAddr::V4(address) => (false, address.to_bits().into()),
        IpAddr::V6(address) => (true, address.to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn rule(sources: &[&str], listeners: &[usize]) -> Rule {
        let sources = sources.iter().map(|net| net.parse().unwrap()).collect();
        Rule { name: String::new(), sources, listeners: listeners.to_vec(), to: Vec::new() }
    }

    fn matching(rules: &[Rule], matching: Matching, listener: usize, source: &str) -> Vec<usize> {
        Matcher::new(rules, matching).matching(listener, source.parse().unwrap()).collect()
    }

    #[test]
    fn the_first_rule_or_all() {
        let rules = [rule(&["10.0.0.0/8"], &[]), rule(&["10.1.0.0/16"], &[]), rule(&[], &[1])];
        assert_eq!(matching(&rules, Matching::First, 0, "10.1.2.3"), [0]);
        assert_eq!(matching(&rules, Matching::All, 0, "10.1.2.3"), [0, 1]);
        assert_eq!(matching(&rules, Matching::All, 1, "10.1.2.3"), [0, 1, 2]);
        assert_eq!(matching(&rules, Matching::First, 1, "192.0.2.1"), [2]);
        assert!(matching(&rules, Matching::All, 0, "192.0.2.1").is_empty());
    }

    #[test]
    fn every_byte_of_a_prefix_counts() {
        let rules = [rule(&["2001:db8:1::/48", "2001:db8:2::1/128"], &[])];
        assert_eq!(matching(&rules, Matching::First, 0, "2001:db8:1:ffff::1"), [0]);
        assert_eq!(matching(&rules, Matching::First, 0, "2001:db8:2::1"), [0]);
        assert!(matching(&rules, Matching::First, 0, "2001:db8:2::2").is_empty());
        assert!(matching(&rules, Matching::First, 0, "2001:db8::1").is_empty());
    }

    #[test]
    fn all_of_a_family_is_that_family() {
        let (v4, v6) = ([rule(&["0.0.0.0/0"], &[])], [rule(&["::/0"], &[])]);
        assert_eq!(matching(&v4, Matching::First, 0, "0.0.0.0"), [0]);
        assert_eq!(matching(&v4, Matching::First, 0, "255.255.255.255"), [0]);
        assert_eq!(matching(&v4, Matching::First, 0, "::ffff:192.0.2.1"), [0]);
        assert!(matching(&v4, Matching::First, 0, "2001:db8::1").is_empty());
        assert!(matching(&v6, Matching::First, 0, "192.0.2.1").is_empty());
        assert!(matching(&v6, Matching::First, 0, "::ffff:192.0.2.1").is_empty());
        assert_eq!(matching(&v6, Matching::First, 0, "2001:db8::1"), [0]);
    }

    fn net() -> impl Strategy<Value = IpNet> {
        let v4 = (any::<u32>(), 0_u8..=32)
            .prop_map(|(bits, length)| IpNet::new(Ipv4Addr::from_bits(bits & 0x0f00_00ff).into(), length).unwrap());
        let v6 = (any::<u128>(), 0_u8..=128).prop_map(|(bits, length)| {
            IpNet::new(Ipv6Addr::from_bits(bits & (0xff << 120 | 0xf)).into(), length).unwrap()
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        /// Against the definition: an address is taken if one of the networks contains it.
        #[test]
        fn ranges_are_the_union_of_networks(
            nets in prop::collection::vec(net(), 1..20),
            others in prop::collection::vec(net(), 1..20),
        ) {
            let sources = Sources::new(&nets);
            for address in others.iter().chain(&nets).flat_map(|net| [net.addr(), net.network(), net.broadcast()]) {
                prop_assert_eq!(sources.contains(key(address)), nets.iter().any(|net| net.contains(&address)));
            }
        }
    }
}
