//! Socket addresses as the kernel reads and writes them, ip(7) and ipv6(7).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A destination, encoded once for any number of sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    bytes: [u8; Self::LONGEST],
    length: u8,
}

impl Address {
    /// Bytes of a `sockaddr_in6`, the longer of the two.
    pub(crate) const LONGEST: usize = 28;

    /// `struct sockaddr_in` or `sockaddr_in6`.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// As the kernel wrote it; `None`: nothing, or another family.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SocketAddr> {
        let family = u16::from_ne_bytes(*bytes.first_chunk()?);
        let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
        match i32::from(family) {
            libc::AF_INET => {
                let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
                Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
                let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; Self::LONGEST];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, length) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, 16)
            }
            SocketAddr::V6(v6) => {
                // The flow label is left 0: the kernel takes one only from whoever leased it.
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, 28)
            }
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        Self { bytes, length }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Self::decode(self.as_bytes()) {
            Some(address) => write!(f, "Address({address})"),
            None => f.write_str("Address(?)"),
        }
    }
}

/// An IPv4 address as such, where a socket of both families saw it as `::ffff:a.b.c.d`.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_read_back(v4: u32, v6: u128, port: u16, scope: u32) {
            let v4 = SocketAddr::new(Ipv4Addr::from(v4).into(), port);
            let v6 = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(v6), port, 0, scope));
            for address in [v4, v6] {
                // The system's own encoding is the judge.
                let system = socket2::SockAddr::from(address);
                prop_assert_eq!(Address::from(address).as_bytes().len(), system.len() as usize);
                prop_assert_eq!(Address::decode(Address::from(address).as_bytes()), system.as_socket());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = Address::decode(&bytes);
        }
    }

    #[test]
    fn mapped_addresses_are_plain_ones() {
        let mapped: SocketAddr = "[::ffff:10.0.0.7]:514".parse().unwrap();
        assert_eq!(canonical(mapped), "10.0.0.7:514".parse().unwrap());
        let own: SocketAddr = "[2001:db8::7]:514".parse().unwrap();
        assert_eq!(canonical(own), own);
    }
}
