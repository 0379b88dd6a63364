//! Rules that nothing can ever reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::settings::{Listener, Matching, Rule, Settings};

/// Indices of rules that never match: everything they would take is taken by rules before them, or comes from a family
/// that their listeners do not hear.
pub(super) fn unreachable(settings: &Settings) -> Vec<usize> {
    let before = |index: usize| match settings.matching {
        Matching::First => &settings.rules[..index],
        Matching::All => &[],
    };
    let rules = settings.rules.iter().enumerate();
    rules.filter(|(index, rule)| !is_reachable(rule, before(*index), settings)).map(|(index, _)| index).collect()
}

fn is_reachable(rule: &Rule, before: &[Rule], settings: &Settings) -> bool {
    let listeners = settings.listeners.iter().enumerate().filter(|(index, _)| takes_from(rule, *index));
    listeners.into_iter().any(|(index, listener)| {
        let earlier = before.iter().filter(|earlier| takes_from(earlier, index)).flat_map(sources).collect();
        // Neighbouring networks joined: what is covered by several is covered by one then.
        let taken = IpNet::aggregate(&earlier);
        sources(rule).into_iter().any(|net| is_heard(net, listener) && !taken.iter().any(|taken| taken.contains(&net)))
    })
}

fn takes_from(rule: &Rule, listener: usize) -> bool {
    rule.listeners.is_empty() || rule.listeners.contains(&listener)
}

fn sources(rule: &Rule) -> Vec<IpNet> {
    if rule.sources.is_empty() { EVERYTHING.to_vec() } else { rule.sources.clone() }
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
