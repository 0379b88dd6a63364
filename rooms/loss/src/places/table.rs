//! The rows. Sources: include/net/dropreason-core.h, include/uapi/linux/snmp.h and if_link.h, net/core/dev.c.

use weir_kernel::counters::Counter;

use super::{Place, Row, Stage};

impl Place {
    /// What is known of it.
    pub fn row(self) -> &'static Row {
        match self {
            Place::NoRoute => &Row {
                title: "no route",
                stage: Stage::Sending,
                counters: &[&[Counter::Snmp("Ip", "OutNoRoutes")], &[Counter::Snmp("Ip6", "OutNoRoutes")]],
                reasons: &[("IP_OUTNOROUTES", ""), ("NOT_SPECIFIED", "dst_discard_out")],
                remedy: "add a route: `ip route add NET via GATEWAY`",
                ..EMPTY
            },
            Place::FirewallOut => &Row {
                title: "firewall, sending",
                stage: Stage::Sending,
                // Those of several directions are told apart by the datagram's.
                reasons: &[
                    ("NETFILTER_DROP", ""),
                    ("BPF_CGROUP_EGRESS", ""),
                    ("SECURITY_HOOK", ""),
                    ("XFRM_POLICY", ""),
                    ("PSP_OUTPUT", ""),
                ],
                remedy: "find the rule: `nft list ruleset`, and let the port out",
                ..EMPTY
            },
            Place::SendBuffer => &Row {
                title: "send buffer full",
                stage: Stage::Sending,
                calls: "EAGAIN of the call",
                remedy: "raise SO_SNDBUF, or pace the sender",
                ..EMPTY
            },
            Place::SendError => &Row {
                title: "send call failed",
                stage: Stage::Sending,
                calls: "errno of the call",
                reasons: &[("PKT_TOO_BIG", ""), ("IP_INVALID_SOURCE", ""), ("SKB_UCOPY_FAULT", "")],
                remedy: "look at the error that the program got",
                ..EMPTY
            },
            Place::Neighbour => &Row {
                title: "next hop unknown",
                stage: Stage::NextHop,
                counters: &[&[Counter::ArpDiscards], &[Counter::NdiscDiscards]],
                reasons: &[
                    ("NEIGH_FAILED", ""),
                    ("NEIGH_QUEUEFULL", ""),
                    ("NEIGH_CREATEFAIL", ""),
                    ("NEIGH_DEAD", ""),
                    ("NEIGH_HH_FILLFAIL", ""),
                    // What waited for an address that did not come: with the older purges.
                    ("NOT_SPECIFIED", "neigh_invalidate"),
                    ("QUEUE_PURGE", "neigh_invalidate"),
                    ("NOT_SPECIFIED", "neigh_timer_handler"),
                    ("QUEUE_PURGE", "neigh_timer_handler"),
                    ("NOT_SPECIFIED", "neigh_flush_dev"),
                    ("QUEUE_PURGE", "neigh_flush_dev"),
                    ("NOT_SPECIFIED", "neigh_destroy"),
                    ("QUEUE_PURGE", "neigh_destroy"),
                    ("NOT_SPECIFIED", "__neigh_update"),
                    ("QUEUE_PURGE", "__neigh_update"),
                    ("NOT_SPECIFIED", "__neigh_event_send"),
                    ("NOT_SPECIFIED", "ndisc_error_report"),
                    ("NOT_SPECIFIED", "arp_error_report"),
                ],
                remedy: "is the next hop up? Else a permanent entry: `ip neigh replace ADDR lladdr MAC dev IF nud permanent`; queue: net.ipv4.neigh.IF.unres_qlen_bytes (net.ipv6 likewise)",
                ..EMPTY
            },
            Place::Qdisc => &Row {
                title: "interface queue full",
                stage: Stage::Departed,
                counters: &[&[Counter::Qdisc]],
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
                    ("NOT_SPECIFIED", "__dev_xmit_skb"),
                    ("NOT_SPECIFIED", "pfifo_fast_reset"),
                    ("NOT_SPECIFIED", "rtnl_kfree_skbs"),
                ],
                remedy: "pace the sender below the rate of the leg, or lengthen the queue: `tc qdisc`; IP_RECVERR tells the sender (ENOBUFS)",
                ..EMPTY
            },
            Place::Transmit => &Row {
                title: "transmit ring full",
                stage: Stage::Departed,
                counters: &[&[Counter::TxDropped], &[Counter::TxCarrier], &[Counter::TxFifo]],
                reasons: &[
                    ("FULL_RING", ""),
                    ("DEV_READY", ""),
                    ("DEV_HDR", ""),
                    ("TAP_TXFILTER", ""),
                    ("TAP_FILTER", ""),
                    ("NO_TX_TARGET", ""),
                    ("SKB_GSO_SEG", ""),
                    ("RECURSION_LIMIT", ""),
                    ("TUNNEL_TXINFO", ""),
                    ("NOT_SPECIFIED", "validate_xmit_skb"),
                    ("NOT_SPECIFIED", "dev_hard_start_xmit"),
                    ("NOT_SPECIFIED", "__dev_queue_xmit"),
                    ("NOT_SPECIFIED", "tun_net_xmit"),
                    ("NOT_SPECIFIED", "veth_xmit"),
                    // To the other end of a veth, which is down, or whose MTU is smaller.
                    ("NOT_SPECIFIED", "__dev_forward_skb"),
                    ("NOT_SPECIFIED", "__dev_forward_skb2"),
                    ("NOT_SPECIFIED", "____dev_forward_skb"),
                    ("NOT_SPECIFIED", "dev_forward_skb"),
                    // Out of a bridge, none of whose ports takes it, or too long for the port's MTU.
                    ("NOT_SPECIFIED", "br_forward"),
                    ("NOT_SPECIFIED", "br_flood"),
                    ("NOT_SPECIFIED", "br_multicast_flood"),
                    ("NOT_SPECIFIED", "br_dev_queue_push_xmit"),
                    ("NOT_SPECIFIED", "br_nf_dev_queue_xmit"),
                    ("NOT_SPECIFIED", "br_nf_ip_fragment"),
                    ("NOT_SPECIFIED", "br_handle_frame_finish"),
                    ("NOT_SPECIFIED", "br_handle_frame"),
                    ("NOT_SPECIFIED", "br_pass_frame_up"),
                    ("BRIDGE_INGRESS_STP_STATE", ""),
                    ("MAC_INVALID_SOURCE", ""),
                    ("MAC_IEEE_MAC_CONTROL", ""),
                    ("LOCAL_MAC", ""),
                ],
                remedy: "a longer ring: `ethtool -G IF tx N` (tun: `ip link set IF txqueuelen N`); is the link up, does somebody read the tun device?",
                ..EMPTY
            },
            Place::Network => &Row {
                title: "between the hosts",
                stage: Stage::Wire,
                calls: "departed - arrived, of two hosts",
                remedy: "look at the switches: mixed speeds without pause frames (`ethtool -A`), snooping without a querier",
                ..EMPTY
            },
            Place::ReceiveRing => &Row {
                title: "receive ring full",
                stage: Stage::Arriving,
                counters: &[&[Counter::RxMissed, Counter::RxFifo, Counter::RxOver, Counter::QueueOverruns]],
                remedy: "a longer ring and fewer interrupts: `ethtool -G IF rx N`, `ethtool -C IF rx-usecs N`; more queues: `ethtool -L`, `-N IF rx-flow-hash udp4 sdfn`",
                ..EMPTY
            },
            Place::Frame => &Row {
                title: "damaged frames",
                stage: Stage::Arriving,
                counters: &[&[Counter::RxCrc], &[Counter::RxFrame], &[Counter::RxLength]],
                remedy: "change the cable, the transceiver or the port",
                ..EMPTY
            },
            Place::Xdp => &Row {
                title: "XDP program",
                stage: Stage::Arriving,
                // XDP_DROP itself has no reason (net/core/dev.c, netif_receive_generic_xdp, inlined).
                reasons: &[
                    ("XDP", ""),
                    ("NOT_SPECIFIED", "do_xdp_generic"),
                    ("NOT_SPECIFIED", "netif_receive_generic_xdp"),
                    ("NOT_SPECIFIED", "bpf_prog_run_generic_xdp"),
                    ("NOT_SPECIFIED", "veth_xdp_rcv_skb"),
                    ("NOT_SPECIFIED", "veth_xdp_rcv"),
                    ("NOT_SPECIFIED", "veth_poll"),
                    ("NOT_SPECIFIED", "tun_get_user"),
                ],
                remedy: "see who loaded it: `ip link show IF`, `bpftool net`",
                ..EMPTY
            },
            Place::IngressFilter => &Row {
                title: "tc ingress filter",
                stage: Stage::Arriving,
                reasons: &[
                    ("TC_INGRESS", ""),
                    ("TC_CHAIN_NOTFOUND", ""),
                    ("TC_RECLASSIFY_LOOP", ""),
                    ("TC_COOKIE_ERROR", ""),
                ],
                remedy: "`tc filter show dev IF ingress`",
                ..EMPTY
            },
            Place::Backlog => &Row {
                title: "processor's backlog full",
                stage: Stage::Stack,
                counters: &[&[Counter::SoftnetDropped]],
                reasons: &[("CPU_BACKLOG", ""), ("PFMEMALLOC", ""), ("NOT_SPECIFIED", "enqueue_to_backlog")],
                remedy: "raise net.core.netdev_max_backlog; spread by RPS (rps_cpus)",
                ..EMPTY
            },
            Place::IpHeader => &Row {
                title: "malformed IP header",
                stage: Stage::Stack,
                counters: &[&[Counter::Snmp("Ip", "InHdrErrors")], &[Counter::Snmp("Ip6", "InHdrErrors")]],
                reasons: &[
                    ("IP_INHDR", ""),
                    ("IP_CSUM", ""),
                    ("HDR_TRUNC", ""),
                    ("PKT_TOO_SMALL", ""),
                    ("IPV6_BAD_EXTHDR", ""),
                    ("IP_TUNNEL_ECN", ""),
                    ("NOT_SPECIFIED", "ip_rcv_core"),
                    ("NOT_SPECIFIED", "ip6_rcv_core"),
                ],
                remedy: "something on the path damages packets: capture them at both ends; a router counts TTLs that are used up here, too",
                ..EMPTY
            },
            Place::HopLimit => &Row {
                title: "TTL used up",
                stage: Stage::Stack,
                reasons: &[("IP_INHDR", "ip_forward"), ("IP_INHDR", "ip6_forward")],
                remedy: "the sender's TTL (hop limit) is too small for the hops on the way: IP_TTL, for a group IP_MULTICAST_TTL (IPV6_UNICAST_HOPS, IPV6_MULTICAST_HOPS); or routers send it round in a circle: `traceroute`",
                ..EMPTY
            },
            Place::IpAddress => &Row {
                title: "address is not ours",
                stage: Stage::Stack,
                counters: &[
                    &[Counter::Snmp("Ip", "InAddrErrors")],
                    &[Counter::Snmp("IpExt", "InNoRoutes")],
                    &[Counter::Snmp("Ip6", "InAddrErrors")],
                    &[Counter::Snmp("Ip6", "InNoRoutes")],
                ],
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
                    ("IP_NOPROTO", ""),
                    ("INVALID_PROTO", ""),
                    // A router's, or a host's, that has no way on: blackhole, unreachable, prohibit, or no forwarding.
                    ("NOT_SPECIFIED", "ip_error"),
                    ("NOT_SPECIFIED", "dst_discard"),
                    ("NOT_SPECIFIED", "ip_forward"),
                    ("NOT_SPECIFIED", "ip6_forward"),
                    ("NOT_SPECIFIED", "ip6_pkt_drop"),
                    ("NOT_SPECIFIED", "ip6_pkt_discard"),
                    ("NOT_SPECIFIED", "ip6_pkt_prohibit"),
                    ("NOT_SPECIFIED", "ip_mr_input"),
                    ("NOT_SPECIFIED", "ip6_mr_input"),
                ],
                remedy: "give the interface that address, or the host a route (`sysctl net.ipv4.ip_forward`)",
                ..EMPTY
            },
            Place::ReversePath => &Row {
                title: "reverse path filter",
                stage: Stage::Stack,
                counters: &[&[Counter::Snmp("TcpExt", "IPReversePathFilter")]],
                reasons: &[("IP_RPFILTER", "")],
                remedy: "`sysctl -w net.ipv4.conf.IF.rp_filter=2` (and `conf.all`), or a route to the sender through this interface",
                ..EMPTY
            },
            Place::Firewall => &Row {
                title: "firewall, receiving",
                stage: Stage::Stack,
                counters: &[&[Counter::ConntrackDrop, Counter::ConntrackInsertFailed]],
                reasons: &[("NETFILTER_DROP", ""), ("SECURITY_HOOK", ""), ("XFRM_POLICY", ""), ("PSP_INPUT", "")],
                remedy: "find the rule: `nft list ruleset`; spare the port from tracking: `notrack`",
                ..EMPTY
            },
            Place::Reassembly => &Row {
                title: "fragments missing",
                stage: Stage::Stack,
                counters: &[&[Counter::Snmp("Ip", "ReasmFails")], &[Counter::Snmp("Ip6", "ReasmFails")]],
                reasons: &[
                    ("FRAG_REASM_TIMEOUT", ""),
                    ("FRAG_TOO_FAR", ""),
                    ("DUP_FRAG", ""),
                    ("NOT_SPECIFIED", "inet_frag_rbtree_purge"),
                    ("NOT_SPECIFIED", "ip_defrag"),
                    ("NOT_SPECIFIED", "ip_expire"),
                    ("NOT_SPECIFIED", "ip6frag_expire_frag_queue"),
                    ("NOT_SPECIFIED", "ip_frag_queue"),
                    ("NOT_SPECIFIED", "ip6_frag_queue"),
                    ("NOT_SPECIFIED", "ipv6_frag_rcv"),
                ],
                remedy: "keep payloads within the MTU; raise net.ipv4.ipfrag_high_thresh only where that memory is full",
                ..EMPTY
            },
            Place::NotJoined => &Row {
                title: "group not joined",
                stage: Stage::Port,
                reasons: &[
                    ("NOT_SPECIFIED", "ip_rcv_finish_core"),
                    ("NOT_SPECIFIED", "ip6_mc_input"),
                    ("NOT_SPECIFIED", "ip_route_input_noref"),
                ],
                remedy: "join the group on that interface (IP_ADD_MEMBERSHIP with its index)",
                ..EMPTY
            },
            Place::NoMatchingSocket => &Row {
                title: "joined, but not by this port",
                stage: Stage::Port,
                counters: &[&[Counter::Snmp("Udp", "IgnoredMulti")], &[Counter::Snmp("Udp6", "IgnoredMulti")]],
                reasons: &[
                    ("NOT_SPECIFIED", "__udp4_lib_rcv"),
                    ("NOT_SPECIFIED", "__udp4_lib_mcast_deliver"),
                    ("NOT_SPECIFIED", "__udp6_lib_rcv"),
                    ("NOT_SPECIFIED", "__udp6_lib_mcast_deliver"),
                    ("NOT_SPECIFIED", "udp_queue_rcv_skb"),
                ],
                remedy: "join the group on the socket that has the port, or set IP_MULTICAST_ALL",
                ..EMPTY
            },
            Place::PortClosed => &Row {
                title: "port closed",
                stage: Stage::Port,
                counters: &[&[Counter::Snmp("Udp", "NoPorts")], &[Counter::Snmp("Udp6", "NoPorts")]],
                reasons: &[("NO_SOCKET", "")],
                remedy: "start the receiver before the sender; is it bound to this address?",
                ..EMPTY
            },
            Place::UdpChecksum => &Row {
                title: "UDP checksum wrong",
                stage: Stage::Socket,
                counters: &[&[Counter::Snmp("Udp", "InCsumErrors")], &[Counter::Snmp("Udp6", "InCsumErrors")]],
                reasons: &[
                    ("UDP_CSUM", ""),
                    ("SKB_CSUM", ""),
                    // Found by its reader, before that gave a reason.
                    ("NOT_SPECIFIED", "udp_recvmsg"),
                    ("NOT_SPECIFIED", "udpv6_recvmsg"),
                    ("NOT_SPECIFIED", "__first_packet_length"),
                    ("NOT_SPECIFIED", "first_packet_length"),
                    ("NOT_SPECIFIED", "udp_read_skb"),
                ],
                remedy: "switch the card's checksum offload off to see who is wrong: `ethtool -K IF rx off`; else the path",
                ..EMPTY
            },
            Place::SocketFilter => &Row {
                title: "socket's own filter",
                stage: Stage::Socket,
                reasons: &[("SOCKET_FILTER", "")],
                remedy: "the program that opened the socket filters (SO_ATTACH_FILTER), or its control group: `bpftool cgroup tree`, of systemd IPAddressDeny=",
                ..EMPTY
            },
            Place::ReceiveBuffer => &Row {
                title: "receive buffer full",
                stage: Stage::Socket,
                counters: &[&[Counter::Snmp("Udp", "RcvbufErrors")], &[Counter::Snmp("Udp6", "RcvbufErrors")]],
                reasons: &[("SOCKET_RCVBUFF", "")],
                remedy: "a larger SO_RCVBUF (up to net.core.rmem_max), a reader that stalls less: `weir loss check` computes it",
                ..EMPTY
            },
            Place::UdpMemory => &Row {
                title: "memory of all UDP sockets used up",
                stage: Stage::Socket,
                counters: &[&[Counter::Snmp("Udp", "MemErrors")], &[Counter::Snmp("Udp6", "MemErrors")]],
                reasons: &[("PROTO_MEM", ""), ("NOMEM", "")],
                remedy: "raise net.ipv4.udp_mem (pages), or find the socket that nobody reads: `ss -uam`",
                ..EMPTY
            },
            Place::ClosedUnread => &Row {
                title: "closed before they were read",
                stage: Stage::Socket,
                reasons: &[
                    ("NOT_SPECIFIED", "udp_destruct_common"),
                    ("NOT_SPECIFIED", "udp_destruct_sock"),
                    ("SOCKET_CLOSE", ""),
                    ("QUEUE_PURGE", ""),
                ],
                remedy: "read what is left before you close",
                ..EMPTY
            },
            Place::Truncated => &Row {
                title: "cut off",
                stage: Stage::Socket,
                calls: "MSG_TRUNC of the call",
                remedy: "give recv a larger buffer (MSG_TRUNC tells); or the socket's own filter (SO_ATTACH_FILTER) keeps so many bytes",
                ..EMPTY
            },
            Place::Other => &Row {
                title: "elsewhere in the kernel",
                stage: Stage::Anywhere,
                remedy: "look the drop reason up (include/net/dropreason-core.h)",
                ..EMPTY
            },
        }
    }
}

const EMPTY: Row = Row { title: "", stage: Stage::Anywhere, counters: &[], calls: "", reasons: &[], remedy: "" };
