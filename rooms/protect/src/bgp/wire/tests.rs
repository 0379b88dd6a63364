use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::model::{Icmp, Ports, Rule, TcpFlags};

fn rule(destination: &str) -> Rule {
    Rule::to(destination.parse().unwrap())
}

/// The bytes of a rule, without their number.
fn components(rule: &Rule) -> Vec<u8> {
    let nlri = nlri::rule(rule).unwrap();
    assert_eq!(usize::from(nlri[0]), nlri.len() - 1);
    nlri[1..].to_vec()
}

/// RFC 8955, section 4.3.1 and 4.3.2; with the destination's port, type 5, in place of any port, type 4.
#[test]
fn rules_are_written_as_in_the_rfc() {
    let smtp = Rule { protocols: vec![6], destination_ports: vec![Ports(25, 25)], ..rule("192.0.2.0/24") };
    assert_eq!(components(&smtp), [0x01, 0x18, 0xc0, 0x00, 0x02, 0x03, 0x81, 0x06, 0x05, 0x81, 0x19]);
    let ports = vec![Ports(137, 139), Ports(8080, 8080)];
    let source = Some("203.0.113.0/24".parse().unwrap());
    let samba = Rule { source, destination_ports: ports, ..rule("192.0.2.0/24") };
    assert_eq!(
        components(&samba),
        [0x01, 0x18, 0xc0, 0x00, 0x02, 0x02, 0x18, 0xcb, 0x00, 0x71, 0x05, 0x03, 0x89, 0x45, 0x8b, 0x91, 0x1f, 0x90]
    );
}

/// As ExaBGP 5.0.15 writes `tcp-flags [ =syn+fin&!ack+rst ]`, `[ !ack ]`, `fragment [ is-fragment+first-fragment ]`.
#[test]
fn bits_are_written_as_exabgp_writes_them() {
    let flags = |mask, value| Rule { tcp_flags: Some(TcpFlags { mask, value }), ..rule("192.0.2.9/32") };
    assert_eq!(components(&flags(0x17, 0x03))[6..], [0x09, 0x01, 0x03, 0xc2, 0x14]);
    assert_eq!(components(&flags(0x10, 0x00))[6..], [0x09, 0x82, 0x10]);
    assert_eq!(components(&flags(0x02, 0x02))[6..], [0x09, 0x81, 0x02]);
    let fragments = Rule { fragment: true, ..rule("192.0.2.9/32") };
    assert_eq!(components(&fragments)[6..], [0x0c, 0x80, 0x06]);
}

/// RFC 8956, section 3.1: the offset stands between the length and the pattern.
#[test]
fn ipv6_prefixes_have_an_offset() {
    let ping = Rule { icmp: Some(Icmp { kind: 128, code: Some(0) }), protocols: vec![58], ..rule("2001:db8::/32") };
    assert_eq!(
        components(&ping),
        [0x01, 0x20, 0x00, 0x20, 0x01, 0x0d, 0xb8, 0x03, 0x81, 0x3a, 0x07, 0x81, 0x80, 0x08, 0x81, 0x00]
    );
}

/// RFC 8955, section 4.1: from 240 on, the length has two bytes.
#[test]
fn long_rules_have_a_long_length() {
    let ports: Vec<Ports> = (0..90).map(|at| Ports(1000 + at, 1000 + at)).collect();
    let many = |ports: &[Ports]| nlri::rule(&Rule { source_ports: ports.to_vec(), ..rule("192.0.2.9/32") });
    // Six bytes of the destination, one of the type, three a port.
    assert_eq!(many(&ports[..77]).unwrap()[..1], [6 + 1 + 231]);
    assert_eq!(many(&ports[..78]).unwrap()[..2], [0xf0, 6 + 1 + 234]);
    let ports: Vec<Ports> = (0..1400).map(|at| Ports(1000 + at, 1000 + at)).collect();
    assert_eq!(many(&ports).unwrap_err(), "4207 bytes are more than a rule may have (give fewer ports)");
}

