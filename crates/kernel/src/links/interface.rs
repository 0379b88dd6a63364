//! Interfaces: make, find, join, set up.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage, State,
};
use nix::errno::Errno;

use super::{Index, LinkStatistics, MacAddress, Netlink};
use crate::Error;
use crate::error::During;
use crate::namespaces::NetNs;
use crate::netlink::{Events, LINK_CHANGES};

/// One end of a veth pair to be made.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Where the end lives.
    pub ns: &'a NetNs,
    /// Interface name, 1 to 15 bytes, unique in its namespace.
    pub name: &'a str,
    /// Ethernet address.
    pub mac: MacAddress,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Packets that may wait in a queueing discipline; veth has none unless one is attached.
    pub queue_length: u32,
}

/// An interface as the kernel describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its number in its namespace.
    pub index: Index,
    /// Its name.
    pub name: String,
    /// Ethernet address; `None` for other kinds of interface.
    pub mac: Option<MacAddress>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Whether it is set up (IFF_UP).
    pub up: bool,
    /// Whether the other end is up, too (IFF_LOWER_UP).
    pub carrier: bool,
    /// Whether it is in operation (IFLA_OPERSTATE is up): a while after both ends are up, see
    /// [`Netlink::wait_until_running`]. IFF_RUNNING would not do, it is also set while the state is unknown.
    pub running: bool,
    /// The bridge it belongs to.
    pub bridge: Option<Index>,
    /// Its counters (IFLA_STATS64).
    pub statistics: LinkStatistics,
}

impl Netlink {
    /// Makes a pair of interfaces joined back to back, each in its own namespace, with one queue, both down. The
    /// request may come from any namespace of the same privilege.
    ///
    /// # Errors
    /// If a name is taken or not valid, or without privilege over either namespace.
    pub fn add_veth(&mut self, a: &VethEnd<'_>, b: &VethEnd<'_>) -> Result<(), Error> {
        let operation = || format!("create veth pair {} - {}", a.name, b.name);
        for end in [a, b] {
            check_name(end.name, operation)?;
        }
        let mut message = veth_end(a);
        let peer = InfoData::Veth(InfoVeth::Peer(veth_end(b)));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(peer)]));
        self.socket.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, operation)
    }

    /// Finds an interface by name, with its counters.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn link(&mut self, name: &str) -> Result<Link, Error> {
        let operation = || format!("find interface {name}");
        check_name(name, operation)?;
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.into())];
        match self.socket.get(RouteNetlinkMessage::GetLink(message), operation)? {
            RouteNetlinkMessage::NewLink(message) => Ok(Link::from_message(message)),
            other => Err(Error::answer(operation(), format!("unexpected answer of the kernel: {other:?}"))),
        }
    }

    /// All interfaces of the namespace, by index.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.socket.list(request, || "list interfaces")?;
        let mut links: Vec<Link> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(message) => Some(Link::from_message(message)),
                _ => None,
            })
            .collect();
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// Sets an interface up.
    ///
    /// # Errors
    /// If there is none of that index.
    pub fn set_up(&mut self, index: Index) -> Result<(), Error> {
        self.set_flags(index, LinkFlags::Up, || format!("set interface {index} up"))
    }

    /// Waits until an interface carries packets and all its addresses receive. When the second end of a pair is set up,
    /// the kernel puts both into operation in the background (net/core/link_watch.c), and until then drops what is
    /// sent; a bridge forwards as late, and so do IPv6 addresses begin to receive (net/ipv6/addrconf.c,
    /// addrconf_dad_work). So set up everything, then wait for every end.
    ///
    /// # Errors
    /// If there is no interface of that name, or it does not run within 10 s: its other end is down.
    pub fn wait_until_running(&mut self, name: &str) -> Result<(), Error> {
        if self.is_ready(name)? {
            return Ok(());
        }
        let operation = || format!("wait until interface {name} runs");
        let deadline = Instant::now() + PATIENCE;
        let events = self.ns.run(|| Events::open(LINK_CHANGES))??;
        while !self.is_ready(name)? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::ETIMEDOUT).during(operation);
            }
            events.wait(left)?;
        }
        Ok(())
    }

    fn is_ready(&mut self, name: &str) -> Result<bool, Error> {
        let link = self.link(name)?;
        Ok(link.running && self.receives_at_all_addresses(link.index)?)
    }

    /// Sets an interface down; its routes and IPv6 addresses go.
    ///
    /// # Errors
    /// If there is none of that index.
    pub fn set_down(&mut self, index: Index) -> Result<(), Error> {
        self.set_flags(index, LinkFlags::empty(), || format!("set interface {index} down"))
    }

    /// Sets the loopback interface up, with 127.0.0.1 and ::1.
    ///
    /// # Errors
    /// Without privilege over the namespace.
    pub fn set_loopback_up(&mut self) -> Result<(), Error> {
        self.set_flags(LOOPBACK, LinkFlags::Up, || "set the loopback interface up".into())
    }

    /// Keeps an interface from giving itself a link-local address when it is set up, so that nothing is announced or
    /// solicited. Must come before [`Netlink::set_up`]. Without IPv6 in the kernel there is nothing to do.
    ///
    /// # Errors
    /// If there is no interface of that index.
    pub fn set_no_link_local(&mut self, index: Index) -> Result<(), Error> {
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        let mut message = about(index);
        message.attributes = vec![LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])])];
        let operation = || format!("switch off automatic addresses of interface {index}");
        match self.socket.change(RouteNetlinkMessage::SetLink(message), 0, operation) {
            Err(error) if matches!(error.errno(), Some(Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP)) => Ok(()),
            result => result,
        }
    }

    fn set_flags(&mut self, index: Index, flags: LinkFlags, operation: impl Fn() -> String) -> Result<(), Error> {
        let mut message = about(index);
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        self.socket.change(RouteNetlinkMessage::SetLink(message), 0, operation)
    }
}

