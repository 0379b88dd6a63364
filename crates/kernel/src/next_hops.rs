//! Next hops: to which neighbour the kernel gives what is sent somewhere, and whether that neighbour answers when it is
//! asked for its hardware address (ARP, ND). It needs no privilege.
//!
//! ```text
//! way(address) -> Way: this machine, nowhere, or a next hop    (asked anew when the network has changed)
//! changes()    -> each next hop that began or ceased to answer (told by the kernel as it happens)
//! ```

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::link::{LinkFlags, LinkLayerType, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;

use crate::Error;
use crate::error::During;
use crate::links::Index;
use crate::netlink::{ANSWER_SIZE, Events, Requests, messages};

/// A neighbour as packets are given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// The interface behind which it is.
    pub interface: Index,
    /// The destination itself, or the router on the way to it.
    pub address: IpAddr,
}

/// Where what is sent to an address goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// No route leads there, or one that says so.
    Nowhere,
    /// Nobody is asked for an address, or it cannot be told who: this machine, a group, a broadcast, a link with one end,
    /// several routers to choose from.
    Unasked,
    /// To this neighbour.
    Via(NextHop),
}

/// What the kernel thinks of a neighbour (NUD_* of include/uapi/linux/neighbour.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Its hardware address is known, or none is needed: what is sent leaves.
    Known,
    /// It is asked for the first time: what is sent waits in the kernel, and little of it (NUD_INCOMPLETE).
    Asked,
    /// It did not answer: what waited was dropped (NUD_FAILED).
    Failed,
}

/// A conversation with the kernel about next hops, in one network namespace.
pub struct NextHops {
    requests: Requests,
    neighbours: Socket,
    network: Events,
    /// Whether an interface has neighbours that are asked, as far as is known.
    links: HashMap<Index, bool>,
    buffer: Vec<u8>,
}

impl NextHops {
    /// Begins to listen, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Out of file descriptors.
    pub fn open() -> Result<Self, Error> {
        let operation = || "listen to neighbours";
        let mut neighbours = Socket::new(NETLINK_ROUTE).during(operation)?;
        neighbours.bind(&SocketAddr::new(0, NEIGHBOURS)).during(operation)?;
        neighbours.set_non_blocking(true).during(operation)?;
        let (requests, network) = (Requests::open(NETLINK_ROUTE)?, Events::of_network()?);
        Ok(Self { requests, neighbours, network, links: HashMap::new(), buffer: Vec::with_capacity(ANSWER_SIZE) })
    }

