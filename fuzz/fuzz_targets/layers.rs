//! Arbitrary bytes as a sampled header, whole and cut anywhere: every field is asked for; cutting only takes headers away.
//!
//! `cargo +nightly fuzz run layers` (needs cargo-fuzz).
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_wire::frame::{Frame, Protocol, Start};

fuzz_target!(|input: (u8, u16, Option<bool>, &[u8])| {
    let (start, length, version, rest) = input;
    let start = [Start::Ethernet, Start::Ipv4, Start::Ipv6, Start::Mpls][usize::from(start) % 4];
    // Of IPv4, of IPv6, or of whatever it says.
    let prefix: &[u8] = match version {
        Some(true) => &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00, 0x45],
        Some(false) => &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x86, 0xdd, 0x60],
        None => &[],
    };
    let bytes = [prefix, rest].concat();
    let whole = Frame::parse(start, &bytes);
    ask(&whole);
    // What has a length of 0 is taken to reach to the end of what is there: nothing else moves.
    let cut = Frame::parse(start, &bytes[..usize::from(length) % (bytes.len() + 1)]);
    ask(&cut);
    assert!(whole.layers().starts_with(cut.layers()), "{:?} {:?}", whole.layers(), cut.layers());
});

fn ask(frame: &Frame<'_>) {
    for nth in 0..3 {
        let _ = frame.ethernet(nth).map(|h| (h.source(), h.destination(), h.ethertype()));
        let _ = frame.vlan(nth).map(|h| (h.id(), h.priority(), h.ethertype()));
        let _ = frame.mpls(nth).map(|h| (h.label(), h.class(), h.bottom(), h.ttl()));
        let _ = frame.ipv4(nth).map(|h| (h.source(), h.destination(), h.fragment_offset(), h.flags(), h.length()));
        let _ = frame.ipv6(nth).map(|h| (h.source(), h.destination(), h.protocol(), h.flow_label()));
        let _ = (frame.tcp(nth).map(|h| h.flags()), frame.gre(nth).map(|h| h.key()), frame.fragment(nth));
        let _ = (frame.vxlan(nth).map(|h| h.vni()), frame.geneve(nth).map(|h| h.options()), frame.esp(nth));
        let _ = (frame.icmp(nth).map(|h| h.code()), frame.icmpv6(nth).map(|h| h.code()));
        let _ = (frame.arp(nth).map(|h| h.target_ip()), frame.pppoe(nth).map(|h| h.session()));
        let _ = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(|protocol| frame.ports(protocol, nth));
    }
    let _ = frame.stack().count();
}
