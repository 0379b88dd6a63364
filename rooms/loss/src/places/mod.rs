//! Every place where Linux loses a UDP datagram: one table, from which accounts, metrics, remedies and `docs/loss-places.md`
//! are made.

mod table;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use strum::{EnumIter, IntoEnumIterator, IntoStaticStr};
use weir_kernel::counters::Counter;

/// A place. Their order is that of tables for people, and means nothing else: [`Stage`] does.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, EnumIter, IntoStaticStr, Serialize,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Place {
    /// Sending: no route led there.
    NoRoute,
    /// Sending: a firewall rule (nftables' or iptables' output) or a control group's program forbade it.
    FirewallOut,
    /// Sending: the send buffer was full and the socket does not wait.
    SendBuffer,
    /// Sending: the call failed for another reason, which is told beside it.
    SendError,
    /// Sending: the next hop's hardware address is not known.
    Neighbour,
    /// Sending: the interface's queue (qdisc) was full, or a filter at egress dropped it.
    Qdisc,
    /// Sending: the interface or its ring, a tun device's reader included, did not take it.
    Transmit,
    /// Between two hosts: left the one and did not come to the other.
    Network,
    /// Receiving: the card's ring was full.
    ReceiveRing,
    /// Receiving: the frame came damaged.
    Frame,
    /// Receiving: an XDP program dropped it.
    Xdp,
    /// Receiving: a tc filter at ingress dropped it.
    IngressFilter,
    /// Receiving: the processor's backlog was full.
    Backlog,
    /// Receiving: a malformed IP header, or its checksum.
    IpHeader,
    /// Forwarding: the TTL, or hop limit, was used up.
    HopLimit,
    /// Receiving: an address that is not ours, or no way on.
    IpAddress,
    /// Receiving: the way back to the sender leads through another interface.
    ReversePath,
    /// Receiving or forwarding: a firewall rule or connection tracking dropped it.
    Firewall,
    /// Receiving: not all fragments came in time.
    Reassembly,
    /// Receiving: a group that was joined on no such interface.
    NotJoined,
    /// Receiving: a group that is joined, but by no socket of this port.
    NoMatchingSocket,
    /// Receiving: nobody has bound the port.
    PortClosed,
    /// Receiving: the UDP checksum is wrong.
    UdpChecksum,
    /// Receiving: the socket's own filter (SO_ATTACH_FILTER, SO_ATTACH_BPF) dropped it.
    SocketFilter,
    /// Receiving: the socket's receive buffer was full.
    ReceiveBuffer,
    /// Receiving: the memory of all UDP sockets was used up.
    UdpMemory,
    /// Receiving: the socket was closed before they were read.
    ClosedUnread,
    /// Receiving: the program gave too small a buffer and got a part.
    Truncated,
    /// Dropped by the kernel for a reason this table does not have; reason and function are told beside it. The last one.
    #[default]
    Other,
}

/// Which part of the way a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the call that sends, before a group's copy for this host leaves the way.
    Sending,
    /// Between there and the interface.
    NextHop,
    /// Behind the point at which the trace counts departures.
    Departed,
    /// Between two hosts.
    Wire,
    /// Before the point at which the trace counts arrivals.
    Arriving,
    /// In the stack of a host that it comes to, or passes through.
    Stack,
    /// Come to its host, with no socket for it.
    Port,
    /// At a socket.
    Socket,
    /// Nobody knows.
    Anywhere,
}

/// What is known of a place.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// In a table for people.
    pub title: &'static str,
    /// Which part of the way it is in.
    pub stage: Stage,
    /// Counters that count it and nothing else. Those of one group may count the same losses, of which the largest count
    /// is believed; those of several groups never do.
    pub counters: &'static [&'static [Counter]],
    /// What else tells of it, outside the kernel's counters.
    pub calls: &'static str,
    /// Drop reasons that mean it: (reason, function that must have dropped it or empty for any).
    pub reasons: &'static [(&'static str, &'static str)],
    /// What to change.
    pub remedy: &'static str,
}

