//! The PROXY protocol, version 2: a header before a payload that says between whom it travelled first.
//!
//! Source: "The PROXY protocol", HAProxy Technologies, section 2.2 (versions 1 & 2, revision 2020/03/05).
//!
//! | offset | bytes | field | |
//! |---|---|---|---|
//! | 0 | 12 | signature | `\r\n\r\n\0\r\nQUIT\n` |
//! | 12 | 1 | version, command | version 2 in the upper four bits; 0 local, 1 proxied |
//! | 13 | 1 | family, transport | 1 IPv4, 2 IPv6, 3 Unix; 1 stream, 2 datagram; 0: neither is known |
//! | 14 | 2 | length | of what follows: addresses and extensions |
//! | 16 | | addresses | source, destination, source port, destination port; 12 or 36 bytes (216 of Unix) |
//! | | | extensions | type-length-value records |

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

/// Most bytes of a header that [`encode`] writes: IPv6.
pub const MAX_LEN: usize = FIXED_LEN + V6_LEN;

/// A header for a datagram: 28 bytes for IPv4, 52 for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; MAX_LEN],
    len: u8,
}

/// A header that was read, and what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxied<'a> {
    /// Between whom the payload travelled first.
    pub origin: Origin,
    /// Type-length-value records behind the addresses, undecoded.
    pub extensions: &'a [u8],
    /// What follows the header.
    pub payload: &'a [u8],
}

/// Between whom a payload travelled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is the proxy's own, a health check for instance: the packet's addresses count.
    Local,
    /// A datagram of UDP.
    Datagram {
        /// Who sent it.
        source: SocketAddr,
        /// Where the proxy received it.
        destination: SocketAddr,
    },
    /// A part of a TCP connection.
    Stream {
        /// Who opened it.
        source: SocketAddr,
        /// Where the proxy accepted it.
        destination: SocketAddr,
    },
    /// The proxy does not say, or it is a Unix socket: the packet's addresses count.
    Unknown,
}

/// Why bytes do not start with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// They start otherwise.
    #[error("no PROXY v2 signature")]
    Signature,
    /// They end within the header.
    #[error("a PROXY v2 header of {needed} bytes, cut at {len}")]
    Short {
        /// Bytes there are.
        len: usize,
        /// Bytes of the header, as far as is known.
        needed: usize,
    },
    /// Another version.
    #[error("PROXY version {0}: this is version 2")]
    Version(u8),
    /// An unassigned command.
    #[error("PROXY v2 command {0}: unassigned")]
    Command(u8),
    /// An unassigned family or transport.
    #[error("PROXY v2 family and transport {0:#04x}: unassigned")]
    Family(u8),
    /// The announced length has no room for the addresses of the family.
    #[error("PROXY v2 addresses in {0} bytes: too few")]
    Length(u16),
}

/// The header of a datagram that travelled from `source` to `destination`.
///
/// IPv4-mapped IPv6 addresses are IPv4 addresses. Where only one of the two is, the other is written as its mapped
/// address, for the header has one family.
pub fn encode(source: SocketAddr, destination: SocketAddr) -> Header {
    let mut bytes = [0; MAX_LEN];
    bytes[..12].copy_from_slice(&SIGNATURE);
    bytes[12] = VERSION << 4 | PROXY;
    let (family, length) = match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes[16..20].copy_from_slice(&from.octets());
            bytes[20..24].copy_from_slice(&to.octets());
            (INET, V4_LEN)
        }
        (from, to) => {
            bytes[16..32].copy_from_slice(&v6_octets(from));
            bytes[32..48].copy_from_slice(&v6_octets(to));
            (INET6, V6_LEN)
        }
    };
    bytes[13] = family << 4 | DATAGRAM;
    bytes[14..16].copy_from_slice(&(length as u16).to_be_bytes());
    let len = FIXED_LEN + length;
    bytes[len - 4..len - 2].copy_from_slice(&source.port().to_be_bytes());
    bytes[len - 2..len].copy_from_slice(&destination.port().to_be_bytes());
    Header { bytes, len: len as u8 }
}

