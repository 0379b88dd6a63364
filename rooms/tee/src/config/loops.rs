//! Destinations that would come in again: datagrams in a loop multiply until the machine does nothing else.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use weir_units::format::shown;

use weir_forward::settings::{Destination, Listener, Membership};

/// Addresses of this machine's interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Their own.
    pub own: Vec<IpAddr>,
    /// Their broadcast addresses.
    pub broadcast: Vec<Ipv4Addr>,
    /// Their names.
    pub interfaces: BTreeSet<String>,
}

impl Local {
    /// As they are now; none where the kernel does not tell.
    pub fn now() -> Self {
        let mut local = Self::default();
        let address = |storage: nix::sys::socket::SockaddrStorage| {
            let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        };
        for interface in getifaddrs().into_iter().flatten() {
            local.interfaces.insert(shown(&interface.interface_name).into_owned());
            let own = interface.address.and_then(address);
            local.own.extend(own);
            if let Some(IpAddr::V4(broadcast)) = interface.broadcast.and_then(address) {
                local.broadcast.push(broadcast);
            }
            if let (Some(IpAddr::V4(own)), Some(IpAddr::V4(mask))) = (own, interface.netmask.and_then(address)) {
                local.broadcast.extend(of_network(own, mask));
            }
        }
        local
    }

    /// Whether what is sent to `address` reaches this machine itself. Linux takes the whole of 127.0.0.0/8, and the
    /// unspecified address as a destination, for itself.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || address.is_unspecified() || self.own.contains(&address)
    }

    fn is_broadcast(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if address.is_broadcast() || self.broadcast.contains(&address))
    }
}

/// The broadcast address of a network: the kernel sends to all of it whether its interface was given one or not
/// (fib_add_ifaddr in net/ipv4/fib_frontend.c). `None`: two hosts or one have none.
fn of_network(own: Ipv4Addr, mask: Ipv4Addr) -> Option<Ipv4Addr> {
    let is_network = mask.to_bits().leading_ones() <= 30;
    is_network.then(|| Ipv4Addr::from_bits(own.to_bits() | !mask.to_bits()))
}

/// Whether every machine hears a multicast address without having asked for it (RFC 1112, RFC 4291).
fn is_heard_by_all(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group == Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(group) => [0xff01, 0xff02].map(|scope| Ipv6Addr::new(scope, 0, 0, 0, 0, 0, 0, 1)).contains(&group),
    }
}

/// Whether `listener` hears what is sent to `address` for `destination`. `listeners`: all of them, for on Linux a
/// multicast group that one socket joined reaches every socket bound to the unspecified address (IP_MULTICAST_ALL).
pub fn is_own_listener(
    destination: &Destination,
    address: SocketAddr,
    listener: &Listener,
    listeners: &[Listener],
    local: &Local,
) -> bool {
    let (ip, bound) = (address.ip().to_canonical(), listener.address.ip().to_canonical());
    if address.port() != listener.address.port() || address.port() == 0 || !takes(bound, ip) {
        return false;
    }
    if ip.is_multicast() {
        // The kernel hands a copy to this machine unless told not to.
        destination.loopback != Some(false)
            && meet(destination.interface.as_ref(), listener.interface.as_ref())
            && (is_heard_by_all(ip)
                || listeners
                    .iter()
                    .flat_map(|listener| &listener.groups)
                    .any(|joined| hears(joined, ip, destination, local)))
    } else if local.is_broadcast(ip) {
        meet(destination.interface.as_ref(), listener.interface.as_ref())
    } else {
        // What is sent to an address of this machine passes the loopback interface, whatever interface has the address.
        local.is_own(ip) && listener.interface.as_ref().is_none_or(|interface| interface == "lo")
    }
}

/// Whether a socket bound to `bound` takes datagrams to `ip`.
fn takes(bound: IpAddr, ip: IpAddr) -> bool {
    match bound {
        // Bound to [::], a socket hears IPv4 as well.
        IpAddr::V6(bound) if bound.is_unspecified() => true,
        IpAddr::V4(bound) if bound.is_unspecified() => ip.is_ipv4(),
        _ => bound == ip || ip.is_unspecified() && bound.is_loopback() && bound.is_ipv4() == ip.is_ipv4(),
    }
}

/// Whether a membership lets in what this destination is sent.
fn hears(joined: &Membership, group: IpAddr, destination: &Destination, local: &Local) -> bool {
    joined.group == group
        && meet(destination.interface.as_ref(), joined.interface.as_ref())
        // A preserved source may be the one that is joined.
        && joined.source.is_none_or(|source| local.is_own(source) || destination.source.is_preserved())
}

/// Whether two choices of an interface can mean the same one.
fn meet(a: Option<&String>, b: Option<&String>) -> bool {
    a.is_none() || b.is_none() || a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_a_broadcast_address_whether_its_interface_was_given_one_or_not() {
        let of = |own: [u8; 4], mask: [u8; 4]| of_network(own.into(), mask.into());
        assert_eq!(of([10, 9, 0, 1], [255, 255, 255, 0]), Some(Ipv4Addr::new(10, 9, 0, 255)));
        assert_eq!(of([10, 9, 0, 1], [255, 255, 252, 0]), Some(Ipv4Addr::new(10, 9, 3, 255)));
        assert_eq!(of([10, 9, 0, 1], [255, 255, 255, 254]), None);
        assert_eq!(of([10, 9, 0, 1], [255; 4]), None);
    }
}
