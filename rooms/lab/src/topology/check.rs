//! From the scenario's tables to consistent nodes and segments.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;
use weir_kernel::scheduling;

use super::{Interface, Kind, Link, Node};
use crate::scenario::{Addresses, Scenario};

/// Hosts, routers and switches without their interfaces.
pub(super) fn nodes(scenario: &Scenario) -> Result<Vec<Node>> {
    let node = |name: &String, kind, setup: &[String]| Node {
        name: name.clone(),
        kind,
        interfaces: Vec::new(),
        routes: Vec::new(),
        setup: setup.to_vec(),
        processor: scenario.hosts.get(name).and_then(|host| host.processor).and_then(resolved),
    };
    let hosts = scenario.hosts.iter().map(|(name, host)| node(name, Kind::Host, &host.setup));
    let routers = scenario.routers.iter().map(|(name, router)| node(name, Kind::Router, &router.setup));
    let switches = scenario.switches.keys().map(|name| node(name, Kind::Switch, &[]));
    let nodes: Vec<Node> = hosts.chain(routers).chain(switches).collect();
    for (index, node) in nodes.iter().enumerate() {
        if let Some(other) = nodes[..index].iter().find(|other| other.name == node.name) {
            bail!("{}: a {} has the same name", node.key(), other.kind);
        }
        check_name(&node.name).with_context(|| node.key())?;
    }
    Ok(nodes)
}

/// Names are shown unchanged, and are used as file names.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.chars().any(|c| c.is_control() || c == '/') {
        bail!("a name must not be empty or have slashes or control characters");
    }
    Ok(())
}

/// A CPU by its index among those that this process may use, modulo their number.
fn resolved(processor: usize) -> Option<usize> {
    let all = scheduling::processors();
    all.get(processor.checked_rem(all.len())?).copied()
}

/// Gives every node one interface per link, in the order of the links, with its addresses.
pub(super) fn attach(scenario: &Scenario, nodes: &mut [Node], links: &[Link]) -> Result<()> {
    let segments = segments(nodes, links)?;
    for (index, node) in nodes.iter_mut().enumerate() {
        let own: Vec<usize> = (0..links.len()).filter(|&link| links[link].ends.contains(&index)).collect();
        ensure!(!own.is_empty(), "{}: has no link", node.key());
        let mut addresses = match node.kind {
            Kind::Host => by_link(node, &scenario.hosts[&node.name].addresses, &own, links)?,
            Kind::Router => by_link(node, &scenario.routers[&node.name].addresses, &own, links)?,
            Kind::Switch => BTreeMap::new(),
        };
        node.interfaces = own
            .into_iter()
            .enumerate()
            .map(|(number, link)| Interface {
                link,
                name: if node.kind == Kind::Switch { format!("p{link}") } else { format!("eth{number}") },
                addresses: addresses.remove(&links[link].name).unwrap_or_default(),
                segment: segments[link],
            })
            .collect();
        check_interfaces(node, links)?;
    }
    check_addresses(nodes)?;
    check_subnets(nodes, links)
}

/// The segment of each link. Links that a switch joins are one segment.
fn segments(nodes: &[Node], links: &[Link]) -> Result<Vec<usize>> {
    // The part of the network that a switch is in, by node; both ends of a loop are in the same one already.
    let mut part: Vec<usize> = (0..nodes.len()).collect();
    for link in links.iter().filter(|link| link.ends.iter().all(|&end| nodes[end].kind == Kind::Switch)) {
        let [a, b] = link.ends.map(|end| part[end]);
        ensure!(
            a != b,
            "links.{}: closes a loop, and switches run no spanning tree. Remove a link of the loop.",
            link.name
        );
        part.iter_mut().filter(|root| **root == b).for_each(|root| *root = a);
    }
    let mut segments: Vec<usize> = (0..links.len()).collect();
    for (index, link) in links.iter().enumerate() {
        let part_of =
            |link: &Link| link.ends.iter().find(|&&end| nodes[end].kind == Kind::Switch).map(|&end| part[end]);
        if let Some(own) = part_of(link) {
            segments[index] = links.iter().position(|other| part_of(other) == Some(own)).unwrap_or(index);
        }
    }
    Ok(segments)
}

