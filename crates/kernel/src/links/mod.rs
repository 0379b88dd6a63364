//! Interfaces, bridges, addresses, neighbours, routes and routing rules of a network namespace, over rtnetlink.
//!
//! One [`Netlink`] a namespace. Interfaces are made *down* and set up when all about them is said: `IFF_UP` in the
//! creating request costs 16 ms a veth pair, a second request some 10 us. Nothing waits for duplicate address
//! detection, and nothing speaks by itself: no automatic link-local address, hence no router solicitation and no MLD
//! report of ours before somebody asks for one.

mod address;
mod bridge;
mod interface;
mod mac;
pub(crate) mod mdb;
mod route;
mod rule;

use std::fmt;

pub use crate::netlink::Events;
pub use address::Neighbour;
pub use bridge::{BridgeSettings, Snooping};
pub use interface::{Link, VethEnd};
pub use mac::MacAddress;
pub use mdb::GroupPort;
pub use netlink_packet_route::link::Stats64 as LinkStatistics;
pub use route::{Route, default_routes};
pub use rule::{MAIN_TABLE, TcpRule};

use netlink_sys::protocols::NETLINK_ROUTE;

use crate::Error;
use crate::namespaces::NetNs;
use crate::netlink::Requests;

/// A conversation with the kernel about one network namespace. It holds the namespace.
pub struct Netlink {
    socket: Requests,
    ns: NetNs,
}

/// The kernel's number of an interface in its namespace; from 1.
pub type Index = u32;

impl Netlink {
    /// Opens a netlink socket inside `ns`; it stays there.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Netlink, Error> {
        Ok(Netlink { socket: ns.run(|| Requests::open(NETLINK_ROUTE))??, ns: ns.try_clone()? })
    }
}

impl fmt::Debug for Netlink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Netlink")
    }
}
