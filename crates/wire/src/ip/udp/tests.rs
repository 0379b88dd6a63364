//! Packets are read back by a parser of the tests' own, which shares nothing with the writer, and compared with packets
//! that Linux 6.18 made of the same datagrams (read from a TUN interface with an MTU of 1280).

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What a receiver makes of the packets of one datagram.
#[derive(Debug, PartialEq, Eq)]
struct Reassembled {
    source: SocketAddr,
    destination: SocketAddr,
    ttl: u8,
    tos: u8,
    payload: Vec<u8>,
}

/// One parsed IP packet.
struct Part {
    source: IpAddr,
    destination: IpAddr,
    ttl: u8,
    tos: u8,
    /// Of a fragment: its identification, which all fragments share.
    identification: Option<u32>,
    offset: usize,
    more: bool,
    data: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

/// One's complement sum, one word at a time. Of bytes that hold their own checksum it is 0xffff.
fn ones_sum(bytes: &[u8]) -> u32 {
    let mut sum = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
    }
    while sum > 0xffff {
        sum = sum % 0x1_0000 + sum / 0x1_0000;
    }
    sum
}

fn parse(packet: &[u8]) -> Part {
    match packet[0] >> 4 {
        4 => {
            assert_eq!(packet[0] & 0xf, 5, "no options");
            assert_eq!(word(packet, 2), packet.len(), "total length");
            assert_eq!(ones_sum(&packet[..20]), 0xffff, "header checksum");
            assert_eq!(packet[9], 17, "protocol");
            assert_ne!(word(packet, 4), 0, "the kernel would replace this identification");
            let fragment = word(packet, 6);
            assert_eq!(fragment & 0xc000, 0, "reserved, don't fragment");
            let address = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
            Part {
                source: address(12),
                destination: address(16),
                ttl: packet[8],
                tos: packet[1],
                identification: (fragment != 0).then(|| word(packet, 4) as u32),
                offset: (fragment & 0x1fff) * 8,
                more: fragment & 0x2000 != 0,
                data: packet[20..].to_vec(),
            }
        }
        6 => {
            assert_eq!(word(packet, 4), packet.len() - 40, "payload length");
            assert_eq!((packet[1] & 0xf, packet[2], packet[3]), (0, 0, 0), "flow label");
            let address = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
            let (identification, field, data) = match packet[6] {
                17 => (None, 0, &packet[40..]),
                44 => {
                    assert_eq!((packet[40], packet[41]), (17, 0), "next header, reserved");
                    let identification = u32::from_be_bytes(packet[44..48].try_into().unwrap());
                    (Some(identification), word(packet, 42), &packet[48..])
                }
                other => panic!("next header {other}"),
            };
            assert_eq!(field & 6, 0, "reserved");
            Part {
                source: address(8),
                destination: address(24),
                ttl: packet[7],
                tos: packet[0] << 4 | packet[1] >> 4,
                identification,
                offset: field >> 3 << 3,
                more: field & 1 == 1,
                data: data.to_vec(),
            }
        }
        version => panic!("version {version}"),
    }
}

fn reassemble(packets: &[Vec<u8>]) -> Reassembled {
    let parts: Vec<Part> = packets.iter().map(|packet| parse(packet)).collect();
    let mut bytes = BTreeMap::new();
    for part in &parts {
        assert_eq!(part.identification, parts[0].identification);
        assert_eq!((part.source, part.destination), (parts[0].source, parts[0].destination));
        assert_eq!((part.ttl, part.tos), (parts[0].ttl, parts[0].tos));
        assert!(!part.more || part.data.len() % 8 == 0, "a fragment that others follow ends on a unit");
        for (at, &byte) in (part.offset..).zip(&part.data) {
            assert_eq!(bytes.insert(at, byte), None, "fragments overlap");
        }
    }
    assert_eq!(parts.iter().filter(|part| !part.more).count(), 1, "one last packet");
    assert!(bytes.keys().copied().eq(0..bytes.len()), "a gap between fragments");
    let udp: Vec<u8> = bytes.into_values().collect();
    assert_eq!(word(&udp, 4), udp.len(), "UDP length");
    assert_ne!(word(&udp, 6), 0, "a checksum of 0 says that there is none");

    let mut covered = match (parts[0].source, parts[0].destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => [source.octets(), destination.octets()].concat(),
        (IpAddr::V6(source), IpAddr::V6(destination)) => [source.octets(), destination.octets()].concat(),
        families => panic!("{families:?}"),
    };
    covered.extend((udp.len() as u32).to_be_bytes());
    covered.extend([0, 0, 0, 17]);
    covered.extend(&udp);
    assert_eq!(ones_sum(&covered), 0xffff, "UDP checksum");
    Reassembled {
        source: SocketAddr::new(parts[0].source, word(&udp, 0) as u16),
        destination: SocketAddr::new(parts[0].destination, word(&udp, 2) as u16),
        ttl: parts[0].ttl,
        tos: parts[0].tos,
        payload: udp[8..].to_vec(),
    }
}

