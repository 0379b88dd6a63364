//! The network of a cell as a checked graph: nodes, links, routes, and the paths that the traffic takes.

mod check;
mod describe;
mod flow;
mod impairments;
mod routes;
mod spread;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use weir_emulator::model::{Plan, Way};

use self::check::index_of;
pub use self::flow::{Control, Flow};
use self::routes::Map;
pub use self::routes::Route;
use crate::scenario::{self, Scenario};
use crate::traces::Traces;

/// Nodes joined by emulated links, without a loop of switches, with routes for the traffic.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Hosts, then routers, then switches, each by name.
    pub nodes: Vec<Node>,
    /// By name.
    pub links: Vec<Link>,
    /// Ends and paths of the measured traffic.
    pub traffic: Flow,
    /// Ends and paths of the load, if there is one.
    pub load: Option<Flow>,
    /// The separate link of iperf3's control connection.
    pub control: Option<Control>,
    /// Max buffer of a host's TCP sockets, bytes. `None`: the kernel's default.
    pub tcp_buffer: Option<u64>,
    /// The sending window, over which changing values are averaged.
    pub window: Duration,
}

/// A host, a router or a switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name in the scenario.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// One per link, in the order of the links.
    pub interfaces: Vec<Interface>,
    /// To every reachable subnet that it is not on.
    pub routes: Vec<Route>,
    /// Shell commands, run on the node once the network is up.
    pub setup: Vec<String>,
    /// The CPU (its number in the kernel) that receives its packets and runs its ends of messages. `None`: any.
    pub processor: Option<usize>,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An end system; it forwards nothing, even with several links.
    Host,
    /// The kernel's forwarding between its links.
    Router,
    /// A learning bridge.
    Switch,
}

/// A node's end of a link.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Index of the link.
    pub link: usize,
    /// `eth0`, `eth1` ... of a host or router, in the order of the names of its links; `p` and the link's index of a
    /// switch.
    pub name: String,
    /// Its addresses; a switch has none.
    pub addresses: Vec<IpNet>,
    /// Switched links are one segment: the index of its first link.
    pub segment: usize,
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
    /// A veth pair without emulator.
    pub direct: bool,
    /// From the first end to the second, and back.
    pub impairments: [Plan; 2],
}

/// The links that packets cross, and in which direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// In order.
    pub forward: Vec<(usize, Way)>,
    /// Those of the answers, in order; possibly other links.
    pub backward: Vec<(usize, Way)>,
}

impl Topology {
    /// Checks the network of a cell and routes its traffic.
    pub fn new(scenario: &Scenario) -> Result<Topology> {
        let mut nodes = check::nodes(scenario)?;
        let links = scenario
            .links
            .iter()
            .map(|(name, link)| check_link(&nodes, &scenario.traces, name, link))
            .collect::<Result<Vec<_>>>()?;
        check::attach(scenario, &mut nodes, &links)?;
        let aside = flow::control_link(&scenario.traffic, &nodes, &links)?;
        for (node, routes) in (0..nodes.len()).zip((Map { nodes: &nodes, links: &links, aside }).routes()) {
            nodes[node].routes = routes;
        }
        let map = Map { nodes: &nodes, links: &links, aside };
        let traffic = Flow::new("traffic", &scenario.traffic, &map)?;
        let load = scenario.load.as_ref().map(|load| Flow::new("load", load, &map)).transpose()?;
        let control = aside.map(|link| Control::new(&scenario.traffic, &map, &traffic, link)).transpose()?;
        let tcp_buffer = scenario.tcp.buffer.map(|size| size.bytes);
        let window = scenario.run.duration.duration();
        let mut topology = Topology { nodes, links, traffic, load, control, tcp_buffer, window };
        let routers = topology.max_routers();
        ensure!(routers < TTL, "a path crosses {routers} routers, but a packet's TTL allows at most {}", TTL - 1);
        spread::spread(&mut topology, scenario);
        for link in &mut topology.links {
            for (way, impairments) in WAYS.into_iter().zip(&mut link.impairments) {
                impairments.validate().with_context(|| format!("links.{}.{way}", link.name))?;
                ensure!(
                    !link.direct || *impairments == Plan::default(),
                    "links.{}: a direct link does nothing to packets. Remove `direct` or its impairments.",
                    link.name
                );
                if !scenario.run.impaired {
                    *impairments = Plan::default();
                }
            }
        }
        Ok(topology)
    }