impl Place {
    /// In JSON and as a label: `receive_buffer`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// In a table for people, for drops by this function.
    pub fn title(self, function: &str) -> &'static str {
        match self {
            Place::Transmit if TO_A_BRIDGE_PORT.contains(&unsplit(function)) => "larger than the MTU of a bridge port",
            _ => self.row().title,
        }
    }

    /// Which part of the way it is in.
    pub fn stage(self) -> Stage {
        self.row().stage
    }

    /// The counters that tell it.
    pub fn counters(self) -> impl Iterator<Item = Counter> {
        self.row().counters.iter().copied().flatten().copied()
    }

    /// The place whose counters count it: its own, or that of another which the kernel does not tell from it.
    pub(crate) fn counted_at(self) -> Place {
        if self == Place::HopLimit { Place::IpHeader } else { self }
    }

    /// All places, in the order in which a datagram passes them.
    pub fn all() -> impl Iterator<Item = Place> {
        Place::iter()
    }

    /// What to change, for drops of this reason by this function.
    pub fn remedy(self, reason: &str, function: &str) -> &'static str {
        let function = unsplit(function);
        match (self, reason, function) {
            (
                Place::IpAddress,
                _,
                "ip_error" | "dst_discard" | "ip6_pkt_drop" | "ip6_pkt_discard" | "ip6_pkt_prohibit",
            ) => {
                "a route that leads nowhere (blackhole, unreachable, prohibit) or none: `ip route get ADDR from SRC iif IF`"
            }
            (Place::SendError, "EINVAL", _) => {
                "a blackhole route? `ip route get ADDR`; else look at the arguments of the call"
            }
            (Place::SendError, "EACCES", _) => {
                "a prohibit route? `ip route get ADDR`; a broadcast address needs SO_BROADCAST"
            }
            (Place::SendError, "EMSGSIZE", _) => {
                "longer than a datagram may be (65,507 B), or than the MTU of the path, with IP_MTU_DISCOVER: smaller payloads"
            }
            (Place::SendError, "PKT_TOO_BIG", _) => {
                "longer than the MTU of the next link, and not to be fragmented: smaller payloads, or a larger MTU: `ip link`"
            }
            (Place::NoRoute, _, "ip6_pkt_drop" | "ip6_pkt_discard" | "ip6_pkt_discard_out" | "ip6_pkt_prohibit") => {
                "a route that leads nowhere (blackhole, unreachable, prohibit) or none: `ip route get ADDR`"
            }
            (Place::FirewallOut, "EPERM", _) => {
                "find the rule: `nft list ruleset`; an IPsec policy: `ip xfrm policy`; a control group's program: `bpftool cgroup tree`"
            }
            (Place::NoRoute, "EHOSTUNREACH", _) => "an unreachable route? `ip route get ADDR`",
            (Place::Firewall | Place::FirewallOut, "XFRM_POLICY", _) => "an IPsec policy forbids it: `ip xfrm policy`",
            (Place::Firewall | Place::FirewallOut, "SECURITY_HOOK", _) => {
                "a security module (SELinux, AppArmor, eBPF) forbids it"
            }
            (Place::FirewallOut, "BPF_CGROUP_EGRESS", _) => {
                "its control group's program forbids it: `bpftool cgroup tree`, of systemd IPAddressDeny="
            }
            (
                Place::Transmit,
                _,
                "__dev_forward_skb" | "__dev_forward_skb2" | "____dev_forward_skb" | "dev_forward_skb",
            ) => "is the other end of the veth up, and is its MTU as large? `ip link`",
            (Place::Transmit, "BRIDGE_INGRESS_STP_STATE", _) => {
                "the bridge's port does not forward (STP): `bridge link`"
            }
            (Place::Transmit, _, function) if TO_A_BRIDGE_PORT.contains(&function) => {
                "give all ports of the bridge the same MTU, or send shorter ones (a smaller MTU at the sender): `ip link`"
            }
            (Place::Transmit, _, function) if function.starts_with("br_") => {
                "no port of the bridge takes it: isolated ports, states, VLANs: `bridge -d link`, `bridge vlan`, `bridge mdb`"
            }
            _ => self.row().remedy,
        }
    }

    /// Where a call that sends failed.
    pub(crate) fn of_failed_call(errno: Errno) -> Place {
        match errno {
            Errno::ENETUNREACH | Errno::EHOSTUNREACH => Place::NoRoute,
            Errno::EAGAIN => Place::SendBuffer,
            Errno::EPERM => Place::FirewallOut,
            Errno::ENOBUFS => Place::Qdisc,
            _ => Place::SendError,
        }
    }

    /// The place that a traced drop means. `outgoing`: the datagram was being sent.
    pub fn of_drop(reason: &str, function: &str, outgoing: bool) -> Place {
        if matches!(reason, "NETFILTER_DROP" | "SECURITY_HOOK" | "XFRM_POLICY") {
            return if outgoing { Place::FirewallOut } else { Place::Firewall };
        }
        let function = unsplit(function);
        let of = |function: &str| Place::all().find(|place| place.row().reasons.contains(&(reason, function)));
        of(function).or_else(|| of("")).unwrap_or_default()
    }
}

