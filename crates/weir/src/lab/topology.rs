//! The network of a cell as a checked graph: nodes, links, and the route that the traffic takes.

use std::collections::VecDeque;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;
use weir_emulator::model::{self, Impairments, Way};

use super::scenario::{self, Scenario};

/// Nodes joined by emulated links, without a loop, every host reachable from the sender.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Hosts, then switches, each by name.
    pub nodes: Vec<Node>,
    /// By name.
    pub links: Vec<Link>,
    /// Index of the sending host.
    pub sender: usize,
    /// Index of the receiving host.
    pub receiver: usize,
    /// Where the traffic goes to.
    pub destination: IpAddr,
    /// The links from the sender to the receiver, in order, and which way each is taken.
    pub route: Vec<(usize, Way)>,
}

/// A host or a switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name in the scenario.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Lines for the shell, run on the node when the network is up.
    pub setup: Vec<String>,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// An end system with one interface and these addresses.
    Host(Vec<IpNet>),
    /// A learning bridge.
    Switch,
}

/// An emulated link.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its name in the scenario.
    pub name: String,
    /// Node indexes.
    pub ends: [usize; 2],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// From the first end to the second, and back.
    pub impairments: [Impairments; 2],
}

impl Topology {
    /// Checks the network of a cell and routes its traffic.
    pub fn new(scenario: &Scenario) -> Result<Topology> {
        let hosts = scenario.hosts.iter().map(|(name, host)| Node {
            name: name.clone(),
            kind: Kind::Host(match &host.addresses {
                scenario::Addresses::Only(addresses) => addresses.clone(),
                scenario::Addresses::ByLink(by_link) => by_link.values().flatten().copied().collect(),
            }),
            setup: host.setup.clone(),
        });
        let switches =
            scenario.switches.keys().map(|name| Node { name: name.clone(), kind: Kind::Switch, setup: Vec::new() });
        let nodes: Vec<Node> = hosts.chain(switches).collect();
        let links = scenario
            .links
            .iter()
            .map(|(name, link)| check_link(&nodes, name, link).with_context(|| format!("links.{name}")))
            .collect::<Result<Vec<_>>>()?;
        check_nodes(&nodes, &links)?;
        check_addresses(&nodes)?;

        let host = |key: &str, name: &str| -> Result<usize> {
            let index = index_of(&nodes, name).with_context(|| format!("traffic.{key}"))?;
            ensure!(matches!(nodes[index].kind, Kind::Host(_)), "traffic.{key}: `{name}` is a switch, not a host");
            Ok(index)
        };
        let (sender, receiver) = (host("from", &scenario.traffic.from)?, host("to", &scenario.traffic.to.names()[0])?);
        ensure!(sender != receiver, "traffic.to: the receiver is the sender");
        let destination = destination(&nodes[receiver], scenario.traffic.address)?;
        let route = route(&nodes, &links, sender, receiver)?;
        let mut topology = Topology { nodes, links, sender, receiver, destination, route };
        topology.spread(&scenario.path)?;
        for link in &topology.links {
            for impairments in &link.impairments {
                impairments.validate().with_context(|| format!("links.{}", link.name))?;
            }
        }
        Ok(topology)
    }

    /// Index of the host or switch of this name.
    pub fn node(&self, name: &str) -> Result<usize> {
        index_of(&self.nodes, name)
    }

    /// One-way loss of the route, as configured: the hops multiply. An explicit drop list counts as none.
    pub fn loss(&self) -> f64 {
        1.0 - self.along_route().map(|impairments| 1.0 - impairments.loss.mean()).product::<f64>()
    }

    /// One-way delay of the route in milliseconds, as configured, without variation.
    pub fn latency_ms(&self) -> f64 {
        self.along_route().map(|impairments| impairments.delay.as_secs_f64() * 1e3).sum()
    }

    /// Smallest rate on the route, Mbit/s.
    pub fn rate_mbit(&self) -> Option<f64> {
        self.along_route()
            .filter_map(|impairments| impairments.rate)
            .map(|rate| rate.bits_per_second as f64 / 1e6)
            .reduce(f64::min)
    }

    /// Largest IP packet that the whole route carries.
    pub fn mtu(&self) -> u32 {
        self.route.iter().map(|&(link, _)| self.links[link].mtu).min().unwrap_or(u32::MAX)
    }

