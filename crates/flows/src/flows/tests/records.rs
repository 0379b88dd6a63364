//! Packets as samples tell of them: records beside headers, and instead of them.

use weir_detect::model::Transport;
use weir_wire::sflow::{Datagram, Sample};

use super::*;

/// A record of sflow.org's.
fn record(format: u32, body: &[u8]) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    [&words(&[format, body.len().next_multiple_of(4) as u32])[..], body, &padding].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A text with its length before it.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = words(&[text.len() as u32]);
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A datagram of agent 192.0.2.1 with one sample of ifIndex 7, from there to 9.
fn datagram(discarded: bool, records: &[Vec<u8>]) -> Vec<u8> {
    let head = if discarded { words(&[1, 0, 7, 0, 7, 9, 290]) } else { words(&[1, 7, 100, 1000, 0, 7, 9]) };
    let sample = [&head[..], &words(&[records.len() as u32]), &records.concat()].concat();
    let format = if discarded { 5 } else { 1 };
    [words(&[5, 1, 0xc000_0201, 0, 1, 1000, 1]), record(format, &sample)].concat()
}

/// The key of its packet by a definition.
fn key_of(keys: &str, filter: &str, datagram: &[u8]) -> Option<String> {
    let mut flows = shard(FLOWS);
    let (keys, filter) = (keys.to_owned(), filter.to_owned());
    let dropped = keys.contains("reason");
    let definition = Definition { keys, filter, dropped, value: "frames".to_owned(), ..Definition::default() };
    flows.define("it", Arc::new(definition.check().unwrap()), 0.0);
    for sample in Datagram::parse(datagram).unwrap().samples() {
        let packet = match sample.unwrap() {
            Sample::Flow(sample) => Packet::sampled(AgentId(1), &sample, &Nameless),
            Sample::Discarded(sample) => Packet::discarded(AgentId(1), &sample, &Nameless),
            other => panic!("{other:?}"),
        };
        assert_eq!(packet.malformed, 0);
        flows.observe(1.0, 1.0, &packet);
    }
    let mut shown = None;
    flows.scan("it", 1.0).unwrap().slice(0, 10, |flow| shown = Some(flow.show()));
    shown
}

fn header(bytes: &[u8]) -> Vec<u8> {
    record(1, &[&words(&[1, 300, 4, bytes.len() as u32])[..], bytes].concat())
}

#[test]
fn records_add_to_the_header() {
    let bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    let sequence = words(&[2, 2, 65_001, 65_002]);
    let path = [&words(&[1])[..], &sequence].concat();
    let gateway = [
        &words(&[1, 0xc000_0209, 65_000, 65_010, 65_011])[..],
        &path,
        &words(&[2, 65_000 << 16 | 1, 65_000 << 16 | 2, 100]),
    ];
    let all = datagram(
        false,
        &[
            header(&bytes),
            // Decoded once more: the header counts.
            record(3, &words(&[46, 6, 0x0101_0101, 0x0202_0202, 1, 2, 0, 0])),
            record(1001, &words(&[11, 3, 12, 4])),
            record(1002, &words(&[1, 0xc000_0208, 24, 16])),
            record(1003, &gateway.concat()),
            record(1004, &[words(&[106]), text("alice"), words(&[106]), text("b\u{1b}ob")].concat()),
            record(1005, &[words(&[1]), text("/index"), text("example.org")].concat()),
            record(1036, &words(&[6])),
            record(1039, &words(&[1234])),
            record(1040, &words(&[5678])),
        ],
    );
    for (keys, expected) in [
        ("ipsource,ipprotocol,udpdestinationport,bytes", "10.0.0.1,17,53,300"),
        ("vlan,priority,outputvlan,outputpriority", "11,3,12,4"),
        ("ipnexthop,ipsourcemasklen,ipdestinationmasklen", "192.0.2.8,24,16"),
        ("bgpnexthop,bgpas,bgpsourceas,bgpsourcepeeras", "192.0.2.9,65000,65010,65011"),
        ("bgpdestinationas,bgpdestinationpeeras,bgplocalpref", "65002,65001,100"),
        ("bgpaspath,bgpcommunities", "65001-65002,65000:1-65000:2"),
        ("sourceuser,destinationuser,url,host", "alice,b\\u{1b}ob,/index,example.org"),
        ("queueindex,queuedepth,transitdelay", "6,5678,1234"),
        ("inputifindex,outputifindex,direction,datasource", "7,9,ingress,7"),
        ("eq:bgpsourceas:bgpas", "false"),
    ] {
        assert_eq!(key_of(keys, "", &all).as_deref(), Some(expected), "{keys}");
    }
    assert_eq!(key_of("tcpsourceport", "", &all), None, "of the decoded header, which is not asked");
    assert_eq!(key_of("reason", "", &all), None, "nobody dropped it");
}

