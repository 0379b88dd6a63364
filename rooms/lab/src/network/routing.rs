//! Addresses, neighbours, routes and rules of the nodes. All are static, so that no link carries queries.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use ipnet::IpNet;
use weir_kernel::links::{Index, MAIN_TABLE, MacAddress, Route, TcpRule};

use super::Network;
use super::bring_up::mac;
use crate::topology::{Control, Interface, Kind, Path, Topology};

/// Source ports of the data connections, if the control connection has its own link.
pub const DATA_PORTS: RangeInclusive<u16> = 5200..=5327;

impl Network<'_> {
    /// Sets a node's addresses, and static neighbour entries for the others on its segments.
    pub(super) fn address(&mut self, topology: &Topology, node: usize) -> Result<()> {
        if topology.nodes[node].kind == Kind::Switch {
            return self.fill_forwarding_table(topology, node);
        }
        for interface in &topology.nodes[node].interfaces {
            let index = self.index(node, interface)?;
            let netlink = self.nodes[node].netlink()?;
            for address in &interface.addresses {
                netlink.add_address(index, *address)?;
            }
            for (peer, mac) in peers(topology, node, interface) {
                if interface.addresses.iter().any(|own| own.contains(&peer)) {
                    netlink.add_neighbour(index, peer, mac)?;
                }
            }
        }
        Ok(())
    }

    /// Without static entries a switch would flood packets.
    fn fill_forwarding_table(&mut self, topology: &Topology, switch: usize) -> Result<()> {
        for port in &topology.nodes[switch].interfaces {
            let index = self.index(switch, port)?;
            for mac in topology.reachable_through(switch, port.link).into_iter().map(|(link, end)| mac(link, end)) {
                self.nodes[switch].netlink()?.add_forwarding_entry(index, mac)?;
            }
        }
        Ok(())
    }

    /// Routes a node, its multicast groups, and the control connection.
    pub(super) fn route(&mut self, topology: &Topology, node: usize) -> Result<()> {
        for route in &topology.nodes[node].routes {
            let index = self.index_on(topology, node, route.link)?;
            self.nodes[node].netlink()?.add_route(route.destination, Some(route.gateway), index)?;
        }
        for (group, link) in groups(topology, node) {
            let index = self.index_on(topology, node, link)?;
            let mut route = Route::new(group, None, index);
            if group.addr().is_ipv6() {
                // Every interface has a route for all groups there (net/ipv6/addrconf.c, addrconf_add_mroute).
                route.table = LOCAL_TABLE;
            }
            self.nodes[node].netlink()?.install_route(&route)?;
        }
        match &topology.control {
            Some(control) if control.in_use && topology.traffic.sender == node => {
                self.set_control_aside(topology, control)
            }
            _ => Ok(()),
        }
    }

    /// Connections to the traffic's port use the control link, those from the data ports the normal route.
    fn set_control_aside(&mut self, topology: &Topology, control: &Control) -> Result<()> {
        let index = self.index_on(topology, topology.traffic.sender, control.link)?;
        let netlink = self.nodes[topology.traffic.sender].netlink()?;
        netlink.install_route(&Route {
            destination: control.destination,
            gateway: (control.destination.addr() != control.gateway).then_some(control.gateway),
            index,
            source: Some(control.address),
            table: CONTROL_TABLE,
        })?;
        let ipv6 = control.address.is_ipv6();
        for (priority, source_ports, table) in [(100, Some(DATA_PORTS), MAIN_TABLE), (101, None, CONTROL_TABLE)] {
            let destination_ports = Some(control.port..=control.port);
            netlink.add_rule(&TcpRule { priority, ipv6, source_ports, destination_ports, table })?;
        }
        Ok(())
    }

    fn index(&mut self, node: usize, interface: &Interface) -> Result<Index> {
        Ok(self.nodes[node].netlink()?.link(&interface.name)?.index)
    }

    fn index_on(&mut self, topology: &Topology, node: usize, link: usize) -> Result<Index> {
        self.index(node, topology.nodes[node].interface(link).context("a route leaves by an interface")?)
    }
}

/// The addresses of the other hosts and routers on a node's segment.
fn peers(topology: &Topology, node: usize, own: &Interface) -> Vec<(IpAddr, MacAddress)> {
    let mut peers = Vec::new();
    for (index, other) in topology.nodes.iter().enumerate().filter(|(index, _)| *index != node) {
        for interface in other.interfaces.iter().filter(|interface| interface.segment == own.segment) {
            let end = topology.links[interface.link].ends.iter().position(|&end| end == index);
            let mac = mac(interface.link, end.unwrap_or_default());
            peers.extend(interface.addresses.iter().map(|address| (address.addr(), mac)));
        }
    }
    peers
}

/// The groups that a node sends to or receives, and their link.
fn groups(topology: &Topology, node: usize) -> Vec<(IpNet, usize)> {
    let mut groups: Vec<(IpNet, usize)> = Vec::new();
    for flow in topology.flows().filter(|flow| flow.destination.is_multicast()) {
        let group = flow.destination;
        let link = |path: &Path, receiver: usize| match node {
            _ if node == flow.sender => path.forward.first().map(|hop| hop.0),
            _ if node == receiver => path.forward.last().map(|hop| hop.0),
            _ => None,
        };
        let link = flow.paths.iter().zip(&flow.receivers).find_map(|(path, &receiver)| link(path, receiver));
        if let Some(link) = link
            && groups.iter().all(|(other, _)| other.addr() != group)
        {
            groups.push((group.into(), link));
        }
    }
    groups
}

/// A table number that is not in use.
const CONTROL_TABLE: u32 = 100;

/// RT_TABLE_LOCAL, which the kernel uses first.
const LOCAL_TABLE: u32 = 255;