/// The packets as they would leave.
fn written(packet: &UdpPacket, pieces: &[&[u8]], mtu: usize) -> Vec<Vec<u8>> {
    let packets = packet.packets(pieces, mtu).unwrap();
    let promised = packets.len();
    let written: Vec<Vec<u8>> = packets
        .map(|packet| {
            let parts: Vec<&[u8]> = cut(pieces, packet.payload).collect();
            [&packet.header, parts.concat().as_slice()].concat()
        })
        .collect();
    assert_eq!(written.len(), promised);
    written
}

fn packets() -> impl Strategy<Value = UdpPacket> {
    let v4 = || (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from);
    let v6 = || {
        let global = any::<[u8; 16]>().prop_filter("mapped", |octets| octets[..10] != [0; 10]);
        (global, any::<u16>()).prop_map(SocketAddr::from)
    };
    let ends = prop_oneof![(v4(), v4()), (v6(), v6())];
    (ends, any::<u8>(), any::<u8>(), any::<u32>()).prop_map(|((source, destination), ttl, tos, identification)| {
        UdpPacket { source, destination, ttl, tos, identification }
    })
}

/// A payload of `len` bytes, cut at the given places.
fn pieces<'a>(payload: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (payload.len() + 1)).collect();
    ends.extend([0, payload.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| &payload[pair[0]..pair[1]]).collect()
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + usize::from(seed)).to_le_bytes()[0] ^ (i >> 8) as u8).collect()
}

