//! Groups of addresses: networks under a name, the longest prefix first.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

/// One set of groups, as sFlow-RT's `PUT /group/NAME/json` takes it: `{"campus": ["10.1.0.0/16"], "all": ["0.0.0.0/0"]}`.
#[derive(Debug, Default)]
pub struct Groups {
    names: Vec<String>,
    /// Places in `names`.
    v4: PrefixMap<Ipv4Net, u32>,
    v6: PrefixMap<Ipv6Net, u32>,
}

/// Why networks are no set of groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// No address, or no network.
    #[error("group `{group}`: `{network}` is no network: write it as 10.1.0.0/16 or 2001:db8::/32")]
    NoNetwork {
        /// Name of the group.
        group: String,
        /// What was written.
        network: String,
    },
    /// Bits behind the prefix.
    #[error("group `{group}`: {network} has bits behind its prefix: write {meant}")]
    HostBits {
        /// Name of the group.
        group: String,
        /// What was written.
        network: IpNet,
        /// The network of that prefix.
        meant: IpNet,
    },
    /// One network, two groups.
    #[error("{network} is in the groups `{first}` and `{second}`: leave it in one")]
    Twice {
        /// The network.
        network: IpNet,
        /// Where it came first.
        first: String,
        /// Where it came again.
        second: String,
    },
}

impl Groups {
    /// Builds a set from names and their networks; a single address is a network of its own.
    ///
    /// # Errors
    /// What is no network, and a network in two groups.
    pub fn new<'a, N>(groups: impl IntoIterator<Item = (&'a str, N)>) -> Result<Groups, GroupError>
    where
        N: IntoIterator<Item = &'a str>,
    {
        let mut built = Groups::default();
        for (name, networks) in groups {
            let group = built.names.len() as u32;
            built.names.push(name.to_owned());
            for text in networks {
                let network = network(name, text)?;
                let before = match network {
                    IpNet::V4(net) => built.v4.insert(net, group),
                    IpNet::V6(net) => built.v6.insert(net, group),
                };
                if let Some(before) = before.filter(|&before| before != group) {
                    let first = built.names[before as usize].clone();
                    return Err(GroupError::Twice { network, first, second: name.to_owned() });
                }
            }
        }
        Ok(built)
    }

    /// The group whose network holds this address most narrowly.
    pub fn find(&self, ip: IpAddr) -> Option<&str> {
        let group = match ip {
            IpAddr::V4(ip) => self.v4.get_lpm(&ip.into())?.1,
            IpAddr::V6(ip) => self.v6.get_lpm(&ip.into())?.1,
        };
        self.names.get(*group as usize).map(String::as_str)
    }

    /// Number of networks.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there is no network.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn network(group: &str, text: &str) -> Result<IpNet, GroupError> {
    let (group, network) = (group.to_owned(), text.trim());
    if let Ok(ip) = network.parse::<IpAddr>() {
        return Ok(ip.into());
    }
    let Ok(network) = network.parse::<IpNet>() else {
        return Err(GroupError::NoNetwork { group, network: text.escape_debug().to_string() });
    };
    let meant = network.trunc();
    if meant == network { Ok(network) } else { Err(GroupError::HostBits { group, network, meant }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let groups = Groups::new([
            ("all", vec!["0.0.0.0/0", "::/0"]),
            ("campus", vec!["10.1.0.0/16", "2001:db8::/32"]),
            ("lab", vec!["10.1.2.0/24", "10.1.3.7", "2001:db8:1::/48"]),
        ])
        .unwrap();
        for (ip, group) in [
            ("10.1.2.3", "lab"),
            ("10.1.3.7", "lab"),
            ("10.1.3.8", "campus"),
            ("11.0.0.1", "all"),
            ("2001:db8:1::5", "lab"),
            ("2001:db8:2::5", "campus"),
            ("fe80::1", "all"),
        ] {
            assert_eq!(groups.find(ip.parse().unwrap()), Some(group), "{ip}");
        }
        assert_eq!(groups.len(), 7);
        assert_eq!(Groups::default().find("10.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn mistakes_are_one_line_with_a_remedy() {
        let mistake = |groups: &[(&'static str, &[&'static str])]| {
            Groups::new(groups.iter().map(|&(name, networks)| (name, networks.iter().copied())))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            mistake(&[("a", &["10.0.0.0/33"])]),
            "group `a`: `10.0.0.0/33` is no network: write it as 10.1.0.0/16 or 2001:db8::/32"
        );
        assert_eq!(
            mistake(&[("a", &["10.0.0.1/8"])]),
            "group `a`: 10.0.0.1/8 has bits behind its prefix: write 10.0.0.0/8"
        );
        assert_eq!(
            mistake(&[("a", &["10.0.0.0/8"]), ("b", &["10.0.0.0/8"])]),
            "10.0.0.0/8 is in the groups `a` and `b`: leave it in one"
        );
        // A group may repeat itself.
        assert!(Groups::new([("a", ["10.0.0.0/8", "10.0.0.0/8"])]).is_ok());
    }

    proptest! {
        #[test]
        fn lookup_is_as_a_search_through_all(
            networks in proptest::collection::vec((any::<[u8; 4]>(), 0u8..=32, 0usize..4), 0..40),
            asked: [u8; 4],
            near in any::<proptest::sample::Index>(),
        ) {
            let names = ["a", "b", "c", "d"];
            let mut seen = std::collections::HashMap::new();
            for (ip, length, group) in networks {
                let net = Ipv4Net::new(ip.into(), length).unwrap().trunc();
                seen.entry(net).or_insert(group);
            }
            let texts: Vec<(usize, String)> = seen.iter().map(|(net, &group)| (group, net.to_string())).collect();
            let groups = Groups::new((0..4).map(|group| {
                (names[group], texts.iter().filter(move |(of, _)| *of == group).map(|(_, text)| text.as_str()))
            }))
            .unwrap();
            // One that is near a network, and one that is anywhere.
            let mut asked = vec![std::net::Ipv4Addr::from(asked)];
            asked.extend((!texts.is_empty()).then(|| near.get(&texts).1.parse::<Ipv4Net>().unwrap().broadcast()));
            for ip in asked {
                let best = seen.iter().filter(|(net, _)| net.contains(&ip)).max_by_key(|(net, _)| net.prefix_len());
                prop_assert_eq!(groups.find(ip.into()), best.map(|(_, &group)| names[group]));
            }
        }
    }
}
