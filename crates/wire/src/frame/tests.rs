//! Packets built by hand, expected by arithmetic; and what holds for all bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn eth(ethertype: u16, body: &[u8]) -> Vec<u8> {
    [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..], &ethertype.to_be_bytes(), body].concat()
}

fn tag(id: u16, priority: u16, ethertype: u16, body: &[u8]) -> Vec<u8> {
    [&(priority << 13 | id).to_be_bytes()[..], &ethertype.to_be_bytes(), body].concat()
}

/// An IPv4 packet with `fragment`, the word of flags and offset.
fn v4_part(protocol: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
    let length = 20 + body.len() as u16;
    let mut ip = vec![0x45, 0xb9];
    ip.extend(length.to_be_bytes());
    ip.extend([0x12, 0x34]);
    ip.extend(fragment.to_be_bytes());
    ip.extend([63, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    ip.extend(body);
    ip
}

fn v4(protocol: u8, body: &[u8]) -> Vec<u8> {
    v4_part(protocol, 0x4000, body)
}

fn v6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x6a, 0xb1, 0x23, 0x45];
    ip.extend((body.len() as u16).to_be_bytes());
    ip.extend([next, 61]);
    ip.extend([0x20; 16]);
    ip.extend([0x30; 16]);
    ip.extend(body);
    ip
}

fn udp(destination: u16, body: &[u8]) -> Vec<u8> {
    let length = 8 + body.len() as u16;
    [&40_000u16.to_be_bytes()[..], &destination.to_be_bytes(), &length.to_be_bytes(), &[0, 0], body].concat()
}

/// SYN and ACK.
const TCP: [u8; 20] = [0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 1, 0, 0, 0, 0, 0];

fn stack(frame: &Frame<'_>) -> String {
    frame.stack().collect::<Vec<_>>().join(".")
}

fn read(bytes: &[u8]) -> String {
    stack(&Frame::parse(Start::Ethernet, bytes))
}

