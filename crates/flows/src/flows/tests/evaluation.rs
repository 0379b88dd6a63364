//! What keys and filters make of packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::*;
use crate::names::{Directory, Groups};

/// One agent with a name and one interface.
struct Named;

impl Directory for Named {
    fn address(&self, _: AgentId) -> Option<IpAddr> {
        Some([192, 0, 2, 1].into())
    }

    fn name(&self, agent: AgentId) -> Option<&str> {
        (agent.0 == 1).then_some("leaf\u{1b}[31m1")
    }

    fn interface(&self, _: AgentId, if_index: u32) -> Option<&str> {
        (if_index == 5).then_some("swp5")
    }
}

fn lookups() -> Lookups {
    let groups = |groups: &[(&str, &str)]| {
        let groups = groups.iter().map(|(name, net)| ((*name).to_owned(), vec![net.parse().unwrap()]));
        Groups::new(&groups.collect()).unwrap()
    };
    let (campus, rest) =
        (groups(&[("east", "10.0.0.0/24"), ("west", "10.0.1.0/24")]), groups(&[("world", "0.0.0.0/0")]));
    Lookups { groups: BTreeMap::from([("campus".to_owned(), campus), ("rest".to_owned(), rest)]), ..Lookups::default() }
}

/// The key of a packet by a definition; `None`: it is not counted.
fn key_of(keys: &str, filter: &str, agent: u32, bytes: &[u8]) -> Option<String> {
    let mut flows = Flows::new(FLOWS, Arc::new(lookups()));
    flows.define("it", checked(keys, "frames", filter), 0.0);
    let source = DataSource { class: DataSource::IF_INDEX, index: 5 };
    let frame = Frame::parse(Start::Ethernet, bytes);
    flows.observe(1.0, 1.0, &Packet::captured(AgentId(agent), source, 1000, frame, &Named));
    let mut shown = None;
    flows.scan("it", 1.0).unwrap().slice(0, 10, |flow| shown = Some(flow.show()));
    shown
}

#[test]
fn keys_say_what_the_packet_says() {
    let bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    for (keys, expected) in [
        ("", Some("")),
        ("ipsource,ipdestination", Some("10.0.0.1,10.0.1.2")),
        ("macsource,macdestination", Some("020000000001,020000000002")),
        ("ipprotocol,udpsourceport,udpdestinationport", Some("17,12345,53")),
        ("stack", Some("eth.ip.udp")),
        ("ethernetprotocol,ipttl,ipflags,ipecn,bytes", Some("2048,64,000,00,1000")),
        ("inputifindex,direction,agent,datasource", Some("5,ingress,192.0.2.1,5")),
        ("isunicast,isbroadcast", Some("true,false")),
        ("tcpsourceport", None),
        ("ipsource.1", None),
        ("outputifindex", None),
        ("null:vlan:untagged", Some("untagged")),
        ("or:tcpdestinationport:udpdestinationport", Some("53")),
        ("or:ip6source:vlan", None),
        ("group:ipsource:campus,group:ipdestination:campus", Some("east,west")),
        ("group:ipsource:nowhere:rest", Some("world")),
        ("group:ipsource:nowhere", None),
        ("mask:ipsource:24,mask:ipdestination:0,mask:ipsource:32", Some("10.0.0.0,0.0.0.0,10.0.0.1")),
        ("prefix:stack:.:2,suffix:stack:.:1,suffix:stack:.:9", Some("eth.ip,udp,eth.ip.udp")),
        ("first:stack:.:ip6:ip", Some("ip")),
        ("first:stack:.:ip6:tcp", None),
        ("range:bytes:0:999,range:bytes:1000", Some("false,true")),
        ("concat:-:ipsource:udpdestinationport", Some("10.0.0.1-53")),
        ("concat:-:ipsource:vlan", None),
        ("eq:ipsource:ipdestination,eq:ipttl:ipttl", Some("false,true")),
        ("if:[first:stack:.:ip:ip6]:ip:[group:ipsource:campus]:ip6source", Some("east")),
        ("if:[first:stack:.:ip:ip6]:ip6:ip6source:ipdestination", Some("10.0.1.2")),
        ("ifname:inputifindex", Some("swp5")),
        ("oui:macsource", Some("020000")),
        ("country:ipsource", None),
        ("null:[country:ipsource]:unknown", Some("unknown")),
    ] {
        assert_eq!(key_of(keys, "", 1, &bytes).as_deref(), expected, "{keys}");
    }
}