#[test]
fn an_agent_may_send_decoded_headers_alone() {
    let mac = |last: u8| [0, 0, 0, 0, 0, last, 0, 0];
    let ethernet = [&words(&[600])[..], &mac(1), &mac(2), &words(&[0x0800])].concat();
    let decoded = datagram(
        false,
        &[record(2, &ethernet), record(3, &words(&[582, 6, 0x0a00_0001, 0x0a00_0002, 1024, 443, 0x12, 0xb8]))],
    );
    let keys = "macsource,macdestination,ethernetprotocol,ipsource,ipdestination,tcpsourceport,tcpdestinationport";
    let expected = "000000000001,000000000002,2048,10.0.0.1,10.0.0.2,1024,443";
    assert_eq!(key_of(keys, "", &decoded).as_deref(), Some(expected));
    assert_eq!(key_of("tcpflags,ipdscp,bytes,ipbytes", "", &decoded).as_deref(), Some("000010010,46,600,582"));
    assert_eq!(key_of("udpsourceport", "", &decoded), None);
}

#[test]
fn discarded_packets_say_why() {
    let bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    let dropped = datagram(
        true,
        &[
            header(&bytes),
            record(1037, &[words(&[5]), text("deny"), words(&[1])].concat()),
            record(1038, &text("nf_hook_slow")),
            record(1041, &[text("l2_drops"), text("ingress_vlan_filter")].concat()),
            record(1042, &text("SKB_DROP_REASON")),
        ],
    );
    let keys = "reason,function,aclnumber,aclname,acldirection,hwtrapgroup,hwtrap,linuxreason,ipsource,inputifindex";
    let shown = key_of(keys, "", &dropped).unwrap();
    let (reason, rest) = shown.split_once(',').unwrap();
    assert_eq!(Some(reason), weir_wire::sflow::reason_name(290));
    assert_eq!(rest, "nf_hook_slow,5,deny,ingress,l2_drops,ingress_vlan_filter,SKB_DROP_REASON,10.0.0.1,7");
    assert_eq!(key_of("ipsource", "", &dropped), None, "a definition without `dropped` counts samples");
}

/// An IPv4 packet of that length, behind an Ethernet header.
fn ip(total: u16) -> Vec<u8> {
    let mut bytes = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    bytes
}

/// A length that cannot be is the headers', and counted.
#[test]
fn lengths_that_headers_contradict_are_theirs() {
    for (told, header, expected) in [
        (1518, ip(1500), (1518, false)),
        // Padding, and what a network card cuts into pieces later.
        (64, ip(28), (64, false)),
        (65_000, ip(0), (65_000, false)),
        (u32::MAX, ip(1500), (1514, true)),
        (0, ip(1500), (1514, true)),
        (65_000, ip(60), (74, true)),
        (65_576, ip(0), (42, true)),
        (0, vec![0xff; 20], (20, true)),
    ] {
        let record = record(1, &[&words(&[1, told, 4, header.len() as u32])[..], &header].concat());
        let bytes = datagram(false, &[record]);
        let sample = Datagram::parse(&bytes).unwrap().samples().next().unwrap().unwrap();
        let Sample::Flow(sample) = sample else { panic!("{sample:?}") };
        let packet = Packet::sampled(AgentId(1), &sample, &Nameless);
        assert_eq!((packet.length, packet.contradicted), expected, "{told} {}", header.len());
    }
}

/// An attack within a tunnel is on the one inside, if he is protected.
#[test]
fn the_innermost_protected_address_counts() {
    let inner = frame([10, 0, 0, 1], [10, 0, 1, 2], 53);
    let outer = |protocol: u8, tunnel: &[u8], inside: &[u8]| {
        let mut bytes = frame([192, 0, 2, 1], [192, 0, 2, 2], 4789);
        bytes[23] = protocol;
        bytes[17] = (20 + tunnel.len() + inside.len()) as u8;
        bytes.truncate(34);
        [&bytes, tunnel, inside].concat()
    };
    let udp = [0x12, 0x34, 0x12, 0xb5, 0, 0, 0, 0];
    let vxlan = [&udp[..], &[8, 0, 0, 0, 0, 0, 5, 0]].concat();
    // To port 6081, with one option of 4 bytes (RFC 8926).
    let geneve = [&[0x12, 0x34, 0x17, 0xc1, 0, 0, 0, 0][..], &[1, 0, 0x65, 0x58, 0, 0, 5, 0], &[0; 4]].concat();
    for bytes in [
        outer(47, &[0, 0, 8, 0], &inner[14..]),
        outer(17, &geneve, &inner),
        outer(17, &vxlan, &inner),
        outer(4, &[], &inner[14..]),
        outer(4, &[], &outer(4, &[], &outer(17, &vxlan, &inner)[14..])[14..]),
    ] {
        let source = DataSource { class: 0, index: 1 };
        let frame = Frame::parse(Start::Ethernet, &bytes);
        let packet = Packet::captured(AgentId(1), source, 1000, frame, &Nameless);
        let of = |protected: &[&str]| {
            let found = packet.sighted(|address| protected.contains(&&*address.to_string()));
            found.map(|found| (found.destination.to_string(), found.protocol, found.transport))
        };
        let (destination, protocol, transport) = of(&["10.0.1.2", "192.0.2.2"]).unwrap();
        assert_eq!((&*destination, protocol), ("10.0.1.2", 17), "{bytes:02x?}");
        assert!(matches!(transport, Some(Transport::Udp { destination: 53, .. })), "{transport:?}");
        assert_eq!(of(&["192.0.2.2"]).unwrap().0, "192.0.2.2");
        assert_eq!(of(&["10.0.0.1"]), None);
    }
}