    /// Where packets to an address go. `from`: the source that a program has chosen; `interface`: that to which it is bound.
    ///
    /// # Errors
    /// The kernel's answer cannot be read.
    pub fn way(&mut self, to: IpAddr, from: Option<IpAddr>, interface: Option<Index>) -> Result<Way, Error> {
        let Some(route) = self.route(to, from, interface, RouteFlags::empty())? else { return Ok(Way::Nowhere) };
        if route.header.kind != RouteType::Unicast || is_encapsulated(&route) {
            return Ok(Way::Unasked);
        }
        // By a route with several routers, each flow has one of its own: which, the kernel does not tell.
        let whole = self.route(to, from, interface, RouteFlags::FibMatch)?;
        if whole.is_some_and(|whole| is_shared(&whole)) {
            return Ok(Way::Unasked);
        }
        let Some(interface) = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        }) else {
            return Ok(Way::Unasked);
        };
        let hop = NextHop { interface, address: route.attributes.iter().find_map(gateway).unwrap_or(to) };
        let known = self.links.get(&interface).copied();
        let asks = match known {
            Some(known) => known,
            None => *self.links.entry(interface).or_insert(self.requests.asks(interface)?),
        };
        Ok(if asks { Way::Via(hop) } else { Way::Unasked })
    }

    /// Every neighbour that the kernel has an entry for.
    ///
    /// # Errors
    /// The kernel's answer cannot be read.
    pub fn neighbours(&mut self) -> Result<HashMap<NextHop, Neighbour>, Error> {
        let mut known = HashMap::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = NeighbourMessage::default();
            message.header.family = family;
            let answers = self.requests.list(RouteNetlinkMessage::GetNeighbour(message), || "list neighbours")?;
            known.extend(answers.into_iter().filter_map(|answer| match answer {
                RouteNetlinkMessage::NewNeighbour(message) => {
                    neighbour(&message).and_then(|(hop, to)| Some((hop, to?)))
                }
                _ => None,
            }));
        }
        Ok(known)
    }

    /// Shows each change of a neighbour since the last call; `None`: its entry is gone. Returns whether some may have been
    /// missed ([`Self::neighbours`] tells all). Does not wait.
    pub fn changes(&mut self, mut show: impl FnMut(NextHop, Option<Neighbour>)) -> bool {
        let mut missed = false;
        loop {
            self.buffer.clear();
            match self.neighbours.recv(&mut self.buffer, 0) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                    missed = true;
                    continue;
                }
                Err(_) => return missed,
            }
            for message in messages::<RouteNetlinkMessage>(&self.buffer) {
                let Ok(message) = message else {
                    missed = true;
                    continue;
                };
                if let NetlinkPayload::InnerMessage(message) = message.payload
                    && let Some((hop, state)) = change(&message)
                {
                    show(hop, state);
                }
            }
        }
    }

    /// Whether routes, addresses or interfaces have changed since the last call: ways may be others. Does not wait.
    pub fn network_has_changed(&mut self) -> bool {
        let changed = self.network.take();
        if changed {
            self.links.clear();
        }
        changed
    }

    /// Becomes readable when a neighbour has changed.
    pub fn neighbour_events(&self) -> BorrowedFd<'_> {
        self.neighbours.as_fd()
    }

    /// Becomes readable when routes, addresses or interfaces have changed.
    pub fn network_events(&self) -> BorrowedFd<'_> {
        self.network.as_fd()
    }

    /// The route of a packet, as `ip route get` tells it; `None`: there is none.
    fn route(
        &mut self,
        to: IpAddr,
        from: Option<IpAddr>,
        interface: Option<Index>,
        flags: RouteFlags,
    ) -> Result<Option<RouteMessage>, Error> {
        let mut request = RouteMessage::default();
        let length = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
        request.header = RouteHeader { destination_prefix_length: length(to), flags, ..RouteHeader::default() };
        request.header.address_family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        request.attributes = vec![RouteAttribute::Destination(RouteAddress::from(to))];
        if let Some(from) = from {
            request.header.source_prefix_length = length(from);
            request.attributes.push(RouteAttribute::Source(RouteAddress::from(from)));
        }
        request.attributes.extend(interface.map(RouteAttribute::Oif));
        match self.requests.get(RouteNetlinkMessage::GetRoute(request), || format!("look up the route to {to}")) {
            Ok(RouteNetlinkMessage::NewRoute(route)) => Ok(Some(route)),
            Ok(_) => Ok(None),
            // Whatever the kernel says to a question that is well formed: no packet goes there.
            Err(error) if error.errno().is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl std::fmt::Debug for NextHops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NextHops")
    }
}

impl Requests {
    /// Whether neighbours behind an interface are asked (net/ipv4/arp.c, arp_constructor; net/ipv6/ndisc.c,
    /// ndisc_constructor).
    fn asks(&mut self, index: Index) -> Result<bool, Error> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let RouteNetlinkMessage::NewLink(link) =
            self.get(RouteNetlinkMessage::GetLink(message), || format!("look at interface {index}"))?
        else {
            return Ok(false);
        };
        let silent = LinkFlags::Noarp | LinkFlags::Loopback | LinkFlags::Pointopoint;
        Ok(link.header.link_layer_type == LinkLayerType::Ether && !link.header.flags.intersects(silent))
    }
}

/// What a notification tells of a neighbour.
pub(crate) fn change(message: &RouteNetlinkMessage) -> Option<(NextHop, Option<Neighbour>)> {
    match message {
        RouteNetlinkMessage::NewNeighbour(message) => neighbour(message),
        RouteNetlinkMessage::DelNeighbour(message) => Some((neighbour(message)?.0, None)),
        _ => None,
    }
}

fn neighbour(message: &NeighbourMessage) -> Option<(NextHop, Option<Neighbour>)> {
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::from(*ip)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
        _ => None,
    })?;
    let state = match message.header.state {
        NeighbourState::Reachable
        | NeighbourState::Stale
        | NeighbourState::Delay
        | NeighbourState::Probe
        | NeighbourState::Noarp
        | NeighbourState::Permanent => Some(Neighbour::Known),
        NeighbourState::Incomplete => Some(Neighbour::Asked),
        NeighbourState::Failed => Some(Neighbour::Failed),
        // NUD_NONE: an entry that nobody has asked by yet.
        _ => None,
    };
    Some((NextHop { interface: message.header.ifindex, address }, state))
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(ip)) | RouteAttribute::Via(RouteVia::Inet(ip)) => {
            Some(IpAddr::from(*ip))
        }
        RouteAttribute::Gateway(RouteAddress::Inet6(ip)) | RouteAttribute::Via(RouteVia::Inet6(ip)) => {
            Some(IpAddr::from(*ip)).filter(|ip| *ip != Ipv6Addr::UNSPECIFIED)
        }
        _ => None,
    }
}

/// Whether packets are wrapped in others, which go elsewhere.
fn is_encapsulated(route: &RouteMessage) -> bool {
    route.attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::EncapType(_)))
}

