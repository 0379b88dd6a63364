//! Flow records of operations of applications.
//!
//! Source: sflow_host, sflow_http, sflow_memcached, sflow_application; for 2000-2003, 2201 and 2208 the drafts that
//! sflow.org lists; for 2209 and 2210 the definitions in the sources of hsflowd.

use super::{Field, flow, sampled};
use crate::sflow::structure::Kind::*;
use crate::sflow::structure::Structure;

/// By number.
pub(super) const STRUCTURES: &[&Structure] = &[
    &flow(
        2000,
        "transaction",
        &[
            sampled("direction", U32),
            sampled("wait", U32),
            sampled("duration", U32),
            sampled("status", U32),
            sampled("bytes_received", U64),
            sampled("bytes_send", U64),
        ],
    ),
    &flow(
        2001,
        "extended_nfs_storage_transaction",
        &[sampled("path", Text(0)), sampled("operation", U32), sampled("status", U32)],
    ),
    &flow(
        2002,
        "extended_scsi_storage_transaction",
        &[sampled("lun", U32), sampled("operation", U32), sampled("status", U32)],
    ),
    &flow(
        2003,
        "extended_http_transaction",
        &[
            sampled("url", Text(0)),
            sampled("host", Text(0)),
            sampled("referer", Text(0)),
            sampled("useragent", Text(0)),
            sampled("user", Text(0)),
            sampled("status", U32),
        ],
    ),
    &flow(2100, "extended_socket_ipv4", SOCKET_IPV4),
    &flow(2101, "extended_socket_ipv6", SOCKET_IPV6),
    &flow(2102, "extended_proxy_socket_ipv4", &[sampled("socket", Structure(SOCKET_IPV4))]),
    &flow(2103, "extended_proxy_socket_ipv6", &[sampled("socket", Structure(SOCKET_IPV6))]),
    &flow(
        2200,
        "memcached_operation",
        &[
            sampled("protocol", U32),
            sampled("cmd", U32),
            sampled("key", Text(255)),
            sampled("nkeys", U32),
            sampled("value_bytes", U32),
            sampled("uS", U32),
            sampled("status", U32),
        ],
    ),
    &flow(
        2201,
        "http_request",
        &[
            sampled("method", U32),
            sampled("uri", Text(255)),
            sampled("host", Text(32)),
            sampled("referer", Text(255)),
            sampled("useragent", Text(64)),
            sampled("xff", Text(64)),
            sampled("authuser", Text(32)),
            sampled("mime_type", Text(32)),
            sampled("req_bytes", U64),
            sampled("resp_bytes", U64),
            sampled("uS", U32),
            sampled("status", I32),
        ],
    ),
    &flow(
        2202,
        "app_operation",
        &[
            sampled("context", Structure(CONTEXT)),
            sampled("status_descr", Text(64)),
            sampled("req_bytes", U64),
            sampled("resp_bytes", U64),
            sampled("uS", U32),
            sampled("status", U32),
        ],
    ),
    &flow(2203, "app_parent_context", &[sampled("context", Structure(CONTEXT))]),
    &flow(2204, "app_initiator", &[sampled("actor", Text(64))]),
    &flow(2205, "app_target", &[sampled("actor", Text(64))]),
    &flow(
        2206,
        "http_request",
        &[
            sampled("method", U32),
            sampled("protocol", U32),
            sampled("uri", Text(255)),
            sampled("host", Text(64)),
            sampled("referer", Text(255)),
            sampled("useragent", Text(128)),
            sampled("xff", Text(64)),
            sampled("authuser", Text(32)),
            sampled("mime_type", Text(64)),
            sampled("req_bytes", U64),
            sampled("resp_bytes", U64),
            sampled("uS", U32),
            sampled("status", I32),
        ],
    ),
    &flow(2207, "extended_proxy_request", &[sampled("uri", Text(255)), sampled("host", Text(64))]),
    &flow(
        2208,
        "extended_nav_timing",
        &[
            sampled("type", U32),
            sampled("redirectCount", U32),
            sampled("navigationStart", U32),
            sampled("unloadEventStart", U32),
            sampled("unloadEventEnd", U32),
            sampled("redirectStart", U32),
            sampled("redirectEnd", U32),
            sampled("fetchStart", U32),
            sampled("domainLookupStart", U32),
            sampled("domainLookupEnd", U32),
            sampled("connectStart", U32),
            sampled("connectEnd", U32),
            sampled("secureConnectionStart", U32),
            sampled("requestStart", U32),
            sampled("responseStart", U32),
            sampled("responseEnd", U32),
            sampled("domLoading", U32),
            sampled("domInteractive", U32),
            sampled("domContentLoadedEventStart", U32),
            sampled("domContentLoadedEventEnd", U32),
            sampled("domComplete", U32),
            sampled("loadEventStart", U32),
            sampled("loadEventEnd", U32),
        ],
    ),
    &flow(
        2209,
        "extended_tcp_info",
        &[
            sampled("dir", U32),
            sampled("snd_mss", U32),
            sampled("rcv_mss", U32),
            sampled("unacked", U32),
            sampled("lost", U32),
            sampled("retrans", U32),
            sampled("pmtu", U32),
            sampled("rtt", U32),
            sampled("rttvar", U32),
            sampled("snd_cwnd", U32),
            sampled("reordering", U32),
            sampled("min_rtt", U32),
        ],
    ),
    &flow(
        2210,
        "extended_entities",
        &[
            sampled("src_ds_class", U32),
            sampled("src_ds_index", U32),
            sampled("dst_ds_class", U32),
            sampled("dst_ds_index", U32),
        ],
    ),
    &flow(1, "extended_bst_egress_queue", &[sampled("queue", U32)]).of_vendor(4413),
];

const SOCKET_IPV4: &[Field] = &[
    sampled("protocol", U32),
    sampled("local_ip", Ipv4),
    sampled("remote_ip", Ipv4),
    sampled("local_port", U32),
    sampled("remote_port", U32),
];

const SOCKET_IPV6: &[Field] = &[
    sampled("protocol", U32),
    sampled("local_ip", Ipv6),
    sampled("remote_ip", Ipv6),
    sampled("local_port", U32),
    sampled("remote_port", U32),
];

/// `context`: what was done, by which application.
const CONTEXT: &[Field] =
    &[sampled("application", Text(32)), sampled("operation", Text(32)), sampled("attributes", Text(255))];
