use std::collections::HashSet;

use weir_wire::sflow::{Kind, Space, Structure};

use super::super::Metric;

#[test]
fn names_are_different_and_known() {
    let mut names = HashSet::new();
    for metric in Metric::all() {
        assert!(names.insert(&metric.name), "{} twice", metric.name);
        assert!(std::ptr::eq(Metric::find(&metric.name).unwrap(), metric));
    }
    for name in "ifinoctets ifoutucastpkts ifinpkts ifinutilization ifindiscards ifinerrors ifspeed ifadminstatus ifoperstatus \
        ifdirection ifinmulticastpkts ifname of_dpid of_port eth_fcserrors eth_deferredtx load_one cpu_idle cpu_user cpu_system cpu_utilization \
        mem_total mem_free mem_utilization disk_free disk_reads disk_bytes_read bytes_in pkts_out tcp_retranssegs udp_inerrors \
        ip_indiscards vir_cpu_utilization vir_net_rx_bytes app_success http_status_5xx_count memcache_get_hits host_name \
        lag_attachedaggid queue_dropped sfp_temperature"
        .split_whitespace()
    {
        assert!(Metric::find(name).is_some(), "{name}");
    }
}

/// Each number of each structure has a metric, or a reason to have none.
#[test]
fn nothing_that_agents_tell_is_left_out() {
    let left_out: Vec<_> = Structure::all(Space::Counter)
        .iter()
        .filter(|structure| !Metric::all().iter().any(|metric| metric.structure.format == structure.format))
        .map(|structure| structure.name)
        .collect();
    // The first memcached_counters is superseded; the others tell whose the data source is, or are lists.
    assert_eq!(left_out, ["host_adapters", "host_parent", "memcached_counters"]);
    assert!(Structure::all(Space::Counter).iter().all(|structure| structure.fields.len() <= 64
        || structure.fields.iter().any(|field| matches!(field.kind, Kind::List(_)))));
}

#[test]
fn the_table() {
    let rows: Vec<String> = Metric::all()
        .iter()
        .map(|metric| {
            format!(
                "{:<34} {:<15} {:<20} {:?}",
                metric.name,
                format!("{:?}", metric.unit),
                metric.structure.name,
                metric.how
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}
