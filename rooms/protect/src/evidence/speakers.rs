//! From where datagrams may come that speak in an agent's name: asked for each of them, before it takes a place in the agent's stream.

use std::net::IpAddr;

use foldhash::quality::RandomState;
use hashbrown::HashMap;
use ipnet::IpNet;

/// Who is listed.
#[derive(Debug, Default)]
pub struct Speakers {
    /// Agents that are listed by themselves, and from where each is heard; `None`: from its own address.
    alone: HashMap<IpAddr, Vec<Option<IpNet>>, RandomState>,
    /// Networks of them.
    networks: Vec<(IpNet, Option<IpNet>)>,
}

impl Speakers {
    /// Agents, or networks of them, each with where its datagrams come from.
    pub fn new(listed: impl IntoIterator<Item = (IpNet, Option<IpNet>)>) -> Self {
        let mut speakers = Self::default();
        for (agent, from) in listed {
            if agent.prefix_len() == agent.max_prefix_len() {
                speakers.alone.entry(agent.addr()).or_default().push(from);
            } else {
                speakers.networks.push((agent, from));
            }
        }
        speakers
    }

    /// Whether an agent is listed, and does not speak from there.
    pub fn is_foreign(&self, agent: IpAddr, from: IpAddr) -> bool {
        let alone = self.alone.get(&agent).into_iter().flatten();
        let around = self.networks.iter().filter(|(network, _)| network.contains(&agent)).map(|(_, from)| from);
        let mut places = alone.chain(around).peekable();
        places.peek().is_some() && places.all(|place| !place.map_or(from == agent, |network| network.contains(&from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_listed_is_foreign_elsewhere() {
        let listed =
            [("10.0.0.0/24", None), ("10.0.0.7/32", Some("192.0.2.0/24")), ("10.1.0.0/24", Some("10.9.0.1/32"))];
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let speakers = Speakers::new(listed.map(|(agent, from)| (net(agent), from.map(net))));
        for (agent, from, is_foreign) in [
            ("10.0.0.1", "10.0.0.1", false),
            ("10.0.0.1", "10.0.0.2", true),
            ("10.0.0.7", "10.0.0.7", false),
            ("10.0.0.7", "192.0.2.9", false),
            ("10.0.0.7", "10.0.0.1", true),
            ("10.1.0.1", "10.9.0.1", false),
            ("10.1.0.1", "10.1.0.1", true),
            ("172.16.0.1", "10.0.0.1", false),
        ] {
            let found = speakers.is_foreign(agent.parse().unwrap(), from.parse().unwrap());
            assert_eq!(found, is_foreign, "{agent} from {from}");
        }
    }
}
