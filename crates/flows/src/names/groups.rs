//! Groups of addresses: networks under a name, the longest prefix first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Result, bail};
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

impl Groups {
    /// Builds a set from names and their networks.
    ///
    /// # Errors
    /// A network is in two groups.
    pub fn new(groups: &BTreeMap<String, Vec<IpNet>>) -> Result<Groups> {
        let mut built = Groups::default();
        for (name, networks) in groups {
            let group = built.names.len() as u32;
            built.names.push(name.clone());
            for &network in networks {
                let before = match network.trunc() {
                    IpNet::V4(net) => built.v4.insert(net, group),
                    IpNet::V6(net) => built.v6.insert(net, group),
                };
                if let Some(before) = before.filter(|&before| before != group) {
                    let first = &built.names[before as usize];
                    bail!("{network} is in the groups `{first}` and `{name}`: leave it in one");
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
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups(groups: &[(&str, &[&str])]) -> Result<Groups> {
        let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect();
        Groups::new(&groups.iter().map(|&(name, list)| (name.to_owned(), nets(list))).collect())
    }

    #[test]
    fn the_longest_prefix_wins() {
        let groups = groups(&[
            ("all", &["0.0.0.0/0", "::/0"]),
            ("campus", &["10.1.0.0/16", "2001:db8::/32"]),
            ("lab", &["10.1.2.0/24", "10.1.3.7/32", "2001:db8:1::/48"]),
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
        assert_eq!(Groups::default().find("10.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn a_network_is_in_one_group() {
        let twice = groups(&[("a", &["10.0.0.0/8"]), ("b", &["10.0.0.0/8"])]).unwrap_err();
        assert_eq!(twice.to_string(), "10.0.0.0/8 is in the groups `a` and `b`: leave it in one");
        // A group may repeat itself.
        assert!(groups(&[("a", &["10.0.0.0/8", "10.0.0.0/8"])]).is_ok());
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
            let mut all: BTreeMap<String, Vec<IpNet>> = BTreeMap::new();
            seen.iter().for_each(|(net, &group)| all.entry(names[group].to_owned()).or_default().push((*net).into()));
            let groups = Groups::new(&all).unwrap();
            let nets: Vec<&Ipv4Net> = seen.keys().collect();
            // One that is near a network, and one that is anywhere.
            let mut asked = vec![std::net::Ipv4Addr::from(asked)];
            asked.extend((!nets.is_empty()).then(|| near.get(&nets).broadcast()));
            for ip in asked {
                let best = seen.iter().filter(|(net, _)| net.contains(&ip)).max_by_key(|(net, _)| net.prefix_len());
                prop_assert_eq!(groups.find(ip.into()), best.map(|(_, &group)| names[group]));
            }
        }
    }
}
