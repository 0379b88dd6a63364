//! Rules that nothing can ever reach.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::joint::JointPrefixSet;

use crate::settings::{Listener, Matching, Rule, Settings};

/// Indices of rules that never match: everything they would take is taken by rules before them, or comes from a family
/// that their listeners do not hear.
pub(super) fn unreachable(settings: &Settings) -> Vec<usize> {
    let mut hidden = vec![true; settings.rules.len()];
    for (index, listener) in differing(settings) {
        let mut taken = Taken::default();
        for (rule, hidden) in settings.rules.iter().zip(&mut hidden).filter(|(rule, _)| takes_from(rule, index)) {
            let sources = if rule.sources.is_empty() { &EVERYTHING[..] } else { &rule.sources };
            *hidden &= !sources.iter().any(|&net| is_heard(net, listener) && !taken.covers(net));
            if settings.matching == Matching::First {
                sources.iter().for_each(|&net| taken.add(net));
            }
        }
    }
    hidden.iter().enumerate().filter(|(_, hidden)| **hidden).map(|(index, _)| index).collect()
}

/// The listeners that rules can tell apart: those that are named, and of the others one for each choice of families.
fn differing(settings: &Settings) -> impl Iterator<Item = (usize, &Listener)> {
    let named: BTreeSet<usize> = settings.rules.iter().flat_map(|rule| rule.listeners.iter().copied()).collect();
    let mut known = BTreeSet::new();
    settings.listeners.iter().enumerate().filter(move |(index, listener)| {
        named.contains(index) || known.insert(EVERYTHING.map(|net| is_heard(net, listener)))
    })
}

fn takes_from(rule: &Rule, listener: usize) -> bool {
    rule.listeners.is_empty() || rule.listeners.contains(&listener)
}

/// The sources that rules have taken so far: networks of which none contains another, and no two halve a third.
#[derive(Default)]
struct Taken(JointPrefixSet<IpNet>);

impl Taken {
    fn covers(&self, net: IpNet) -> bool {
        self.0.get_lpm(&net.trunc()).is_some()
    }

    fn add(&mut self, net: IpNet) {
        let mut net = net.trunc();
        if self.covers(net) {
            return;
        }
        // What is covered by several networks is covered by one then.
        while let Some(wider) = net.supernet()
            && let Some(other) = wider.subnets(net.prefix_len()).ok().into_iter().flatten().find(|half| *half != net)
            && self.0.remove(&other)
        {
            net = wider;
        }
        self.0.remove_children(&net);
        self.0.insert(net);
    }
}

/// Whether a listener can receive from a network's family. Bound to [::], it hears both.
fn is_heard(net: IpNet, listener: &Listener) -> bool {
    match listener.address.ip().to_canonical() {
        IpAddr::V6(address) if address.is_unspecified() => true,
        IpAddr::V6(_) => net.addr().is_ipv6(),
        IpAddr::V4(_) => net.addr().is_ipv4(),
    }
}

const EVERYTHING: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net() -> impl Strategy<Value = IpNet> {
        (0_u32..64, 26_u8..=32).prop_map(|(bits, length)| IpNet::new(Ipv4Addr::from_bits(bits).into(), length).unwrap())
    }

    proptest! {
        /// Against every single address.
        #[test]
        fn what_is_taken_is_the_union(nets in prop::collection::vec(net(), 0..24), asked in prop::collection::vec(net(), 1..24)) {
            let mut taken = Taken::default();
            nets.iter().for_each(|&net| taken.add(net));
            for net in asked {
                let covered = net.hosts().chain([net.network(), net.broadcast()]).all(|host| nets.iter().any(|net| net.contains(&host)));
                prop_assert_eq!(taken.covers(net), covered, "{}", net);
            }
        }
    }
}
