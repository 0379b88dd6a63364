//! Flow records of packets: what was sampled of them, and how the device dealt with them.
//!
//! Source: sFlow version 5; sflow_80211, sflow_pnat, sflow_tunnels, sflow_drops, sflow_transit; for 1017, 1018, 1019
//! and 1031-1035 the drafts that sflow.org lists; for 1041-1043 the definitions in the sources of hsflowd.

use super::{Field, flow, sampled};
use crate::sflow::structure::Kind::*;
use crate::sflow::structure::Structure;

/// By number.
pub(super) const STRUCTURES: &[&Structure] = &[
    &flow(
        1,
        "sampled_header",
        &[sampled("protocol", U32), sampled("frame_length", U32), sampled("stripped", U32), sampled("header", Opaque)],
    ),
    &flow(2, "sampled_ethernet", SAMPLED_ETHERNET),
    &flow(3, "sampled_ipv4", SAMPLED_IPV4),
    &flow(4, "sampled_ipv6", SAMPLED_IPV6),
    &flow(
        1001,
        "extended_switch",
        &[
            sampled("src_vlan", U32),
            sampled("src_priority", U32),
            sampled("dst_vlan", U32),
            sampled("dst_priority", U32),
        ],
    ),
    &flow(
        1002,
        "extended_router",
        &[sampled("nexthop", Address), sampled("src_mask_len", U32), sampled("dst_mask_len", U32)],
    ),
    &flow(
        1003,
        "extended_gateway",
        &[
            sampled("nexthop", Address),
            sampled("as", U32),
            sampled("src_as", U32),
            sampled("src_peer_as", U32),
            sampled("dst_as_path", List(&Structure(AS_PATH))),
            sampled("communities", List(&U32)),
            sampled("localpref", U32),
        ],
    ),
    &flow(
        1004,
        "extended_user",
        &[
            sampled("src_charset", U32),
            sampled("src_user", Text(0)),
            sampled("dst_charset", U32),
            sampled("dst_user", Text(0)),
        ],
    ),
    &flow(1005, "extended_url", &[sampled("direction", U32), sampled("url", Text(0)), sampled("host", Text(0))]),
    &flow(
        1006,
        "extended_mpls",
        &[sampled("nexthop", Address), sampled("in_stack", List(&U32)), sampled("out_stack", List(&U32))],
    ),
    &flow(1007, "extended_nat", &[sampled("src_address", Address), sampled("dst_address", Address)]),
    &flow(
        1008,
        "extended_mpls_tunnel",
        &[sampled("tunnel_lsp_name", Text(0)), sampled("tunnel_id", U32), sampled("tunnel_cos", U32)],
    ),
    &flow(
        1009,
        "extended_mpls_vc",
        &[sampled("vc_instance_name", Text(0)), sampled("vll_vc_id", U32), sampled("vc_label_cos", U32)],
    ),
    &flow(1010, "extended_mpls_FTN", &[sampled("mplsFTNDescr", Text(0)), sampled("mplsFTNMask", U32)]),
    &flow(1011, "extended_mpls_LDP_FEC", &[sampled("mplsFecAddrPrefixLength", U32)]),
    &flow(1012, "extended_vlantunnel", &[sampled("stack", List(&U32))]),
    &flow(1013, "extended_80211_payload", &[sampled("ciphersuite", U32), sampled("data", Opaque)]),
    &flow(
        1014,
        "extended_80211_rx",
        &[
            sampled("ssid", Text(32)),
            sampled("bssid", Mac),
            sampled("version", U32),
            sampled("channel", U32),
            sampled("speed", U64),
            sampled("rsni", U32),
            sampled("rcpi", U32),
            sampled("packet_duration", U32),
        ],
    ),
    &flow(
        1015,
        "extended_80211_tx",
        &[
            sampled("ssid", Text(32)),
            sampled("bssid", Mac),
            sampled("version", U32),
            sampled("transmissions", U32),
            sampled("packet_duration", U32),
            sampled("retrans_duration", U32),
            sampled("channel", U32),
            sampled("speed", U64),
            sampled("power", U32),
        ],
    ),
    &flow(1016, "extended_80211_aggregation", &[sampled("pdus", List(&Structure(PDU)))]),
    &flow(
        1017,
        "extended_openflow_v1",
        &[sampled("flow_cookie", U64), sampled("flow_match", U32), sampled("flow_actions", U32)],
    ),
    &flow(
        1018,
        "extended_fc",
        &[sampled("src_mask_len", U32), sampled("dst_mask_len", U32), sampled("next_hop", U32), sampled("metric", U32)],
    ),
    &flow(1019, "extended_queue_length", &[sampled("queueIndex", U32), sampled("queueLength", U32)]),
    &flow(1020, "extended_nat_port", &[sampled("src_port", U32), sampled("dst_port", U32)]),
    &flow(1021, "extended_L2_tunnel_egress", &[sampled("header", Structure(SAMPLED_ETHERNET))]),
    &flow(1022, "extended_L2_tunnel_ingress", &[sampled("header", Structure(SAMPLED_ETHERNET))]),
    &flow(1023, "extended_ipv4_tunnel_egress", &[sampled("header", Structure(SAMPLED_IPV4))]),
    &flow(1024, "extended_ipv4_tunnel_ingress", &[sampled("header", Structure(SAMPLED_IPV4))]),
    &flow(1025, "extended_ipv6_tunnel_egress", &[sampled("header", Structure(SAMPLED_IPV6))]),
    &flow(1026, "extended_ipv6_tunnel_ingress", &[sampled("header", Structure(SAMPLED_IPV6))]),
    &flow(1027, "extended_decapsulate_egress", &[sampled("inner_header_offset", U32)]),
    &flow(1028, "extended_decapsulate_ingress", &[sampled("inner_header_offset", U32)]),
    &flow(1029, "extended_vni_egress", &[sampled("vni", U32)]),
    &flow(1030, "extended_vni_ingress", &[sampled("vni", U32)]),
    &flow(
        1031,
        "extended_ib_lrh",
        &[
            sampled("src_vl", U32),
            sampled("src_sl", U32),
            sampled("src_dlid", U32),
            sampled("src_slid", U32),
            sampled("src_lnh", U32),
            sampled("dst_vl", U32),
            sampled("dst_sl", U32),
            sampled("dst_dlid", U32),
            sampled("dst_slid", U32),
            sampled("dst_lnh", U32),
        ],
    ),
    &flow(
        1032,
        "extended_ib_grh",
        &[
            sampled("flow_label", U32),
            sampled("tc", U32),
            sampled("s_gid", Ipv6),
            sampled("d_gid", Ipv6),
            sampled("next_header", U32),
            sampled("length", U32),
        ],
    ),
    &flow(1033, "extended_ib_brh", &[sampled("pkey", U32), sampled("dst_qp", U32), sampled("opcode", U32)]),
    &flow(1034, "extended_vlanin", &[sampled("stack", List(&U32))]),
    &flow(1035, "extended_vlanout", &[sampled("stack", List(&U32))]),
    &flow(1036, "extended_egress_queue", &[sampled("queue", U32)]),
    &flow(1037, "extended_acl", &[sampled("number", U32), sampled("name", Text(0)), sampled("direction", U32)]),
    &flow(1038, "extended_function", &[sampled("symbol", Text(0))]),
    &flow(1039, "extended_transit", &[sampled("delay", U32)]),
    &flow(1040, "extended_queue", &[sampled("depth", U32)]),
    &flow(1041, "extended_hw_trap", &[sampled("group", Text(0)), sampled("trap", Text(0))]),
    &flow(1042, "extended_linux_drop_reason", &[sampled("reason", Text(0))]),
    &flow(1043, "extended_timestamp", &[sampled("nanoseconds", U64)]),
];

/// `as_path_type`: a union, whose two cases are written alike.
const AS_PATH: &[Field] = &[sampled("type", U32), sampled("as_numbers", List(&U32))];

/// `pdu`: one of the packets that went as one frame.
const PDU: &[Field] = &[sampled("flow_records", Records)];

const SAMPLED_ETHERNET: &[Field] =
    &[sampled("length", U32), sampled("src_mac", Mac), sampled("dst_mac", Mac), sampled("type", U32)];

const SAMPLED_IPV4: &[Field] = &[
    sampled("length", U32),
    sampled("protocol", U32),
    sampled("src_ip", Ipv4),
    sampled("dst_ip", Ipv4),
    sampled("src_port", U32),
    sampled("dst_port", U32),
    sampled("tcp_flags", U32),
    sampled("tos", U32),
];

const SAMPLED_IPV6: &[Field] = &[
    sampled("length", U32),
    sampled("protocol", U32),
    sampled("src_ip", Ipv6),
    sampled("dst_ip", Ipv6),
    sampled("src_port", U32),
    sampled("dst_port", U32),
    sampled("tcp_flags", U32),
    sampled("priority", U32),
];
