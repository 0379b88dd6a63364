//! Findings from facts that were made up.

use std::net::Ipv4Addr;

use super::facts::joined_on;
use super::*;

fn well() -> Facts {
    Facts {
        group: "239.192.77.1:5110".into(),
        listened_s: 3.0,
        interface: Some("eth0".into()),
        up: true,
        mtu: Some(1500),
        receive_buffer: (8 << 20, 8 << 20),
        at_interface: Some(9),
        at_socket: 9,
        ..Facts::default()
    }
}

#[test]
fn each_fault_is_found_and_nothing_else() {
    let bridge = || Bridge { name: "br0".into(), snoops: true, asked: false };
    let cases: [(&str, Facts); 11] = [
        ("not-joined", Facts { not_joined: Some("no such device".into()), interface: None, ..well() }),
        ("not-listed", Facts { interface: None, ..well() }),
        ("down", Facts { up: false, ..well() }),
        ("mtu", Facts { mtu: Some(1400), ..well() }),
        ("fragments", Facts { fragments: 1, ..well() }),
        ("buffer", Facts { receive_buffer: (8 << 20, 212_992), ..well() }),
        ("socket-drops", Facts { socket_drops: 5, ..well() }),
        ("rp-filter", Facts { at_socket: 0, reverse_path_drops: 9, ..well() }),
        ("firewall", Facts { at_socket: 0, ..well() }),
        ("no-querier", Facts { bridges: vec![bridge()], ..well() }),
        ("silence", Facts { at_socket: 0, at_interface: Some(0), ..well() }),
    ];
    assert_eq!(Report::new(well()).findings, []);
    for (name, facts) in cases {
        let found: Vec<&str> = Report::new(facts).findings.iter().map(|finding| finding.name).collect();
        assert_eq!(found, [name]);
    }
    let asked = Facts { bridges: vec![bridge()], queriers: vec![Ipv4Addr::new(10, 0, 0, 1)], ..well() };
    assert_eq!(Report::new(asked).findings, []);
}

#[test]
fn groups_are_found_where_the_kernel_lists_them() {
    let igmp = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
                2\teth0      :     2      V3\n\t\t\t\t014DC0EF     1 0:00000000\t\t0\n\t\t\t\t010000E0     1 0:00000000\t\t0\n";
    let group = Ipv4Addr::new(239, 192, 77, 1);
    if cfg!(target_endian = "little") {
        assert_eq!(joined_on(igmp, group, None).as_deref(), Some("eth0"));
        assert_eq!(joined_on(igmp, group, Some("lo")), None);
        assert_eq!(joined_on(igmp, Ipv4Addr::new(224, 0, 0, 1), Some("eth0")).as_deref(), Some("eth0"));
    }
}
