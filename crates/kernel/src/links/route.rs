//! Routes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
    RouteType,
};

use procfs::FromRead;
use procfs::net::RouteEntries;

use super::address::{family, without_ipv6};
use super::{Index, MAIN_TABLE, Netlink};
use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::path;

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

/// Names of the interfaces that a default route of IPv4 leads through.
///
/// # Errors
/// If the namespace cannot be entered, or /proc/net/route says what nobody understands.
pub fn default_routes(ns: &NetNs) -> Result<BTreeSet<String>, Error> {
    let routes = ns.run(|| RouteEntries::from_file(path("route")))?;
    let routes = routes.map_err(|error| Error::answer("read /proc/net/route", error.to_string()))?.0;
    let default = routes.into_iter().filter(|route| route.destination.is_unspecified() && route.mask.is_unspecified());
    Ok(default.map(|route| route.iface).collect())
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

    /// Has TCP connections along every route of the main table begin with this congestion control (RTAX_CC_ALGO), which the
    /// kernel must know. Unlike the namespace's default it may be one that only programs with privilege may choose; a
    /// program can choose another once it is connected, not before.
    ///
    /// # Errors
    /// Routes cannot be listed, or the kernel refuses the name.
    pub fn set_congestion_of_routes(&mut self, name: &str) -> Result<(), Error> {
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            let answers = self.socket.list(RouteNetlinkMessage::GetRoute(request), || "list routes")?;
            for answer in answers {
                let RouteNetlinkMessage::NewRoute(mut route) = answer else { continue };
                let cached = route.header.flags.contains(RouteFlags::Cloned);
                let table = u32::from(route.header.table);
                if route.header.kind != RouteType::Unicast || cached || table != MAIN_TABLE {
                    continue;
                }
                let kept = |attribute: &RouteAttribute| {
                    use RouteAttribute::{Destination, Gateway, Oif, PrefSource, Priority, Table};
                    matches!(attribute, Destination(_) | Gateway(_) | Oif(_) | PrefSource(_) | Priority(_) | Table(_))
                };
                route.attributes.retain(kept);
                route.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::CcAlgo(name.to_owned())]));
                let operation = || format!("have TCP use the congestion control {name} along a route");
                self.socket.change(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE, operation)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{MacAddress, VethEnd};

    #[test]
    fn default_routes_are_told_from_others() {
        let ns = NetNs::create().unwrap();
        let mut netlink = Netlink::open(&ns).unwrap();
        for (number, pair) in [["a", "b"], ["c", "d"]].into_iter().enumerate() {
            let number = number as u32 * 2;
            let end = |name, more| VethEnd {
                ns: &ns,
                name,
                mac: MacAddress::local(number + more),
                mtu: 1500,
                queue_length: 0,
            };
            netlink.add_veth(&end(pair[0], 1), &end(pair[1], 2)).unwrap();
            let index = netlink.link(pair[0]).unwrap().index;
            netlink.set_up(index).unwrap();
            netlink.add_address(index, format!("10.9.{number}.1/24").parse().unwrap()).unwrap();
        }
        assert_eq!(default_routes(&ns).unwrap(), BTreeSet::new());
        let index = netlink.link("c").unwrap().index;
        netlink.add_route("0.0.0.0/0".parse().unwrap(), Some("10.9.2.9".parse().unwrap()), index).unwrap();
        assert_eq!(default_routes(&ns).unwrap(), BTreeSet::from(["c".to_owned()]));
    }
}
