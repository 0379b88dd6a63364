//! What the kernel counted: of a network namespace, of an interface, of a CPU's receive path.

pub(crate) mod columns;
pub(crate) mod conntrack;
mod counter;
pub(crate) mod interfaces;
pub(crate) mod links;
pub(crate) mod neighbours;
pub(crate) mod qdiscs;
pub(crate) mod queues;
mod running;
pub(crate) mod snmp;
pub(crate) mod sockstat;
pub(crate) mod softnet;

pub use conntrack::{Conntrack, Tracking, conntrack};
pub use counter::Counter;
pub use interfaces::{InterfaceCounters, Interfaces};
pub use links::{LinkChanges, LinkCounters, Links, links};
pub use neighbours::{UnresolvedNeighbour, neighbour_discards, neighbours};
pub use qdiscs::{Qdisc, Qdiscs, qdiscs};
pub use queues::{QueueStatistics, queues};
pub use running::{Running, Width};
pub use snmp::{Protocols, Snmp};
pub use sockstat::{UdpMemory, udp_memory};
pub use softnet::{Softnet, softnet};

use crate::Error;
use crate::namespaces::NetNs;
use crate::sockets::{Sockets, UdpSocket};

/// All bound UDP sockets of a namespace; [`crate::sockets::Sockets`] reads them again and again.
///
/// # Errors
/// As [`crate::sockets::Sockets::open`] and [`crate::sockets::Sockets::read`].
pub fn sockets(ns: &NetNs) -> Result<Vec<UdpSocket>, Error> {
    Sockets::open(ns)?.read()
}

/// Reads the protocol counters of a network namespace; [`Protocols`] reads them again and again.
///
/// # Errors
/// If the namespace cannot be entered or /proc/net cannot be read.
pub fn snmp(ns: &NetNs) -> Result<Snmp, Error> {
    Protocols::open(ns)?.read()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::links::Netlink;

    #[test]
    fn drops_of_a_full_socket_are_counted() {
        const SENT: i64 = 300;
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        let (sender, receiver) = ns
            .run(|| {
                let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
                let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
                sender.connect(receiver.local_addr().unwrap()).unwrap();
                (sender, receiver)
            })
            .unwrap();
        nix::sys::socket::setsockopt(&receiver, nix::sys::socket::sockopt::RcvBuf, &4096).unwrap();
        for _ in 0..SENT {
            sender.send(&[0; 200]).unwrap();
        }
        receiver.set_nonblocking(true).unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 200]).is_ok() {
            received += 1;
        }
        assert!((1..SENT).contains(&received));
        let counters = snmp(&ns).unwrap();
        assert_eq!(counters.get("Udp", "RcvbufErrors"), Some(SENT - received));
        assert_eq!(counters.get("Udp", "OutDatagrams"), Some(SENT));
        assert_eq!(counters.get("TcpExt", "ListenDrops"), Some(0));
        assert_eq!(counters.get("Udp", "NoSuchCounter"), None);
    }
}
