//! The sockets of a plan: opened before anything is handed over, so that a plan that cannot be carried out changes
//! nothing.
//!
//! What a plan has in common with the one before keeps its sockets: no datagram in their queues is lost. A listener has
//! one socket a worker (SO_REUSEPORT: the kernel spreads flows over them), an outlet one a worker.
//!
//! The kernel spreads unicast only: what goes to all, broadcast and multicast, *every* socket of a listener gets. The
//! first worker takes it, the others are told which it is (IP_PKTINFO) and leave it. A filter in their place would count
//! each as dropped at the socket. A listener that joins groups has but one socket: IP_MULTICAST_ALL, without which it
//! would hear those of other programs, keeps them from the other sockets, and then Linux 6.18 hands the one member's to
//! any of them (udp_v4_early_demux finds it, inet_steal_sock chooses anew among its SO_REUSEPORT group).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::libc;
use socket2::SockRef;
use weir_dgram::{Error, Granted, Membership, Offload, Options, RawSender, Socket};

use crate::plan::{Listener, Outlet, Plan};
use crate::settings::{self, Source};

/// Every socket of a plan.
#[derive(Debug)]
pub struct Sockets {
    /// By the plan's listeners.
    pub(super) listeners: Vec<Intake>,
    /// By the plan's outlets, of each one a worker.
    pub(super) outlets: Vec<Exit>,
    /// Memberships that are joined already and not part of the plan any more: left when the plan takes over.
    outdated: Vec<(Arc<Socket>, Membership)>,
    /// Sockets of listeners that are to have but one from now on.
    surplus: Vec<Arc<Socket>>,
}

/// The sockets of a listener.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    settings: settings::Listener,
    wants_local: bool,
    /// By worker; `None`: the worker has none, for the socket was handed to us and exists once, or must exist once.
    pub(super) sockets: Vec<Option<Arc<Socket>>>,
    /// Whether it was handed to us: others hold it, too, and will go on with it.
    pub(super) lasting: bool,
}

/// The sockets of an outlet.
#[derive(Clone, Debug)]
pub(super) struct Exit {
    address: Option<SocketAddr>,
    settings: Arc<settings::Destination>,
    /// By worker.
    pub(super) ways: Vec<Way>,
}

/// The way out of one worker to one outlet.
#[derive(Clone, Debug)]
pub enum Way {
    /// There is no address yet.
    Unresolved,
    /// No socket could be opened, and why: no route, perhaps until an interface comes up.
    Closed(Arc<str>),
    /// A connected socket.
    Socket(Arc<Socket>),
    /// Finished packets, for kept source addresses.
    Raw(Arc<RawSender>),
}

impl Sockets {
    /// Opens what the plan needs beyond the sockets of `previous`. `adopted`: sockets that a service manager has bound;
    /// those that no listener is for are closed. Must run in the network namespace of the tee. Nothing that is in use
    /// changes before the plan takes over.
    ///
    /// # Errors
    /// A listener cannot be bound, a group not be joined, an option not be set. A destination without a route is no
    /// error: its copies count as unreachable, see [`closed`](Self::closed).
    pub fn open(plan: &Plan, adopted: Vec<OwnedFd>, previous: Option<&Self>) -> Result<Self, Error> {
        let mut adopted =
            adopted.into_iter().map(|fd| Socket::adopt(fd, &Options::default())).collect::<Result<Vec<_>, _>>()?;
        let (mut outdated, mut surplus, mut joined) = (Vec::new(), Vec::new(), Joined::default());
        let mut listeners = Vec::new();
        for listener in &plan.listeners {
            let old = previous.and_then(|previous| previous.listeners.iter().find(|old| old.serves(listener)));
            listeners.push(match old {
                Some(old) => old.keep(listener, &mut joined, &mut outdated, &mut surplus)?,
                None => Intake::open(listener, plan, &mut adopted, previous)?,
            });
        }
        let mut outlets = Vec::new();
        for outlet in &plan.outlets {
            let old = previous.and_then(|previous| previous.outlets.iter().find(|old| old.serves(outlet)));
            outlets.push(match old {
                Some(old) => Exit { settings: Arc::clone(&outlet.settings), ..old.clone() },
                None => Exit::open(outlet, plan.books.workers())?,
            });
        }
        joined.0.clear();
        Ok(Self { listeners, outlets, outdated, surplus })
    }

    /// Why outlets of the plan have no socket, with their indices. They are worth another try with the same plan.
    pub fn closed(&self) -> impl Iterator<Item = (usize, &str)> {
        self.outlets.iter().enumerate().filter_map(|(index, exit)| match exit.ways.first() {
            Some(Way::Closed(why)) => Some((index, &**why)),
            _ => None,
        })
    }

    /// The addresses that a listener is bound to: with the port that the kernel chose for port 0.
    pub fn local_addr(&self, listener: usize) -> Option<SocketAddr> {
        self.listeners[listener].sockets.iter().flatten().next().map(|socket| socket.local_addr())
    }

