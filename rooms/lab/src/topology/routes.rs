//! Routing: the routes of hosts and routers, and the links that a packet crosses.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use weir_emulator::model::Way;

use super::{Interface, Kind, Link, Node, Path};

/// A route of a host or router to a subnet that it is not on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The subnet.
    pub destination: IpNet,
    /// The router it leads to, on the same segment.
    pub gateway: IpAddr,
    /// The link that the packets leave by.
    pub link: usize,
}

/// Nodes and links that packets may take.
#[derive(Clone, Copy)]
pub(super) struct Map<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) links: &'a [Link],
    /// A link that no route leads over; only its own subnets are reached by it.
    pub(super) aside: Option<usize>,
}

impl Map<'_> {
    /// The routes of every node: over the fewest routers, then over the router that is first by name, then over the
    /// first link to it.
    pub(super) fn routes(&self) -> Vec<Vec<Route>> {
        let mut routes = vec![Vec::new(); self.nodes.len()];
        for subnet in self.subnets() {
            let mut reach: Vec<Reach> = self.nodes.iter().map(|node| Reach::new(node, subnet)).collect();
            while let found @ [_, ..] = self.one_further(subnet, &reach).as_slice() {
                for &(node, route) in found {
                    reach[node] = Reach { is_there: true, forwards: self.nodes[node].kind == Kind::Router };
                    routes[node].push(route);
                }
            }
        }
        routes
    }

    /// Routes of the nodes that do not reach a subnet yet, but have a neighbour that does and forwards.
    fn one_further(&self, subnet: IpNet, reach: &[Reach]) -> Vec<(usize, Route)> {
        let from = |node: usize| {
            let neighbours = self.neighbours(node, subnet.addr().is_ipv4());
            let towards = neighbours.into_iter().filter(|(_, neighbour, _)| reach[*neighbour].forwards);
            let (link, _, gateway) = towards.min_by_key(|&(link, neighbour, _)| (neighbour, link))?;
            Some((node, Route { destination: subnet, gateway, link }))
        };
        (0..self.nodes.len()).filter(|&node| !reach[node].is_there).filter_map(from).collect()
    }

    /// Every subnet once.
    fn subnets(&self) -> Vec<IpNet> {
        let interfaces = self.nodes.iter().flat_map(|node| &node.interfaces);
        let mut subnets: Vec<IpNet> = interfaces.flat_map(|interface| interface.subnets()).collect();
        subnets.sort();
        subnets.dedup();
        subnets
    }

    /// The nodes that a node may send packets to: their link, index and address.
    pub(super) fn neighbours(&self, node: usize, ipv4: bool) -> Vec<(usize, usize, IpAddr)> {
        let mut neighbours = Vec::new();
        for own in self.own_interfaces(node) {
            for (index, other) in self.nodes.iter().enumerate().filter(|(index, _)| *index != node) {
                let theirs = other.interfaces.iter().filter(|interface| interface.segment == own.segment);
                let mut addresses = theirs.flat_map(|interface| interface.global()).map(|address| address.addr());
                let reached = |address: &IpAddr| {
                    address.is_ipv4() == ipv4 && own.subnets().any(|subnet| subnet.contains(address))
                };
                neighbours.extend(addresses.find(reached).map(|address| (own.link, index, address)));
            }
        }
        neighbours
    }

    /// The links of a node that are not set aside.
    fn own_interfaces(&self, node: usize) -> impl Iterator<Item = &Interface> {
        let mut interfaces = self.nodes.iter().flat_map(|node| &node.interfaces);
        let aside = interfaces.find(|interface| Some(interface.link) == self.aside).map(|interface| interface.segment);
        self.nodes[node].interfaces.iter().filter(move |own| Some(own.segment) != aside)
    }

    /// The path from one node to an address of another, and that of the answers.
    pub(super) fn path(&self, from: usize, to: usize, destination: IpAddr) -> Result<Path> {
        let why_not = |from, to| move || self.why_not(from, to, destination.is_ipv4());
        let forward = self.walk(from, destination).with_context(why_not(from, to))?;
        let source = self.source(from, destination).with_context(why_not(from, to))?;
        Ok(Path { forward, backward: self.walk(to, source).with_context(why_not(to, from))? })
    }

    /// The path of a multicast group, which routers do not forward.
    pub(super) fn multicast_path(&self, from: usize, to: usize, group: IpAddr) -> Result<Path> {
        let mut own = self.own_interfaces(from);
        let shared = |segment| self.nodes[to].interfaces.iter().find(|interface| interface.segment == segment);
        let (near, far) = own.find_map(|own| Some((own, shared(own.segment)?))).with_context(|| {
            let [from, to] = [from, to].map(|node| &self.nodes[node].name);
            format!(
                "`{to}` is not on a segment with `{from}`. Join them by switches: routers do not forward multicast."
            )
        })?;
        for (node, interface) in [(from, near), (to, far)] {
            ensure!(
                interface.addresses.iter().any(|address| address.addr().is_ipv4() == group.is_ipv4()),
                "`{}` has no {} address on link `{}`, which {group} needs",
                self.nodes[node].name,
                family(group.is_ipv4()),
                self.links[interface.link].name
            );
        }
        let hops = |from, link, to| self.across(from, link, to).context("a segment is connected");
        Ok(Path { forward: hops(from, near.link, to)?, backward: hops(to, far.link, from)? })
    }

    /// The links that a packet for `destination` crosses. `None`: it does not get there.
    pub(super) fn walk(&self, from: usize, destination: IpAddr) -> Option<Vec<(usize, Way)>> {
        let (mut node, mut hops) = (from, Vec::new());
        // Shortest paths have no loops; this ends if they should.
        for _ in 0..=self.nodes.len() {
            if self.nodes[node].addresses().any(|own| own.addr() == destination) {
                return Some(hops);
            }
            let (link, gateway) = self.next_hop(node, destination)?;
            let next = self.owner(node, link, gateway)?;
            hops.extend(self.across(node, link, next)?);
            node = next;
        }
        None
    }

    /// The longest matching prefix: the link, and the next address on it.
    pub(super) fn next_hop(&self, node: usize, destination: IpAddr) -> Option<(usize, IpAddr)> {
        let node = &self.nodes[node];
        let direct = node
            .interfaces
            .iter()
            .flat_map(|interface| interface.addresses.iter().map(|address| (*address, interface.link, destination)));
        let routed = node.routes.iter().map(|route| (route.destination, route.link, route.gateway));
        let matching = direct.chain(routed).filter(|(subnet, _, _)| subnet.contains(&destination));
        matching.max_by_key(|(subnet, _, _)| subnet.prefix_len()).map(|(_, link, gateway)| (link, gateway))
    }

    /// The source address of a node's packets for `destination`.
    fn source(&self, node: usize, destination: IpAddr) -> Option<IpAddr> {
        let (link, gateway) = self.next_hop(node, destination)?;
        self.nodes[node].address_towards(link, gateway)
    }

    /// The node with an address on the segment of a node's link.
    pub(super) fn owner(&self, node: usize, link: usize, address: IpAddr) -> Option<usize> {
        let segment = self.nodes[node].interface(link)?.segment;
        let has = |other: &Node| {
            let on_it = other.interfaces.iter().filter(|interface| interface.segment == segment);
            on_it.flat_map(|interface| &interface.addresses).any(|own| own.addr() == address)
        };
        self.nodes.iter().position(has)
    }

    /// The links from a node's own link to another node of the same segment. There is one path: switches form no loop.
    fn across(&self, from: usize, link: usize, to: usize) -> Option<Vec<(usize, Way)>> {
        let (next, way) = match self.links[link].ends {
            [a, b] if a == from => (b, Way::Forward),
            [a, _] => (a, Way::Backward),
        };
        if next == to {
            return Some(vec![(link, way)]);
        }
        if self.nodes[next].kind != Kind::Switch {
            return None;
        }
        let onwards = self.nodes[next].interfaces.iter().map(|port| port.link).filter(|&port| port != link);
        let rest = onwards.filter_map(|onward| self.across(next, onward, to)).next()?;
        Some([vec![(link, way)], rest].concat())
    }

    /// The error that a packet does not get from one node to the other.
    fn why_not(&self, from: usize, to: usize, ipv4: bool) -> String {
        let [from, to] = [from, to].map(|node| &self.nodes[node].name);
        let family = family(ipv4);
        format!(
            "no route from `{from}` to `{to}`. Join them by links, switches and routers; neighbors share an {family} subnet."
        )
    }
}

/// A node's relation to a subnet.
#[derive(Clone, Copy)]
struct Reach {
    is_there: bool,
    forwards: bool,
}

impl Reach {
    /// Before any route. A host does not forward, but an address that is its own subnet is nowhere else.
    fn new(node: &Node, subnet: IpNet) -> Reach {
        let is_there = node.interfaces.iter().flat_map(|interface| interface.subnets()).any(|own| own == subnet);
        let own_address = subnet.prefix_len() == subnet.max_prefix_len();
        Reach { is_there, forwards: is_there && (node.kind == Kind::Router || own_address) }
    }
}

fn family(ipv4: bool) -> &'static str {
    if ipv4 { "IPv4" } else { "IPv6" }
}
