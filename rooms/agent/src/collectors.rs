//! Who is told: sockets, and what became of each datagram.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{MsgFlags, send};
use weir_dgram::{Options, Origin, Socket};
use weir_service::Target;
use weir_service::names::HostNames;

use crate::ledger::CollectorCount;

/// All collectors of the settings in force.
#[derive(Debug, Default)]
pub(crate) struct Collectors(Vec<Collector>);

#[derive(Debug)]
struct Collector {
    target: Target,
    /// What its name means now; `None`: nothing yet.
    address: Option<SocketAddr>,
    socket: Option<Socket>,
    /// Why there is no socket.
    closed: &'static str,
    count: CollectorCount,
}

impl Collectors {
    /// Goes over to these, of which those that stay keep sockets and counts.
    pub(crate) fn follow<'t>(&mut self, targets: impl IntoIterator<Item = &'t Target>, names: &HostNames) {
        let mut before = std::mem::take(&mut self.0);
        for target in targets {
            let kept = before.iter().position(|known| known.target == *target).map(|at| before.swap_remove(at));
            let mut collector = kept.unwrap_or_else(|| Collector::new(target.clone()));
            let address = names.addresses(target).first().copied();
            if address != collector.address {
                (collector.address, collector.socket) = (address, None);
            }
            collector.open();
            self.0.push(collector);
        }
    }

    /// Tries again what had no route, and hears what became of the last datagrams.
    pub(crate) fn reopen(&mut self) {
        for collector in &mut self.0 {
            collector.hear();
            collector.open();
        }
    }

    /// Sends a datagram to each.
    pub(crate) fn send(&mut self, datagram: &[u8]) {
        self.0.iter_mut().for_each(|collector| collector.send(datagram));
    }

    /// The address from which the first of them that can be reached is.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        let reached = self.0.iter().find_map(|collector| collector.socket.as_ref());
        Some(reached?.local_addr().ip())
    }

    /// Whether a datagram from there to there is one of ours.
    pub(crate) fn is_own(&self, from_port: u16, to: SocketAddr) -> bool {
        let is = |collector: &Collector| {
            let local = collector.socket.as_ref().map(Socket::local_addr);
            collector.address.is_some_and(|address| address.port() == to.port() && address.ip() == to.ip())
                && local.is_some_and(|local| local.port() == from_port)
        };
        self.0.iter().any(is)
    }

    pub(crate) fn counts(&self) -> Vec<CollectorCount> {
        self.0.iter().map(|collector| collector.count.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Collector {
    fn new(target: Target) -> Self {
        let count = CollectorCount { name: target.to_string(), ..CollectorCount::default() };
        Self { target, address: None, socket: None, closed: UNRESOLVED, count }
    }

    fn open(&mut self) {
        if self.socket.is_some() {
            return;
        }
        let Some(address) = self.address else {
            self.closed = UNRESOLVED;
            self.count.address = None;
            return;
        };
        self.count.address = Some(address.to_string());
        match Socket::connect(None, address, &Options { errors: true, ..Options::default() }) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => self.closed = error.source().and_then(<dyn Error>::downcast_ref).map_or(OTHER, reason),
        }
    }

    /// Counts anew the datagrams of which the network says that they did not arrive: the collector's machine, a router, or this
    /// one, where nobody answers for the next hop. An error of the queue is what a call tells, too, unless it is taken before.
    fn hear(&mut self) {
        let Some(socket) = &self.socket else { return };
        while let Ok(Some(report)) = socket.next_error() {
            if matches!(report.origin, Origin::Icmp | Origin::Icmp6) && self.count.sent > 0 {
                self.count.sent -= 1;
                drop_one(&mut self.count.dropped, reason(&io::Error::from_raw_os_error(report.errno)));
            }
        }
    }

    fn send(&mut self, datagram: &[u8]) {
        self.hear();
        let mut sent = self.try_send(datagram);
        if sent.is_err() {
            // It may be about one that was sent before, of which was told just now; this one was not sent.
            self.hear();
            sent = self.try_send(datagram);
        }
        let count = &mut self.count;
        count.datagrams += 1;
        match sent {
            Ok(()) => {
                count.sent += 1;
                count.bytes += datagram.len() as u64;
            }
            Err(reason) => {
                drop_one(&mut count.dropped, reason);
                if reason == UNREACHABLE && self.socket.is_some() {
                    // Another source address may be needed by now.
                    (self.socket, self.closed) = (None, reason);
                }
            }
        }
    }

    /// An error is the reason why it was not sent.
    fn try_send(&self, datagram: &[u8]) -> Result<(), &'static str> {
        let socket = self.socket.as_ref().ok_or(self.closed)?;
        send(socket.as_fd().as_raw_fd(), datagram, MsgFlags::MSG_DONTWAIT)
            .map(drop)
            .map_err(|errno| reason(&errno.into()))
    }
}

fn drop_one(dropped: &mut BTreeMap<&'static str, u64>, reason: &'static str) {
    *dropped.entry(reason).or_default() += 1;
}

fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => REFUSED,
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::InvalidInput => UNREACHABLE,
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => FULL,
        io::ErrorKind::PermissionDenied => FORBIDDEN,
        _ if error.raw_os_error() == Some(nix::libc::ENOBUFS) => FULL,
        _ => OTHER,
    }
}

const UNRESOLVED: &str = "unresolved";
const REFUSED: &str = "refused";
const UNREACHABLE: &str = "unreachable";
const FULL: &str = "buffer_full";
const FORBIDDEN: &str = "forbidden";
const OTHER: &str = "other";

/// What to do about each reason for which a datagram is dropped.
pub(crate) const REMEDIES: [(&str, &str); 6] = [
    (UNRESOLVED, "its name has no address: is it spelt right, and does the name server know it?"),
    (REFUSED, "nobody listens there: start the collector, or mend the port"),
    (UNREACHABLE, "there is no route, or nobody on it who answers: `ip route get` and `ip neigh` show how far it gets"),
    (FULL, "the send buffer or the interface's queue is full: `weir loss watch` tells which"),
    (FORBIDDEN, "a packet filter forbids it: `nft list ruleset`"),
    (OTHER, "the kernel refuses it"),
];

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_is_refused_is_counted_and_comes_back_by_itself() {
        let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = collector.local_addr().unwrap();
        let mut collectors = Collectors::default();
        let targets = [Target::Address(address), Target::Name("nowhere.example".into(), 6343)];
        collectors.follow(&targets, &HostNames::new([]));
        assert_eq!(collectors.source(), Some(address.ip()));
        collectors.send(b"one");
        drop(collector);
        (0..3).for_each(|_| collectors.send(b"two"));
        let collector = UdpSocket::bind(address).unwrap();
        collectors.send(b"three");
        collectors.send(b"three");
        let mut bytes = [0; 10];
        assert_eq!(collector.recv(&mut bytes).map(|length| bytes[..length].to_vec()).unwrap(), b"three");
        let counts = collectors.counts();
        for count in &counts {
            assert_eq!(count.datagrams, count.sent + count.dropped.values().sum::<u64>(), "{count:?}");
        }
        assert_eq!(counts[0].dropped.keys().collect::<Vec<_>>(), [&REFUSED]);
        assert_eq!((counts[1].sent, counts[1].dropped[UNRESOLVED]), (0, 6));
    }

    #[test]
    fn every_reason_has_a_remedy() {
        for kind in [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::WouldBlock,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::Other,
        ] {
            assert!(REMEDIES.iter().any(|(reason, _)| *reason == super::reason(&kind.into())));
        }
    }
}