    /// The other hosts that a host reaches without a router, by node index.
    pub fn neighbours(&self, host: usize) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|&other| other != host && matches!(self.nodes[other].kind, Kind::Host(_)))
            .filter(|&other| route(&self.nodes, &self.links, host, other).is_ok())
            .collect()
    }

    /// Whether some packets are delivered twice.
    pub fn duplicates(&self) -> bool {
        self.along_route().any(|impairments| impairments.duplicate > 0.0)
    }

    /// Whether a host has an IPv6 address.
    pub fn has_ipv6(&self) -> bool {
        self.nodes.iter().any(|node| match &node.kind {
            Kind::Host(addresses) => addresses.iter().any(|address| matches!(address, IpNet::V6(_))),
            Kind::Switch => false,
        })
    }

    /// One line a node or link, for people.
    pub fn describe(&self) -> Vec<String> {
        let nodes = self.nodes.iter().map(|node| match &node.kind {
            Kind::Host(addresses) => {
                let addresses: Vec<String> = addresses.iter().map(IpNet::to_string).collect();
                format!("host {} {}", node.name, addresses.join(" "))
            }
            Kind::Switch => format!("switch {}", node.name),
        });
        let links = self.links.iter().map(|link| {
            let [a, b] = link.ends.map(|end| self.nodes[end].name.as_str());
            format!("link {}: {a} - {b}, MTU {}", link.name, link.mtu)
        });
        nodes.chain(links).collect()
    }

    fn along_route(&self) -> impl Iterator<Item = &Impairments> {
        self.route.iter().map(|&(link, way)| &self.links[link].impairments[way as usize])
    }

    /// Spreads the impairments of the whole path over the links of the route, both ways.
    fn spread(&mut self, path: &scenario::PathImpairments) -> Result<()> {
        let hops = self.route.len() as u32;
        for &(index, _) in &self.route {
            let link = &mut self.links[index];
            for impairments in &mut link.impairments {
                if let Some(loss) = path.loss {
                    ensure!(
                        impairments.loss == model::Loss::None,
                        "path.loss and links.{}.loss are both set: keep one of them",
                        link.name
                    );
                    let share = 1.0 - (1.0 - loss.fraction()).powf(1.0 / f64::from(hops));
                    impairments.loss = if share > 0.0 { model::Loss::Bernoulli(share) } else { model::Loss::None };
                }
                if let Some(delay) = path.delay {
                    ensure!(
                        impairments.delay.is_zero(),
                        "path.delay and links.{}.delay are both set: keep one of them",
                        link.name
                    );
                    impairments.delay = delay.duration() / hops;
                }
            }
        }
        Ok(())
    }
}

fn index_of(nodes: &[Node], name: &str) -> Result<usize> {
    nodes.iter().position(|node| node.name == name).with_context(|| {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        format!("there is no host or switch `{name}` (there are {})", names.join(", "))
    })
}

fn check_link(nodes: &[Node], name: &str, link: &scenario::Link) -> Result<Link> {
    let [a, b] = &link.ends;
    let ends = [index_of(nodes, a)?, index_of(nodes, b)?];
    ensure!(ends[0] != ends[1], "both ends are `{a}`");
    ensure!((1280..=65_535).contains(&link.mtu), "mtu of {}: it must be 1280 to 65535 bytes", link.mtu);
    let [forward, backward] = link.directions();
    Ok(Link {
        name: name.to_owned(),
        ends,
        mtu: link.mtu,
        impairments: [impairments(&forward).context("forward")?, impairments(&backward).context("backward")?],
    })
}

