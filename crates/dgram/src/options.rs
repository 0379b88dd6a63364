//! What a socket is asked for, and the calls that ask: socket(7), ip(7), ipv6(7).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use libc::c_int;

use crate::Error;
use crate::sys::option::{interface_index, set, set_multicast_interface_v4};
use crate::sys::{SO_RXQ_OVFL, SO_TIMESTAMPNS};

/// What a socket is asked for. By default: nothing special.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The only interface to receive from and to send through (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// Lets several sockets bind a multicast address, or a port in different ways (SO_REUSEADDR).
    pub reuse_address: bool,
    /// Shares the address with other such sockets of the same user, which get a part each (SO_REUSEPORT).
    pub reuse_port: bool,
    /// A socket bound to `[::]` does not receive IPv4 too (IPV6_V6ONLY).
    pub only_v6: bool,
    /// Receive buffer, bytes (SO_RCVBUF; SO_RCVBUFFORCE where privileged); `None`: the kernel's default.
    pub receive_buffer: Option<usize>,
    /// Send buffer, likewise.
    pub send_buffer: Option<usize>,
    /// Lets the kernel join datagrams into runs: [`Received::segment`](crate::Received) (UDP_GRO).
    pub gro: bool,
    /// Lets the kernel cut what [`Outgoing::segment`](crate::Outgoing) says (UDP_SEGMENT).
    pub gso: bool,
    /// Arrival times: [`Received::arrival`](crate::Received) (SO_TIMESTAMPNS).
    pub timestamps: bool,
    /// The count of drops with every datagram: [`Received::socket_drops`](crate::Received) (SO_RXQ_OVFL).
    pub count_drops: bool,
    /// Destination and interface: [`Received::local`](crate::Received), [`Received::to_all`](crate::Received)
    /// (IP_PKTINFO, IPV6_RECVPKTINFO).
    pub local_address: bool,
    /// TTL or hop limit with which it came: [`Received::hops`](crate::Received) (IP_RECVTTL, IPV6_RECVHOPLIMIT).
    pub hops: bool,
    /// What the network reports about datagrams sent: [`Socket::next_error`](crate::Socket::next_error) (IP_RECVERR).
    /// The kernel then tells of datagrams that an interface's queue has dropped, too: ENOBUFS.
    pub errors: bool,
    /// TTL or hop limit of unicast packets; `None`: the kernel's default.
    pub ttl: Option<u8>,
    /// Differentiated services code point, 0 to 63 (RFC 2474); `None`: 0.
    pub dscp: Option<u8>,
    /// TTL or hop limit of multicast packets; `None`: 1.
    pub multicast_ttl: Option<u8>,
    /// Whether receivers on this machine get what it sends to groups; `None`: they do.
    pub multicast_loop: Option<bool>,
    /// The interface to send to groups through; `None`: where a route leads.
    pub multicast_interface: Option<String>,
    /// Allows sending to broadcast addresses.
    pub broadcast: bool,
    /// Lets [`Inbox::take`](crate::Inbox::take) sleep in the very call that receives, for so long at most (SO_RCVTIMEO; the
    /// kernel rounds up to its ticks). `None`: it returns at once.
    pub wait: Option<Duration>,
    /// Datagrams above the path's MTU are fragmented, never refused or lost: no path MTU discovery (IP_PMTUDISC_DONT).
    pub fragment: bool,
}

impl Options {
    /// Asks for everything that has to be there before the socket is bound, and all else but buffers and offloads.
    pub(crate) fn apply(&self, socket: BorrowedFd<'_>, v6: bool) -> Result<(), Error> {
        let ask = Ask { socket, v6 };
        ask.flag("SO_REUSEADDR", (libc::SOL_SOCKET, libc::SO_REUSEADDR), self.reuse_address)?;
        ask.flag("SO_REUSEPORT", (libc::SOL_SOCKET, libc::SO_REUSEPORT), self.reuse_port)?;
        if v6 {
            // Said in both cases: the sysctl net.ipv6.bindv6only may have turned it round.
            ask.number("IPV6_V6ONLY", (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), self.only_v6.into())?;
        }
        self.apply_bound(socket, v6)
    }

