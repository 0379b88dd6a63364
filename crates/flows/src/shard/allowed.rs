//! Which agents are heard.

use std::net::IpAddr;

use ipnet::IpNet;

/// Networks of agents, none within another; empty: all agents are heard.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed(Vec<IpNet>);

impl Allowed {
    pub(super) fn new(networks: &[IpNet]) -> Self {
        // In the order of addresses, each before those of higher ones: a search by halves finds the only one that can hold one.
        let mut networks = IpNet::aggregate(&networks.to_vec());
        networks.sort_by_key(IpNet::network);
        Self(networks)
    }

    #[inline]
    pub(super) fn is_heard(&self, agent: IpAddr) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let behind = self.0.partition_point(|network| network.network() <= agent);
        behind > 0 && self.0[behind - 1].contains(&agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_what_looking_at_each_would() {
        let texts = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "192.0.2.0/25",
            "192.0.2.128/25",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "0.0.0.0/32",
        ];
        let networks: Vec<IpNet> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let allowed = Allowed::new(&networks);
        for agent in [
            "0.0.0.0",
            "0.0.0.1",
            "9.255.255.255",
            "10.0.0.0",
            "10.1.2.3",
            "10.255.255.255",
            "11.0.0.0",
            "192.0.1.255",
            "192.0.2.0",
            "192.0.2.127",
            "192.0.2.128",
            "192.0.2.255",
            "192.0.3.0",
            "255.255.255.255",
            "::",
            "::1",
            "2001:db7:ffff::",
            "2001:db8::",
            "2001:db8:1::5",
            "2001:db8:ffff::",
            "2001:db9::",
            "ffff::",
        ] {
            let agent: IpAddr = agent.parse().unwrap();
            assert_eq!(allowed.is_heard(agent), networks.iter().any(|network| network.contains(&agent)), "{agent}");
        }
        assert!(Allowed::default().is_heard([7, 7, 7, 7].into()));
    }
}
