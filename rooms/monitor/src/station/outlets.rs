//! Where a stream goes: one group, or two that get the same bytes.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use weir_dgram::{Address, Options, Outgoing, Socket};
use weir_wire::signal::{MOST_BYTES_V4, MOST_BYTES_V6};

use super::ledger::OutletCount;
use super::settings::{Group, Settings};

/// The destinations of a stream.
#[derive(Debug)]
pub(super) struct Outlets(Vec<Outlet>);

#[derive(Debug)]
struct Outlet {
    socket: Socket,
    to: Address,
    count: OutletCount,
    /// Whether it took the last datagram: whoever fails again and again is not waited for.
    works: bool,
}

impl Outlets {
    /// Opens a socket for each.
    ///
    /// # Errors
    /// One line: there is no such interface, an option is refused.
    pub(super) fn open(groups: &[Group], settings: &Settings) -> Result<Self> {
        let open = |group: &Group| {
            let is_group = group.address.ip().is_multicast();
            let options = Options {
                send_buffer: Some(SEND_BUFFER),
                // Tells of datagrams that the queue of an interface drops.
                errors: true,
                broadcast: true,
                dscp: (settings.dscp != 0).then_some(settings.dscp),
                multicast_ttl: is_group.then_some(settings.ttl),
                multicast_interface: group.interface.clone().filter(|_| is_group),
                interface: group.interface.clone().filter(|_| !is_group),
                ..Options::default()
            };
            let any: IpAddr = match group.address {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = Socket::bind(SocketAddr::new(any, 0), &options).with_context(|| format!("to {group}"))?;
            let count = OutletCount { to: group.to_string(), ..OutletCount::default() };
            Ok(Outlet { socket, to: group.address.into(), count, works: true })
        };
        groups.iter().map(open).collect::<Result<_>>().map(Self)
    }

    /// Most bytes of a datagram that is fragmented on no way.
    pub(super) fn most_bytes(groups: &[Group]) -> usize {
        if groups.iter().all(|group| group.address.is_ipv4()) { MOST_BYTES_V4 } else { MOST_BYTES_V6 }
    }

    /// Sends the same bytes to each; whether at least one took them.
    pub(super) fn send(&mut self, datagram: &[u8]) -> bool {
        self.0.iter_mut().fold(false, |taken, outlet| outlet.send(datagram) | taken)
    }

    /// Reports on earlier datagrams would fail the next one.
    pub(super) fn clear_errors(&self) {
        self.0.iter().for_each(|outlet| while matches!(outlet.socket.next_error(), Ok(Some(_))) {});
    }

    pub(super) fn counts(&self) -> Vec<OutletCount> {
        self.0.iter().map(|outlet| outlet.count.clone()).collect()
    }
}

impl Outlet {
    fn send(&mut self, datagram: &[u8]) -> bool {
        self.count.datagrams += 1;
        for attempt in 0.. {
            let pieces = [IoSlice::new(datagram)];
            let sent = self.socket.send(&[Outgoing { pieces: &pieces, segment: None, to: Some(&self.to) }]);
            let Some(error) = sent.error else {
                self.count.sent += 1;
                self.count.bytes += datagram.len() as u64;
                self.works = true;
                return true;
            };
            // A queue is full for a moment: it is waited for, shorter than a datagram may be late.
            let reason = reason(&error);
            if reason == QUEUE_FULL && self.works && attempt < ATTEMPTS {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            *self.count.dropped.entry(reason).or_default() += 1;
            self.works = false;
            break;
        }
        false
    }
}

/// Why the kernel did not take a datagram, as metrics call it.
fn reason(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS) => QUEUE_FULL,
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::ENODEV | libc::EADDRNOTAVAIL) => NO_ROUTE,
        Some(libc::EPERM | libc::EACCES) => FIREWALL,
        Some(libc::EMSGSIZE) => TOO_LONG,
        _ => OTHER,
    }
}

/// Each reason, and what to do about it.
pub(super) const REMEDIES: [(&str, &str); 5] = [
    (QUEUE_FULL, "the queue of the interface is full: send less, or raise its txqueuelen"),
    (NO_ROUTE, "no route leads there: name the interface, or add a route"),
    (FIREWALL, "a firewall of this machine refuses it"),
    (TOO_LONG, "the MTU of the interface is below 1,500 bytes: set `most_bytes`"),
    (OTHER, "see the kernel's log"),
];

const QUEUE_FULL: &str = "queue_full";
const NO_ROUTE: &str = "no_route";
const FIREWALL: &str = "firewall";
const TOO_LONG: &str = "too_long";
const OTHER: &str = "other";

const ATTEMPTS: u32 = 3;

/// Some 500 datagrams.
const SEND_BUFFER: usize = 1 << 20;

/// Of a count of reasons, the sum.
pub(super) fn dropped(count: &BTreeMap<&'static str, u64>) -> u64 {
    count.values().sum()
}
