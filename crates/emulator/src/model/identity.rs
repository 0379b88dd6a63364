//! The identity of a flow across runs.

use std::net::IpAddr;

use super::FlowTuple;
use super::random::StreamKey;

/// The identity of a flow in every run: its headers without the port that the kernel chooses each time.
///
/// A port in Linux's default ephemeral range (32768 to 60999) is left out unless the other one is; if both are in it,
/// the source's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowIdentity {
    /// IP protocol number; `None`: not an IP packet.
    pub protocol: Option<u8>,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port; `None` if left out, or if there is none.
    pub source_port: Option<u16>,
    /// Destination port; `None` if left out, or if there is none.
    pub destination_port: Option<u16>,
    /// Number of earlier flows with the same values in this direction.
    /// Equal flows that start at once may swap places from run to run.
    pub ordinal: u64,
}

impl FlowIdentity {
    /// The identity of the first flow with such headers.
    pub(super) fn without_ordinal(tuple: &FlowTuple) -> Self {
        let (source_port, destination_port) = match tuple.ports {
            None => (None, None),
            Some((source, destination)) => match (is_ephemeral(source), is_ephemeral(destination)) {
                (true, _) => (None, Some(destination)),
                (false, true) => (Some(source), None),
                (false, false) => (Some(source), Some(destination)),
            },
        };
        FlowIdentity {
            protocol: tuple.protocol,
            source: tuple.source,
            destination: tuple.destination,
            source_port,
            destination_port,
            ordinal: 0,
        }
    }

    /// The flow's random sequences in a direction.
    pub(super) fn key(&self, direction: StreamKey) -> StreamKey {
        let key = direction.with(self.protocol.map_or(NOT_IP, u64::from));
        let key = with_address(with_address(key, self.source), self.destination);
        with_port(with_port(key, self.source_port), self.destination_port).with(self.ordinal)
    }
}

/// The random sequences of the flow shared by all beyond the table's limit.
pub(super) fn shared_key(direction: StreamKey) -> StreamKey {
    direction.with(SHARED)
}

// Replaces an IP protocol's number in a flow's key.
const NOT_IP: u64 = 256;
const SHARED: u64 = 257;

/// Linux's default `net.ipv4.ip_local_port_range` (Documentation/networking/ip-sysctl.rst).
fn is_ephemeral(port: u16) -> bool {
    (32_768..=60_999).contains(&port)
}

fn with_address(key: StreamKey, address: IpAddr) -> StreamKey {
    match address {
        IpAddr::V4(address) => key.with(4).with(u64::from(address.to_bits())),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            key.with(6).with((bits >> 64) as u64).with(bits as u64)
        }
    }
}

fn with_port(key: StreamKey, port: Option<u16>) -> StreamKey {
    key.with(port.map_or(1 << 16, u64::from))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::super::{Key, Way};
    use super::*;

    #[test]
    fn identity_leaves_out_the_port_that_the_kernel_picked() {
        let ports = |ports| {
            let identity = FlowIdentity::without_ordinal(&FlowTuple { ports, ..TUPLE });
            (identity.source_port, identity.destination_port)
        };
        assert_eq!(ports(Some((40_000, 65_432))), (None, Some(65_432)));
        assert_eq!(ports(Some((65_432, 40_000))), (Some(65_432), None));
        assert_eq!(ports(Some((5000, 65_432))), (Some(5000), Some(65_432)));
        assert_eq!(ports(Some((40_000, 50_000))), (None, Some(50_000)));
        assert_eq!(ports(Some((32_767, 61_000))), (Some(32_767), Some(61_000)));
        assert_eq!(ports(Some((32_768, 60_999))), (None, Some(60_999)));
        assert_eq!(ports(None), (None, None));
    }

    #[test]
    fn every_header_matters() {
        let v6 = |last: u16| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
        let tuples = [
            TUPLE,
            FlowTuple { protocol: Some(6), ..TUPLE },
            FlowTuple { source: TUPLE.destination, destination: TUPLE.source, ..TUPLE },
            FlowTuple { destination: TUPLE.source, ..TUPLE },
            FlowTuple { ports: Some((80, 5000)), ..TUPLE },
            FlowTuple { ports: Some((0, 0)), ..TUPLE },
            FlowTuple { ports: None, ..TUPLE },
            FlowTuple { source: v6(1), destination: v6(2), ..TUPLE },
            FlowTuple { source: v6(2), destination: v6(1), ..TUPLE },
            FlowTuple { protocol: None, ..TUPLE },
        ];
        let direction = StreamKey::of(Key { seed: 1, link: 0, direction: Way::Forward });
        let mut keys = HashSet::new();
        for tuple in &tuples {
            for ordinal in 0..2 {
                let identity = FlowIdentity { ordinal, ..FlowIdentity::without_ordinal(tuple) };
                assert!(keys.insert(identity.key(direction).bits()), "{identity:?} is like another");
            }
        }
        assert!(keys.insert(shared_key(direction).bits()));
    }

    const TUPLE: FlowTuple = FlowTuple {
        protocol: Some(17),
        source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        destination: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        ports: Some((5000, 80)),
    };
}