/// The addresses of a host or router; a list is that of its only link.
fn by_link(node: &Node, addresses: &Addresses, own: &[usize], links: &[Link]) -> Result<BTreeMap<String, Vec<IpNet>>> {
    match addresses {
        Addresses::ByLink(by_link) => {
            for name in by_link.keys() {
                let known = own.iter().any(|&link| links[link].name == *name);
                ensure!(known, "{}.addresses: no link `{name}` (it has {})", node.key(), names(own, links));
            }
            Ok(by_link.clone())
        }
        Addresses::Only(addresses) => {
            let [only] = own else {
                let names = names(own, links);
                bail!("{}: has {} links ({names}). Give its addresses by link.", node.key(), own.len());
            };
            Ok(BTreeMap::from([(links[*only].name.clone(), addresses.clone())]))
        }
    }
}

fn check_interfaces(node: &Node, links: &[Link]) -> Result<()> {
    if node.kind == Kind::Switch {
        return Ok(());
    }
    for (number, interface) in node.interfaces.iter().enumerate() {
        let link = &links[interface.link].name;
        ensure!(!interface.addresses.is_empty(), "{}: has no address on link `{link}`", node.key());
        if let Some(other) = node.interfaces[..number].iter().find(|other| other.segment == interface.segment) {
            let other = &links[other.link].name;
            bail!(
                "{}: links `{other}` and `{link}` are joined by switches, but a node has one link per segment",
                node.key()
            );
        }
    }
    Ok(())
}

fn check_addresses(nodes: &[Node]) -> Result<()> {
    let mut seen: Vec<(IpAddr, &str)> = Vec::new();
    for node in nodes {
        for net in node.addresses() {
            let address = net.addr();
            let usable = !(address.is_unspecified() || address.is_loopback() || address.is_multicast());
            ensure!(usable, "{}: {address} is not an address for an interface", node.key());
            // A subnet of two or one has neither (RFC 3021).
            if net.addr().is_ipv4() && net.prefix_len() < 31 {
                let own = if address == net.network() { "network" } else { "broadcast" };
                ensure!(
                    address != net.network() && address != net.broadcast(),
                    "{}: {address} is the {own} address of {}. Use another one.",
                    node.key(),
                    net.trunc()
                );
            }
            if let Some((_, other)) = seen.iter().find(|(seen, _)| *seen == address) {
                bail!("{}: {address} is also the address of {other}", node.key());
            }
            seen.push((address, &node.name));
        }
    }
    Ok(())
}

/// A subnet must be on one segment, or packets for it would have no unique route.
fn check_subnets(nodes: &[Node], links: &[Link]) -> Result<()> {
    let mut seen: Vec<(IpNet, &Interface, &Node)> = Vec::new();
    for node in nodes {
        for interface in &node.interfaces {
            for subnet in interface.subnets() {
                let apart = |other: &Interface| other.segment != interface.segment;
                let clash = seen.iter().find(|(other, at, _)| apart(at) && overlap(subnet, *other));
                if let Some((other, at, whose)) = clash {
                    bail!(
                        "{}: {subnet} on link `{}` overlaps {other}, which `{}` has on link `{}`: no switch joins them",
                        node.key(),
                        links[interface.link].name,
                        whose.name,
                        links[at.link].name
                    );
                }
                seen.push((subnet, interface, node));
            }
        }
    }
    Ok(())
}

fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}

fn names(own: &[usize], links: &[Link]) -> String {
    own.iter().map(|&link| links[link].name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Index of the node of this name.
pub(super) fn index_of(nodes: &[Node], name: &str) -> Result<usize> {
    nodes.iter().position(|node| node.name == name).with_context(|| {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        format!("no host, router or switch `{name}` (there are {})", names.join(", "))
    })
}
