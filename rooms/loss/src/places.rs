//! Every place where Linux loses a UDP datagram: one table, from which accounts, metrics, remedies and `docs/loss.md`
//! are made.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A place, in the order in which a datagram passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Dropped by the kernel for a reason this table does not have; reason and function are told beside it.
    Other,
}

/// What is known of a place.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The place.
    pub place: Place,
    /// In JSON and as a label: `receive_buffer`.
    pub name: &'static str,
    /// In a table for people.
    pub title: &'static str,
    /// Counters of the namespace's SNMP tables that count it and nothing else: (table, name).
    pub counters: &'static [(&'static str, &'static str)],
    /// Drop reasons that mean it: (reason, function that must have dropped it or empty for any).
    pub reasons: &'static [(&'static str, &'static str)],
    /// What to change.
    pub remedy: &'static str,
}

impl Place {
    /// What is known of it.
    pub fn facts(self) -> &'static Facts {
        &TABLE[self as usize]
    }

    /// In JSON and as a label.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// All places, in the order in which a datagram passes them.
    pub fn all() -> impl Iterator<Item = Place> {
        TABLE.iter().map(|facts| facts.place)
    }

    /// What to change, for drops of this reason by this function.
    pub fn remedy(self, reason: &str, function: &str) -> &'static str {
        match (self, reason, function) {
            (Place::IpHeader, _, "ip_forward" | "ip6_forward") => {
                "the sender's TTL is too small for the hops on the way: IP_TTL, for a group IP_MULTICAST_TTL"
            }
            _ => self.facts().remedy,
        }
    }

    /// The place of a name.
    pub fn named(name: &str) -> Option<Place> {
        Place::all().find(|place| place.name() == name)
    }

    /// The place that a traced drop means. `outgoing`: the datagram was being sent.
    pub fn of_drop(reason: &str, function: &str, outgoing: bool) -> Place {
        if reason == "NETFILTER_DROP" {
            return if outgoing { Place::FirewallOut } else { Place::Firewall };
        }
        // The compiler may have split a function: `udp_destruct_common.part.0`.
        let function = function.split('.').next().unwrap_or_default();
        let means =
            |facts: &&Facts| facts.reasons.iter().any(|(r, f)| *r == reason && (f.is_empty() || *f == function));
        TABLE.iter().find(means).map_or(Place::Other, |facts| facts.place)
    }
}

/// Counters outside the SNMP tables that tell a place, as `weir loss` names them; `IF` is an interface.
fn other_counters(place: Place) -> &'static [&'static str] {
    match place {
        Place::SendBuffer => &["EAGAIN of the call"],
        Place::SendError => &["errno of the call"],
        Place::Qdisc => &["IF fq_codel (or another qdisc)"],
        Place::Transmit => &["IF tx_dropped", "IF tx_carrier"],
        Place::Network => &["departed - arrived, of two hosts"],
        Place::ReceiveRing => &["IF rx_missed", "IF rx_over"],
        Place::Frame => &["IF rx_crc", "IF rx_frame", "IF rx_length"],
        Place::Backlog => &["softnet.dropped", "softnet.flow_limited"],
        Place::Firewall => &["conntrack.drop"],
        Place::Truncated => &["MSG_TRUNC of the call"],
        _ => &[],
    }
}

/// All places as a table for `docs/loss.md`.
pub fn table() -> String {
    let mut table = "| place | counter | drop reason | what to change |\n|---|---|---|---|\n".to_owned();
    for facts in &TABLE {
        let of_namespace = facts.counters.iter().map(|(protocol, name)| format!("{protocol}.{name}"));
        let others = other_counters(facts.place).iter().map(|&name| name.to_owned());
        let counters: Vec<String> = of_namespace.chain(others).collect();
        let reason = |(reason, function): &(&str, &str)| match *function {
            "" => format!("`{reason}`"),
            function => format!("`{reason}` in `{function}`"),
        };
        let reasons: Vec<String> = facts.reasons.iter().map(reason).collect();
        let (name, title, remedy) = (facts.name, facts.title, facts.remedy.replace('|', "\\|"));
        let row = format!("| `{name}`: {title} | {} | {} | {remedy} |\n", counters.join(", "), reasons.join(", "));
        table.push_str(&row);
    }
    table
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Place::named(&name).ok_or_else(|| serde::de::Error::custom(format!("`{name}`: no such place")))
    }
}

