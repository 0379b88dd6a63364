//! Drops in the kernels of hosts and routers on a path: by a firewall, a route or a TTL.
//!
//! No counter counts drops by a firewall. But IP counts what it receives, what it forwards and why it refuses the rest:
//! a filter of the namespace has dropped the remainder. These counts include packets of other traffic, so at most the
//! missing packets are taken from them.

use weir_emulator::model::Way;
use weir_kernel::counters::Snmp;

use super::hosts::counter;
use super::report;
use crate::network::LinkReading;
use crate::topology::{Kind, Topology};

/// Packets dropped in the kernel of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelDrop {
    /// The host or router.
    pub(super) node: usize,
    /// The cause.
    pub(super) cause: Cause,
    /// Their number.
    pub(super) packets: u64,
}

/// Why a kernel drops a packet before any socket: a place in the ledger, and the counters that show it.
pub(super) type Cause = (&'static str, &'static str);

/// Between IP and the outgoing interface.
const EGRESS: Cause =
    ("dropped after IP, sending (tc, nft egress)", "/proc/net/snmp OutRequests minus /proc/net/dev transmit packets");

/// Between the interface and IP.
const INGRESS: Cause =
    ("dropped before IP (tc, XDP, nft ingress)", "/proc/net/dev receive packets minus /proc/net/snmp InReceives");

/// Its TTL or hop limit expired, or its IP header is malformed.
const TIME_TO_LIVE: Cause = ("TTL exceeded", "/proc/net/snmp InHdrErrors");

/// There is no route, or nobody has the address.
const NO_ROUTE: Cause = ("no route", "/proc/net/snmp InAddrErrors, InNoRoutes, OutNoRoutes");

/// It arrived on another interface than answers would use.
const REVERSE_PATH: Cause = ("reverse path filter", "/proc/net/netstat IPReversePathFilter");

/// A rule of nftables or iptables, or a route that refuses: no counter shows it.
const FIREWALL: Cause = (
    "firewall or another filter (nftables, iptables, a route that refuses)",
    "/proc/net/snmp InReceives minus what IP forwarded or refused",
);

/// Counters of a node, and how many of the counted packets may be control (IGMP, MLD, ND), which hosts may ignore.
struct Counters<'a> {
    kernel: &'a Snmp,
    kind: Kind,
    /// Frames of its interfaces.
    received: u64,
    sent: u64,
    control: u64,
}

impl<'a> Counters<'a> {
    fn of(node: usize, topology: &Topology, kernel: &'a Snmp, links: &[LinkReading]) -> Self {
        let mut counters = Counters { kernel, kind: topology.nodes[node].kind, received: 0, sent: 0, control: 0 };
        for (link, end) in topology.ends_at(node) {
            let port = &links[link].nodes[end];
            counters.received += port.received;
            counters.sent += port.sent + port.send_dropped;
            // Unknown for a direct link.
            let towards = report(&links[link], if end == 0 { Way::Backward } else { Way::Forward });
            counters.control += towards.map_or(0, |direction| direction.ledger.control);
        }
        counters
    }

    /// The drops of an address family that they allow, by cause: certain ones, and the max.
    fn drops(&self, ipv4: bool) -> Vec<(Cause, u64, u64)> {
        let count = counter(self.kernel);
        let both = |name: &str| count("Ip", name) + count("Ip6", name);
        let (ip, more) = if ipv4 { ("Ip", "IpExt") } else { ("Ip6", "Ip6") };
        let own = |name: &str| count(ip, name);
        let is_router = self.kind == Kind::Router;
        let all_forwarded = [count("Ip", "ForwDatagrams"), count("Ip6", "OutForwDatagrams")];
        let forwarded = all_forwarded[usize::from(!ipv4)];
        let time_to_live = own("InHdrErrors");
        let no_route = own("InAddrErrors") + count(more, "InNoRoutes") + own("OutNoRoutes");
        let reverse_path = if ipv4 { count("TcpExt", "IPReversePathFilter") } else { 0 };
        let refused = time_to_live + no_route + reverse_path + own("InDiscards") + own("InTruncatedPkts");
        // What IP received and neither forwarded nor refused for a reason that it counts.
        let filtered = own("InReceives").saturating_sub(own("InDelivers") + forwarded + refused);
        let ingress = self.received.saturating_sub(both("InReceives"));
        // A router's own packets are few, and leave along with the forwarded ones.
        let leaving = both("OutRequests") + if is_router { all_forwarded.iter().sum() } else { 0 };
        let egress = leaving.saturating_sub(self.sent);
        // Some kernels count a packet as forwarded before the rules for it (net/ipv4/ip_forward.c).
        let [not_forwarded, egress] = if is_router { [egress, 0] } else { [0, egress] };
        let sure = |count: u64| count.saturating_sub(self.control);
        vec![
            (TIME_TO_LIVE, time_to_live, time_to_live),
            (NO_ROUTE, no_route, no_route),
            (REVERSE_PATH, reverse_path, reverse_path),
            (INGRESS, sure(ingress), ingress),
            (FIREWALL, sure(filtered) + not_forwarded, filtered + not_forwarded),
            (EGRESS, egress, egress),
        ]
    }
}

