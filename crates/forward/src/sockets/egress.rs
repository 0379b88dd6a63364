//! The sockets of an outlet, one a worker.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use nix::libc;
use weir_dgram::{Error, Offload, Options, RawSender, Socket};
use weir_units::Size;

use crate::plan::Outlet;
use crate::settings;

/// The sockets of an outlet.
#[derive(Clone, Debug)]
pub(crate) struct EgressSockets {
    address: Option<SocketAddr>,
    settings: Arc<settings::Destination>,
    /// As [`Health::turns`](crate::health::Health::turns) was when they were opened.
    turns: u64,
    /// By worker.
    sockets: Vec<EgressSocket>,
}

/// The socket of one worker to one outlet.
#[derive(Clone, Debug)]
pub(crate) enum EgressSocket {
    /// There is no address yet.
    Unresolved,
    /// No socket could be opened, and why: no route, perhaps until an interface comes up.
    Closed(Arc<str>),
    /// One for each client, opened when it sends something, with these options.
    Sessions(Options),
    /// A connected socket.
    Connected(Arc<Socket>),
    /// A raw socket: finished packets, with the sender's own address.
    Raw(Arc<RawSender>),
}

impl EgressSockets {
    /// The same sockets for other settings. What they are to be given for them is added to `changed`: nothing changes
    /// before the plan takes over.
    pub(super) fn keep(&self, outlet: &Outlet, changed: &mut Vec<(Arc<Socket>, Options)>) -> Self {
        if let Some(to) = outlet.address
            && settable(&self.settings) != settable(&outlet.settings)
        {
            let sockets = self.sockets.iter().filter_map(|socket| match socket {
                EgressSocket::Connected(socket) => Some(Arc::clone(socket)),
                EgressSocket::Raw(_)
                | EgressSocket::Sessions(_)
                | EgressSocket::Unresolved
                | EgressSocket::Closed(_) => None,
            });
            changed.extend(sockets.map(|socket| (socket, options(&outlet.settings, to, self.sockets.len()))));
        }
        let mut kept = Self { settings: Arc::clone(&outlet.settings), ..self.clone() };
        if let Some(to) = outlet.address {
            for socket in &mut kept.sockets {
                if let EgressSocket::Sessions(asked) = socket {
                    *asked = options(&outlet.settings, to, self.sockets.len());
                }
            }
        }
        kept
    }

    /// As [`Outlet::key`].
    pub(super) fn key(&self) -> (&str, Option<SocketAddr>) {
        (&self.settings.name, self.address)
    }

    /// The socket of a worker.
    pub(crate) fn of_worker(&self, worker: usize) -> EgressSocket {
        self.sockets[worker].clone()
    }

    /// Why there are none; `None`: there are.
    pub(super) fn closed(&self) -> Option<&str> {
        match self.sockets.first() {
            Some(EgressSocket::Closed(why)) => Some(why),
            _ => None,
        }
    }

    /// Why sends are not joined; `None`: they are.
    pub(crate) fn not_joined(&self) -> Option<String> {
        self.sockets.iter().find_map(|socket| match socket {
            EgressSocket::Connected(socket) => match socket.granted().gso {
                Offload::Active => None,
                Offload::Below(size, why) => Some(format!("from {size} bytes on: {why}")),
                Offload::Off(why) => Some(why),
            },
            EgressSocket::Raw(_) => Some("source addresses are kept".to_owned()),
            EgressSocket::Sessions(_) => Some("each client has a socket of its own".to_owned()),
            EgressSocket::Unresolved | EgressSocket::Closed(_) => None,
        })
    }

    /// Whether the sockets can go on for this outlet, with other options perhaps: another source port would be another
    /// sender to who receives. Without any, they are to be tried anew.
    pub(super) fn serves(&self, outlet: &Outlet) -> bool {
        let fixed = |settings: &settings::Destination| {
            let settings::Destination { source, from, interface, replies, .. } = settings;
            // Of a raw socket nobody sees that it is another.
            let raw = source.is_preserved().then(|| settable(settings));
            (raw, *from, interface.clone(), *replies)
        };
        outlet.key() == self.key()
            && fixed(&self.settings) == fixed(&outlet.settings)
            && !self.sockets.iter().any(|socket| matches!(socket, EgressSocket::Closed(_)))
            && !self.are_stale(outlet)
    }

