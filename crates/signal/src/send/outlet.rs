//! Where datagrams go.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_dgram::{Address, Options, Outgoing, Socket};
use weir_program::stop::Stop;
use weir_wire::signal::{MOST_BYTES_V4, MOST_BYTES_V6};

use super::pace::Pace;

/// Takes datagrams.
pub trait Outlet {
    /// Whether it is on its way: to one place at least, where there are several.
    fn send(&mut self, datagram: &[u8]) -> bool;

    /// Datagrams a second that are to be expected.
    fn expect(&mut self, _per_s: f64) {}
}

/// A place that datagrams are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Group or host.
    pub address: SocketAddr,
    /// The interface to send through; `None`: where a route leads.
    pub interface: Option<String>,
}

/// `239.192.77.1:5110 through eth0`.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{} through {interface}", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// Places that get the same bytes, evenly spaced.
#[derive(Debug)]
pub struct Outlets {
    all: Vec<Place>,
    pace: Pace,
}

/// What became of datagrams for a place.
#[derive(Clone, Debug, Default)]
pub struct OutletCount {
    /// Address, and interface.
    pub to: String,
    /// Datagrams for it.
    pub datagrams: u64,
    /// Datagrams given to the network.
    pub sent: u64,
    /// Payload bytes given to the network.
    pub bytes: u64,
    /// Datagrams that the kernel did not take, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Place {
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
    pub fn open(groups: &[Group], ttl: u8, dscp: u8) -> Result<Self> {
        let open = |group: &Group| {
            let is_group = group.address.ip().is_multicast();
            let options = Options {
                send_buffer: Some(SEND_BUFFER),
                // Tells of datagrams that the queue of an interface drops.
                errors: true,
                broadcast: true,
                dscp: (dscp != 0).then_some(dscp),
                multicast_ttl: is_group.then_some(ttl),
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
            Ok(Place { socket, to: group.address.into(), count, works: true })
        };
        Ok(Self { all: groups.iter().map(open).collect::<Result<_>>()?, pace: Pace::new(LEAST_PACE) })
    }

    /// Most bytes of a datagram that is fragmented on no way.
    pub fn most_bytes(to: impl IntoIterator<Item = SocketAddr>) -> usize {
        if to.into_iter().all(|to| to.is_ipv4()) { MOST_BYTES_V4 } else { MOST_BYTES_V6 }
    }

    /// Reports on earlier datagrams would fail the next one.
    pub fn clear_errors(&self) {
        self.all.iter().for_each(|place| while matches!(place.socket.next_error(), Ok(Some(_))) {});
    }

    /// What became of datagrams, by place.
    pub fn counts(&self) -> Vec<OutletCount> {
        self.all.iter().map(|place| place.count.clone()).collect()
    }
}

impl Outlet for Outlets {
    fn send(&mut self, datagram: &[u8]) -> bool {
        self.pace.wait();
        self.all.iter_mut().fold(false, |taken, place| place.send(datagram) | taken)
    }

    fn expect(&mut self, per_s: f64) {
        self.pace.set(LEAST_PACE + 2.0 * per_s);
    }
}

/// One place, over a connected socket that is waited for while it has no room.
#[derive(Debug)]
pub struct Patient<'a> {
    socket: &'a Socket,
    stop: &'a Stop,
    /// Why the last datagram that was not taken was not.
    pub failed: Option<io::Error>,
}

impl<'a> Patient<'a> {
    /// Over this socket, until the stop is set.
    pub fn new(socket: &'a Socket, stop: &'a Stop) -> Self {
        Self { socket, stop, failed: None }
    }
}

impl Outlet for Patient<'_> {
    fn send(&mut self, datagram: &[u8]) -> bool {
        let pieces = [IoSlice::new(datagram)];
        loop {
            match self.socket.send(&[Outgoing { pieces: &pieces, segment: None, to: None }]).error {
                None => return true,
                Some(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.stop.wait(Instant::now() + Duration::from_millis(1)) {
                        return false;
                    }
                }
                failed => {
                    self.failed = failed;
                    return false;
                }
            }
        }
    }
}

impl Place {
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

/// Why the kernel did not take a datagram.
fn reason(error: &io::Error) -> &'static str {
    let code = error.raw_os_error().unwrap_or(0);
    REASONS.iter().find(|(codes, ..)| codes.contains(&code)).map_or("other", |(_, reason, _)| reason)
}

/// Errors, the reason as metrics call it, and what to do about it.
pub const REASONS: [(&[i32], &str, &str); 5] = [
    (
        &[libc::EAGAIN, libc::ENOBUFS],
        QUEUE_FULL,
        "the queue of the interface is full: send less, or raise its txqueuelen",
    ),
    (
        &[libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ENETDOWN, libc::ENODEV, libc::EADDRNOTAVAIL],
        "no_route",
        "no route leads there: name the interface, or add a route",
    ),
    (&[libc::EPERM, libc::EACCES], "firewall", "a firewall of this machine refuses it"),
    (&[libc::EMSGSIZE], "too_long", "the MTU of the interface is below 1,500 bytes: set `most_bytes`"),
    (&[], "other", "see the kernel's log"),
];

const QUEUE_FULL: &str = "queue_full";

const ATTEMPTS: u32 = 3;

/// Some 500 datagrams.
const SEND_BUFFER: usize = 1 << 20;

/// Datagrams a second that are never too many: a hundredth of what 1 Gbit/s carries.
const LEAST_PACE: f64 = 2000.0;
