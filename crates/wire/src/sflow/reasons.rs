//! Why packets are dropped: `drop_reason`.
//!
//! Source: sflow.org/sflow_drops.txt and the list of reasons maintained at sflow.org; 0-255 are the codes of ICMP
//! destination unreachable. The sources of hsflowd and sflowtool have 33 for 332 (`dev_hdr`) and 36 for 366
//! (`tc_egress`).

/// The name of a reason; `None`: it is newer than this list.
pub fn reason_name(reason: u32) -> Option<&'static str> {
    let at = NAMES.binary_search_by_key(&reason, |&(number, _)| number).ok()?;
    Some(NAMES[at].1)
}

/// By number.
const NAMES: &[(u32, &str)] = &[
    (0, "net_unreachable"),
    (1, "host_unreachable"),
    (2, "protocol_unreachable"),
    (3, "port_unreachable"),
    (4, "frag_needed"),
    (5, "src_route_failed"),
    (6, "dst_net_unknown"),
    (7, "dst_host_unknown"),
    (8, "src_host_isolated"),
    (9, "dst_net_prohibited"),
    (10, "dst_host_prohibited"),
    (11, "dst_net_tos_unreachable"),
    (12, "dst_host_tos_unreacheable"),
    (13, "comm_admin_prohibited"),
    (14, "host_precedence_violation"),
    (15, "precedence_cutoff"),
    (256, "unknown"),
    (257, "ttl_exceeded"),
    (258, "acl"),
    (259, "no_buffer_space"),
    (260, "red"),
    (261, "traffic_shaping"),
    (262, "pkt_too_big"),
    (263, "src_mac_is_multicast"),
    (264, "vlan_tag_mismatch"),
    (265, "ingress_vlan_filter"),
    (266, "ingress_spanning_tree_filter"),
    (267, "port_list_is_empty"),
    (268, "port_loopback_filter"),
    (269, "blackhole_route"),
    (270, "non_ip"),
    (271, "uc_dip_over_mc_dmac"),
    (272, "dip_is_loopback_address"),
    (273, "sip_is_mc"),
    (274, "sip_is_loopback_address"),
    (275, "ip_header_corrupted"),
    (276, "ipv4_sip_is_limited_bc"),
    (277, "ipv6_mc_dip_reserved_scope"),
    (278, "ipv6_mc_dip_interface_local_scope"),
    (279, "unresolved_neigh"),
    (280, "mc_reverse_path_forwarding"),
    (281, "non_routable_packet"),
    (282, "decap_error"),
    (283, "overlay_smac_is_mc"),
    (284, "unknown_l2"),
    (285, "unknown_l3"),
    (286, "unknown_l3_exception"),
    (287, "unknown_buffer"),
    (288, "unknown_tunnel"),
    (289, "unknown_l4"),
    (290, "sip_is_unspecified"),
    (291, "mlag_port_isolation"),
    (292, "blackhole_arp_neigh"),
    (293, "src_mac_is_dmac"),
    (294, "dmac_is_reserved"),
    (295, "sip_is_class_e"),
    (296, "mc_dmac_mismatch"),
    (297, "sip_is_dip"),
    (298, "dip_is_local_network"),
    (299, "dip_is_link_local"),
    (300, "overlay_smac_is_dmac"),
    (301, "egress_vlan_filter"),
    (302, "uc_reverse_path_forwarding"),
    (303, "split_horizon"),
    (304, "locked_port"),
    (305, "dmac_filter"),
    (306, "blackhole_nexthop"),
    (307, "vxlan_parsing"),
    (308, "llc_snap_parsing"),
    (309, "vlan_parsing"),
    (310, "pppoe_ppp_parsing"),
    (311, "mpls_parsing"),
    (312, "arp_parsing"),
    (313, "ip_1_parsing"),
    (314, "ip_n_parsing"),
    (315, "gre_parsing"),
    (316, "udp_parsing"),
    (317, "tcp_parsing"),
    (318, "ipsec_parsing"),
    (319, "sctp_parsing"),
    (320, "dccp_parsing"),
    (321, "gtp_parsing"),
    (322, "esp_parsing"),
    (323, "unknown_parsing"),
    (324, "pkt_too_small"),
    (325, "unhandled_proto"),
    (326, "ipv6disabled"),
    (327, "invalid_proto"),
    (328, "ip_noproto"),
    (329, "skb_csum"),
    (330, "skb_ucopy_fault"),
    (331, "dev_ready"),
    (332, "dev_hdr"),
    (333, "dup_frag"),
    (334, "skb_gso_seg"),
    (335, "reverse_path_forwarding"),
    (336, "icmp_parsing"),
    (337, "tcp_md5notfound"),
    (338, "tcp_md5unexpected"),
    (339, "tcp_md5failure"),
    (340, "tcp_flags"),
    (341, "tcp_zerowindow"),
    (342, "tcp_old_data"),
    (343, "tcp_overwindow"),
    (344, "tcp_ofomerge"),
    (345, "tcp_rfc7323_paws"),
    (346, "tcp_invalid_sequence"),
    (347, "tcp_reset"),
    (348, "tcp_invalid_syn"),
    (349, "tcp_close"),
    (350, "tcp_fastopen"),
    (351, "tcp_old_ack"),
    (352, "tcp_too_old_ack"),
    (353, "tcp_ack_unsent_data"),
    (354, "tcp_ofo_queue_prune"),
    (355, "tcp_ofo_drop"),
    (356, "tcp_minttl"),
    (357, "ipv6_bad_exthdr"),
    (358, "ipv6_ndisc_frag"),
    (359, "ipv6_ndisc_hop_limit"),
    (360, "ipv6_ndisc_bad_code"),
    (361, "ipv6_ndisc_bad_options"),
    (362, "ipv6_ndisc_ns_otherhost"),
    (363, "tap_filter"),
    (364, "tap_txfilter"),
    (365, "tc_ingress"),
    (366, "tc_egress"),
    (367, "xdp"),
    (368, "cpu_backlog"),
    (369, "bpf_cgroup_egress"),
    (370, "xfrm_policy"),
    (371, "socket_filter"),
    (372, "bgp_flowspec"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_found_by_number() {
        assert!(NAMES.is_sorted_by(|(a, _), (b, _)| a < b));
        assert_eq!(reason_name(0), Some("net_unreachable"));
        assert_eq!(reason_name(258), Some("acl"));
        // These two are mistyped in the source of other programs.
        assert_eq!((reason_name(332), reason_name(366)), (Some("dev_hdr"), Some("tc_egress")));
        assert_eq!((reason_name(33), reason_name(36)), (None, None));
        assert_eq!((reason_name(16), reason_name(4242), reason_name(u32::MAX)), (None, None, None));
        // From the first code of the table of 2004 to the last known one none is missing.
        assert!((256..=372).all(|reason| reason_name(reason).is_some()));
    }
}
