//! Which rules take a datagram: by its listener and its source.

use std::net::IpAddr;

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

use crate::settings::{Matching, Rule};

/// Rules in a form that is quick to ask: what it takes depends on the length of an address, not on their number.
#[derive(Debug)]
pub struct Matcher {
    /// Rules for any listener.
    all: Tree,
    /// Those that name listeners, by listener, as far as one is named.
    named: Vec<Tree>,
    matching: Matching,
}

/// Rules by their sources, each list ascending.
#[derive(Debug)]
struct Tree {
    /// Those for any source.
    any: Vec<usize>,
    by_source: JointPrefixMap<IpNet, Vec<usize>>,
}

impl Matcher {
    /// Prepares rules.
    pub fn new(rules: &[Rule], matching: Matching) -> Self {
        let named = rules.iter().flat_map(|rule| &rule.listeners).max().map_or(0, |last| last + 1);
        let mut matcher = Self { all: Tree::new(), named: (0..named).map(|_| Tree::new()).collect(), matching };
        for (index, rule) in rules.iter().enumerate() {
            if rule.listeners.is_empty() {
                matcher.all.add(index, rule, matching);
            }
            for &listener in &rule.listeners {
                matcher.named[listener].add(index, rule, matching);
            }
        }
        matcher
    }

    /// Fills `found` with the rules that take datagrams of this source from this listener, in their order: at most one
    /// unless all count. An IPv4 address mapped to IPv6, as a listener of both families reports it, is the IPv4 address.
    pub fn matching(&self, listener: usize, source: IpAddr, found: &mut Vec<usize>) {
        found.clear();
        let source = IpNet::from(source.to_canonical());
        for tree in [Some(&self.all), self.named.get(listener)].into_iter().flatten() {
            found.extend(&tree.any);
            tree.by_source.cover_values(&source).for_each(|rules| found.extend(rules));
        }
        // Several networks of a rule may hold the source.
        found.sort_unstable();
        found.dedup();
        if self.matching == Matching::First {
            found.truncate(1);
        }
    }
}

impl Tree {
    fn new() -> Self {
        Self { any: Vec::new(), by_source: JointPrefixMap::new() }
    }

    /// Adds a rule behind those before it.
    fn add(&mut self, index: usize, rule: &Rule, matching: Matching) {
        let place = |rules: &mut Vec<usize>| {
            // Behind another for the very same sources it never has its turn, where the first counts.
            let is_hidden = matching == Matching::First && !rules.is_empty();
            if !is_hidden && rules.last() != Some(&index) {
                rules.push(index);
            }
        };
        if rule.sources.is_empty() {
            place(&mut self.any);
        }
        for net in &rule.sources {
            place(self.by_source.entry(net.trunc()).or_default());
        }
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

    fn found(matcher: &Matcher, listener: usize, source: IpAddr) -> Vec<usize> {
        let mut found = vec![7];
        matcher.matching(listener, source, &mut found);
        found
    }

    fn matching(rules: &[Rule], matching: Matching, listener: usize, source: &str) -> Vec<usize> {
        found(&Matcher::new(rules, matching), listener, source.parse().unwrap())
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

    fn any_rule() -> impl Strategy<Value = Rule> {
        let sources = prop::collection::vec(net(), 0..4);
        let listeners = prop::collection::btree_set(0_usize..3, 0..3);
        (sources, listeners).prop_map(|(sources, listeners)| Rule {
            name: String::new(),
            sources,
            listeners: listeners.into_iter().collect(),
            to: Vec::new(),
        })
    }

    proptest! {
        /// Against the definition: a rule takes a datagram of its listeners if one of its networks contains the source.
        #[test]
        fn rules_take_what_they_say(rules in prop::collection::vec(any_rule(), 1..20), others in prop::collection::vec(net(), 1..20)) {
            let matchers = [Matching::First, Matching::All].map(|matching| Matcher::new(&rules, matching));
            let nets = rules.iter().flat_map(|rule| &rule.sources).chain(&others);
            // A mapped address is that of IPv4.
            for source in nets.flat_map(|net| [net.addr(), net.network(), net.broadcast()]).map(|source| source.to_canonical()) {
                for listener in 0..4 {
                    let takes = |rule: &Rule| {
                        (rule.listeners.is_empty() || rule.listeners.contains(&listener))
                            && (rule.sources.is_empty() || rule.sources.iter().any(|net| net.contains(&source)))
                    };
                    let all: Vec<usize> = (0..rules.len()).filter(|&index| takes(&rules[index])).collect();
                    prop_assert_eq!(found(&matchers[0], listener, source), all[..all.len().min(1)].to_vec());
                    prop_assert_eq!(found(&matchers[1], listener, source), all);
                }
            }
        }
    }
}
