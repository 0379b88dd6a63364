use proptest::prelude::*;

use super::*;

/// A message written by hand: length, level, type, data, padding.
fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + data.len() as u64).to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().div_ceil(8) * 8, 0);
    bytes
}

#[test]
fn what_the_kernel_tells_beside_a_payload() {
    let stamp = [7u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat();
    let packet = [&3u32.to_ne_bytes()[..], &[10, 0, 0, 9], &[10, 0, 0, 9]].concat();
    let all = [
        message(1, 35, &stamp),
        message(1, 40, &4_000_000_000u32.to_ne_bytes()),
        message(99, 99, b"unknown"),
        message(0, 8, &packet),
        message(17, 104, &1200i32.to_ne_bytes()),
    ]
    .concat();
    let expected = Ancillary {
        segment: NonZeroU16::new(1200),
        arrival: Some(7_000_000_005),
        local: Some([10, 0, 0, 9].into()),
        to_all: false,
        interface: Some(3),
        hops: None,
        socket_drops: Some(4_000_000_000),
    };
    assert_eq!(Ancillary::parse(&all), expected);
    // The kernel leaves the last message's padding out of the length.
    assert_eq!(Ancillary::parse(&all[..all.len() - 4]), expected);
    // Cut anywhere, what is whole still counts.
    assert_eq!(Ancillary::parse(&all[..all.len() - 5]), Ancillary { segment: None, ..expected });
    assert_eq!(Ancillary::parse(&[]), Ancillary::default());
}

#[test]
fn hops_that_are_left_and_where_to_send_from() {
    for (level, kind) in [(libc::IPPROTO_IP, libc::IP_TTL), (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)] {
        assert_eq!(Ancillary::parse(&message(level, kind, &63_i32.to_ne_bytes())).hops, Some(63));
        assert_eq!(Ancillary::parse(&message(level, kind, &(-1_i32).to_ne_bytes())).hops, None);
    }
    let (v4, v6): (IpAddr, IpAddr) = ("10.0.0.9".parse().unwrap(), "fd00::9".parse().unwrap());
    for (from, is_v6, address, at) in [
        (v4, false, &[10, 0, 0, 9][..], 4),
        (v4, true, &Ipv4Addr::new(10, 0, 0, 9).to_ipv6_mapped().octets()[..], 0),
        (v6, true, &"fd00::9".parse::<Ipv6Addr>().unwrap().octets()[..], 0),
    ] {
        let (bytes, length) = source_address(from, is_v6);
        let said = Messages::new(&bytes[..length]).next().unwrap();
        assert_eq!((said.level, said.data.len()), if is_v6 { (41, 20) } else { (0, 12) });
        assert_eq!(&said.data[at..at + address.len()], address);
    }
    assert_eq!(source_address(v6, false).1, 0, "it cannot be said");
}

#[test]
fn destinations_of_both_families() {
    let parse = |address: &str| {
        let address: Ipv6Addr = address.parse().unwrap();
        let ancillary = Ancillary::parse(&message(41, 50, &[&address.octets()[..], &2u32.to_ne_bytes()].concat()));
        (ancillary.local.unwrap().to_string(), ancillary.interface)
    };
    assert_eq!(parse("2001:db8::7"), ("2001:db8::7".into(), Some(2)));
    assert_eq!(parse("::ffff:192.0.2.1"), ("192.0.2.1".into(), Some(2)));
}

#[test]
fn what_was_sent_to_others_too() {
    let v4 = |answers: [u8; 4], to: [u8; 4]| message(0, 8, &[&2u32.to_ne_bytes()[..], &answers, &to].concat());
    let v6 = |to: &str| {
        let to: Ipv6Addr = to.parse().unwrap();
        message(41, 50, &[&to.octets()[..], &2u32.to_ne_bytes()].concat())
    };
    for (bytes, to_all) in [
        (v4([10, 0, 0, 1], [10, 0, 0, 1]), false),
        (v4([10, 0, 0, 1], [10, 0, 0, 255]), true),
        (v4([10, 0, 0, 1], [239, 1, 1, 1]), true),
        (v6("2001:db8::7"), false),
        (v6("ff15::7"), true),
        (v6("::ffff:239.1.1.1"), true),
        // A socket of both families tells of IPv4 twice.
        ([v4([10, 0, 0, 1], [10, 0, 0, 255]), v6("::ffff:10.0.0.255")].concat(), true),
        ([v6("::ffff:10.0.0.255"), v4([10, 0, 0, 1], [10, 0, 0, 255])].concat(), true),
        ([v4([10, 0, 0, 1], [10, 0, 0, 1]), v6("::ffff:10.0.0.1")].concat(), false),
    ] {
        assert_eq!(Ancillary::parse(&bytes).to_all, to_all, "{bytes:?}");
    }
}

#[test]
fn nonsense_is_passed_over() {
    for size in [0i32, -1, 65_536] {
        assert_eq!(Ancillary::parse(&message(17, 104, &size.to_ne_bytes())).segment, None);
    }
    assert_eq!(Ancillary::parse(&message(17, 104, &[1, 2])), Ancillary::default());
    let before_1970 = [(-7i64).to_ne_bytes(), 5i64.to_ne_bytes()].concat();
    assert_eq!(Ancillary::parse(&message(1, 35, &before_1970)), Ancillary::default());
    // A length below the header's, above the buffer's, and one that overflows when it is padded.
    for length in [0u64, 15, 17, 1 << 40, u64::MAX] {
        let mut bytes = message(1, 40, &[]);
        bytes[..8].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(Messages::new(&bytes).next(), None);
    }
}

#[test]
fn an_error_tells_who_refused() {
    // ECONNREFUSED, ICMP 3/3 (port unreachable), offender 192.0.2.9.
    let mut error = [111u32.to_ne_bytes(), [2, 3, 3, 0], 0u32.to_ne_bytes(), 0u32.to_ne_bytes()].concat();
    error.extend([&2u16.to_ne_bytes()[..], &[0, 0, 192, 0, 2, 9], &[0; 8]].concat());
    let expected = Reported {
        errno: 111,
        origin: Origin::Icmp,
        kind: 3,
        code: 3,
        info: 0,
        offender: Some([192, 0, 2, 9].into()),
        destination: None,
        quoted: Vec::new(),
    };
    let found = [message(1, 35, &[0; 16]), message(0, 11, &error)].concat();
    assert_eq!(parse_error(&found), Some(expected));
    // A local error has no offender: the kernel leaves family 0 there.
    let local = [90u32.to_ne_bytes(), [1, 0, 0, 0], 1400u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
    let found = parse_error(&message(41, 25, &local)).unwrap();
    assert_eq!((found.errno, found.origin, found.info, found.offender), (90, Origin::Local, 1400, None));
    assert_eq!(parse_error(&message(0, 11, &error[..15])), parse_error(&message(0, 11, &error[..12])));
    assert_eq!(parse_error(&message(0, 11, &error[..11])), None);
}

proptest! {
    #[test]
    fn a_segment_size_reads_back(size: u16) {
        let (bytes, length) = beside(Some(size), None);
        prop_assert_eq!(bytes[..length].to_vec(), message(17, 103, &size.to_ne_bytes()));
    }

    #[test]
    fn any_bytes_are_read_to_their_end(bytes: Vec<u8>) {
        let all: usize = Messages::new(&bytes).map(|message| 16 + message.data.len()).sum();
        prop_assert!(all <= bytes.len());
        let _ = (Ancillary::parse(&bytes), parse_error(&bytes));
    }

    #[test]
    fn written_messages_read_back(list in prop::collection::vec((any::<i32>(), any::<i32>(), any::<Vec<u8>>()), 0..6)) {
        let bytes: Vec<u8> = list.iter().flat_map(|(level, kind, data)| message(*level, *kind, data)).collect();
        let read: Vec<_> = Messages::new(&bytes).map(|m| (m.level, m.kind, m.data.to_vec())).collect();
        prop_assert_eq!(read, list);
    }
}