proptest! {
    #[test]
    fn a_receiver_reads_what_was_written(packet in packets(), payload in vec(any::<u8>(), 0..3000),
                                         cuts in vec(any::<usize>(), 0..5), mtu in 0usize..4000) {
        let parts = pieces(&payload, &cuts);
        let read = reassemble(&written(&packet, &parts, mtu));
        let UdpPacket { source, destination, ttl, tos, .. } = packet;
        prop_assert_eq!(read, Reassembled { source, destination, ttl, tos, payload });
    }

    #[test]
    fn a_cut_is_the_range_of_the_concatenation(payload in vec(any::<u8>(), 0..60), cuts in vec(any::<usize>(), 0..6),
                                               ends: [usize; 2]) {
        let (start, end) = (ends[0] % (payload.len() + 1), ends[1] % (payload.len() + 1));
        let range = start.min(end)..start.max(end);
        let parts = pieces(&payload, &cuts);
        let cut: Vec<&[u8]> = cut(&parts, range.clone()).collect();
        prop_assert!(cut.iter().all(|part| !part.is_empty()));
        prop_assert_eq!(cut.concat(), &payload[range]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_fill_the_mtu_and_never_exceed_it(packet in packets(), len in 0usize..=MAX_PAYLOAD_V4, seed: u8,
                                                cuts in vec(any::<usize>(), 0..3), mtu in 1280usize..9100) {
        let payload = pattern(len, seed);
        let written = written(&packet, &pieces(&payload, &cuts), mtu);
        let (last, others) = written.split_last().unwrap();
        prop_assert!(last.len() <= mtu);
        for other in others {
            prop_assert!((mtu - 7..=mtu).contains(&other.len()), "{} of {mtu}", other.len());
        }
        let header = if packet.source.is_ipv4() { 20 } else { 40 };
        prop_assert_eq!(others.is_empty(), header + 8 + len <= mtu, "fragments only where they are needed");
        prop_assert_eq!(reassemble(&written).payload, payload);
    }
}

fn syslog(source: &str, destination: &str, identification: u32) -> UdpPacket {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    UdpPacket { source, destination, ttl: 33, tos: 0xb8, identification }
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The payload of the fragmented datagrams that Linux was given.
fn three_thousand() -> Vec<u8> {
    (0..3000).map(|i| (i * 7 % 251) as u8).collect()
}

/// Checks the packets of `payload` against their lengths and first bytes.
fn assert_like_linux(packet: &UdpPacket, payload: &[u8], linux: &[(usize, &str)]) {
    let written = written(packet, &[payload], 1280);
    assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), linux.iter().map(|(len, _)| *len).collect::<Vec<_>>());
    for (ours, (_, theirs)) in written.iter().zip(linux) {
        let theirs = bytes(theirs);
        assert_eq!(ours[..theirs.len()], theirs);
    }
}

#[test]
fn a_small_datagram_is_the_one_linux_makes() {
    let v4 = syslog("192.0.2.1:514", "192.0.2.9:6343", 0x794b);
    let linux = "45 b8 00 21 79 4c 00 00 21 11 9b bd c0 00 02 01 c0 00 02 09 02 02 18 c7 00 0d 76 28 77 65 69 72";
    assert_like_linux(&v4, b"weir\n", &[(33, linux)]);

    let v6 = syslog("[2001:db8::1]:514", "[2001:db8::9]:6343", 1);
    let linux = "6b 80 00 00 00 0d 11 21 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01 20 01 0d b8 00 00 00 00 00 00 \
                 00 00 00 00 00 09 02 02 18 c7 00 0d 9e b7 77 65 69 72 0a";
    assert_like_linux(&v6, b"weir\n", &[(53, linux)]);
}

#[test]
fn fragments_are_those_linux_makes() {
    let v4 = syslog("192.0.2.1:514", "192.0.2.9:6343", 0x794c);
    let linux = [
        (1276, "45 b8 04 fc 79 4d 20 00 21 11 76 e1 c0 00 02 01 c0 00 02 09 02 02 18 c7 0b c0 ce 48 00 07 0e 15"),
        (1276, "45 b8 04 fc 79 4d 20 9d 21 11 76 44 c0 00 02 01 c0 00 02 09 ca d1 d8 df e6 ed f4 00 07 0e 15 1c"),
        (516, "45 b8 02 04 79 4d 01 3a 21 11 98 9f c0 00 02 01 c0 00 02 09 d1 d8 df e6 ed f4 00 07 0e 15 1c 23"),
    ];
    assert_like_linux(&v4, &three_thousand(), &linux);

    let v6 = syslog("[2001:db8::1]:514", "[2001:db8::9]:6343", 0xb2d3_d40d);
    let linux = [
        (
            1280,
            "6b 80 00 00 04 d8 2c 21 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01 20 01 0d b8 00 00 00 00 00 00 00 \
             00 00 00 00 09 11 00 00 01 b2 d3 d4 0d 02 02 18 c7 0b c0 f6 d7 00 07 0e 15",
        ),
        (
            1280,
            "6b 80 00 00 04 d8 2c 21 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01 20 01 0d b8 00 00 00 00 00 00 00 \
             00 00 00 00 09 11 00 04 d1 b2 d3 d4 0d 22 29 30 37 3e 45 4c 53 5a 61 68 6f",
        ),
        (
            592,
            "6b 80 00 00 02 28 2c 21 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01 20 01 0d b8 00 00 00 00 00 00 00 \
             00 00 00 00 09 11 00 09 a0 b2 d3 d4 0d 7c 83 8a 91 98 9f a6 ad b4 bb c2 c9",
        ),
    ];
    assert_like_linux(&v6, &three_thousand(), &linux);
}

#[test]
fn a_sum_of_all_ones_is_not_sent_as_no_checksum() {
    // Both addresses and ports are 0: protocol 17, twice the length 10 and the payload are summed to 0xffff.
    let nobody = UdpPacket { tos: 0, ..syslog("0.0.0.0:0", "0.0.0.0:0", 0) };
    let payload = (0xffff - 17 - 10 - 10_u16).to_be_bytes();
    let written = written(&nobody, &[&payload], 1500);
    assert_eq!(written[0][26..28], [0xff, 0xff]);
}

#[test]
fn mapped_addresses_are_ipv4() {
    let mapped = syslog("[::ffff:192.0.2.1]:514", "192.0.2.9:6343", 0x794b);
    let plain = syslog("192.0.2.1:514", "192.0.2.9:6343", 0x794b);
    assert_eq!(written(&mapped, &[b"weir\n"], 1500), written(&plain, &[b"weir\n"], 1500));
}

#[test]
fn the_longest_payloads_pass_and_longer_ones_do_not() {
    for (packet, most) in [
        (syslog("192.0.2.1:514", "192.0.2.9:6343", 7), 65_507),
        (syslog("[2001:db8::1]:514", "[2001:db8::9]:6343", 7), 65_527),
    ] {
        let payload = pattern(most + 1, 3);
        for mtu in [1280, 1500, 65_535, 65_536, usize::MAX] {
            assert_eq!(reassemble(&written(&packet, &[&payload[..most]], mtu)).payload, payload[..most]);
        }
        let error = packet.packets(&[&payload[..]], 1500).unwrap_err();
        assert_eq!(error, Unsendable::TooLong { len: most + 1, most });
    }
    let error = syslog("192.0.2.1:514", "[2001:db8::9]:6343", 7).packets(&[&b"x"[..]], 1500).unwrap_err();
    assert_eq!(error.to_string(), "a packet from 192.0.2.1 to 2001:db8::9: of different families");
}

#[test]
fn identifications_of_ipv4_are_never_the_one_the_kernel_replaces() {
    let identification = |count| {
        let packet = syslog("192.0.2.1:514", "192.0.2.9:6343", count);
        word(&written(&packet, &[b"x"], 1500)[0], 4)
    };
    assert_eq!([0, 65_534, 65_535, 65_536, 131_070].map(identification), [1, 65_535, 1, 2, 1]);
}