    /// What the sockets of a listener were granted, by worker.
    pub fn granted(&self, listener: usize) -> impl Iterator<Item = Granted> {
        self.listeners[listener].sockets.iter().flatten().map(|socket| socket.granted())
    }

    /// Datagrams that the kernel dropped at the open sockets of a listener; `None`: it does not tell.
    pub(super) fn kernel_drops(&self, listener: usize) -> Option<u64> {
        let sockets = self.listeners[listener].sockets.iter().flatten();
        sockets.map(|socket| socket.memory().ok().map(|memory| u64::from(memory.drops))).sum()
    }

    /// Bytes that wait in the fullest socket of a listener; `None`: the kernel does not tell.
    pub(super) fn receive_queue(&self, listener: usize) -> Option<usize> {
        let sockets = self.listeners[listener].sockets.iter().flatten();
        sockets.filter_map(|socket| Some(socket.memory().ok()?.receive_queue as usize)).max()
    }

    /// Why sends to an outlet are not joined; `None`: they are.
    pub(super) fn not_joined(&self, outlet: usize) -> Option<String> {
        self.outlets[outlet].ways.iter().find_map(|way| match way {
            Way::Socket(socket) => match socket.granted().gso {
                Offload::Active => None,
                Offload::Below(size, why) => Some(format!("from {size} bytes on: {why}")),
                Offload::Off(why) => Some(why),
            },
            Way::Raw(_) => Some("source addresses are kept".to_owned()),
            Way::Unresolved | Way::Closed(_) => None,
        })
    }

    /// Has sockets that are about to be closed leave what comes from now on to the one that stays.
    pub(super) fn stand_aside(&mut self) {
        for socket in self.surplus.drain(..) {
            // Without a loopback interface, what comes in its last moment is lost.
            let _ = socket.stand_aside();
        }
    }

    /// Leaves the groups that the plan no longer names.
    pub(super) fn settle(&mut self) {
        for (socket, membership) in self.outdated.drain(..) {
            // A group that cannot be left is gone with its interface.
            let _ = socket.leave(&membership);
        }
    }
}

impl Intake {
    /// Whether these are the sockets of that listener. Port 0 is another port for each name.
    fn serves(&self, listener: &Listener) -> bool {
        let (old, new) = (&self.settings, &listener.settings);
        (old.address, &old.interface) == (new.address, &new.interface)
            && (new.address.port() != 0 || old.name == new.name)
    }

    /// The same sockets for other settings. Options only ever grow before the plan takes over.
    fn keep(
        &self,
        listener: &Listener,
        joined: &mut Joined,
        outdated: &mut Vec<(Arc<Socket>, Membership)>,
        surplus: &mut Vec<Arc<Socket>>,
    ) -> Result<Self, Error> {
        let mut sockets = self.sockets.clone();
        let (old, new) = (&self.settings, &listener.settings);
        if is_single(new) {
            surplus.extend(sockets.iter_mut().skip(1).filter_map(Option::take));
        }
        if old.receive_buffer != new.receive_buffer || self.wants_local != listener.wants_local {
            let workers = sockets.len();
            for (worker, socket) in sockets.iter_mut().enumerate() {
                let Some(socket) = socket else { continue };
                let options = options(listener, workers, worker);
                // A second descriptor of the same socket: its queue stays.
                let descriptor = socket.as_fd().try_clone_to_owned();
                let failed = |source| Error::Open { address: new.address, source };
                *socket = Arc::new(Socket::adopt(descriptor.map_err(failed)?, &options)?);
            }
        }
        if let Some(socket) = sockets.iter().flatten().next() {
            for group in new.groups.iter().filter(|group| !old.groups.contains(group)) {
                socket.join(&membership(group))?;
                joined.0.push((Arc::clone(socket), membership(group)));
            }
            let left = old.groups.iter().filter(|group| !new.groups.contains(group));
            outdated.extend(left.map(|group| (Arc::clone(socket), membership(group))));
        }
        Ok(Self { settings: new.clone(), wants_local: listener.wants_local, sockets, lasting: self.lasting })
    }