fn impairments(direction: &scenario::Direction) -> Result<Impairments> {
    ensure!(direction.burst.is_none() || direction.rate.is_some(), "`burst` needs a `rate`");
    ensure!(direction.queue.is_none() || direction.rate.is_some(), "`queue` needs a `rate`: without one nothing waits");
    Ok(Impairments {
        loss: match &direction.loss {
            None => model::Loss::None,
            Some(scenario::Loss::Share(share)) if share.fraction() == 0.0 => model::Loss::None,
            Some(scenario::Loss::Share(share)) => model::Loss::Bernoulli(share.fraction()),
            Some(scenario::Loss::Bursts(bursts)) => model::Loss::GilbertElliott {
                to_bad: bursts.to_bad.fraction(),
                to_good: bursts.to_good.fraction(),
                good: bursts.good.fraction(),
                bad: bursts.bad.map_or(1.0, |bad| bad.fraction()),
            },
            Some(scenario::Loss::List(list)) => model::Loss::List(list.list.clone()),
        },
        delay: direction.delay.map(Into::into).unwrap_or_default(),
        variation: direction.variation.as_ref().map(variation).transpose()?,
        rate: direction.rate.map(|rate| model::Rate {
            bits_per_second: rate.bits_per_second,
            burst_bytes: direction.burst.map_or(0, |burst| burst.bytes),
        }),
        trace: None,
        queue: match direction.queue {
            None => model::QueueLimit::Unlimited,
            Some(scenario::Queue::Packets(packets)) => model::QueueLimit::Packets(packets),
            Some(scenario::Queue::Bytes(size)) => model::QueueLimit::Bytes(size.bytes),
        },
        duplicate: direction.duplicate.map_or(0.0, |share| share.fraction()),
        corrupt: direction.corrupt.map_or(0.0, |share| share.fraction()),
        reorder: direction
            .reorder
            .map(|reorder| model::Reorder { probability: reorder.probability.fraction(), by: reorder.by.into() }),
    })
}

fn variation(variation: &scenario::Variation) -> Result<model::Variation> {
    let distribution = match (variation.uniform, variation.normal, variation.exponential) {
        (Some(most), None, None) => model::Distribution::Uniform(most.into()),
        (None, Some([mean, deviation]), None) => model::Distribution::Normal(mean.into(), deviation.into()),
        (None, None, Some(mean)) => model::Distribution::Exponential(mean.into()),
        _ => bail!("variation: give exactly one of `uniform`, `normal` and `exponential`"),
    };
    let order = match variation.order {
        scenario::Order::Keep => model::Order::Keep,
        scenario::Order::Reorder => model::Order::Reorder,
    };
    Ok(model::Variation { distribution, order })
}

/// Each host has one link, each node at least one, and switches form no loop: they run no spanning tree.
fn check_nodes(nodes: &[Node], links: &[Link]) -> Result<()> {
    let mut part: Vec<usize> = (0..nodes.len()).collect();
    for link in links {
        let [a, b] = link.ends.map(|end| part[end]);
        ensure!(
            a != b,
            "links.{}: closes a loop, and switches run no spanning tree: remove a link of the loop",
            link.name
        );
        part.iter_mut().filter(|root| **root == b).for_each(|root| *root = a);
    }
    for (index, node) in nodes.iter().enumerate() {
        let count = links.iter().filter(|link| link.ends.contains(&index)).count();
        match node.kind {
            Kind::Host(_) => ensure!(count == 1, "hosts.{}: a host has exactly one link, this one {count}", node.name),
            Kind::Switch => ensure!(count > 0, "switches.{}: has no link", node.name),
        }
    }
    Ok(())
}

fn check_addresses(nodes: &[Node]) -> Result<()> {
    let mut seen: Vec<(IpAddr, &str)> = Vec::new();
    for node in nodes {
        let Kind::Host(addresses) = &node.kind else { continue };
        ensure!(!addresses.is_empty(), "hosts.{}: has no address", node.name);
        for address in addresses.iter().map(IpNet::addr) {
            if let Some((_, other)) = seen.iter().find(|(seen, _)| *seen == address) {
                bail!("hosts.{}: {address} is also the address of {other}", node.name);
            }
            seen.push((address, &node.name));
        }
    }
    Ok(())
}

fn destination(receiver: &Node, wanted: Option<IpAddr>) -> Result<IpAddr> {
    let Kind::Host(addresses) = &receiver.kind else { bail!("traffic.to: `{}` is not a host", receiver.name) };
    match wanted {
        None => addresses.first().map(IpNet::addr).context("traffic.to: the receiver has no address"),
        Some(wanted) if addresses.iter().any(|address| address.addr() == wanted) => Ok(wanted),
        Some(wanted) => bail!("traffic.address: {wanted} is not an address of `{}`", receiver.name),
    }
}

