use proptest::prelude::*;

use super::super::cut::tests::samples;
use super::super::cut::{self, Run};
use super::*;
use crate::model::Alterations;

/// A buffer without offload requests.
fn frame(ethertype: u16, ip: &[u8]) -> Vec<u8> {
    [&[0; VNET + 12], &ethertype.to_be_bytes()[..], ip].concat()
}

fn ipv4(protocol: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
    let length = 20 + body.len() as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(length.to_be_bytes());
    ip.extend([0, 0]);
    ip.extend(fragment.to_be_bytes());
    ip.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    ip.extend(body);
    frame(ETHERTYPE_IPV4, &ip)
}

fn ipv6(next_header: u8, body: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((body.len() as u16).to_be_bytes());
    ip.extend([next_header, 64]);
    ip.extend([0; 32]);
    ip.extend(body);
    frame(ETHERTYPE_IPV6, &ip)
}

fn flow(buffer: &[u8]) -> (Option<u8>, Option<(u16, u16)>) {
    match parse(buffer).unwrap().content {
        Content::Flow(tuple) => (tuple.protocol, tuple.ports),
        Content::Control => panic!("control"),
    }
}

const PORTS: [u8; 8] = [0x12, 0x34, 0x56, 0x78, 0, 8, 0, 0];

#[test]
fn flows_are_told_by_protocol_addresses_and_ports() {
    let packet = ipv4(UDP, 0, &PORTS);
    let Content::Flow(tuple) = parse(&packet).unwrap().content else { panic!("control") };
    assert_eq!(tuple.source.to_string(), "10.0.0.1");
    assert_eq!(tuple.destination.to_string(), "10.0.0.2");
    assert_eq!((tuple.protocol, tuple.ports), (Some(UDP), Some((0x1234, 0x5678))));
    assert_eq!(flow(&ipv6(TCP, &PORTS)), (Some(TCP), Some((0x1234, 0x5678))));
    assert_eq!(flow(&ipv4(1, 0, &PORTS)), (Some(1), None), "ICMP has no ports");
    assert_eq!(flow(&ipv4(UDP, 0, &PORTS[..3])), (Some(UDP), None), "a link carries broken packets, too");
    assert_eq!(flow(&ipv4(UDP, 0x2000, &PORTS)), (Some(UDP), None), "a fragment");
}

#[test]
fn extension_headers_belong_to_ip() {
    let packet = ipv6(0, &[&[UDP, 0, 1, 4, 0, 0, 0, 0], &PORTS[..]].concat());
    assert_eq!(flow(&packet), (Some(UDP), Some((0x1234, 0x5678))));
    assert_eq!(usize::from(parse(&packet).unwrap().layout.transport), IP + 40 + 8);
}

#[test]
fn arp_nd_igmp_and_mld_are_control() {
    let router_alert = [58, 0, 5, 2, 0, 0, 1, 0];
    let control = [
        frame(0x0806, &[0; 28]),
        frame(0x88cc, &[]),
        ipv4(IGMP, 0, &[0x22; 8]),
        ipv6(58, &[135, 0, 0, 0]),
        ipv6(58, &[136, 0, 0, 0]),
        ipv6(0, &[&router_alert[..], &[143, 0, 0, 0]].concat()),
        ipv6(0, &[&router_alert[..], &[130, 0, 0, 0]].concat()),
    ];
    for buffer in control {
        assert_eq!(parse(&buffer).unwrap().content, Content::Control, "{buffer:x?}");
    }
    assert_eq!(flow(&ipv6(58, &[128, 0, 0, 0])), (Some(58), None), "an echo request is not");
}

#[test]
fn what_cannot_be_counted_is_malformed() {
    let cut_off = ipv4(UDP, 0, &PORTS);
    let mut long = ipv4(UDP, 0, &PORTS);
    long[IP + 3] += 1;
    let mut old = ipv6(UDP, &PORTS);
    old[IP] = 0x50;
    let mut unknown_offload = ipv4(UDP, 0, &PORTS);
    unknown_offload[1] = 3;
    let mut checksum_outside = ipv4(UDP, 0, &PORTS);
    checksum_outside[..VNET].copy_from_slice(
        &VnetHeader { flags: 1, checksum_start: 34, checksum_offset: 7, ..Default::default() }.to_bytes(),
    );
    let bad: [&[u8]; 9] = [
        &[],
        &frame(ETHERTYPE_IPV6, &cut_off[IP..]),
        &cut_off[..IP - 1],
        &cut_off[..cut_off.len() - 1],
        &long,
        &old,
        &frame(ETHERTYPE_VLAN, &cut_off[IP..]),
        &unknown_offload,
        &checksum_outside,
    ];
    for buffer in bad {
        assert_eq!(parse(buffer), Err(Malformed), "{buffer:x?}");
    }
}

#[test]
fn padding_is_carried_but_not_counted() {
    let mut padded = ipv4(UDP, 0, &PORTS);
    padded.extend([0; 18]);
    assert_eq!(parse(&padded).unwrap().layout.bytes(), 28);
}

proptest! {
    #[test]
    fn nothing_panics_whatever_arrives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes);
    }

    #[test]
    fn nothing_panics_on_nearly_sound_frames(
        sample in samples(),
        damage in prop::collection::vec((0..120usize, any::<u8>()), 1..4),
        length in prop::option::of(0..150usize),
    ) {
        let mut buffer = sample.buffer();
        for (at, byte) in damage {
            if let Some(target) = buffer.get_mut(at) {
                *target = byte;
            }
        }
        buffer.truncate(length.unwrap_or(usize::MAX));
        exercise(&buffer);
    }
}

/// Does with a buffer what the data path does with it.
fn exercise(buffer: &[u8]) {
    let Ok(Frame { layout, .. }) = parse(buffer) else {
        return;
    };
    let packets = layout.packets();
    assert!(packets >= 1);
    let mut each = 0;
    let mut out = vec![0; 65_600];
    for index in 0..packets {
        each += layout.bytes_of(index, 1);
        let length = cut::packet(buffer, &layout, index, &mut out).unwrap();
        assert_eq!(length, IP + layout.bytes_of(index, 1) as usize);
        cut::alter(&mut out[..length], &layout, &Alterations::each(|_| Some(u64::MAX)));
        if packets > 1 {
            cut::headers(buffer, &layout, Run { first: index, count: 1 }, &mut [0; MAX_HEADERS]);
        }
    }
    assert_eq!(each, layout.bytes());
}