/// Reads the header at the beginning of `bytes`.
///
/// # Errors
/// If they do not start with a whole header of version 2, or it says what the specification reserves.
pub fn parse(bytes: &[u8]) -> Result<Proxied<'_>, Invalid> {
    let start = &bytes[..bytes.len().min(SIGNATURE.len())];
    if !SIGNATURE.starts_with(start) {
        return Err(Invalid::Signature);
    }
    let short = |needed| Invalid::Short { len: bytes.len(), needed };
    let (fixed, behind) = bytes.split_at_checked(FIXED_LEN).ok_or(short(FIXED_LEN))?;
    let (version, command) = (fixed[12] >> 4, fixed[12] & 0xf);
    if version != VERSION {
        return Err(Invalid::Version(version));
    }
    let length = u16::from_be_bytes([fixed[14], fixed[15]]);
    let (block, payload) =
        behind.split_at_checked(usize::from(length)).ok_or(short(FIXED_LEN + usize::from(length)))?;
    let (origin, extensions) = match command {
        // Family and addresses of a local command are to be ignored, whatever they say.
        LOCAL => (Origin::Local, &block[block.len()..]),
        PROXY => origin(fixed[13], block)?,
        other => return Err(Invalid::Command(other)),
    };
    Ok(Proxied { origin, extensions, payload })
}

/// Who is in the addresses of a proxied block, and what follows them.
fn origin(family: u8, block: &[u8]) -> Result<(Origin, &[u8]), Invalid> {
    let too_few = Invalid::Length(block.len() as u16);
    let transport = family & 0xf;
    let (source, destination, rest) = match (family >> 4, transport) {
        (0, 0) => return Ok((Origin::Unknown, block)),
        (UNIX, STREAM | DATAGRAM) => return Ok((Origin::Unknown, block.get(UNIX_LEN..).ok_or(too_few)?)),
        (INET, STREAM | DATAGRAM) => {
            let (addresses, rest) = block.split_first_chunk::<V4_LEN>().ok_or(too_few)?;
            let [a, b, c, d, e, f, g, h, ports @ ..] = *addresses;
            let (from, to) = ports_of(ports);
            (SocketAddr::from(([a, b, c, d], from)), SocketAddr::from(([e, f, g, h], to)), rest)
        }
        (INET6, STREAM | DATAGRAM) => {
            let (source, behind) = block.split_first_chunk::<16>().ok_or(too_few)?;
            let (destination, behind) = behind.split_first_chunk::<16>().ok_or(too_few)?;
            let (ports, rest) = behind.split_first_chunk::<4>().ok_or(too_few)?;
            let (from, to) = ports_of(*ports);
            (SocketAddr::from((*source, from)), SocketAddr::from((*destination, to)), rest)
        }
        _ => return Err(Invalid::Family(family)),
    };
    let origin = match transport {
        STREAM => Origin::Stream { source, destination },
        _ => Origin::Datagram { source, destination },
    };
    Ok((origin, rest))
}