/// A function's name as the source has it: the compiler may have split it (`udp_destruct_common.part.0`).
fn unsplit(function: &str) -> &str {
    function.split('.').next().unwrap_or_default()
}

/// What hands a frame to a bridge's port, and drops what is too long for it: the port is up, or nothing is handed to it
/// (net/bridge/br_forward.c, net/bridge/br_netfilter_hooks.c).
const TO_A_BRIDGE_PORT: [&str; 3] = ["br_dev_queue_push_xmit", "br_nf_dev_queue_xmit", "br_nf_ip_fragment"];

/// All places as a table for `docs/loss-places.md`.
pub fn table() -> String {
    let mut table = "| place | counter | drop reason | what to change |\n|---|---|---|---|\n".to_owned();
    for place in Place::all() {
        let row = place.row();
        let of_group = |group: &&[Counter]| {
            let names: Vec<String> = group.iter().map(|counter| of_some_interface(*counter)).collect();
            if names.len() == 1 { names.concat() } else { format!("the largest of ({})", names.join(", ")) }
        };
        let others = Some(row.calls.to_owned()).filter(|calls| !calls.is_empty());
        let counters: Vec<String> = row.counters.iter().map(of_group).chain(others).collect();
        let reason = |(reason, function): &(&str, &str)| match *function {
            "" => format!("`{reason}`"),
            function => format!("`{reason}` in `{function}`"),
        };
        let reasons: Vec<String> = row.reasons.iter().map(reason).collect();
        let (name, title, remedy) = (place.name(), row.title, row.remedy.replace('|', "\\|"));
        let row = format!("| `{name}`: {title} | {} | {} | {remedy} |\n", counters.join(", "), reasons.join(", "));
        table.push_str(&row);
    }
    table
}

