//! Counters and facts of a namespace's interfaces, over netlink.

use std::fmt;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, State, XdpAttached,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;

use crate::Error;
use crate::links::{Index, LinkStatistics, MacAddress};
use crate::namespaces::NetNs;
use crate::netlink::{Events, LINKS, Requests};

/// An interface and what it counted since it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkCounters {
    /// Its number in its namespace.
    pub index: Index,
    /// Its name.
    pub name: String,
    /// What made it: `veth`, `bridge`, `tun`; `None`: a driver of hardware, or the loopback interface.
    pub kind: Option<String>,
    /// Whether it is set up (IFF_UP).
    pub up: bool,
    /// Whether the other end is up, too (IFF_LOWER_UP).
    pub carrier: bool,
    /// Whether it is in operation; `None`: the driver does not tell (loopback, tun).
    pub running: Option<bool>,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether its frames begin with an Ethernet header (ARPHRD_ETHER, and the loopback interface).
    pub ethernet: bool,
    /// Whether it takes frames for everybody (IFF_PROMISC).
    pub promiscuous: bool,
    /// Its Ethernet address; `None` for other kinds of interface.
    pub mac: Option<MacAddress>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// The bridge or bond it belongs to.
    pub master: Option<Index>,
    /// The interface it lies upon (VLAN), or a veth's peer: a number in another namespace, if it is there.
    pub lower: Option<Index>,
    /// Packets that may wait in its queueing discipline, or a tun device's ring.
    pub tx_queue_length: u32,
    /// Name of its queueing discipline: `noqueue`, `fq_codel`, `mq`.
    pub qdisc: String,
    /// An XDP program is attached.
    pub xdp: bool,
    /// Its counters (IFLA_STATS64; Documentation/networking/statistics.rst says what each means). 64 bits wide; they
    /// begin again when the interface is made anew.
    pub statistics: LinkStatistics,
}

/// Reads the interfaces of one namespace again and again.
#[derive(Debug)]
pub struct Links(Requests);

impl Links {
    /// Opens a netlink socket in `ns`.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Links, Error> {
        ns.run(|| Requests::open(NETLINK_ROUTE))?.map(Links)
    }

    /// All interfaces, by index. Waits for the kernel's lock on interfaces (RTNL), which others hold for long while
    /// they make or remove networks.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn read(&mut self) -> Result<Vec<LinkCounters>, Error> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.0.list(request, || "list interfaces")?;
        let link = |answer| match answer {
            RouteNetlinkMessage::NewLink(message) => Some(LinkCounters::from_message(message)),
            _ => None,
        };
        let mut links: Vec<LinkCounters> = answers.into_iter().filter_map(link).collect();
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// One interface as it is now; `None`: it is gone.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn find(&mut self, index: Index) -> Result<Option<LinkCounters>, Error> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        match self.0.get(RouteNetlinkMessage::GetLink(message), || format!("find interface {index}")) {
            Ok(RouteNetlinkMessage::NewLink(message)) => Ok(Some(LinkCounters::from_message(message))),
            Err(error) if error.errno() != Some(Errno::ENODEV) => Err(error),
            _ => Ok(None),
        }
    }
}

/// Tells when interfaces of a namespace have come, gone or changed.
pub struct LinkChanges(Events);

impl LinkChanges {
    /// Listens in `ns` from now on.
    ///
    /// # Errors
    /// As [`Links::open`].
    pub fn open(ns: &NetNs) -> Result<LinkChanges, Error> {
        ns.run(|| Events::open(LINKS))?.map(LinkChanges)
    }

    /// Whether anything has changed since the last call; returns at once.
    pub fn take(&self) -> bool {
        self.0.take()
    }
}

impl fmt::Debug for LinkChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkChanges")
    }
}

/// All interfaces of a namespace, by index.
///
/// # Errors
/// As [`Links::open`] and [`Links::read`].
pub fn links(ns: &NetNs) -> Result<Vec<LinkCounters>, Error> {
    Links::open(ns)?.read()
}

