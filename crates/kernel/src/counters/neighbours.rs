//! Next hops whose hardware address is not known.

use std::fs;
use std::net::IpAddr;

use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::Counter;
use crate::Error;
use crate::links::Index;
use crate::namespaces::NetNs;
use crate::netlink::Requests;
use crate::proc::read;

/// A next hop without a hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnresolvedNeighbour {
    /// The interface behind which it was asked for.
    pub interface: Index,
    /// Its address.
    pub address: IpAddr,
    /// Nobody answered (NUD_FAILED): what is sent is dropped. Else an answer is awaited (NUD_INCOMPLETE).
    pub failed: bool,
}

/// The next hops of a namespace that did not answer, or have not yet.
///
/// # Errors
/// If the namespace cannot be entered or the kernel's answer cannot be read.
pub fn neighbours(ns: &NetNs) -> Result<Vec<UnresolvedNeighbour>, Error> {
    let mut socket = ns.run(|| Requests::open(NETLINK_ROUTE))??;
    let mut unresolved = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut message = NeighbourMessage::default();
        message.header.family = family;
        let answers = socket.list(RouteNetlinkMessage::GetNeighbour(message), || "list neighbours")?;
        unresolved.extend(answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message) => unresolved_neighbour(&message),
            _ => None,
        }));
    }
    Ok(unresolved)
}

pub(crate) fn unresolved_neighbour(message: &NeighbourMessage) -> Option<UnresolvedNeighbour> {
    let failed = match message.header.state {
        NeighbourState::Failed => true,
        NeighbourState::Incomplete => false,
        _ => return None,
    };
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::from(*ip)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
        _ => None,
    })?;
    Some(UnresolvedNeighbour { interface: message.header.ifindex, address, failed })
}

/// Packets that the tables of next hops gave up because more came than `unres_qlen_bytes` holds, over all namespaces
/// (net/core/neighbour.c, neigh_stat_seq_show). /proc/net/stat/arp_cache is only there in the first namespace, and another's
/// process 1 may not be looked at: then there is none.
pub fn neighbour_discards() -> Vec<(Counter, u64)> {
    let tables = [(Counter::ArpDiscards, "arp_cache"), (Counter::NdiscDiscards, "ndisc_cache")];
    tables.into_iter().filter_map(|(counter, name)| Some((counter, discards(name)?))).collect()
}

fn discards(name: &str) -> Option<u64> {
    let text = read(format_args!("stat/{name}"))
        .ok()
        .or_else(|| fs::read_to_string(format!("/proc/1/net/stat/{name}")).ok())?;
    super::columns::Columns::parse(&text).sum("unresolved_discards")
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::links::{MacAddress, Netlink, VethEnd};

    #[test]
    fn a_next_hop_that_is_not_there_is_unresolved() {
        let (ns, other) = (NetNs::create().unwrap(), NetNs::create().unwrap());
        let mut netlink = Netlink::open(&ns).unwrap();
        let end = |ns, name, mac| VethEnd { ns, name, mac: MacAddress::local(mac), mtu: 1500, queue_length: 100 };
        netlink.add_veth(&end(&ns, "a", 1), &end(&other, "b", 2)).unwrap();
        let mut there = Netlink::open(&other).unwrap();
        let (index, peer) = (netlink.link("a").unwrap().index, there.link("b").unwrap().index);
        netlink.add_address(index, "10.0.0.1/24".parse().unwrap()).unwrap();
        for (netlink, index) in [(&mut netlink, index), (&mut there, peer)] {
            netlink.set_no_link_local(index).unwrap();
            netlink.set_up(index).unwrap();
        }
        netlink.wait_until_running("a").unwrap();
        assert_eq!(neighbours(&ns).unwrap(), []);
        ns.run(|| UdpSocket::bind("10.0.0.1:0").unwrap().send_to(b"x", "10.0.0.99:9").unwrap()).unwrap();
        // It may have failed already, on a machine that is slow.
        let [found] = neighbours(&ns).unwrap()[..] else { panic!("{:?}", neighbours(&ns)) };
        assert_eq!((found.interface, found.address), (index, "10.0.0.99".parse().unwrap()));
    }

    #[test]
    fn the_tables_belong_to_the_machine() {
        // Hidden where process 1 is in a network of its own, as in a container.
        if fs::exists("/proc/1/net/stat/arp_cache").unwrap_or(false) {
            assert!(discards("arp_cache").is_some());
        }
    }
}