fn ports_of([a, b, c, d]: [u8; 4]) -> (u16, u16) {
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

fn v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const VERSION: u8 = 2;

/// Bytes before the addresses.
const FIXED_LEN: usize = 16;

/// Bytes of the addresses by family.
const V4_LEN: usize = 12;
const V6_LEN: usize = 36;
const UNIX_LEN: usize = 216;

const LOCAL: u8 = 0;
const PROXY: u8 = 1;

const INET: u8 = 1;
const INET6: u8 = 2;
const UNIX: u8 = 3;

const STREAM: u8 = 1;
const DATAGRAM: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn addresses() -> impl Strategy<Value = SocketAddr> {
        prop_oneof![
            (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from),
            (any::<[u8; 4]>(), any::<u16>())
                .prop_map(|(octets, port)| SocketAddr::from((std::net::Ipv4Addr::from(octets).to_ipv6_mapped(), port))),
            (any::<[u8; 16]>(), any::<u16>()).prop_map(SocketAddr::from),
        ]
    }

    fn canonical(address: SocketAddr) -> SocketAddr {
        SocketAddr::new(address.ip().to_canonical(), address.port())
    }

    /// Bytes that reach deep into the parser: mostly right, with any fields.
    fn nearly() -> impl Strategy<Value = Vec<u8>> {
        let fields = (prop_oneof![Just(0x20u8), Just(0x21), any::<u8>()], 0u8..0x40, 0u16..300);
        (fields, vec(any::<u8>(), 0..300)).prop_map(|((command, family, length), rest)| {
            let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
            bytes.extend([command, family]);
            bytes.extend(length.to_be_bytes());
            bytes.extend(rest);
            bytes
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read(source in addresses(), destination in addresses(), payload in vec(any::<u8>(), 0..50)) {
            let header = encode(source, destination);
            let bytes = [&header, payload.as_slice()].concat();
            let read = parse(&bytes).unwrap();
            prop_assert_eq!((read.payload, read.extensions), (payload.as_slice(), &[][..]));
            let Origin::Datagram { source: from, destination: to } = read.origin else { panic!("{read:?}") };
            prop_assert_eq!((canonical(from), canonical(to)), (canonical(source), canonical(destination)));
            prop_assert_eq!(from.is_ipv4(), canonical(source).is_ipv4() && canonical(destination).is_ipv4());
            for len in 0..header.len() {
                prop_assert_eq!(parse(&header[..len]).map_err(|e| matches!(e, Invalid::Short { .. })), Err(true));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop_oneof![vec(any::<u8>(), 0..80), nearly()]) {
            if let Ok(read) = parse(&bytes) {
                // Header, extensions and payload are parts of the input, in this order.
                prop_assert!(bytes.ends_with(read.payload));
                let header = &bytes[..bytes.len() - read.payload.len()];
                prop_assert_eq!(header.len(), 16 + usize::from(header[14]) * 256 + usize::from(header[15]));
                prop_assert!(header.ends_with(read.extensions));
            }
        }
    }

    #[test]
    fn the_layout_is_that_of_the_specification() {
        let header = encode("192.0.2.1:514".parse().unwrap(), "198.51.100.2:6343".parse().unwrap());
        let expected = [
            0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, // signature
            0x21, 0x12, 0, 12, // version 2, PROXY; AF_INET, DGRAM; 12 bytes
            192, 0, 2, 1, 198, 51, 100, 2, 0x02, 0x02, 0x18, 0xc7,
        ];
        assert_eq!(*header, expected);

        let header = encode("[2001:db8::1]:514".parse().unwrap(), "192.0.2.9:6343".parse().unwrap());
        let expected = [
            &[0x21, 0x22, 0, 36][..],
            &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 9],
            &[0x02, 0x02, 0x18, 0xc7],
        ];
        assert_eq!(header[12..], expected.concat());
    }

    #[test]
    fn other_senders_headers_are_read() {
        let header = |fields: &[u8], block: &[u8]| {
            let length = (block.len() as u16).to_be_bytes();
            [&b"\r\n\r\n\0\r\nQUIT\n"[..], fields, &length, block, b"payload"].concat()
        };
        let v4 = [10, 0, 0, 1, 10, 0, 0, 2, 0x1f, 0x90, 0, 80];
        let (source, destination) = ("10.0.0.1:8080".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        // A stream with an extension: PP2_TYPE_NOOP, 1 byte.
        let bytes = header(&[0x21, 0x11], &[&v4[..], &[4, 0, 1, 0xaa]].concat());
        let origin = Origin::Stream { source, destination };
        assert_eq!(parse(&bytes), Ok(Proxied { origin, extensions: &[4, 0, 1, 0xaa], payload: b"payload" }));
        // A health check, whose family says nothing.
        let bytes = header(&[0x20, 0xff], &v4);
        assert_eq!(parse(&bytes), Ok(Proxied { origin: Origin::Local, extensions: &[], payload: b"payload" }));
        let bytes = header(&[0x21, 0x00], b"abc");
        assert_eq!(parse(&bytes), Ok(Proxied { origin: Origin::Unknown, extensions: b"abc", payload: b"payload" }));
        let bytes = header(&[0x21, 0x32], &[7; 218]);
        assert_eq!(parse(&bytes), Ok(Proxied { origin: Origin::Unknown, extensions: &[7; 2], payload: b"payload" }));
    }

    #[test]
    fn says_why_bytes_are_refused() {
        let mut bytes =
            *encode("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap()).first_chunk::<28>().unwrap();
        assert_eq!(parse(b"<34>Oct 11 22:14:15"), Err(Invalid::Signature));
        assert_eq!(parse(&bytes[..5]), Err(Invalid::Short { len: 5, needed: 16 }));
        assert_eq!(parse(&bytes[..27]), Err(Invalid::Short { len: 27, needed: 28 }));
        for (at, value, expected) in [
            (12, 0x11, Invalid::Version(1)),
            (12, 0x22, Invalid::Command(2)),
            (13, 0x42, Invalid::Family(0x42)),
            (13, 0x10, Invalid::Family(0x10)),
            (13, 0x02, Invalid::Family(0x02)),
            (13, 0x22, Invalid::Length(12)),
            (15, 11, Invalid::Length(11)),
        ] {
            let before = bytes[at];
            bytes[at] = value;
            assert_eq!(parse(&bytes), Err(expected));
            bytes[at] = before;
        }
    }
}
