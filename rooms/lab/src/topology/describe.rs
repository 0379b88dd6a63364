//! The network as text.

use ipnet::IpNet;
use weir_emulator::model::Way;

use super::{Kind, Node, Path, Topology};

impl Topology {
    /// One line of text per node or link.
    pub fn describe(&self) -> Vec<String> {
        let nodes = self.nodes.iter().map(|node| {
            let on = node.processor.map(|processor| format!(", CPU {processor}")).unwrap_or_default();
            format!("{} {}{}{on}", node.kind, node.name, self.addresses_of(node))
        });
        let links = self.links.iter().map(|link| {
            let [a, b] = link.ends.map(|end| self.nodes[end].name.as_str());
            let direct = if link.direct { ", direct" } else { "" };
            format!("link {}: {a} - {b}, MTU {}{direct}", link.name, link.mtu)
        });
        nodes.chain(links).collect()
    }

    /// One line per receiver: the links on its path with their loss, delay and rate, and the totals, one way,
    /// back, and both.
    pub fn describe_paths(&self) -> Vec<String> {
        let from = &self.nodes[self.traffic.sender].name;
        let line = |(&receiver, path): (&usize, &Path)| {
            let to = &self.nodes[receiver].name;
            let round_trip = [path.forward.as_slice(), &path.backward].concat();
            let turned: Vec<usize> = path.forward.iter().rev().map(|&(link, _)| link).collect();
            let back: Vec<usize> = path.backward.iter().map(|&(link, _)| link).collect();
            let other_way = if back == turned { String::new() } else { format!(" by {}:", self.each(&path.backward)) };
            format!(
                "{from} -> {to}: {}: {} one way; back{other_way} {}; round trip {}",
                self.each(&path.forward),
                self.in_all(&path.forward),
                self.in_all(&path.backward),
                self.in_all(&round_trip)
            )
        };
        self.traffic.receivers.iter().zip(&self.traffic.paths).map(line).collect()
    }

    fn each(&self, hops: &[(usize, Way)]) -> String {
        let hop = |&(link, way): &(usize, Way)| {
            let one = [(link, way)];
            let rate = self.rate_mbit(&one).map(|mbit| match mbit {
                1000.0.. => format!(" {} Gbit/s", number(mbit / 1000.0)),
                _ => format!(" {} Mbit/s", number(mbit)),
            });
            let (loss, delay) = (number(self.loss(&one) * 100.0), number(self.latency_ms(&one)));
            format!("{} {loss} % {delay} ms{}", self.links[link].name, rate.unwrap_or_default())
        };
        hops.iter().map(hop).collect::<Vec<_>>().join(", ")
    }

    fn in_all(&self, hops: &[(usize, Way)]) -> String {
        format!("{} % and {} ms", number(self.loss(hops) * 100.0), number(self.latency_ms(hops)))
    }

    /// The addresses of a node with several links, by link.
    fn addresses_of(&self, node: &Node) -> String {
        let words = |addresses: &[IpNet]| addresses.iter().map(|address| format!(" {address}")).collect::<String>();
        match (node.kind, node.interfaces.as_slice()) {
            (Kind::Switch, _) => String::new(),
            (_, [only]) => words(&only.addresses),
            (_, several) => {
                let by_link = several.iter().map(|interface| {
                    format!("{} {}{}", self.links[interface.link].name, interface.name, words(&interface.addresses))
                });
                format!(": {}", by_link.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Up to four decimals, without trailing zeros.
fn number(value: f64) -> String {
    let rounded = (value * 1e4).round() / 1e4;
    // Two losses of 1 - sqrt(1 - p) may leave -0.
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}
