//! Routes.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};

use super::address::{family, without_ipv6};
use super::{Index, MAIN_TABLE, Netlink};
use crate::Error;

/// A route to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where packets go that take it; `0.0.0.0/0` or `::/0` is the default route. A multicast group is one, too.
    pub destination: IpNet,
    /// The router to give them to; `None`: they reach their destination straight away.
    pub gateway: Option<IpAddr>,
    /// The interface they leave by.
    pub index: Index,
    /// The address they come from, where the program has not chosen one; `None`: as the kernel chooses.
    pub source: Option<IpAddr>,
    /// Number of the routing table.
    pub table: u32,
}

impl Route {
    /// In the main table, with the source that the kernel chooses.
    pub fn new(destination: IpNet, gateway: Option<IpAddr>, index: Index) -> Route {
        Route { destination, gateway, index, source: None, table: MAIN_TABLE }
    }
}

impl Netlink {
    /// Sends what is for `destination` through an interface, to a gateway or, without one, straight to its neighbours:
    /// [`Route::new`], added.
    ///
    /// # Errors
    /// As [`Netlink::install_route`].
    pub fn add_route(&mut self, destination: IpNet, gateway: Option<IpAddr>, index: Index) -> Result<(), Error> {
        self.install_route(&Route::new(destination, gateway, index))
    }

    /// Adds a route. Its interface must be up.
    ///
    /// # Errors
    /// [`Error::NoIpv6`] as for [`Netlink::add_address`]; if the gateway is not reachable, the source is not an address
    /// of this namespace, or the route is there already.
    pub fn install_route(&mut self, route: &Route) -> Result<(), Error> {
        let Route { destination, gateway, index, source, table } = *route;
        let ip = destination.addr();
        let mut message = RouteMessage::default();
        message.header.address_family = family(ip);
        message.header.destination_prefix_length = destination.prefix_len();
        message.header.table = u8::try_from(table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = if gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
        // IPv4 tells a group by its address (net/ipv4/route.c), IPv6 by the route.
        message.header.kind = if ip.is_ipv6() && ip.is_multicast() { RouteType::Multicast } else { RouteType::Unicast };
        message.attributes = vec![RouteAttribute::Oif(index), RouteAttribute::Table(table)];
        if destination.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(RouteAddress::from(destination.network())));
        }
        message.attributes.extend(gateway.map(RouteAddress::from).map(RouteAttribute::Gateway));
        message.attributes.extend(source.map(RouteAddress::from).map(RouteAttribute::PrefSource));
        let operation = || match gateway {
            Some(gateway) => format!("add route {destination} via {gateway}, interface {index}"),
            None => format!("add route {destination}, interface {index}"),
        };
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        without_ipv6(ip, self.socket.change(RouteNetlinkMessage::NewRoute(message), flags, operation))
    }
}