/// Whether a route has several next hops.
fn is_shared(route: &RouteMessage) -> bool {
    let has = |wanted: fn(&RouteAttribute) -> bool| route.attributes.iter().any(wanted);
    has(|attribute| matches!(attribute, RouteAttribute::MultiPath(_)))
        // A group of next hops, of which the kernel was told not to tell more (nexthop_compat_mode).
        || has(|attribute| matches!(attribute, RouteAttribute::NhId(_)))
            && !has(|attribute| matches!(attribute, RouteAttribute::Oif(_)))
}

/// Changes of neighbours (RTMGRP_NEIGH).
const NEIGHBOURS: u32 = 4;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;
    use crate::links::{MacAddress, Netlink, VethEnd};
    use crate::namespaces::NetNs;

    /// Two namespaces, 10.0.0.1 and 10.0.0.2 behind `a` and `b`; the interface's index, and both.
    fn pair() -> (NetNs, NetNs, Index) {
        let (ns, other) = (NetNs::create().unwrap(), NetNs::create().unwrap());
        let mut netlinks = [Netlink::open(&ns).unwrap(), Netlink::open(&other).unwrap()];
        let end = |ns, name, mac| VethEnd { ns, name, mac: MacAddress::local(mac), mtu: 1500, queue_length: 100 };
        netlinks[0].add_veth(&end(&ns, "a", 1), &end(&other, "b", 2)).unwrap();
        for (number, (netlink, name)) in netlinks.iter_mut().zip(["a", "b"]).enumerate() {
            let index = netlink.link(name).unwrap().index;
            netlink.set_no_link_local(index).unwrap();
            netlink.add_address(index, format!("10.0.0.{}/24", number + 1).parse().unwrap()).unwrap();
            netlink.set_up(index).unwrap();
        }
        netlinks[0].wait_until_running("a").unwrap();
        let index = netlinks[0].link("a").unwrap().index;
        (ns, other, index)
    }

    fn way(hops: &mut NextHops, to: &str) -> Way {
        hops.way(to.parse().unwrap(), None, None).unwrap()
    }

    #[test]
    fn a_way_leads_to_a_neighbour_or_a_router_or_nowhere() {
        let (ns, _other, index) = pair();
        let mut hops = ns.run(|| NextHops::open().unwrap()).unwrap();
        let hop = |address: &str| Way::Via(NextHop { interface: index, address: address.parse().unwrap() });
        assert_eq!(way(&mut hops, "10.0.0.2"), hop("10.0.0.2"));
        assert_eq!(way(&mut hops, "10.0.0.1"), Way::Unasked, "this machine");
        assert_eq!(way(&mut hops, "10.0.0.255"), Way::Unasked, "a broadcast");
        assert_eq!(way(&mut hops, "192.0.2.1"), Way::Nowhere);
        assert!(!hops.network_has_changed());
        let mut netlink = Netlink::open(&ns).unwrap();
        netlink.add_route("192.0.2.0/24".parse().unwrap(), Some("10.0.0.9".parse().unwrap()), index).unwrap();
        assert!(hops.network_has_changed());
        assert_eq!(way(&mut hops, "192.0.2.1"), hop("10.0.0.9"));
        assert_eq!(
            hops.way("192.0.2.1".parse().unwrap(), Some("10.0.0.1".parse().unwrap()), Some(index)).unwrap(),
            hop("10.0.0.9")
        );
    }

    #[test]
    fn neighbours_are_told_as_they_answer_and_as_they_fail() {
        let (ns, _other, index) = pair();
        let mut hops = ns.run(|| NextHops::open().unwrap()).unwrap();
        let hop = |address: &str| NextHop { interface: index, address: address.parse().unwrap() };
        assert_eq!(hops.neighbours().unwrap().get(&hop("10.0.0.2")), None);
        ns.run(|| {
            let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
            socket.send_to(b"x", "10.0.0.2:9").unwrap();
            socket.send_to(b"x", "10.0.0.99:9").unwrap();
        })
        .unwrap();
        let mut told = HashMap::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while told.get(&hop("10.0.0.2")) != Some(&Some(Neighbour::Known))
            || told.get(&hop("10.0.0.99")) != Some(&Some(Neighbour::Failed))
        {
            assert!(Instant::now() < deadline, "{told:?}");
            poll(&mut [PollFd::new(hops.neighbour_events(), PollFlags::POLLIN)], PollTimeout::from(100_u8)).unwrap();
            assert!(!hops.changes(|hop, state| {
                told.insert(hop, state);
            }));
        }
        assert_eq!(hops.neighbours().unwrap().get(&hop("10.0.0.2")), Some(&Neighbour::Known));
    }
}