#[test]
fn tcp_over_ipv4() {
    let bytes = eth(0x0800, &v4(6, &TCP));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!(stack(&frame), "eth.ip.tcp");
    let (eth, ip, tcp) = (frame.ethernet(0).unwrap(), frame.ipv4(0).unwrap(), frame.tcp(0).unwrap());
    assert_eq!((eth.destination(), eth.source()), ([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]));
    assert_eq!((ip.source(), ip.destination()), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
    assert_eq!((ip.ttl(), ip.protocol(), ip.tos(), ip.flags(), ip.fragment_offset()), (63, 6, 0xb9, 2, 0));
    assert_eq!((ip.length(), ip.identification()), (40, 0x1234));
    assert_eq!(frame.ports(Protocol::Tcp, 0), Some(Ports { source: 12345, destination: 80 }));
    assert_eq!(tcp.flags(), Some(0b0_0001_0010));
    assert!(frame.ipv4(1).is_none() && frame.ipv6(0).is_none() && frame.ports(Protocol::Udp, 0).is_none());
    // Flags that were cut off are unknown, ports are not.
    let cut = Frame::parse(Start::Ethernet, &bytes[..14 + 20 + 13]);
    assert_eq!(cut.tcp(0).unwrap().flags(), None);
    assert_eq!(cut.ports(Protocol::Tcp, 0), frame.ports(Protocol::Tcp, 0));
}

#[test]
fn tags_are_no_layers_but_are_read() {
    let bytes = eth(0x88a8, &tag(100, 5, 0x8100, &tag(200, 3, 0x86dd, &v6(58, &[128, 7]))));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!(stack(&frame), "eth.ip6.icmp6");
    let (outer, inner) = (frame.vlan(0).unwrap(), frame.vlan(1).unwrap());
    assert_eq!((outer.id(), outer.priority(), inner.id(), inner.priority()), (100, 5, 200, 3));
    assert_eq!((frame.ethernet(0).unwrap().ethertype(), inner.ethertype()), (0x88a8, 0x86dd));
    let (ip, icmp) = (frame.ipv6(0).unwrap(), frame.icmpv6(0).unwrap());
    assert_eq!((ip.class(), ip.flow_label(), ip.hop_limit(), ip.payload_length()), (0xab, 0x12345, 61, 2));
    assert_eq!((ip.source().octets(), ip.destination().octets()), ([0x20; 16], [0x30; 16]));
    assert_eq!((icmp.kind(), icmp.code()), (128, 7));
}

#[test]
fn extension_headers_and_fragments() {
    // Hop-by-hop, routing, destination options, then a first fragment, then TCP.
    let fragment = [&[6, 0, 0, 1, 0, 0, 0, 9][..], &TCP].concat();
    let chain =
        [&[43, 0, 0, 0, 0, 0, 0, 0][..], &[60, 0, 0, 0, 0, 0, 0, 0], &[44, 0, 0, 0, 0, 0, 0, 0], &fragment].concat();
    let bytes = eth(0x86dd, &v6(0, &chain));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!((stack(&frame).as_str(), frame.fragment(0)), ("eth.ip6.tcp", Some((0, true))));
    assert_eq!(frame.ipv6(0).unwrap().protocol(), 6);
    // A later one has no ports, whatever its bytes look like.
    let later = [&[6, 0, 0, 8, 0, 0, 0, 9][..], &TCP].concat();
    let bytes = eth(0x86dd, &v6(44, &later));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!((stack(&frame).as_str(), frame.fragment(0)), ("eth.ip6", Some((8, false))));
    assert_eq!(frame.ipv6(0).unwrap().protocol(), 6);
    // Destination options may also stand behind the header of a first fragment.
    let inner = [&[60, 0, 0, 1, 0, 0, 0, 9][..], &[17, 0, 0, 0, 0, 0, 0, 0], &udp(53, &[])].concat();
    let bytes = eth(0x86dd, &v6(44, &inner));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!((stack(&frame).as_str(), frame.ipv6(0).unwrap().protocol()), ("eth.ip6.udp", 17));

    assert_eq!(read(&eth(0x0800, &v4_part(17, 0x2000, &udp(53, &[])))), "eth.ip.udp", "first fragment");
    let bytes = eth(0x0800, &v4_part(17, 0x20b9, &udp(53, &[])));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!((stack(&frame).as_str(), frame.ipv4(0).unwrap().fragment_offset()), ("eth.ip", 0xb9));
    assert_eq!(frame.ipv4(0).unwrap().flags(), 1);
}

#[test]
fn tunnels_are_read_through() {
    let inner = eth(0x0800, &v4(6, &TCP));
    let vxlan = [&[8, 0, 0, 0, 0, 0x12, 0x34, 0][..], &inner].concat();
    let bytes = eth(0x0800, &v4(17, &udp(4789, &vxlan)));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!(stack(&frame), "eth.ip.udp.vxlan.eth.ip.tcp");
    assert_eq!((frame.vxlan(0).unwrap().vni(), frame.ipv4(1).unwrap().protocol()), (0x1234, 6));
    assert_eq!(frame.ethernet(1).unwrap().source(), [7, 8, 9, 10, 11, 12]);
    // Two words of options.
    let geneve = [&[2, 0, 0x65, 0x58, 0, 0, 7, 0][..], &[0; 8], &inner].concat();
    let bytes = eth(0x86dd, &v6(17, &udp(6081, &geneve)));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!(stack(&frame), "eth.ip6.udp.geneve.eth.ip.tcp");
    assert_eq!((frame.geneve(0).unwrap().vni(), frame.geneve(0).unwrap().options()), (7, 8));
    // Checksum, key and sequence number.
    let gre = [&[0xb0, 0, 0x86, 0xdd][..], &[0; 4], &[0, 0, 1, 2], &[0; 4], &v6(17, &udp(53, &[]))].concat();
    let bytes = eth(0x0800, &v4(47, &gre));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!((stack(&frame).as_str(), frame.gre(0).unwrap().key()), ("eth.ip.gre.ip6.udp", Some(0x102)));
    let nvgre = [&[0x20, 0, 0x65, 0x58][..], &[0, 0, 1, 2], &inner].concat();
    assert_eq!(read(&eth(0x0800, &v4(47, &nvgre))), "eth.ip.gre.eth.ip.tcp");
    // PPTP: version 1, key of length and call, nothing behind it is read.
    let bytes = eth(0x0800, &v4(47, &[0x30, 0x81, 0x88, 0x0b, 0, 4, 0, 9, 0, 0, 0, 1]));
    let frame = Frame::parse(Start::Ethernet, &bytes);
    let pptp = frame.gre(0).unwrap();
    assert_eq!((stack(&frame).as_str(), pptp.version(), pptp.key()), ("eth.ip.gre", 1, Some(0x40009)));
    assert_eq!(read(&eth(0x0800, &v4(4, &v4(41, &v6(6, &TCP))))), "eth.ip.ip.ip6.tcp");
    assert_eq!(read(&eth(0x86dd, &v6(41, &v6(50, &[0; 8])))), "eth.ip6.ip6.esp");
    let ah = [&[6, 4, 0, 0][..], &[0; 20], &TCP].concat();
    assert_eq!(read(&eth(0x0800, &v4(51, &ah))), "eth.ip.tcp");
    assert_eq!(read(&eth(0x86dd, &v6(51, &ah))), "eth.ip6.tcp");
}

#[test]
fn labels_sessions_and_lengths() {
    let labels = [0, 0x10, 0x06, 64, 0, 0x20, 0x11, 63];
    let bytes = eth(0x8847, &[&labels[..], &v4(17, &udp(53, &[]))].concat());
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!(stack(&frame), "eth.mpls.ip.udp");
    let (first, second) = (frame.mpls(0).unwrap(), frame.mpls(1).unwrap());
    assert_eq!((first.label(), first.class(), first.bottom(), first.ttl()), (0x100, 3, false, 64));
    assert_eq!((second.label(), second.bottom(), frame.mpls(2).is_none()), (0x201, true, true));
    assert_eq!(stack(&Frame::parse(Start::Mpls, &bytes[14..])), "mpls.ip.udp");
    // A pseudowire with its control word.
    let wire = [&[0, 0, 0x11, 64, 0, 0, 0, 0][..], &eth(0x0800, &v4(6, &TCP))].concat();
    assert_eq!(read(&eth(0x8847, &wire)), "eth.mpls.eth.ip.tcp");

    let session = [&[0x11, 0, 0, 77, 0, 42, 0, 0x21][..], &v4(6, &TCP)].concat();
    let bytes = eth(0x8864, &session);
    let frame = Frame::parse(Start::Ethernet, &bytes);
    assert_eq!((stack(&frame).as_str(), frame.pppoe(0).unwrap().session()), ("eth.pppoe.ip.tcp", 77));

    // A spanning tree message; SNAP around IPv4; the padding behind either is nothing.
    assert_eq!(read(&eth(38, &[0x42, 0x42, 3, 0, 0, 0])), "eth.llc");
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &v4(6, &TCP)].concat();
    assert_eq!(read(&eth(snap.len() as u16, &snap)), "eth.llc.ip.tcp");
    assert_eq!(read(&eth(0x0800, &[&v4(6, &[])[..], &TCP].concat())), "eth.ip", "padding is no TCP");
    // A packet that the kernel has yet to cut says 0.
    let mut whole = v4(6, &TCP);
    whole[2..4].fill(0);
    assert_eq!(read(&eth(0x0800, &whole)), "eth.ip.tcp");

    let arp = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &[1; 6], &[10, 0, 0, 1], &[2; 6], &[10, 0, 0, 2]].concat();
    let bytes = eth(0x0806, &arp);
    let frame = Frame::parse(Start::Ethernet, &bytes);
    let arp = frame.arp(0).unwrap();
    assert_eq!((stack(&frame).as_str(), arp.operation()), ("eth.arp", 2));
    assert_eq!((arp.sender_mac(), arp.sender_ip()), ([1; 6], [10, 0, 0, 1].into()));
    assert_eq!((arp.target_mac(), arp.target_ip()), ([2; 6], [10, 0, 0, 2].into()));
    assert_eq!(read(&eth(0x88cc, &[2, 7])), "eth.lldp");
    assert_eq!(read(&eth(0x0800, &v4(132, &[0; 12]))), "eth.ip.sctp");
    assert_eq!(read(&eth(0x0800, &v4(2, &[0x16; 8]))), "eth.ip.igmp");
    assert_eq!(read(&eth(0x1234, &[0; 40])), "eth");
    assert_eq!(Start::from_header_protocol(11), Some(Start::Ipv4));
    assert_eq!(stack(&Frame::parse(Start::Ipv6, &v6(17, &udp(53, &[])))), "ip6.udp");
    assert_eq!(Start::from_header_protocol(7), None);
}