    /// Whether the destination has died or come back since they were opened, and they can have another port: address translation
    /// (a Kubernetes service) keeps a flow with the pod that it has chosen first, dead or not.
    pub(super) fn are_stale(&self, outlet: &Outlet) -> bool {
        self.turns != outlet.health.turns()
            && self.settings.local().is_none_or(|from| from.port() == 0)
            && matches!(self.sockets[..], [EgressSocket::Connected(_), ..])
    }

    pub(super) fn open(outlet: &Outlet, workers: usize) -> Result<Self, Error> {
        let (mut sockets, turns) = (Vec::new(), outlet.health.turns());
        for _ in 0..workers {
            let socket = match outlet.address {
                None => Ok(EgressSocket::Unresolved),
                Some(to) => EgressSocket::open(to, outlet, workers),
            };
            match socket {
                Ok(socket) => sockets.push(socket),
                Err(error) if is_passing(&error, outlet.settings.local()) => {
                    sockets = vec![EgressSocket::Closed(error.to_string().into()); workers];
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { address: outlet.address, settings: Arc::clone(&outlet.settings), turns, sockets })
    }
}

impl EgressSocket {
    fn open(to: SocketAddr, outlet: &Outlet, workers: usize) -> Result<Self, Error> {
        let settings = &outlet.settings;
        let options = options(settings, to, workers);
        if settings.source.is_preserved() {
            return Ok(Self::Raw(Arc::new(RawSender::open(to, &options)?)));
        }
        let socket = Socket::connect(settings.local(), to, &options)?;
        if settings.replies {
            // It was a try.
            return Ok(Self::Sessions(options));
        }
        // Answers are of no use here: they would only lie in the socket's memory.
        let _ = socket.close_intake();
        Ok(Self::Connected(Arc::new(socket)))
    }
}

/// What the sockets of a destination are asked for.
fn options(settings: &settings::Destination, to: SocketAddr, workers: usize) -> Options {
    let multicast = to.ip().is_multicast();
    let has_own_port = settings.local().is_some_and(|from| from.port() != 0);
    Options {
        interface: settings.interface.clone(),
        reuse_port: workers > 1 && has_own_port,
        reuse_address: has_own_port,
        send_buffer: settings::buffer(settings.send_buffer),
        gso: true,
        errors: true,
        ttl: settings.ttl,
        dscp: settings.dscp,
        multicast_ttl: settings.ttl.filter(|_| multicast),
        multicast_loop: settings.loopback.filter(|_| multicast),
        multicast_interface: settings.interface.clone().filter(|_| multicast),
        broadcast: true,
        fragment: true,
        ..Options::default()
    }
}

/// What a socket in use can be given anew ([`Socket::set_outgoing`]).
fn settable(settings: &settings::Destination) -> (Option<u8>, Option<u8>, Option<bool>, Size) {
    let settings::Destination { ttl, dscp, loopback, send_buffer, .. } = settings;
    (*ttl, *dscp, *loopback, *send_buffer)
}

/// Whether opening may succeed later, when the network is another. One destination that cannot be reached, or not in this
/// family of addresses, is no reason to let the others wait.
fn is_passing(error: &Error, from: Option<SocketAddr>) -> bool {
    match error.answer().and_then(io::Error::raw_os_error) {
        // No route or interface is up; a route says `prohibit`; IPv6 is switched off (disable_ipv6).
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => {
            matches!(error, Error::Connect { .. } | Error::Raw { .. })
        }
        Some(libc::EACCES | libc::EPERM | libc::EADDRNOTAVAIL) => matches!(error, Error::Connect { .. }),
        // A route says `blackhole`. From loopback it is a mistake of the settings instead.
        Some(libc::EINVAL) => {
            matches!(error, Error::Connect { .. }) && !from.is_some_and(|from| from.ip().is_loopback())
        }
        // The kernel has no IPv6 (ipv6.disable=1).
        Some(libc::EAFNOSUPPORT) => matches!(error, Error::Open { .. } | Error::Raw { .. }),
        _ => false,
    }
}