    /// All traffic of the network: the measured traffic, and the load if there is one.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        std::iter::once(&self.traffic).chain(&self.load)
    }

    /// Index of the host, router or switch of this name.
    pub fn node(&self, name: &str) -> Result<usize> {
        index_of(&self.nodes, name)
    }

    /// Loss along these hops, as configured, averaged over the sending window: they multiply. An explicit drop list
    /// counts as none.
    pub fn loss(&self, hops: &[(usize, Way)]) -> f64 {
        1.0 - self.along(hops).map(|plan| 1.0 - plan.mean_loss(self.window)).product::<f64>()
    }

    /// Delay along these hops in milliseconds, as configured, averaged over the sending window, with the mean of its
    /// variation.
    pub fn latency_ms(&self, hops: &[(usize, Way)]) -> f64 {
        self.along(hops).map(|plan| plan.mean_delay(self.window).as_secs_f64() * 1e3).sum()
    }

    /// Lowest rate along these hops, Mbit/s: the average of each link over the sending window. A link without a limit
    /// for some of the window counts as unlimited.
    pub fn rate_mbit(&self, hops: &[(usize, Way)]) -> Option<f64> {
        self.along(hops).filter_map(|plan| plan.mean_rate(self.window)).map(|rate| rate / 1e6).reduce(f64::min)
    }

    /// Largest IP packet that all of these hops carry.
    pub fn mtu(&self, hops: &[(usize, Way)]) -> u32 {
        hops.iter().map(|&(link, _)| self.links[link].mtu).min().unwrap_or(u32::MAX)
    }

    /// Routers on the longest path of a flow, in either direction.
    fn max_routers(&self) -> usize {
        let paths = self.flows().flat_map(|flow| &flow.paths).flat_map(|path| [&path.forward, &path.backward]);
        let router = |&&(link, way): &&(usize, Way)| {
            let end = self.links[link].ends[1 - way as usize];
            self.nodes[end].kind == Kind::Router
        };
        paths.map(|hops| hops.iter().filter(router).count()).max().unwrap_or(0)
    }

    /// Whether some packets are delivered twice along these hops.
    pub fn duplicates(&self, hops: &[(usize, Way)]) -> bool {
        self.along(hops).flat_map(Plan::phases).any(|impairments| impairments.duplicate > 0.0)
    }

    /// Whether a node has an IPv6 address.
    pub fn has_ipv6(&self) -> bool {
        self.nodes.iter().flat_map(Node::addresses).any(|address| matches!(address, IpNet::V6(_)))
    }

    /// Whether both ends of a link are switches.
    pub fn joins_switches(&self, link: &Link) -> bool {
        link.ends.iter().all(|&end| self.nodes[end].kind == Kind::Switch)
    }

    /// The ends of links at a node: the link, and which of its ends. What a router or switch receives through all of
    /// them it sends through them.
    pub fn ends_at(&self, node: usize) -> Vec<(usize, usize)> {
        let end = |link: usize| self.links[link].ends.iter().position(|&end| end == node);
        (0..self.links.len()).filter_map(|link| Some((link, end(link)?))).collect()
    }

    /// The ends of links of hosts and routers (the link, and which of its ends) that a switch reaches through one of
    /// its own links.
    pub fn reachable_through(&self, switch: usize, link: usize) -> Vec<(usize, usize)> {
        let [a, b] = self.links[link].ends;
        let (next, end) = if a == switch { (b, 1) } else { (a, 0) };
        if self.nodes[next].kind != Kind::Switch {
            return vec![(link, end)];
        }
        let onwards = self.nodes[next].interfaces.iter().map(|port| port.link).filter(|&port| port != link);
        onwards.flat_map(|onward| self.reachable_through(next, onward)).collect()
    }

    fn along(&self, hops: &[(usize, Way)]) -> impl Iterator<Item = &Plan> {
        hops.iter().map(|&(link, way)| &self.links[link].impairments[way as usize])
    }
}

impl Node {
    /// All of its addresses, in the order of its links.
    pub fn addresses(&self) -> impl Iterator<Item = &IpNet> {
        self.interfaces.iter().flat_map(|interface| &interface.addresses)
    }

    /// Its end of a link.
    pub fn interface(&self, link: usize) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.link == link)
    }

    /// Its address on a link for packets to a neighbour there: the first one of a subnet that the neighbour is in.
    pub(super) fn address_towards(&self, link: usize, neighbour: IpAddr) -> Option<IpAddr> {
        self.interface(link)?.addresses.iter().find(|own| own.contains(&neighbour)).map(IpNet::addr)
    }

    /// Its key in the scenario: `hosts.NAME`.
    pub fn key(&self) -> String {
        let table = match self.kind {
            Kind::Host => "hosts",
            Kind::Router => "routers",
            Kind::Switch => "switches",
        };
        format!("{table}.{}", self.name)
    }
}

impl Interface {
    /// Addresses that mean the same on every link.
    fn global(&self) -> impl Iterator<Item = &IpNet> {
        self.addresses.iter().filter(|address| match address {
            IpNet::V4(v4) => !v4.addr().is_link_local(),
            IpNet::V6(v6) => !v6.addr().is_unicast_link_local(),
        })
    }

    /// The subnets that it is on, except those of link-local addresses.
    fn subnets(&self) -> impl Iterator<Item = IpNet> {
        self.global().map(IpNet::trunc)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Host => "host",
            Kind::Router => "router",
            Kind::Switch => "switch",
        })
    }
}

fn check_link(nodes: &[Node], traces: &Traces, name: &str, link: &scenario::Link) -> Result<Link> {
    let ends = checked_ends(nodes, name, link).with_context(|| format!("links.{name}"))?;
    let [forward, backward] = link.directions();
    let plan =
        |way: &str, direction| impairments::plan(direction, traces).with_context(|| format!("links.{name}.{way}"));
    Ok(Link {
        name: name.to_owned(),
        ends,
        mtu: link.mtu,
        direct: link.direct,
        impairments: [plan(WAYS[0], &forward)?, plan(WAYS[1], &backward)?],
    })
}

fn checked_ends(nodes: &[Node], name: &str, link: &scenario::Link) -> Result<[usize; 2]> {
    check::check_name(name)?;
    let [a, b] = &link.ends;
    let ends = [index_of(nodes, a)?, index_of(nodes, b)?];
    ensure!(ends[0] != ends[1], "both ends are `{a}`");
    ensure!((1280..=65_535).contains(&link.mtu), "mtu of {}: must be 1280 to 65535 bytes", link.mtu);
    Ok(ends)
}

/// A packet that has passed this many routers is not forwarded (ip_default_ttl, RFC 1700).
const TTL: usize = 64;

/// The keys of a link's directions.
const WAYS: [&str; 2] = ["forward", "backward"];