#[test]
fn labels_without_end_are_bounded() {
    let bytes = eth(0x8847, &[0; 4000]);
    assert_eq!(Frame::parse(Start::Ethernet, &bytes).layers().len(), MAX_LAYERS);
}

/// Asks for everything.
fn ask(frame: &Frame<'_>) {
    for nth in 0..3 {
        let _ = frame.ethernet(nth).map(|h| (h.source(), h.destination(), h.ethertype()));
        let _ = frame.vlan(nth).map(|h| (h.id(), h.priority(), h.ethertype()));
        let _ = frame.mpls(nth).map(|h| (h.label(), h.class(), h.bottom(), h.ttl()));
        let _ = frame.ipv4(nth).map(|h| (h.source(), h.destination(), h.fragment_offset(), h.flags(), h.length()));
        let _ = frame.ipv6(nth).map(|h| (h.source(), h.destination(), h.protocol(), h.flow_label()));
        let _ = (frame.tcp(nth).map(|h| h.flags()), frame.gre(nth).map(|h| h.key()), frame.fragment(nth));
        let _ = (frame.vxlan(nth).map(|h| h.vni()), frame.geneve(nth).map(|h| h.options()), frame.esp(nth));
        let _ = (
            frame.icmp(nth).map(|h| h.code()),
            frame.icmpv6(nth).map(|h| h.code()),
            frame.pppoe(nth).map(|h| h.session()),
        );
        let _ = frame.arp(nth).map(|h| (h.operation(), h.target_ip()));
        let _ = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(|protocol| frame.ports(protocol, nth));
    }
    let _ = frame.stack().count();
}