    fn open(
        listener: &Listener,
        plan: &Plan,
        adopted: &mut Vec<Socket>,
        previous: Option<&Sockets>,
    ) -> Result<Self, Error> {
        let settings = &listener.settings;
        let workers = plan.books.workers();
        let failed = |source| Error::Open { address: settings.address, source };
        let taken = |port| {
            let others = previous.into_iter().flat_map(|previous| &previous.listeners);
            others.flat_map(|other| other.sockets.iter().flatten()).any(|socket| socket.local_addr().port() == port)
        };
        let only_v6 = plan.listeners.iter().any(|other| {
            let other = other.settings.address;
            other.is_ipv4() && other.port() == settings.address.port() && settings.address.port() != 0
        });
        let options = |worker| Options { only_v6, ..options(listener, workers, worker) };
        let mut sockets: Vec<Option<Arc<Socket>>> = vec![None; workers];
        let mut lasting = false;
        if let Some(at) = adopted.iter().position(|socket| socket.local_addr() == settings.address) {
            let descriptor = adopted.swap_remove(at).as_fd().try_clone_to_owned().map_err(failed)?;
            let socket = Socket::adopt(descriptor, &options(0))?;
            // One that an earlier program left there would stay.
            let _ = SockRef::from(&socket).detach_filter();
            sockets[0] = Some(Arc::new(socket));
            lasting = true;
        } else {
            // With SO_REUSEPORT the kernel would let another program of the same user have part of our datagrams without
            // a word. So the address must be free before; but for sockets of our own.
            let first = options(0);
            if first.reuse_port && !first.reuse_address && !taken(settings.address.port()) {
                let alone = Options { interface: first.interface, only_v6, ..Options::default() };
                Socket::bind(settings.address, &alone)?;
            }
            let mut address = settings.address;
            for (worker, slot) in sockets.iter_mut().enumerate() {
                let socket = Socket::bind(address, &options(worker))?;
                address = socket.local_addr();
                *slot = Some(Arc::new(socket));
                if is_single(settings) {
                    break;
                }
            }
        }
        if let Some(socket) = sockets.iter().flatten().next() {
            for group in &settings.groups {
                socket.join(&membership(group))?;
            }
        }
        Ok(Self { settings: settings.clone(), wants_local: listener.wants_local, sockets, lasting })
    }
}

/// Groups that sockets in use have joined for a plan. If it does not come about, they leave them again.
#[derive(Default)]
struct Joined(Vec<(Arc<Socket>, Membership)>);

impl Drop for Joined {
    fn drop(&mut self) {
        for (socket, membership) in &self.0 {
            // A group that cannot be left is gone with its interface.
            let _ = socket.leave(membership);
        }
    }
}

impl Exit {
    /// Whether the sockets can go on for this outlet as they are. Without any, they are to be tried anew.
    fn serves(&self, outlet: &Outlet) -> bool {
        let options = |settings: &settings::Destination| {
            let settings::Destination { source, from, interface, ttl, dscp, loopback, send_buffer, .. } = settings;
            let raw = *source == Source::Kept;
            (raw, *from, interface.clone(), *ttl, *dscp, *loopback, *send_buffer)
        };
        outlet.is(&self.settings.name, self.address)
            && options(&self.settings) == options(&outlet.settings)
            && !self.ways.iter().any(|way| matches!(way, Way::Closed(_)))
    }

    fn open(outlet: &Outlet, workers: usize) -> Result<Self, Error> {
        let mut ways = Vec::new();
        for _ in 0..workers {
            let way = match outlet.address {
                None => Ok(Way::Unresolved),
                Some(to) => Way::open(to, outlet, workers),
            };
            match way {
                Ok(way) => ways.push(way),
                Err(error) if is_passing(&error, outlet.settings.from) => {
                    ways = vec![Way::Closed(error.to_string().into()); workers];
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { address: outlet.address, settings: Arc::clone(&outlet.settings), ways })
    }
}

impl Way {
    fn open(to: SocketAddr, outlet: &Outlet, workers: usize) -> Result<Self, Error> {
        let settings = &outlet.settings;
        let multicast = to.ip().is_multicast();
        let options = Options {
            interface: settings.interface.clone(),
            reuse_port: workers > 1 && settings.from.is_some_and(|from| from.port() != 0),
            reuse_address: settings.from.is_some_and(|from| from.port() != 0),
            send_buffer: settings.send_buffer,
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
        };
        if settings.source == Source::Kept {
            return Ok(Self::Raw(Arc::new(RawSender::open(to, &options)?)));
        }
        let socket = Socket::connect(settings.from, to, &options)?;
        // Answers are of no use here: they would only lie in the socket's memory.
        let _ = socket.close_intake();
        Ok(Self::Socket(Arc::new(socket)))
    }
}

/// Whether a listener has one socket, whatever the number of workers.
fn is_single(listener: &settings::Listener) -> bool {
    listener.address.ip().is_multicast() || !listener.groups.is_empty()
}

fn options(listener: &Listener, workers: usize, worker: usize) -> Options {
    // An IPv6 address alone gets unicast alone.
    let hears_all = listener.settings.address.is_ipv4() || listener.settings.address.ip().is_unspecified();
    Options {
        interface: listener.settings.interface.clone(),
        // Receivers of a multicast group on one machine share its port, by custom; each gets every datagram.
        reuse_address: listener.settings.address.ip().is_multicast(),
        reuse_port: workers > 1,
        receive_buffer: listener.settings.receive_buffer,
        gro: true,
        local_address: listener.wants_local || (worker > 0 && hears_all),
        ..Options::default()
    }
}

fn membership(group: &settings::Membership) -> Membership {
    Membership { group: group.group, source: group.source, interface: group.interface.clone() }
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
