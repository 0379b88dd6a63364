//! Agents whose samples are looked at, and from where their datagrams may come: asked for each datagram.

use std::net::IpAddr;

use foldhash::quality::RandomState;
use hashbrown::HashMap;
use ipnet::IpNet;

/// Who is listed.
#[derive(Debug, Default)]
pub struct Listed {
    /// Agents that are listed by themselves, and from where each is heard; `None`: from its own address.
    alone: HashMap<IpAddr, Vec<Option<IpNet>>, RandomState>,
    /// Networks of them.
    networks: Vec<(IpNet, Option<IpNet>)>,
    /// How long a stream must have been heard without a contradiction before it may act, ns.
    pub settle: u64,
}

impl Listed {
    /// Agents, or networks of them, each with where its datagrams come from. Of none all are listed, from anywhere.
    pub fn new(agents: impl IntoIterator<Item = (IpNet, Option<IpNet>)>, settle: u64) -> Self {
        let mut listed = Self { settle, ..Self::default() };
        for (agent, from) in agents {
            if agent.prefix_len() == agent.max_prefix_len() {
                listed.alone.entry(agent.addr()).or_default().push(from);
            } else {
                listed.networks.push((agent, from));
            }
        }
        listed
    }

    /// Whether an agent is listed, and speaks from there.
    pub fn is_listed(&self, agent: IpAddr, from: IpAddr) -> bool {
        let alone = self.alone.get(&agent).into_iter().flatten();
        let around = self.networks.iter().filter(|(network, _)| network.contains(&agent)).map(|(_, from)| from);
        let is_there = |place: &Option<IpNet>| place.map_or(from == agent, |network| network.contains(&from));
        self.is_empty() || alone.chain(around).any(is_there)
    }

    /// Whether all are.
    pub(crate) fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.networks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_listed_from_where_it_may_speak() {
        let agents =
            [("10.0.0.0/24", None), ("10.0.0.7/32", Some("192.0.2.0/24")), ("10.1.0.0/24", Some("10.9.0.1/32"))];
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let listed = Listed::new(agents.map(|(agent, from)| (net(agent), from.map(net))), 0);
        for (agent, from, is_listed) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "192.0.2.9", true),
            ("10.0.0.7", "10.0.0.1", false),
            ("10.1.0.1", "10.9.0.1", true),
            ("10.1.0.1", "10.1.0.1", false),
            ("172.16.0.1", "172.16.0.1", false),
        ] {
            let found = listed.is_listed(agent.parse().unwrap(), from.parse().unwrap());
            assert_eq!(found, is_listed, "{agent} from {from}");
        }
        assert!(Listed::default().is_listed("172.16.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap()));
    }
}