#[test]
fn filters_take_and_leave() {
    let bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    for (filter, taken) in [
        ("ipsource=10.0.0.1", true),
        ("ipsource=10.0.0.2", false),
        ("ipsource!=10.0.0.2", true),
        ("ipsource=10.0.0.2,10.0.0.1", true),
        ("ipsource!=10.0.0.2,10.0.0.1", false),
        ("macsource=02:00:00:00:00:01", true),
        ("vlan=null", true),
        ("vlan!=null", false),
        ("vlan=5", false),
        ("vlan!=5", true),
        ("vlan~.*", false),
        ("vlan!~.*", true),
        ("stack~eth\\.ip\\..*", true),
        ("stack~ip", false),
        ("stack~.*\\.(tcp|udp)", true),
        ("ipsource~10\\.0\\..*&udpdestinationport=53", true),
        ("ipsource=1.1.1.1|udpdestinationport=53", true),
        ("ipsource=1.1.1.1&udpdestinationport=53|ipttl=64", true),
        ("ipsource=1.1.1.1&(udpdestinationport=53|ipttl=64)", false),
        ("group:ipsource:campus=east&direction=ingress", true),
        ("range:bytes:64:128=true", false),
        ("eq:ipsource:ipdestination=true", false),
        ("eq:vlan:ipttl=false", false),
        ("first:stack:.:ip:ip6=ip", true),
        ("ipflags=000", true),
        ("ipsource=10.0.0.0/24", true),
        ("ipsource=11.0.0.0/8,10.0.1.0/24", false),
        ("ipsource!=10.0.0.0/8", false),
        ("[or:ip6source:ipdestination]=10.0.1.0/24", true),
        ("isunicast=true", true),
    ] {
        assert_eq!(key_of("ipsource", filter, 1, &bytes).is_some(), taken, "{filter}");
    }
}

#[test]
fn patterns_are_those_in_force() {
    let bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    let source = DataSource { class: DataSource::IF_INDEX, index: 5 };
    let mut flows = shard(FLOWS);
    for (filter, taken) in [("stack~eth.*", true), ("stack~ip", false), ("stack!~ip", true), ("stack!~eth.*", false)] {
        flows.define("it", checked("ipsource", "frames", filter), 0.0);
        let mut shown = 0;
        for _ in 0..2 {
            let frame = Frame::parse(Start::Ethernet, &bytes);
            flows.observe(1.0, 1.0, &Packet::captured(AgentId(1), source, 1000, frame, &Named));
        }
        flows.scan("it", 1.0).unwrap().slice(0, 10, |_| shown += 1);
        assert_eq!(shown, usize::from(taken), "{filter}");
    }
}

#[test]
fn the_type_behind_tags_is_that_of_its_own_header() {
    // A VLAN outside, VXLAN, two VLANs inside, then something.
    let inner = [&[1; 12][..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 0x12, 0x34]].concat();
    let mut bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 4789);
    let length = (20 + 8 + 8 + inner.len()) as u16;
    bytes[16..18].copy_from_slice(&length.to_be_bytes());
    bytes.extend([8, 0, 0, 0, 0, 0, 9, 0]);
    bytes.extend(inner);
    bytes.splice(12..12, [0x81, 0, 0, 6]);
    let keys = "ethernetprotocol,ethernetprotocol.1,vlan,vlan.1,vlan.2,vni,macsource.1";
    assert_eq!(key_of(keys, "", 1, &bytes).as_deref(), Some("2048,4660,6,7,8,9,010101010101"));
}

#[test]
fn averages_and_further_values() {
    let mut flows = shard(FLOWS);
    let definition = Definition {
        keys: "ipsource".to_owned(),
        value: "avg:ipttl".to_owned(),
        values: "frames,avg:ipbytes,bytes,avg:vlan".to_owned(),
        ..Definition::default()
    };
    flows.define("it", Arc::new(definition.check().unwrap()), 0.0);
    let mut bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    flows.observe(1.0, 30.0, &packet(1, 1, &bytes));
    // Another, with a third of the weight, and a time to live of 32.
    bytes[22] = 32;
    flows.observe(1.0, 10.0, &packet(1, 1, &bytes));
    let scan = flows.scan("it", 1.0).unwrap();
    assert_eq!(
        scan.compiled.checked.columns().collect::<Vec<_>>(),
        ["avg:ipttl", "frames", "avg:ipbytes", "bytes", "avg:vlan"]
    );
    let mut seen = Vec::new();
    scan.slice(0, 10, |flow| {
        assert_eq!(flow.moments(), None);
        seen = (0..flow.columns()).map(|number| flow.column(number)).collect();
        assert_eq!(flow.value(), seen[0]);
    });
    // (64 x 30 + 32 x 10) / 40; frames and bytes by the same factor; no packet has a VLAN.
    for (number, expected) in [(0, 56.0_f64), (2, 28.0), (4, 0.0)] {
        assert!((seen[number] - expected).abs() < 1e-9, "{seen:?}");
    }
    assert!((seen[3] / seen[1] - 1000.0).abs() < 1e-9, "{seen:?}");
}

#[test]
fn a_packet_tells_its_ends() {
    let bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    let source = DataSource { class: DataSource::IF_INDEX, index: 5 };
    let ends =
        |bytes: &[u8]| Packet::captured(AgentId(1), source, 1000, Frame::parse(Start::Ethernet, bytes), &Named).ends();
    let shown = |end: Option<End>| end.map(|end| end.to_string());
    let of = |source: &str, destination: &str| (Some(source.to_owned()), Some(destination.to_owned()));
    let both = |ends: Ends| (shown(ends.source), shown(ends.destination));
    assert_eq!(both(ends(&bytes)), of("10.0.0.1", "10.0.1.2"));
    // Without an IP header the stations are what is known; without anything, nothing is.
    assert_eq!(both(ends(&bytes[..14])), of("020000000001", "020000000002"));
    assert_eq!(ends(&[]), Ends::default());
}