impl LinkCounters {
    pub(crate) fn from_message(message: LinkMessage) -> LinkCounters {
        let flags = message.header.flags;
        let mut link = LinkCounters {
            index: message.header.index,
            name: String::new(),
            kind: None,
            up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
            running: None,
            loopback: flags.contains(LinkFlags::Loopback),
            ethernet: matches!(message.header.link_layer_type, LinkLayerType::Ether | LinkLayerType::Loopback),
            promiscuous: flags.contains(LinkFlags::Promisc),
            mac: None,
            mtu: 0,
            master: None,
            lower: None,
            tx_queue_length: 0,
            qdisc: String::new(),
            xdp: false,
            statistics: LinkStatistics::default(),
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) => link.mac = <[u8; 6]>::try_from(bytes).ok().map(MacAddress),
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                LinkAttribute::OperState(State::Unknown) => link.running = None,
                LinkAttribute::OperState(state) => link.running = Some(state == State::Up),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::Controller(index) => link.master = Some(index),
                LinkAttribute::Link(index) => link.lower = Some(index),
                LinkAttribute::TxQueueLen(length) => link.tx_queue_length = length,
                LinkAttribute::Qdisc(name) => link.qdisc = name,
                LinkAttribute::Xdp(xdp) => link.xdp = attached(&xdp),
                LinkAttribute::Stats64(statistics) => link.statistics = statistics,
                _ => {}
            }
        }
        link
    }
}

fn attached(xdp: &[LinkXdp]) -> bool {
    xdp.iter().any(|xdp| matches!(xdp, LinkXdp::Attached(how) if *how != XdpAttached::None))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::net::UdpSocket;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    use super::*;
    use crate::links::{MacAddress, Netlink, VethEnd};
    use crate::sys::tests::open_tun;

    #[test]
    fn one_without_a_legible_name_hides_nobody() {
        let Some(ip) = weir_testbed::program("ip") else { return };
        let ns = NetNs::create().unwrap();
        let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
        let run = |words: &[&OsStr]| ns.run(|| Command::new(&ip).args(words).status().unwrap().success()).unwrap();
        let words = ["link", "add"].map(OsStr::new);
        let kind = ["type", "veth", "peer", "name", "good"].map(OsStr::new);
        assert!(run(&[&words[..], &[name(b"bad\xff")], &kind].concat()));
        // Its alias is nothing that is asked for.
        let alias = [name(b"link"), name(b"set"), name(b"good"), name(b"alias"), name(b"\xfe\xfe")];
        assert!(run(&alias));

        let seen = links(&ns).unwrap();
        let names: Vec<&str> = seen.iter().map(|link| link.name.as_str()).collect();
        let [_, good, bad] = &seen[..] else { panic!("{names:?}") };
        assert_eq!(names, ["lo", "good", "bad\\xff"]);
        assert_eq!((bad.kind.as_deref(), bad.lower, good.lower), (Some("veth"), Some(good.index), Some(bad.index)));
        assert_eq!(Links::open(&ns).unwrap().find(bad.index).unwrap().as_ref(), Some(bad));
        // As all others who ask for interfaces know it.
        let mut netlink = Netlink::open(&ns).unwrap();
        assert!(netlink.links().unwrap().iter().map(|link| &link.name).eq(names.iter()));
        assert!(netlink.snooping().unwrap().is_empty());
        let counted = crate::counters::Interfaces::open(&ns).unwrap().read().unwrap();
        assert!(counted.iter().any(|interface| interface.name == bad.name));
    }

    #[test]
    fn interfaces_tell_what_they_are_and_count() {
        let ns = NetNs::create().unwrap();
        let mut netlink = Netlink::open(&ns).unwrap();
        netlink.set_loopback_up().unwrap();
        let end = |name, mtu| VethEnd { ns: &ns, name, mac: MacAddress::local(mtu), mtu, queue_length: 77 };
        netlink.add_veth(&end("a", 1500), &end("b", 1400)).unwrap();
        let _tun = ns.run(|| open_tun("t")).unwrap();

        let mut links = Links::open(&ns).unwrap();
        let before = links.read().unwrap();
        let named = |name: &str| before.iter().find(|link| link.name == name).unwrap();
        let (lo, a, b, t) = (named("lo"), named("a"), named("b"), named("t"));
        assert!(lo.loopback && lo.up && lo.carrier && lo.kind.is_none());
        assert_eq!((a.kind.as_deref(), a.mtu, a.tx_queue_length, a.lower), (Some("veth"), 1500, 77, Some(b.index)));
        assert_eq!((b.mtu, b.lower, b.up, b.running), (1400, Some(a.index), false, Some(false)));
        assert_eq!((t.kind.as_deref(), t.xdp, t.master), (Some("tun"), false, None));
        assert_eq!(lo.qdisc, "noqueue");

        ns.run(|| {
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..7 {
                receiver.send_to(&[0; 100], receiver.local_addr().unwrap()).unwrap();
            }
        })
        .unwrap();
        let after = links.read().unwrap();
        let packets = after[0].statistics.rx_packets - lo.statistics.rx_packets;
        let bytes = after[0].statistics.tx_bytes - lo.statistics.tx_bytes;
        // The loopback interface counts without Ethernet's header.
        assert_eq!((packets, bytes), (7, 7 * (20 + 8 + 100)));
    }
}
