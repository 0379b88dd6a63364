//! Any datagram over any MTU: its packets carry every byte of the payload once, in order, and none exceeds the MTU.
//!
//! `cargo +nightly fuzz run packets` (needs cargo-fuzz).
#![no_main]
#![allow(clippy::type_complexity)]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use weir_wire::ip::{MIN_MTU_V4, MIN_MTU_V6, UdpPacket, cut};

fuzz_target!(|input: ([u8; 16], [u8; 16], [u16; 3], u32, &[u8], usize)| {
    let (from, to, [source_port, destination_port, mtu], identification, payload, middle) = input;
    let (source, destination) = (SocketAddr::from((from, source_port)), SocketAddr::from((to, destination_port)));
    let pieces = payload.split_at(middle % (payload.len() + 1));
    let pieces = [pieces.0, pieces.1];
    let packet = UdpPacket { source, destination, ttl: 64, tos: 0, identification };
    let Ok(packets) = packet.packets(&pieces, usize::from(mtu)) else { return };
    let least = if from[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] { MIN_MTU_V4 } else { MIN_MTU_V6 };
    let (promised, mut count, mut carried) = (packets.len(), 0, Vec::new());
    for packet in packets {
        let start = carried.len();
        assert_eq!(packet.payload.start, start);
        cut(&pieces, packet.payload.clone()).for_each(|piece| carried.extend_from_slice(piece));
        assert!(packet.header.len() + carried.len() - start <= usize::from(mtu).max(least));
        count += 1;
    }
    assert_eq!(count, promised);
    assert_eq!(carried, payload);
});