/// Missing packets of an address family on a path that the kernels of its nodes dropped: first those that the counters
/// are sure of, then those that they allow, starting where something is sure.
pub(super) fn drops(
    missing: u64,
    ipv4: bool,
    topology: &Topology,
    hops: &[(usize, Way)],
    kernels: &[Option<Snmp>],
    links: &[LinkReading],
) -> Vec<KernelDrop> {
    let mut allowed = Vec::new();
    for node in nodes(topology, hops) {
        let Some(kernel) = &kernels[node] else { continue };
        let causes = Counters::of(node, topology, kernel, links).drops(ipv4);
        allowed.extend(causes.into_iter().map(|(cause, sure, max)| (node, cause, sure, max)));
    }
    apportion(missing, allowed)
}

/// Distributes missing packets over nodes and causes, each with its certain and its max number.
fn apportion(missing: u64, allowed: Vec<(usize, Cause, u64, u64)>) -> Vec<KernelDrop> {
    let mut left = missing;
    let mut take = |max: u64| {
        let taken = max.min(left);
        left -= taken;
        taken
    };
    let mut drops = Vec::new();
    for (node, cause, sure, max) in allowed {
        drops.push((KernelDrop { node, cause, packets: take(sure) }, max - sure));
    }
    for sure in [true, false] {
        for (drop, more) in drops.iter_mut().filter(|(drop, _)| (drop.packets > 0) == sure) {
            let packets = take(*more);
            *more -= packets;
            drop.packets += packets;
        }
    }
    drops.into_iter().map(|(drop, _)| drop).filter(|drop| drop.packets > 0).collect()
}

/// Max drops of a router, of both families.
pub(super) fn most_drops(node: usize, topology: &Topology, kernel: &Snmp, links: &[LinkReading]) -> u64 {
    let counters = Counters::of(node, topology, kernel, links);
    [true, false].into_iter().flat_map(|ipv4| counters.drops(ipv4)).map(|(_, _, max)| max).sum()
}

/// ICMP messages that a node sent by itself, without receiving them.
pub(super) fn own_messages(kernel: &Snmp) -> u64 {
    let count = counter(kernel);
    ["OutTimeExcds", "OutDestUnreachs"].into_iter().map(|name| count("Icmp", name) + count("Icmp6", name)).sum()
}

/// Hosts and routers on a path, its ends included, in order.
pub(super) fn nodes(topology: &Topology, hops: &[(usize, Way)]) -> Vec<usize> {
    let near = |&(link, way): &(usize, Way)| topology.links[link].ends[way as usize];
    let last = hops.last().map(|&(link, way)| topology.links[link].ends[1 - way as usize]);
    let nodes = hops.iter().map(near).chain(last);
    nodes.filter(|&node| topology.nodes[node].kind != Kind::Switch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_counter_allows_for_stays_missing() {
        let kernel = Snmp::default();
        let counters = Counters { kernel: &kernel, kind: Kind::Host, received: 0, sent: 0, control: 0 };
        let allowed = counters.drops(true).into_iter().map(|(cause, sure, max)| (0, cause, sure, max));
        assert!(apportion(19, allowed.collect()).is_empty());
    }

    #[test]
    fn the_sure_comes_before_the_possible_and_no_more_is_taken_than_is_missing() {
        let allowed = [(0, FIREWALL, 0, 2), (1, TIME_TO_LIVE, 3, 3), (2, FIREWALL, 20, 25)];
        let taken = |missing| -> Vec<(usize, u64)> {
            apportion(missing, allowed.to_vec()).iter().map(|drop| (drop.node, drop.packets)).collect()
        };
        assert!(taken(0).is_empty());
        assert_eq!(taken(2), [(1, 2)]);
        assert_eq!(taken(25), [(1, 3), (2, 22)]);
        assert_eq!(taken(100), [(0, 2), (1, 3), (2, 25)], "70 stay missing");
    }
}
