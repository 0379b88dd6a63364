//! Counter records of power and climate, and those of vendors that sflow.org lists.
//!
//! Source: the drafts of energy structures that sflow.org lists; bv-sflow, sflow_broadcom_tables, sflow_nvml.

use super::{counter, counter_block, gauge};
use crate::sflow::structure::Kind::*;
use crate::sflow::structure::Structure;

/// By number.
pub(super) const STRUCTURES: &[&Structure] = &[
    &counter_block(
        3000,
        "energy",
        &[
            gauge("voltage", U32),
            gauge("current", U32),
            gauge("real_power", U32),
            gauge("power_factor", I32),
            counter("energy", U32),
            counter("errors", U32),
        ],
    ),
    &counter_block(3001, "temperature", &[gauge("minimum", I32), gauge("maximum", I32), counter("errors", U32)]),
    &counter_block(3002, "humidity", &[gauge("relative", I32)]),
    &counter_block(3003, "fans", &[gauge("total", U32), gauge("failed", U32), gauge("speed", U32)]),
    &counter_block(1, "bst_device_buffers", &[gauge("uc_pc", I32), gauge("mc_pc", I32)]).of_vendor(4413),
    &counter_block(
        2,
        "bst_port_buffers",
        &[
            gauge("ingress_uc_pc", I32),
            gauge("ingress_mc_pc", I32),
            gauge("egress_uc_pc", I32),
            gauge("egress_mc_pc", I32),
            gauge("egress_queue_uc_pc", List(&I32)),
            gauge("egress_queue_mc_pc", List(&I32)),
        ],
    )
    .of_vendor(4413),
    &counter_block(
        3,
        "hw_tables",
        &[
            gauge("host_entries", U32),
            gauge("host_entries_max", U32),
            gauge("ipv4_entries", U32),
            gauge("ipv4_entries_max", U32),
            gauge("ipv6_entries", U32),
            gauge("ipv6_entries_max", U32),
            gauge("ipv4_ipv6_entries", U32),
            gauge("ipv6_ipv6_entries_max", U32),
            gauge("long_ipv6_entries", U32),
            gauge("long_ipv6_entries_max", U32),
            gauge("total_routes", U32),
            gauge("total_routes_max", U32),
            gauge("ecmp_nexthops", U32),
            gauge("ecmp_nexthops_max", U32),
            gauge("mac_entries", U32),
            gauge("mac_entries_max", U32),
            gauge("ipv4_neighbors", U32),
            gauge("ipv6_neighbors", U32),
            gauge("ipv4_routes", U32),
            gauge("ipv6_routes", U32),
            gauge("acl_ingress_entries", U32),
            gauge("acl_ingress_entries_max", U32),
            gauge("acl_ingress_counters", U32),
            gauge("acl_ingress_counters_max", U32),
            gauge("acl_ingress_meters", U32),
            gauge("acl_ingress_meters_max", U32),
            gauge("acl_ingress_slices", U32),
            gauge("acl_ingress_slices_max", U32),
            gauge("acl_egress_entries", U32),
            gauge("acl_egress_entries_max", U32),
            gauge("acl_egress_counters", U32),
            gauge("acl_egress_counters_max", U32),
            gauge("acl_egress_meters", U32),
            gauge("acl_egress_meters_max", U32),
            gauge("acl_egress_slices", U32),
            gauge("acl_egress_slices_max", U32),
        ],
    )
    .of_vendor(4413),
    &counter_block(
        1,
        "nvidia_gpu",
        &[
            gauge("device_count", U32),
            gauge("processes", U32),
            counter("gpu_time", U32),
            counter("mem_time", U32),
            gauge("mem_total", U64),
            gauge("mem_free", U64),
            counter("ecc_errors", U32),
            counter("energy", U32),
            gauge("temperature", U32),
            gauge("fan_speed", U32),
        ],
    )
    .of_vendor(5703),
];