/// A packet in tunnels: what is inside is wrapped by each of these in turn.
fn wrapped(wraps: &[u8]) -> Vec<u8> {
    let mut ethernet = eth(0x0800, &v4(6, &TCP));
    for wrap in wraps {
        let ip = &ethernet[14..];
        ethernet = match wrap % 9 {
            0 => eth(0x8100, &tag(7, 1, 0x0800, ip)),
            1 => eth(0x0800, &v4(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 9, 0][..], &ethernet].concat()))),
            2 => {
                eth(0x0800, &v4(17, &udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 9, 0, 1, 1, 1, 0][..], &ethernet].concat())))
            }
            3 => eth(0x0800, &v4(47, &[&[0x20, 0, 0x65, 0x58, 0, 0, 0, 5][..], &ethernet].concat())),
            4 => eth(0x0800, &v4(4, ip)),
            5 => eth(0x8847, &[&[0, 0, 0x11, 64][..], ip].concat()),
            8 => {
                let ah = [&[4, 4, 0, 0][..], &[0; 20], ip].concat();
                eth(0x86dd, &v6(0, &[&[44, 0, 0, 0, 0, 0, 0, 0][..], &[51, 0, 0, 1, 0, 0, 0, 9], &ah].concat()))
            }
            6 => eth(0x0800, &v4(51, &[&[4, 4, 0, 0][..], &[0; 20], ip].concat())),
            _ => eth(0x8864, &[&[0x11, 0, 0, 1, 0, 9, 0, 0x21][..], ip].concat()),
        };
        if matches!(wrap % 9, 0 | 5 | 7 | 8) {
            // What follows might wrap IPv4, and finds something else behind the Ethernet header.
            break;
        }
    }
    ethernet
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in vec(any::<u8>(), 0..200), kind in 0usize..6, start in 0usize..4) {
        // Most random bytes end soon: let them be what they might be.
        let bytes = match kind {
            0 => bytes,
            1 => eth(0x0800, &v4(bytes.first().copied().unwrap_or(6), &bytes)),
            2 => eth(0x86dd, &v6(bytes.first().copied().unwrap_or(6), &bytes)),
            3 => eth(0x0800, &v4(47, &bytes)),
            4 => eth(0x8847, &bytes),
            _ => eth(0x0800, &v4(17, &udp(6081, &bytes))),
        };
        let start = [Start::Ethernet, Start::Ipv4, Start::Ipv6, Start::Mpls][start];
        let frame = Frame::parse(start, &bytes);
        for layer in frame.layers() {
            prop_assert!(usize::from(layer.start) <= bytes.len());
        }
        ask(&frame);
    }

    #[test]
    fn truncation_only_takes_layers_away(wraps in vec(any::<u8>(), 0..5)) {
        let bytes = wrapped(&wraps);
        let whole = Frame::parse(Start::Ethernet, &bytes);
        prop_assert_eq!(whole.layers().last().map(|layer| layer.protocol), Some(Protocol::Tcp));
        for length in 0..bytes.len() {
            let cut = Frame::parse(Start::Ethernet, &bytes[..length]);
            prop_assert!(whole.layers().starts_with(cut.layers()), "{} bytes: {:?}", length, cut.layers());
            ask(&cut);
        }
    }
}