    /// Asks for what a bound socket can still be asked for.
    pub(crate) fn apply_bound(&self, socket: BorrowedFd<'_>, v6: bool) -> Result<(), Error> {
        let ask = Ask { socket, v6 };
        if let Some(name) = &self.interface {
            ask.device(name)?;
        }
        ask.flag("SO_TIMESTAMPNS", (libc::SOL_SOCKET, SO_TIMESTAMPNS), self.timestamps)?;
        ask.flag("SO_RXQ_OVFL", (libc::SOL_SOCKET, SO_RXQ_OVFL), self.count_drops)?;
        ask.flag("SO_BROADCAST", (libc::SOL_SOCKET, libc::SO_BROADCAST), self.broadcast)?;
        ask.ip_flag("PKTINFO", libc::IP_PKTINFO, libc::IPV6_RECVPKTINFO, self.local_address)?;
        // What IPv4 brings to a socket of both families: IPv6's message does not tell that it was broadcast.
        ask.flag("IP_PKTINFO", (libc::IPPROTO_IP, libc::IP_PKTINFO), self.local_address && v6)?;
        ask.ip_flag("RECVTTL", libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT, self.hops)?;
        ask.flag("IP_RECVTTL", (libc::IPPROTO_IP, libc::IP_RECVTTL), self.hops && v6)?;
        ask.ip_flag("RECVERR", libc::IP_RECVERR, libc::IPV6_RECVERR, self.errors)?;
        ask.ip("TTL", libc::IP_TTL, libc::IPV6_UNICAST_HOPS, self.ttl.map(c_int::from))?;
        ask.ip("TOS", libc::IP_TOS, libc::IPV6_TCLASS, self.dscp.map(|dscp| c_int::from(dscp & 63) << 2))?;
        let hops = self.multicast_ttl.map(c_int::from);
        ask.ip("MULTICAST_TTL", libc::IP_MULTICAST_TTL, libc::IPV6_MULTICAST_HOPS, hops)?;
        let heard = self.multicast_loop.map(c_int::from);
        ask.ip("MULTICAST_LOOP", libc::IP_MULTICAST_LOOP, libc::IPV6_MULTICAST_LOOP, heard)?;
        if let Some(name) = &self.multicast_interface {
            ask.multicast_interface(name)?;
        }
        let discovery = self.fragment.then_some(libc::IP_PMTUDISC_DONT);
        ask.ip("MTU_DISCOVER", libc::IP_MTU_DISCOVER, libc::IPV6_MTU_DISCOVER, discovery)
    }

    /// Asks for what a socket in use can be given anew on its way out; what is open goes back to the default.
    pub(crate) fn apply_anew(&self, socket: BorrowedFd<'_>, v6: bool) -> Result<(), Error> {
        let ask = Ask { socket, v6 };
        let ttl = self.ttl.map_or(DEFAULT, c_int::from);
        ask.ip("TTL", libc::IP_TTL, libc::IPV6_UNICAST_HOPS, Some(ttl))?;
        let class = self.dscp.map_or(0, |dscp| c_int::from(dscp & 63) << 2);
        ask.ip("TOS", libc::IP_TOS, libc::IPV6_TCLASS, Some(class))?;
        let hops = self.multicast_ttl.map_or(DEFAULT, c_int::from);
        ask.ip("MULTICAST_TTL", libc::IP_MULTICAST_TTL, libc::IPV6_MULTICAST_HOPS, Some(hops))?;
        let heard = self.multicast_loop.map_or(1, c_int::from);
        ask.ip("MULTICAST_LOOP", libc::IP_MULTICAST_LOOP, libc::IPV6_MULTICAST_LOOP, Some(heard))
    }
}

/// A TTL or hop limit that asks for the kernel's default: ip(7), ipv6(7).
const DEFAULT: c_int = -1;

/// A socket to ask.
pub(crate) struct Ask<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) v6: bool,
}

impl Ask<'_> {
    fn number(&self, name: &'static str, (level, option): (c_int, c_int), value: c_int) -> Result<(), Error> {
        let failed = |source| Error::Option { option: name, value: value.to_string(), source };
        set(self.socket, level, option, value).map_err(failed)
    }

    /// Asks only for what is wanted: what is not is the default.
    fn flag(&self, name: &'static str, which: (c_int, c_int), wanted: bool) -> Result<(), Error> {
        if wanted { self.number(name, which, 1) } else { Ok(()) }
    }

    /// An option that both families have, by different numbers.
    fn ip(&self, name: &'static str, v4: c_int, v6: c_int, value: Option<c_int>) -> Result<(), Error> {
        let Some(value) = value else { return Ok(()) };
        let which = if self.v6 { (libc::IPPROTO_IPV6, v6) } else { (libc::IPPROTO_IP, v4) };
        self.number(name, which, value)
    }

    fn ip_flag(&self, name: &'static str, v4: c_int, v6: c_int, wanted: bool) -> Result<(), Error> {
        self.ip(name, v4, v6, wanted.then_some(1))
    }

    fn device(&self, name: &str) -> Result<(), Error> {
        let failed = |source| Error::Option { option: "SO_BINDTODEVICE", value: name.to_owned(), source };
        let socket = socket2::SockRef::from(&self.socket);
        // Once more to the same would need CAP_NET_RAW.
        if socket.device().is_ok_and(|device| device.as_deref() == Some(name.as_bytes())) {
            return Ok(());
        }
        socket.bind_device(Some(name.as_bytes())).map_err(failed)
    }

    pub(crate) fn multicast_interface(&self, name: &str) -> Result<(), Error> {
        let failed = |source| Error::Interface { name: name.to_owned(), source };
        let index = interface_index(self.socket, name).map_err(failed)?;
        let failed = |source| Error::Option { option: "MULTICAST_IF", value: name.to_owned(), source };
        if self.v6 {
            set(self.socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, index as c_int).map_err(failed)
        } else {
            set_multicast_interface_v4(self.socket, index).map_err(failed)
        }
    }
}