/// One row a place, in their order. Sources: include/net/dropreason-core.h, include/uapi/linux/snmp.h.
static TABLE: [Facts; 28] = [
    Facts {
        place: Place::NoRoute,
        name: "no_route",
        title: "no route",
        counters: &[("Ip", "OutNoRoutes"), ("Ip6", "OutNoRoutes")],
        reasons: &[("IP_OUTNOROUTES", "")],
        remedy: "add a route: `ip route add NET via GATEWAY`",
    },
    Facts {
        place: Place::FirewallOut,
        name: "firewall_out",
        title: "firewall, sending",
        counters: &[],
        reasons: &[("NETFILTER_DROP", ""), ("BPF_CGROUP_EGRESS", ""), ("SECURITY_HOOK", ""), ("XFRM_POLICY", "")],
        remedy: "find the rule: `nft list ruleset`, and let the port out",
    },
    Facts {
        place: Place::SendBuffer,
        name: "send_buffer",
        title: "send buffer full",
        counters: &[],
        reasons: &[],
        remedy: "raise SO_SNDBUF, or pace the sender",
    },
    Facts {
        place: Place::SendError,
        name: "send_error",
        title: "send call failed",
        counters: &[],
        reasons: &[("PKT_TOO_BIG", ""), ("IP_INVALID_SOURCE", "")],
        remedy: "look at the error that the program got",
    },
    Facts {
        place: Place::Neighbour,
        name: "neighbour",
        title: "next hop unknown",
        counters: &[],
        reasons: &[
            ("NEIGH_FAILED", ""),
            ("NEIGH_QUEUEFULL", ""),
            ("NEIGH_CREATEFAIL", ""),
            ("NEIGH_DEAD", ""),
            ("NEIGH_HH_FILLFAIL", ""),
        ],
        remedy: "is the next hop up? Else a permanent entry: `ip neigh replace ADDR lladdr MAC dev IF nud permanent`; queue: net.ipv4.neigh.IF.unres_qlen_bytes",
    },
    Facts {
        place: Place::Qdisc,
        name: "qdisc",
        title: "interface queue full",
        counters: &[],
        reasons: &[
            ("QDISC_DROP", ""),
            ("QDISC_OVERLIMIT", ""),
            ("QDISC_CONGESTED", ""),
            ("CAKE_FLOOD", ""),
            ("FQ_BAND_LIMIT", ""),
            ("FQ_HORIZON_LIMIT", ""),
            ("FQ_FLOW_LIMIT", ""),
            ("DUALPI2_STEP_DROP", ""),
            ("TC_EGRESS", ""),
        ],
        remedy: "pace the sender below the rate of the leg, or lengthen the queue: `tc qdisc`; IP_RECVERR tells the sender (ENOBUFS)",
    },
    Facts {
        place: Place::Transmit,
        name: "transmit",
        title: "transmit ring full",
        counters: &[],
        reasons: &[
            ("FULL_RING", ""),
            ("DEV_READY", ""),
            ("DEV_HDR", ""),
            ("TAP_TXFILTER", ""),
            ("TAP_FILTER", ""),
            ("NO_TX_TARGET", ""),
            ("SKB_GSO_SEG", ""),
        ],
        remedy: "a longer ring: `ethtool -G IF tx N` (tun: `ip link set IF txqueuelen N`); is the link up, does somebody read the tun device?",
    },
    Facts {
        place: Place::Network,
        name: "network",
        title: "between the hosts",
        counters: &[],
        reasons: &[],
        remedy: "look at the switches: mixed speeds without pause frames (`ethtool -A`), snooping without a querier",
    },
    Facts {
        place: Place::ReceiveRing,
        name: "receive_ring",
        title: "receive ring full",
        counters: &[],
        reasons: &[],
        remedy: "a longer ring and fewer interrupts: `ethtool -G IF rx N`, `ethtool -C IF rx-usecs N`; more queues: `ethtool -L`, `-N IF rx-flow-hash udp4 sdfn`",
    },
    Facts {
        place: Place::Frame,
        name: "frame",
        title: "damaged frames",
        counters: &[],
        reasons: &[],
        remedy: "change the cable, the transceiver or the port",
    },
    Facts {
        place: Place::Xdp,
        name: "xdp",
        title: "XDP program",
        counters: &[],
        // XDP_DROP itself has no reason (net/core/dev.c, netif_receive_generic_xdp, inlined).
        reasons: &[
            ("XDP", ""),
            ("NOT_SPECIFIED", "do_xdp_generic"),
            ("NOT_SPECIFIED", "netif_receive_generic_xdp"),
            ("NOT_SPECIFIED", "bpf_prog_run_generic_xdp"),
        ],
        remedy: "see who loaded it: `ip link show IF`, `bpftool net`",
    },
    Facts {
        place: Place::IngressFilter,
        name: "ingress_filter",
        title: "tc ingress filter",
        counters: &[],
        reasons: &[("TC_INGRESS", ""), ("TC_CHAIN_NOTFOUND", ""), ("TC_RECLASSIFY_LOOP", ""), ("TC_COOKIE_ERROR", "")],
        remedy: "`tc filter show dev IF ingress`",
    },
    Facts {
        place: Place::Backlog,
        name: "backlog",
        title: "processor's backlog full",
        counters: &[],
        reasons: &[("CPU_BACKLOG", "")],
        remedy: "raise net.core.netdev_max_backlog; spread by RPS (rps_cpus)",
    },
    Facts {
        place: Place::IpHeader,
        name: "ip_header",
        title: "malformed IP header",
        counters: &[("Ip", "InHdrErrors"), ("Ip6", "InHdrErrors")],
        reasons: &[
            ("IP_INHDR", ""),
            ("IP_CSUM", ""),
            ("HDR_TRUNC", ""),
            ("PKT_TOO_SMALL", ""),
            ("IPV6_BAD_EXTHDR", ""),
        ],
        remedy: "something on the path damages packets: capture them at both ends",
    },
    Facts {
        place: Place::IpAddress,
        name: "ip_address",
        title: "address is not ours",
        counters: &[("Ip", "InAddrErrors"), ("Ip", "InNoRoutes"), ("Ip6", "InAddrErrors"), ("Ip6", "InNoRoutes")],
        reasons: &[
            ("IP_INADDRERRORS", ""),
            ("IP_INNOROUTES", ""),
            ("IP_LOCAL_SOURCE", ""),
            ("IP_LOCALNET", ""),
            ("IP_INVALID_DEST", ""),
            ("OTHERHOST", ""),
            ("UNICAST_IN_L2_MULTICAST", ""),
            ("UNHANDLED_PROTO", ""),
            ("IPV6DISABLED", ""),
        ],
        remedy: "give the interface that address, or the host a route (`sysctl net.ipv4.ip_forward`)",
    },
    Facts {
        place: Place::ReversePath,
        name: "reverse_path",
        title: "reverse path filter",
        counters: &[("TcpExt", "IPReversePathFilter")],
        reasons: &[("IP_RPFILTER", "")],
        remedy: "`sysctl -w net.ipv4.conf.IF.rp_filter=2` (and `conf.all`), or a route to the sender through this interface",
    },
    Facts {
        place: Place::Firewall,
        name: "firewall",
        title: "firewall, receiving",
        counters: &[],
        reasons: &[("NETFILTER_DROP", "")],
        remedy: "find the rule: `nft list ruleset`; spare the port from tracking: `notrack`",
    },
    Facts {
        place: Place::Reassembly,
        name: "reassembly",
        title: "fragments missing",
        counters: &[("Ip", "ReasmFails"), ("Ip6", "ReasmFails")],
        reasons: &[("FRAG_REASM_TIMEOUT", ""), ("FRAG_TOO_FAR", ""), ("DUP_FRAG", "")],
        remedy: "keep payloads within the MTU; else raise net.ipv4.ipfrag_high_thresh",
    },
    Facts {
        place: Place::NotJoined,
        name: "not_joined",
        title: "group not joined",
        counters: &[],
        reasons: &[
            ("NOT_SPECIFIED", "ip_rcv_finish_core"),
            ("NOT_SPECIFIED", "ip6_mc_input"),
            ("NOT_SPECIFIED", "ip_route_input_noref"),
        ],
        remedy: "join the group on that interface (IP_ADD_MEMBERSHIP with its index)",
    },
    Facts {
        place: Place::NoMatchingSocket,
        name: "no_matching_socket",
        title: "joined, but not by this port",
        counters: &[("Udp", "IgnoredMulti"), ("Udp6", "IgnoredMulti")],
        reasons: &[
            ("NOT_SPECIFIED", "__udp4_lib_rcv"),
            ("NOT_SPECIFIED", "__udp4_lib_mcast_deliver"),
            ("NOT_SPECIFIED", "__udp6_lib_rcv"),
            ("NOT_SPECIFIED", "__udp6_lib_mcast_deliver"),
        ],
        remedy: "join the group on the socket that has the port, or set IP_MULTICAST_ALL",
    },
    Facts {
        place: Place::PortClosed,
        name: "port_closed",
        title: "port closed",
        counters: &[("Udp", "NoPorts"), ("Udp6", "NoPorts")],
        reasons: &[("NO_SOCKET", "")],
        remedy: "start the receiver before the sender; is it bound to this address?",
    },
    Facts {
        place: Place::UdpChecksum,
        name: "udp_checksum",
        title: "UDP checksum wrong",
        counters: &[("Udp", "InCsumErrors"), ("Udp6", "InCsumErrors")],
        reasons: &[("UDP_CSUM", ""), ("SKB_CSUM", "")],
        remedy: "switch the card's checksum offload off to see who is wrong: `ethtool -K IF rx off`; else the path",
    },
    Facts {
        place: Place::SocketFilter,
        name: "socket_filter",
        title: "socket's own filter",
        counters: &[],
        reasons: &[("SOCKET_FILTER", "")],
        remedy: "the program that opened the socket filters: look at its settings",
    },
    Facts {
        place: Place::ReceiveBuffer,
        name: "receive_buffer",
        title: "receive buffer full",
        counters: &[("Udp", "RcvbufErrors"), ("Udp6", "RcvbufErrors")],
        reasons: &[("SOCKET_RCVBUFF", "")],
        remedy: "a larger SO_RCVBUF (up to net.core.rmem_max), a reader that stalls less: `weir loss check` computes it",
    },
    Facts {
        place: Place::UdpMemory,
        name: "udp_memory",
        title: "memory of all UDP sockets used up",
        counters: &[("Udp", "MemErrors"), ("Udp6", "MemErrors")],
        reasons: &[("PROTO_MEM", ""), ("NOMEM", "")],
        remedy: "raise net.ipv4.udp_mem (pages), or find the socket that nobody reads: `ss -uam`",
    },
    Facts {
        place: Place::ClosedUnread,
        name: "closed_unread",
        title: "closed before they were read",
        counters: &[],
        reasons: &[
            ("NOT_SPECIFIED", "udp_destruct_common"),
            ("NOT_SPECIFIED", "udp_destruct_sock"),
            ("SOCKET_CLOSE", ""),
            ("QUEUE_PURGE", ""),
        ],
        remedy: "read what is left before you close",
    },
    Facts {
        place: Place::Truncated,
        name: "truncated",
        title: "cut off",
        counters: &[],
        reasons: &[],
        remedy: "give recv a larger buffer (MSG_TRUNC tells)",
    },
    Facts {
        place: Place::Other,
        name: "other",
        title: "elsewhere in the kernel",
        counters: &[],
        reasons: &[],
        remedy: "look the drop reason up (include/net/dropreason-core.h)",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_row() {
        for (index, facts) in TABLE.iter().enumerate() {
            assert_eq!(facts.place as usize, index);
            assert_eq!(facts.name, facts.name.to_lowercase());
        }
    }

    #[test]
    fn drops_find_their_places() {
        assert_eq!(Place::of_drop("SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", false), Place::ReceiveBuffer);
        assert_eq!(Place::of_drop("NETFILTER_DROP", "nf_hook_slow", true), Place::FirewallOut);
        assert_eq!(Place::of_drop("NETFILTER_DROP", "nf_hook_slow", false), Place::Firewall);
        assert_eq!(Place::of_drop("NOT_SPECIFIED", "udp_destruct_common.part.0", false), Place::ClosedUnread);
        assert_eq!(Place::of_drop("NOT_SPECIFIED", "somewhere", false), Place::Other);
    }
}