/// A counter's name in the table.
fn of_some_interface(counter: Counter) -> String {
    match counter {
        Counter::Qdisc => "IF fq_codel (or another qdisc)".to_owned(),
        counter if counter.is_of_interface() => format!("IF {counter}"),
        counter => counter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_kernel::counters::snmp;
    use weir_kernel::namespaces::NetNs;

    use super::*;

    #[test]
    fn labels_are_the_names_in_json() {
        for place in Place::all() {
            assert_eq!(serde_json::to_value(place).unwrap(), place.name());
        }
    }

    #[test]
    fn a_counter_means_one_place() {
        let all: Vec<Counter> = Place::all().flat_map(Place::counters).collect();
        let different: BTreeSet<Counter> = all.iter().copied().collect();
        assert_eq!(all.len(), different.len());
    }

    #[test]
    fn the_kernel_has_the_counters_of_its_protocols() {
        let kernel = snmp(&NetNs::current().unwrap()).unwrap();
        for counter in Place::all().flat_map(Place::counters) {
            if let Counter::Snmp(table, name) = counter {
                // A kernel without IPv6 has none of its tables.
                let has_table = !table.ends_with('6') || kernel.iter().any(|(known, ..)| known == table);
                assert!(!has_table || kernel.get(table, name).is_some(), "{counter}");
            }
        }
    }

    #[test]
    fn drops_find_their_places() {
        assert_eq!(Place::of_drop("SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", false), Place::ReceiveBuffer);
        assert_eq!(Place::of_drop("NETFILTER_DROP", "nf_hook_slow", true), Place::FirewallOut);
        assert_eq!(Place::of_drop("NETFILTER_DROP", "nf_hook_slow", false), Place::Firewall);
        assert_eq!(Place::of_drop("NOT_SPECIFIED", "udp_destruct_common.part.0", false), Place::ClosedUnread);
        assert_eq!(Place::of_drop("NOT_SPECIFIED", "somewhere", false), Place::Other);
        // As they were met.
        for (reason, function, outgoing, place) in [
            ("NOT_SPECIFIED", "neigh_invalidate", true, Place::Neighbour),
            ("QUEUE_PURGE", "neigh_invalidate", true, Place::Neighbour),
            ("QUEUE_PURGE", "udp_destruct_sock", false, Place::ClosedUnread),
            ("NOT_SPECIFIED", "ip_error", false, Place::IpAddress),
            ("IP_INHDR", "ip_rcv_core", false, Place::IpHeader),
            ("IP_INHDR", "ip_forward", false, Place::HopLimit),
            ("IP_INHDR", "ip6_forward", false, Place::HopLimit),
            ("NOT_SPECIFIED", "ip6_pkt_drop.isra.0", false, Place::IpAddress),
            ("NOT_SPECIFIED", "__dev_forward_skb2", true, Place::Transmit),
            ("NOT_SPECIFIED", "veth_xdp_rcv_skb", false, Place::Xdp),
            ("NOT_SPECIFIED", "br_forward", false, Place::Transmit),
            ("NO_TX_TARGET", "br_flood", false, Place::Transmit),
            ("NOT_SPECIFIED", "br_nf_dev_queue_xmit", false, Place::Transmit),
            ("XFRM_POLICY", "udp_queue_rcv_one_skb", false, Place::Firewall),
            ("XFRM_POLICY", "ip_output", true, Place::FirewallOut),
            ("NOT_SPECIFIED", "inet_frag_rbtree_purge", false, Place::Reassembly),
        ] {
            assert_eq!(Place::of_drop(reason, function, outgoing), place, "{reason} in {function}");
        }
        assert!(Place::Transmit.remedy("NOT_SPECIFIED", "br_forward").contains("isolated"));
        for function in ["br_dev_queue_push_xmit", "br_nf_dev_queue_xmit.part.0"] {
            assert!(Place::Transmit.remedy("NOT_SPECIFIED", function).contains("same MTU"), "{function}");
            assert_eq!(Place::Transmit.title(function), "larger than the MTU of a bridge port");
        }
        assert_eq!(Place::Transmit.title("br_forward"), Place::Transmit.row().title);
        assert!(Place::SendError.remedy("EINVAL", "").contains("blackhole"));
        assert!(Place::SocketFilter.row().remedy.contains("IPAddressDeny="));
    }

    /// Every reason of every kernel that has reasons, and of this one: it means a place, or never a UDP datagram's loss.
    #[test]
    fn every_drop_reason_has_its_place() {
        let here = weir_trace::drop_reasons().unwrap_or_default();
        let known = FROM_5_17_TO_6_18.split_whitespace().map(str::to_owned);
        for reason in here.into_iter().chain(known) {
            let place = Place::of_drop(&reason, "", false);
            let named = NEVER_OF_UDP.split_whitespace().any(|prefix| reason.starts_with(prefix));
            assert!(named != (place != Place::Other), "{reason}: {place:?}");
        }
        // Only the function tells.
        assert_eq!(Place::of_drop("NOT_SPECIFIED", "", false), Place::Other);
    }

    /// include/net/dropreason-core.h of each release, old names as well.
    const FROM_5_17_TO_6_18: &str = "NO_SOCKET PKT_TOO_SMALL TCP_CSUM SOCKET_FILTER UDP_CSUM NETFILTER_DROP OTHERHOST IP_CSUM \
        IP_INHDR IP_RPFILTER UNICAST_IN_L2_MULTICAST XFRM_POLICY IP_NOPROTO SOCKET_RCVBUFF PROTO_MEM TCP_MD5NOTFOUND \
        SOCKET_BACKLOG IP_OUTNOROUTES BPF_CGROUP_EGRESS IPV6DISABLED NEIGH_CREATEFAIL NEIGH_FAILED NEIGH_QUEUEFULL \
        NEIGH_DEAD TC_EGRESS QDISC_DROP CPU_BACKLOG XDP TC_INGRESS UNHANDLED_PROTO SKB_CSUM SKB_GSO_SEG SKB_UCOPY_FAULT \
        DEV_HDR DEV_READY FULL_RING NOMEM HDR_TRUNC TAP_FILTER TAP_TXFILTER ICMP_CSUM INVALID_PROTO IP_INADDRERRORS \
        IP_INNOROUTES PKT_TOO_BIG DUP_FRAG FRAG_REASM_TIMEOUT FRAG_TOO_FAR IPV6_BAD_EXTHDR IPV6_NDISC_FRAG QUEUE_PURGE \
        SECURITY_HOOK SOCKET_CLOSE PACKET_SOCK_ERROR IP_LOCAL_SOURCE IP_INVALID_SOURCE IP_LOCALNET IP_INVALID_DEST \
        QDISC_OVERLIMIT QDISC_CONGESTED CAKE_FLOOD FQ_BAND_LIMIT FQ_HORIZON_LIMIT FQ_FLOW_LIMIT NEIGH_HH_FILLFAIL \
        TC_COOKIE_ERROR TC_CHAIN_NOTFOUND TC_RECLASSIFY_LOOP MAC_INVALID_SOURCE VXLAN_NO_REMOTE NO_TX_TARGET IP_TUNNEL_ECN \
        TUNNEL_TXINFO LOCAL_MAC BRIDGE_INGRESS_STP_STATE PFMEMALLOC DUALPI2_STEP_DROP PSP_INPUT PSP_OUTPUT";

    /// Of other protocols, of tunnels' own headers, of copies for taps, and what is no reason.
    const NEVER_OF_UDP: &str = "TCP_ UNIX_ ICMP_ IPV6_NDISC_ CAN_ CANFD_ CANXL_ ARP_ VXLAN_ PACKET_SOCK_ERROR \
        SOCKET_BACKLOG NOT_SPECIFIED SUBSYS_ MAX NOT_DROPPED_YET CONSUMED";

    #[test]
    fn functions_of_the_table_are_functions() {
        // Those that this kernel has, by another compiler or configuration perhaps not all.
        let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let has: BTreeSet<&str> = symbols
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .map(|name| name.split('.').next().unwrap_or(name))
            .collect();
        let named: BTreeSet<&str> = Place::all()
            .flat_map(|place| place.row().reasons)
            .map(|(_, function)| *function)
            .filter(|f| !f.is_empty())
            .collect();
        let found = named.iter().filter(|function| has.contains(*function)).count();
        assert!(has.len() < 1000 || found * 2 > named.len(), "{found} of {}", named.len());
    }
}