impl Link {
    fn from_message(message: LinkMessage) -> Link {
        let flags = message.header.flags;
        let mut link = Link {
            index: message.header.index,
            name: String::new(),
            mac: None,
            mtu: 0,
            up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
            running: false,
            bridge: None,
            statistics: LinkStatistics::default(),
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) => link.mac = <[u8; 6]>::try_from(bytes).ok().map(MacAddress),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::Controller(index) => link.bridge = Some(index),
                LinkAttribute::OperState(state) => link.running = state == State::Up,
                LinkAttribute::Stats64(statistics) => link.statistics = statistics,
                _ => {}
            }
        }
        link
    }
}

fn veth_end(end: &VethEnd<'_>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(end.name.into()),
        LinkAttribute::NetNsFd(end.ns.as_fd().as_raw_fd()),
        LinkAttribute::Address(end.mac.0.to_vec()),
        LinkAttribute::Mtu(end.mtu),
        LinkAttribute::TxQueueLen(end.queue_length),
        LinkAttribute::NumTxQueues(1),
        LinkAttribute::NumRxQueues(1),
    ];
    message
}

pub(super) fn about(index: Index) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

/// What the kernel asks of a name (net/core/dev.c, dev_valid_name), said more clearly than by its EINVAL or ERANGE.
pub(super) fn check_name(name: &str, operation: impl Fn() -> String) -> Result<(), Error> {
    let fits = (1..=NAME_LENGTH).contains(&name.len());
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':');
    if fits && printable && name != "." && name != ".." {
        return Ok(());
    }
    let detail = format!("an interface name has 1 to {NAME_LENGTH} letters, digits or -._, not {name:?}");
    Err(Error::answer(operation(), detail))
}

/// The loopback interface is the first of every namespace (net/core/net_namespace.c).
const LOOPBACK: Index = 1;

/// The kernel lets a second pass between two rounds of link events, at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// IFNAMSIZ without the closing zero.
const NAME_LENGTH: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |name| check_name(name, || "create bridge".into());
        assert_eq!(check("eth0"), Ok(()));
        assert_eq!(check("abcdefghijklmno"), Ok(()));
        for bad in ["", "abcdefghijklmnop", "a b", "a/b", "a:b", ".", "..", "ä"] {
            assert!(check(bad).unwrap_err().to_string().ends_with(&format!("not {bad:?}")));
        }
    }
}