/// The shortest way from one host to another; only switches pass packets on.
fn route(nodes: &[Node], links: &[Link], from: usize, to: usize) -> Result<Vec<(usize, Way)>> {
    let mut arrived_by: Vec<Option<(usize, Way)>> = vec![None; nodes.len()];
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        if node == to {
            break;
        }
        if node != from && !matches!(nodes[node].kind, Kind::Switch) {
            continue;
        }
        for (index, link) in links.iter().enumerate() {
            let (next, way) = match link.ends {
                [a, b] if a == node => (b, Way::Forward),
                [a, b] if b == node => (a, Way::Backward),
                _ => continue,
            };
            if next != from && arrived_by[next].is_none() {
                arrived_by[next] = Some((index, way));
                queue.push_back(next);
            }
        }
    }
    let mut route = Vec::new();
    let mut node = to;
    while node != from {
        let Some((index, way)) = arrived_by[node] else {
            bail!("no way leads from `{}` to `{}`: join them by links and switches", nodes[from].name, nodes[to].name);
        };
        route.push((index, way));
        let [a, b] = links[index].ends;
        node = if way == Way::Forward { a } else { b };
    }
    route.reverse();
    Ok(route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::sweep::Sweep;

    fn topology(change: impl Fn(&str) -> String) -> Result<Topology> {
        let (_, text) = Scenario::find("telemetry")?;
        let sweep = Sweep::new("telemetry.toml", &change(&text), &[])?;
        let last = sweep.cells.last().context("telemetry has cells")?;
        Topology::new(&last.scenario)
    }

    fn error(from: &str, to: &str) -> String {
        let (_, text) = Scenario::find("telemetry").unwrap();
        assert!(text.contains(from), "{from}");
        format!("{:#}", topology(|text| text.replace(from, to)).unwrap_err())
    }

    #[test]
    fn hops_multiply_to_the_loss_of_the_path() {
        let topology = topology(str::to_owned).unwrap();
        assert!((topology.loss() - 0.2).abs() < 1e-12);
        let model::Loss::Bernoulli(each) = topology.links[0].impairments[0].loss else { panic!("{topology:?}") };
        assert!((each - (1.0 - 0.8_f64.sqrt())).abs() < 1e-12);
        assert_eq!(topology.links[0].impairments[0], topology.links[1].impairments[1]);
    }

    #[test]
    fn the_route_crosses_switches_and_knows_its_ways() {
        let topology = topology(str::to_owned).unwrap();
        let route: Vec<_> =
            topology.route.iter().map(|&(link, way)| (topology.links[link].name.as_str(), way)).collect();
        assert_eq!(route, [("uplink", Way::Forward), ("downlink", Way::Forward)]);
        assert_eq!(topology.neighbours(topology.sender), [topology.receiver]);
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        let mistakes = [
            error("to = \"receiver\"", "to = \"reciever\""),
            error("to = \"receiver\"", "to = \"s1\""),
            error("to = \"receiver\"", "to = \"sender\""),
            error("[switches.s1]", "[switches.s1]\n[switches.s2]"),
            error("[path]", "[links.third]\nends = [\"s1\", \"s1\"]\n[path]"),
            error("[path]", "[links.third]\nends = [\"s1\", \"sender\"]\n[path]"),
            error(
                "[path]",
                "[switches.s2]\n[links.third]\nends = [\"s1\", \"s2\"]\n[links.fourth]\nends = [\"s2\", \"s1\"]\n[path]",
            ),
            error("10.0.0.2/24", "10.0.0.1/24"),
            error("ends = [\"sender\", \"s1\"]", "ends = [\"sender\", \"s1\"]\nloss = \"1%\""),
            error("ends = [\"sender\", \"s1\"]", "ends = [\"sender\", \"s1\"]\nqueue = 5"),
            error("ends = [\"sender\", \"s1\"]", "ends = [\"sender\", \"s1\"]\nmtu = 100"),
            error("ends = [\"sender\", \"s1\"]", "ends = [\"sender\", \"s1\"]\nvariation = { order = \"keep\" }"),
        ];
        assert!(mistakes.iter().all(|mistake| !mistake.contains('\n')));
        insta::assert_snapshot!(mistakes.join("\n"));
    }
}
