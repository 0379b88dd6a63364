//! Where a trial runs: two namespaces joined by a veth pair, or the loopback interface where we may make none.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use ipnet::IpNet;
use weir_dgram::{Options, Socket};
use weir_kernel::counters::{Interfaces, Snmp, snmp};
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;

use crate::places::Place;

/// A way from a sender to a receiver.
#[derive(Debug)]
pub(crate) struct Link {
    sender: NetNs,
    receiver: NetNs,
    /// Whether nobody else uses it.
    own: bool,
}

/// Counters of a link at one moment.
#[derive(Debug)]
pub(super) struct Counters {
    snmp: Snmp,
    /// Packets that found the backlog behind the sender's end full.
    dropped: u64,
}

impl Link {
    /// Makes two namespaces and a veth pair of this MTU; the loopback interface instead, where that is not permitted.
    ///
    /// # Errors
    /// If the kernel has no veth, or limits are reached.
    pub(crate) fn make(mtu: u32) -> Result<Link> {
        let (Ok(sender), Ok(receiver)) = (NetNs::create(), NetNs::create()) else {
            return Ok(Link { sender: NetNs::current()?, receiver: NetNs::current()?, own: false });
        };
        let end = |ns, number| VethEnd { ns, name: NAME, mac: MacAddress::local(number), mtu, queue_length: 1000 };
        Netlink::open(&sender)?.add_veth(&end(&sender, 1), &end(&receiver, 2))?;
        // Known neighbours: nothing waits for an address, nothing is lost for want of one.
        for (ns, own, other, number) in [(&sender, SENDER, RECEIVER, 2), (&receiver, RECEIVER, SENDER, 1)] {
            let mut netlink = Netlink::open(ns)?;
            let index = netlink.link(NAME)?.index;
            netlink.set_no_link_local(index)?;
            netlink.add_address(index, IpNet::new(own.into(), 24)?)?;
            netlink.set_up(index)?;
            netlink.add_neighbour(index, other.into(), MacAddress::local(number))?;
        }
        for ns in [&sender, &receiver] {
            Netlink::open(ns)?.wait_until_running(NAME)?;
        }
        Ok(Link { sender, receiver, own: true })
    }

    /// Whether nobody else uses it, so that all its counters are a trial's.
    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// A socket at the receiver's end.
    pub(super) fn receiving(&self, options: &Options) -> Result<Socket> {
        let address: IpAddr = if self.own { RECEIVER.into() } else { Ipv4Addr::LOCALHOST.into() };
        let bind = || Socket::bind(SocketAddr::new(address, 0), options);
        self.receiver.run(bind)?.context("open the trial's receiver")
    }

    /// A socket at the sender's end.
    pub(super) fn sending(&self, to: SocketAddr) -> Result<Socket> {
        let connect = || Socket::connect(None, to, &Options::default());
        self.sender.run(connect)?.context("open the trial's sender")
    }

    pub(super) fn counters(&self) -> Result<Counters> {
        let interfaces = Interfaces::open(&self.sender)?.read()?;
        let dropped = interfaces.iter().filter(|interface| interface.name == NAME).map(|veth| veth.send_dropped).sum();
        Ok(Counters { snmp: snmp(&self.receiver)?, dropped })
    }
}

impl Counters {
    /// What was lost since `earlier`, by place.
    pub(super) fn since(&self, earlier: &Counters) -> Vec<(Place, u64)> {
        let since = self.snmp.since(&earlier.snmp);
        let count = |name| u64::try_from(since.get("Udp", name).unwrap_or(0)).unwrap_or(0);
        vec![
            (Place::Backlog, self.dropped.saturating_sub(earlier.dropped)),
            (Place::ReceiveBuffer, count("RcvbufErrors")),
            (Place::UdpMemory, count("MemErrors")),
        ]
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.own { "veth" } else { "loopback" })
    }
}

const NAME: &str = "trial";
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