#[test]
fn what_bgp_cannot_say_is_refused_in_one_line() {
    let refused = |rule: Rule, why: &str| assert_eq!(nlri::rule(&rule).unwrap_err(), why);
    let source = Some("2001:db8::/32".parse().unwrap());
    let why = "source 2001:db8::/32 is of another family than destination 192.0.2.9/32";
    refused(Rule { source, ..rule("192.0.2.9/32") }, why);
    let backwards = Rule { source_ports: vec![Ports(9, 8)], ..rule("192.0.2.9/32") };
    refused(backwards, "9-8: the last is less than the first");
    refused(Rule { dscp: Some(64), ..rule("192.0.2.9/32") }, "64 is no DSCP (write 0 to 63)");
    let impossible = Rule { tcp_flags: Some(TcpFlags { mask: 0x02, value: 0x12 }), ..rule("192.0.2.9/32") };
    refused(impossible, "TCP flags 0x12 of mask 0x02: no packet has flags that are not looked at");

    let refused = |action, next_hop: Option<&str>, why: &str| {
        let next_hop = next_hop.map(|address| address.parse().unwrap());
        let route = Route { rule: rule("192.0.2.9/32"), action, next_hop, communities: Vec::new() };
        assert_eq!(Announcement::new(&route, Marker::default()).unwrap_err(), why);
    };
    refused(Action::Blackhole, None, "a blackhole route needs a next hop (set next_hop)");
    refused(Action::Blackhole, Some("100::1"), "next hop 100::1 of 192.0.2.9/32 is no IPv4 address");
    refused(Action::Limit { bytes_per_s: f32::NAN }, None, "NaN bytes/s is no rate");
    refused(Action::Limit { bytes_per_s: -1.0 }, None, "-1 bytes/s is no rate");
    refused(Action::Mark { dscp: 64 }, None, "64 is no DSCP (write 0 to 63)");
    let why = "route target 70000:65536: the number of an AS past 65535 is at most 65535";
    refused(Action::Redirect { asn: 70_000, number: 65_536 }, None, why);
}

/// RFC 8955, section 7; numbers by hand.
#[test]
fn actions_are_extended_communities() {
    let bytes = |action| extended(action).unwrap().unwrap();
    assert_eq!(bytes(Action::Drop), [0x80, 0x06, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(Action::Limit { bytes_per_s: 1.0 }), [0x80, 0x06, 0, 0, 0x3f, 0x80, 0, 0]);
    assert_eq!(bytes(Action::Mark { dscp: 10 }), [0x80, 0x09, 0, 0, 0, 0, 0, 10]);
    assert_eq!(bytes(Action::Redirect { asn: 65001, number: 7 }), [0x80, 0x08, 0xfd, 0xe9, 0, 0, 0, 7]);
    assert_eq!(bytes(Action::Redirect { asn: 70_000, number: 7 }), [0x82, 0x08, 0, 1, 0x11, 0x70, 0, 7]);
}

proptest! {
    #[test]
    fn attributes_are_read_as_they_were_written(
        is_v6: bool,
        address: [u8; 16],
        communities in proptest::collection::btree_set(any::<u32>(), 0..200),
        extended in proptest::collection::btree_set(any::<[u8; 8]>(), 0..50),
        large in proptest::collection::btree_set(any::<[u8; 12]>(), 0..50),
    ) {
        let [a, b, c, d, ..] = address;
        let next_hop: IpAddr = if is_v6 { address.into() } else { [a, b, c, d].into() };
        let next_hop = (!next_hop.is_unspecified()).then_some(next_hop);
        let attributes = Attributes { next_hop, communities, extended, large };
        prop_assert_eq!(Attributes::decode(&attributes.encode(Family { is_v6, is_flow: false })), attributes);
    }

    #[test]
    fn prefixes_are_read_as_they_were_written(address: [u8; 16], is_v6: bool, length in 0u8..=128) {
        let [a, b, c, d, ..] = address;
        let address: IpAddr = if is_v6 { address.into() } else { [a, b, c, d].into() };
        let prefix = IpNet::new(address, length.min(if is_v6 { 128 } else { 32 })).unwrap().trunc();
        let key = Key { family: Family { is_v6, is_flow: false }, nlri: nlri::prefix(prefix) };
        prop_assert_eq!(key.prefix(), Some(prefix));
    }

    #[test]
    fn any_bytes_are_read(list: Vec<Vec<u8>>, answer: Vec<u8>) {
        Attributes::decode(&list);
        crate::bgp::foreign::read(&answer);
        for nlri in list {
            for family in Family::ALL {
                Key { family, nlri: nlri.clone() }.prefix();
            }
        }
    }
}
