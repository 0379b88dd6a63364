//! Files written by hand, and by our own writer; what is cut off and what is damaged.

use proptest::prelude::*;

use super::*;
use crate::pcapng;

/// Stamp, original length and bytes.
type Found = (Option<u64>, u32, Vec<u8>);

/// All packets of a file, which may come in pieces: more bytes are given only when they are asked for.
fn packets(file: &[u8]) -> Result<Vec<Found>, Malformed> {
    let (mut reader, mut at, mut there, mut found) = (Reader::new(), 0, 0, Vec::new());
    loop {
        match reader.step(&file[at..there])? {
            Step::Need(bytes) if at + bytes > file.len() => return Ok(found),
            Step::Need(bytes) => {
                assert!(at + bytes > there, "needs what it has");
                there = at + bytes;
            }
            Step::Used(bytes, packet) => {
                found.extend(packet.map(|packet| (packet.stamp, packet.original_length, packet.bytes.to_vec())));
                at += bytes;
            }
        }
    }
}

/// A file of the older format with one packet `ab`, of which there were 60 bytes, at 2.5 s.
fn classic(magic: u32, fraction: u32, order: fn(u32) -> [u8; 4]) -> Vec<u8> {
    let words = [magic, 0x0002_0004, 0, 0, 96, 1, 2, fraction, 2, 60];
    let mut file: Vec<u8> = words.into_iter().flat_map(order).collect();
    file.extend(b"ab");
    file
}

#[test]
fn both_orders_and_both_units_are_read() {
    let expected = Ok(vec![(Some(2_500_000_000), 60, b"ab".to_vec())]);
    for order in [u32::to_le_bytes, u32::to_be_bytes] {
        assert_eq!(packets(&classic(0xa1b2_c3d4, 500_000, order)), expected);
        assert_eq!(packets(&classic(0xa1b2_3c4d, 500_000_000, order)), expected);
    }
}

/// A section in big-endian order: an interface with stamps in 1/1024 s, ten seconds late, and three kinds of packets.
fn section() -> Vec<u8> {
    let block = |kind: u32, body: &[u32]| {
        let length = 12 + body.len() as u32 * 4;
        [&[kind, length], body, &[length]].concat()
    };
    let words = [
        block(0x0a0d_0d0a, &[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX]),
        block(1, &[1 << 16, 3, 9 << 16 | 1, 0x8a << 24, 14 << 16 | 8, 0, 10, 0]),
        block(6, &[0, 0, 1536, 2, 60, 0x6162_0000]),
        block(3, &[60, 0x6162_6300]),
        block(2, &[7, 0, 2048, 1, 1, 0x6100_0000]),
        block(0x0bad, &[1, 2, 3]),
    ];
    words.concat().into_iter().flat_map(u32::to_be_bytes).collect()
}

#[test]
fn blocks_are_read() {
    let expected = vec![
        (Some(11_500_000_000), 60, b"ab".to_vec()),
        (None, 60, b"abc".to_vec()),
        (Some(12_000_000_000), 1, b"a".to_vec()),
    ];
    assert_eq!(packets(&section()), Ok(expected.clone()));
    // A further section begins anew.
    assert_eq!(packets(&[section(), section()].concat()), Ok([&expected[..], &expected].concat()));
}

#[test]
fn damage_is_named() {
    let said = |file: &[u8]| packets(file).map(|_| ()).map_err(|malformed| malformed.to_string());
    assert_eq!(said(b""), Ok(()));
    assert_eq!(said(b"GIF8"), Err("no capture: begins with 47494638, neither as pcap nor as pcapng".into()));
    let mut long = classic(0xa1b2_c3d4, 0, u32::to_le_bytes);
    long[32..36].fill(0xff);
    assert_eq!(said(&long), Err("damaged: packet of 4294967295 bytes".into()));
    let file = section();
    assert_eq!(
        said(&[&file[..28], &file[72..]].concat()),
        Err("damaged: packet of interface 0, which is not described".into())
    );
    let mut odd = file.clone();
    odd[32 + 3] = 46;
    assert_eq!(said(&odd), Err("damaged: block of 46 bytes".into()));
}

#[test]
fn ip_is_found_in_frames() {
    let ip = [0x45, 0, 0, 20];
    let with = |header: &[u8]| [header, &ip].concat();
    let mut sll2 = [0; 20];
    sll2[..2].copy_from_slice(&[8, 0]);
    for (link, frame) in [
        (1, with(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 8, 0])),
        (1, with(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0])),
        (101, with(&[])),
        (0, with(&[2, 0, 0, 0])),
        (113, with(&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0])),
        (276, with(&sll2)),
    ] {
        assert_eq!(LinkType(link).ip(&frame), Ok(&ip[..]), "{link}");
        for end in 0..frame.len() - ip.len() {
            assert_eq!(LinkType(link).ip(&frame[..end]), Err(NotIp::Other), "{link}");
        }
    }
    assert_eq!(LinkType(105).ip(&ip), Err(NotIp::Link(105)));
    assert_eq!(LinkType(1).ip(&with(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 8, 6])), Err(NotIp::Other));
}

proptest! {
    #[test]
    fn what_our_writer_writes_is_read(
        sent in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..70)), 0..8),
    ) {
        let mut file = Vec::new();
        pcapng::section_header(&mut file, "weir");
        pcapng::interface(&mut file, &pcapng::Interface { name: "eth0", description: "", snap_length: 0, link_type: pcapng::LinkType::Ethernet });
        for (stamp, bytes) in &sent {
            let original_length = bytes.len() as u32 + 7;
            pcapng::packet(&mut file, &pcapng::Packet { interface: 0, stamp: *stamp, direction: None, original_length, bytes, comment: "" });
        }
        let expected = sent.into_iter().map(|(stamp, bytes)| (Some(stamp), bytes.len() as u32 + 7, bytes)).collect();
        prop_assert_eq!(packets(&file), Ok(expected));
    }

    #[test]
    fn nothing_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, byte: u8) {
        let _ = packets(&bytes);
        for mut file in [section(), classic(0xa1b2_c3d4, 0, u32::to_le_bytes)] {
            let at = at.index(file.len());
            file[at] = byte;
            let _ = packets(&file);
            let _ = packets(&file[..at]);
        }
        for link in [0, 1, 12, 101, 108, 113, 276] {
            let _ = LinkType(link).ip(&bytes);
        }
    }
}
