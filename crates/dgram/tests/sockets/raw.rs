//! Finished packets: the receiver sees whom they say they are from.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use weir_dgram::{Options, RawSender, Socket};

use crate::network::{cable, pattern, receive};

/// IP and UDP headers of RFC 791, RFC 8200 and RFC 768 for a payload.
fn headers(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 + 8).to_be_bytes();
    let mut udp = [from.port().to_be_bytes(), to.port().to_be_bytes(), length, [0, 0]].concat();
    let (mut ip, pseudo) = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17, 0, 0];
            ip.extend([from.octets(), to.octets()].concat());
            (ip, [&from.octets()[..], &to.octets(), &[0, 17], &length].concat())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut ip = [&[0x60, 0, 0, 0], &length[..], &[17, 64]].concat();
            ip.extend([from.octets(), to.octets()].concat());
            (ip, [&from.octets()[..], &to.octets(), &[0, 0], &length, &[0, 0, 0, 17]].concat())
        }
        _ => panic!("{from} to {to}"),
    };
    let words = [&pseudo[..], &udp, payload, &[0][..payload.len() % 2]].concat();
    let sum: u64 = words.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word[1])).sum();
    let checksum = !((1..=4).fold(sum, |sum, _| (sum & 0xffff) + (sum >> 16)) as u16);
    udp[6..].copy_from_slice(&checksum.to_be_bytes());
    ip.extend(udp);
    ip
}

#[test]
fn packets_arrive_from_whom_they_say() {
    let Some([a, b]) = cable(1500) else { return };
    for (own, stranger) in [(b.v4, "10.0.0.77"), (b.v6, "fd00::77")] {
        let receiver = b.run(|| Socket::bind(SocketAddr::new(own, 0), &Options::default())).unwrap();
        let to = receiver.local_addr();
        let raw = a.run(|| RawSender::open(to, &Options::default())).unwrap();
        assert_eq!(raw.mtu(), 1500);
        let sent: Vec<(SocketAddr, Vec<u8>)> = (0..100u16)
            .map(|number| {
                (SocketAddr::new(stranger.parse().unwrap(), 7000 + number), pattern(usize::from(number) * 14))
            })
            .collect();
        let headers: Vec<Vec<u8>> = sent.iter().map(|(from, payload)| headers(*from, to, payload)).collect();
        let packets: Vec<[IoSlice<'_>; 2]> = headers
            .iter()
            .zip(&sent)
            .map(|(header, (_, payload))| [IoSlice::new(header), IoSlice::new(payload)])
            .collect();
        let packets: Vec<&[IoSlice<'_>]> = packets.iter().map(|pieces| &pieces[..]).collect();
        let taken = raw.send(&packets);
        assert_eq!((taken.messages, taken.calls), (100, 2), "{taken:?}");
        let mut expected = sent.iter();
        receive(&receiver, 100, |message| {
            let (from, payload) = expected.next().unwrap();
            assert_eq!((message.source, message.bytes.len()), (*from, payload.len()));
            assert!(message.bytes == payload);
        });
    }
}

#[test]
fn a_packet_above_the_mtu_is_refused_and_those_before_it_are_not() {
    let Some([a, b]) = cable(1400) else { return };
    for own in [b.v4, b.v6] {
        let receiver = b.run(|| Socket::bind(SocketAddr::new(own, 0), &Options::default())).unwrap();
        let to = receiver.local_addr();
        let raw = a.run(|| RawSender::open(to, &Options::default())).unwrap();
        let packet = |length: usize| {
            let payload = pattern(length - if own.is_ipv4() { 28 } else { 48 });
            [headers(SocketAddr::new(own, 9), to, &payload), payload].concat()
        };
        let (fits, too_long) = (packet(1400), packet(1401));
        let pieces = [&fits, &too_long, &fits].map(|packet| [IoSlice::new(packet)]);
        let taken = raw.send(&[&pieces[0], &pieces[1], &pieces[2]]);
        assert_eq!(taken.messages, 1, "{taken:?}");
        assert_eq!(taken.error.unwrap().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(raw.mtu(), 1400);
    }
}

#[test]
fn where_no_route_leads_is_said_when_it_is_opened() {
    let Some([a, _b]) = cable(1500) else { return };
    let error = a.run(|| RawSender::open("192.0.2.1:9".parse().unwrap(), &Options::default())).unwrap_err();
    assert_eq!(error.to_string(), "connect to 192.0.2.1:9: network is unreachable (no route leads there)");
}
