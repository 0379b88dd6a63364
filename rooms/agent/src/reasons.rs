//! Linux's reasons (include/net/dropreason-core.h) as sFlow's (sflow.org/sflow_drops.txt).

/// The number of sFlow's reason for one of Linux, by its name without `SKB_DROP_REASON_`; 256 (unknown) where sFlow has none
/// like it: Linux's own is told beside it.
pub(crate) fn number(reason: &str) -> u32 {
    if let Ok(at) = TABLE.binary_search_by_key(&reason, |&(name, _)| name) {
        return TABLE[at].1;
    }
    let family = FAMILIES.iter().find(|(begins, _)| reason.starts_with(begins));
    family.map_or(UNKNOWN, |&(_, number)| number)
}

const UNKNOWN: u32 = 256;

/// By name.
const TABLE: &[(&str, u32)] = &[
    ("BLACKHOLE", 269),
    ("BPF_CGROUP_EGRESS", 369),
    ("BRIDGE_INGRESS_STP_STATE", 266),
    ("CPU_BACKLOG", 368),
    ("DEV_HDR", 332),
    ("DEV_READY", 331),
    ("DUP_FRAG", 333),
    ("FQ_BAND_LIMIT", 261),
    ("FQ_FLOW_LIMIT", 261),
    ("FQ_HORIZON_LIMIT", 261),
    ("FULL_RING", 259),
    ("HDR_TRUNC", 324),
    ("ICMP_CSUM", 329),
    ("INVALID_DMAC", 305),
    ("INVALID_PROTO", 327),
    ("IPV6DISABLED", 326),
    ("IPV6_BAD_EXTHDR", 357),
    ("IPV6_NDISC_BAD_CODE", 360),
    ("IPV6_NDISC_BAD_OPTIONS", 361),
    ("IPV6_NDISC_FRAG", 358),
    ("IPV6_NDISC_HOP_LIMIT", 359),
    ("IPV6_NDISC_NS_OTHERHOST", 362),
    ("IP_CSUM", 329),
    ("IP_INADDRERRORS", 1),
    ("IP_INHDR", 275),
    ("IP_INNOROUTES", 0),
    ("IP_INVALID_DEST", 1),
    ("IP_INVALID_SOURCE", 281),
    ("IP_LOCALNET", 272),
    ("IP_LOCAL_SOURCE", 274),
    ("IP_NOPROTO", 328),
    ("IP_OUTNOROUTES", 0),
    ("IP_RPFILTER", 335),
    ("LOCAL_MAC", 293),
    ("MAC_INVALID_SOURCE", 263),
    ("NEIGH_CREATEFAIL", 279),
    ("NEIGH_DEAD", 279),
    ("NEIGH_FAILED", 279),
    ("NEIGH_HH_FILLFAIL", 279),
    ("NEIGH_QUEUEFULL", 279),
    ("NETFILTER_DROP", 258),
    ("NOMEM", 259),
    ("NO_SOCKET", 3),
    ("OTHERHOST", 305),
    ("PKT_TOO_BIG", 262),
    ("PKT_TOO_SMALL", 324),
    ("PROTO_MEM", 259),
    ("QDISC_BURST_DROP", 261),
    ("QDISC_CONGESTED", 260),
    ("QDISC_DROP", 261),
    ("QDISC_OVERLIMIT", 261),
    ("SKB_CSUM", 329),
    ("SKB_GSO_SEG", 334),
    ("SKB_UCOPY_FAULT", 330),
    ("SOCKET_BACKLOG", 259),
    ("SOCKET_FILTER", 371),
    ("SOCKET_RCVBUFF", 259),
    ("TAP_FILTER", 363),
    ("TAP_TXFILTER", 364),
    ("TCP_ACK_UNSENT_DATA", 353),
    ("TCP_CLOSE", 349),
    ("TCP_CSUM", 329),
    ("TCP_FASTOPEN", 350),
    ("TCP_FLAGS", 340),
    ("TCP_INVALID_ACK_SEQUENCE", 346),
    ("TCP_INVALID_END_SEQUENCE", 346),
    ("TCP_INVALID_SEQUENCE", 346),
    ("TCP_INVALID_SYN", 348),
    ("TCP_MD5FAILURE", 339),
    ("TCP_MD5NOTFOUND", 337),
    ("TCP_MD5UNEXPECTED", 338),
    ("TCP_MINTTL", 356),
    ("TCP_OFOMERGE", 344),
    ("TCP_OFO_DROP", 355),
    ("TCP_OFO_QUEUE_PRUNE", 354),
    ("TCP_OLD_ACK", 351),
    ("TCP_OLD_DATA", 342),
    ("TCP_OLD_SEQUENCE", 346),
    ("TCP_OVERWINDOW", 343),
    ("TCP_RESET", 347),
    ("TCP_RFC7323_PAWS", 345),
    ("TCP_RFC7323_PAWS_ACK", 345),
    ("TCP_RFC7323_TW_PAWS", 345),
    ("TCP_TOO_OLD_ACK", 352),
    ("TCP_ZEROWINDOW", 341),
    ("TC_EGRESS", 366),
    ("TC_INGRESS", 365),
    ("TUNNEL_TXINFO", 288),
    ("UDP_CSUM", 329),
    ("UNHANDLED_PROTO", 325),
    ("UNICAST_IN_L2_MULTICAST", 271),
    ("VLAN_FILTER", 265),
    ("XDP", 367),
    ("XFRM_POLICY", 370),
];

/// What reasons of one kind begin with.
const FAMILIES: &[(&str, u32)] = &[("VXLAN_", 307), ("XFRM_", 318), ("TC_", 365)];

#[cfg(test)]
mod tests {
    use weir_wire::sflow::reason_name;

    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_reasons_that_there_are() {
        assert!(TABLE.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(TABLE.iter().chain(FAMILIES).all(|&(_, number)| reason_name(number).is_some()));
        let named = |reason| reason_name(number(reason)).unwrap();
        assert_eq!(
            ["NO_SOCKET", "NETFILTER_DROP", "SOCKET_RCVBUFF", "VXLAN_VNI_NOT_FOUND", "NOT_SPECIFIED", ""].map(named),
            ["port_unreachable", "acl", "no_buffer_space", "vxlan_parsing", "unknown", "unknown"]
        );
    }
}
