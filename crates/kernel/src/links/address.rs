//! Addresses and permanent neighbours.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;

use super::{Index, MacAddress, Netlink};
use crate::Error;

/// An entry of the neighbour table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface it is reached through.
    pub index: Index,
    /// Its IP address.
    pub address: IpAddr,
    /// Its Ethernet address; `None` while it is asked for.
    pub mac: Option<MacAddress>,
    /// Whether it was given, not learnt.
    pub permanent: bool,
}

impl Netlink {
    /// Gives an interface an address, without duplicate address detection (IFA_F_NODAD). The network of its prefix
    /// becomes reachable when the interface is up; an IPv6 address receives after [`Netlink::wait_until_running`].
    ///
    /// # Errors
    /// [`Error::NoIpv6`] for an IPv6 address where the kernel has no IPv6; else if the address is there already.
    pub fn add_address(&mut self, index: Index, address: IpNet) -> Result<(), Error> {
        let ip = address.addr();
        let mut message = AddressMessage::default();
        message.header.family = family(ip);
        message.header.index = index;
        message.header.prefix_len = address.prefix_len();
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        match ip {
            IpAddr::V4(v4) if address.prefix_len() < 31 => {
                message.attributes.push(AddressAttribute::Broadcast(broadcast(v4, address.prefix_len())));
            }
            IpAddr::V4(_) => {}
            IpAddr::V6(v6) => {
                message.header.flags = AddressHeaderFlags::Nodad;
                message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
                if v6.is_unicast_link_local() {
                    message.header.scope = AddressScope::Link;
                }
            }
        }
        let operation = || format!("add address {address} to interface {index}");
        let result = self.socket.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, operation);
        without_ipv6(ip, result)
    }

    /// Tells an interface a neighbour's Ethernet address for ever, so that nobody has to ask (ARP, ND) for it. Replaces
    /// what was known.
    ///
    /// # Errors
    /// [`Error::NoIpv6`] as for [`Netlink::add_address`]; if there is no interface of that index.
    pub fn add_neighbour(&mut self, index: Index, address: IpAddr, mac: MacAddress) -> Result<(), Error> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        let destination = match address {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        };
        message.attributes =
            vec![NeighbourAttribute::Destination(destination), NeighbourAttribute::LinkLayerAddress(mac.0.to_vec())];
        let operation = || format!("add neighbour {address} at {mac} to interface {index}");
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        without_ipv6(address, self.socket.change(RouteNetlinkMessage::NewNeighbour(message), flags, operation))
    }

    /// The neighbour table of the namespace.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>, Error> {
        let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.socket.list(request, || "list neighbours")?;
        Ok(answers
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewNeighbour(message) => Neighbour::from_message(message),
                _ => None,
            })
            .collect())
    }

    /// Whether every IPv6 address of an interface has its route to this host, which the kernel adds in the background.
    pub(super) fn receives_at_all_addresses(&mut self, index: Index) -> Result<bool, Error> {
        let mut request = AddressMessage::default();
        request.header.family = AddressFamily::Inet6;
        let answers = self.socket.list(RouteNetlinkMessage::GetAddress(request), || "list addresses")?;
        for answer in answers {
            let RouteNetlinkMessage::NewAddress(message) = answer else {
                continue;
            };
            for attribute in message.attributes {
                if message.header.index == index
                    && let AddressAttribute::Address(address @ IpAddr::V6(_)) = attribute
                    && !self.is_local(address, index)?
                {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn is_local(&mut self, address: IpAddr, index: Index) -> Result<bool, Error> {
        let mut request = RouteMessage::default();
        request.header.address_family = family(address);
        request.header.destination_prefix_length = 128;
        // The interface tells link-local addresses apart.
        request.attributes = vec![RouteAttribute::Destination(RouteAddress::from(address)), RouteAttribute::Oif(index)];
        match self.socket.get(RouteNetlinkMessage::GetRoute(request), || format!("look up the route to {address}")) {
            Ok(RouteNetlinkMessage::NewRoute(route)) => Ok(route.header.kind == RouteType::Local),
            Ok(_) => Ok(false),
            Err(error) if matches!(error.errno(), Some(Errno::ENETUNREACH | Errno::EHOSTUNREACH)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Neighbour {
    fn from_message(message: NeighbourMessage) -> Option<Neighbour> {
        let mut address = None;
        let mut mac = None;
        for attribute in message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => address = Some(IpAddr::V4(v4)),
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(IpAddr::V6(v6)),
                NeighbourAttribute::LinkLayerAddress(bytes) => mac = <[u8; 6]>::try_from(bytes).ok().map(MacAddress),
                _ => {}
            }
        }
        let permanent = message.header.state == NeighbourState::Permanent;
        Some(Neighbour { index: message.header.ifindex, address: address?, mac, permanent })
    }
}

pub(super) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn broadcast(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let host_bits = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    Ipv4Addr::from(u32::from(address) | host_bits)
}

/// Recognises a kernel without IPv6. EACCES is what an interface with `disable_ipv6` answers (net/ipv6/addrconf.c).
pub(super) fn without_ipv6(address: IpAddr, result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::System { operation, errno: Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP | Errno::EACCES })
            if address.is_ipv6() =>
        {
            Err(Error::NoIpv6 { operation })
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_addresses() {
        let address = Ipv4Addr::new(10, 1, 2, 3);
        assert_eq!(broadcast(address, 8), Ipv4Addr::new(10, 255, 255, 255));
        assert_eq!(broadcast(address, 30), Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!(broadcast(address, 0), Ipv4Addr::BROADCAST);
    }

    #[test]
    fn a_kernel_without_ipv6_is_recognised() {
        let refused = |errno| Err(Error::System { operation: "add address".into(), errno });
        let v6 = IpAddr::from([0u16; 8]);
        for errno in [Errno::EAFNOSUPPORT, Errno::EOPNOTSUPP, Errno::EACCES] {
            assert_eq!(without_ipv6(v6, refused(errno)), Err(Error::NoIpv6 { operation: "add address".into() }));
            assert_eq!(without_ipv6(IpAddr::from([0u8; 4]), refused(errno)), refused(errno));
        }
        assert_eq!(without_ipv6(v6, refused(Errno::EEXIST)), refused(Errno::EEXIST));
    }
}
