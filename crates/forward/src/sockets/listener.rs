//! The sockets of a listener: one a worker, or one for all.
//!
//! The kernel spreads unicast only: what goes to all, broadcast and multicast, *every* socket of a listener gets. The
//! first worker takes it, the others are told which it is (IP_PKTINFO) and leave it. A filter in their place would count
//! each as dropped at the socket. A listener that joins groups has but one socket: IP_MULTICAST_ALL, without which it
//! would hear those of other programs, keeps them from the other sockets, and then Linux 6.18 hands the one member's to
//! any of them (udp_v4_early_demux finds it, inet_steal_sock chooses anew among its SO_REUSEPORT group).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use weir_dgram::{Error, Granted, Membership, Options, Socket};

use super::Sockets;
use crate::plan::{Listener, Plan};
use crate::settings;

/// The sockets of a listener.
#[derive(Clone, Debug)]
pub(crate) struct ListenerSockets {
    settings: settings::Listener,
    wants_local: bool,
    wants_hops: bool,
    /// By worker; `None`: the worker has none, for the socket was handed to us and exists once, or must exist once.
    sockets: Vec<Option<Arc<Socket>>>,
    /// Whether it was handed to us: others hold it, too, and will go on with it.
    lasting: bool,
}

impl ListenerSockets {
    /// The socket of a worker, and whether others will go on with it; `None`: the worker has none.
    pub(crate) fn of_worker(&self, worker: usize) -> Option<(Arc<Socket>, bool)> {
        Some((self.sockets.get(worker)?.clone()?, self.lasting))
    }

    /// The address that they are bound to: with the port that the kernel chose for port 0.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        self.all().next().map(|socket| socket.local_addr())
    }

    /// What they were granted, by worker.
    pub(super) fn granted(&self) -> impl Iterator<Item = Granted> {
        self.all().map(|socket| socket.granted())
    }

    /// Datagrams that the kernel dropped at them; `None`: it does not tell.
    pub(crate) fn kernel_drops(&self) -> Option<u64> {
        self.all().map(|socket| socket.memory().ok().map(|memory| u64::from(memory.drops))).sum()
    }

    /// Bytes that wait in the fullest; `None`: the kernel does not tell.
    pub(crate) fn receive_queue(&self) -> Option<usize> {
        self.all().filter_map(|socket| Some(socket.memory().ok()?.receive_queue as usize)).max()
    }

    /// Whether they are to be opened anew, as their interface was made anew.
    pub(super) fn are_outlived(&self) -> bool {
        self.all().any(|socket| socket.is_outlived())
    }

    /// As [`key`], of the listener that they are for.
    pub(super) fn key(&self) -> Key<'_> {
        key(&self.settings)
    }

    /// The same sockets for other settings. Options only ever grow before the plan takes over.
    pub(super) fn keep(
        &self,
        listener: &Listener,
        joined: &mut NewMemberships,
        outdated: &mut Vec<(Arc<Socket>, Membership)>,
        surplus: &mut Vec<Arc<Socket>>,
    ) -> Result<Self, Error> {
        let mut sockets = self.sockets.clone();
        let (old, new) = (&self.settings, &listener.settings);
        if is_single(new) {
            surplus.extend(sockets.iter_mut().skip(1).filter_map(Option::take));
        }
        let told = (self.wants_local, self.wants_hops) == (listener.wants_local, listener.wants_hops);
        if old.receive_buffer != new.receive_buffer || !told {
            let workers = sockets.len();
            for (worker, socket) in sockets.iter_mut().enumerate() {
                let Some(socket) = socket else { continue };
                let options = Options { wait: self.wait(), ..options(listener, workers, worker) };
                *socket = Arc::new(socket.with_options(&options)?);
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
        let (wants_local, wants_hops) = (listener.wants_local, listener.wants_hops);
        Ok(Self { settings: new.clone(), wants_local, wants_hops, sockets, lasting: self.lasting })
    }

    pub(super) fn open(
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
            others.flat_map(Self::all).any(|socket| socket.local_addr().port() == port)
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
                let socket = Socket::bind(address, &Options { wait: Some(LONGEST_WAIT), ..options(worker) })?;
                address = socket.local_addr();
                if let (0, true, Some(steering)) = (worker, workers > 1, &listener.steering) {
                    // Where the kernel cannot, its hash spreads them: whoever steers looks once more anyway.
                    let _ = socket.steer(steering, u32::try_from(workers).unwrap_or(u32::MAX));
                }
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
        let (wants_local, wants_hops) = (listener.wants_local, listener.wants_hops);
        Ok(Self { settings: settings.clone(), wants_local, wants_hops, sockets, lasting })
    }

    /// Whether a receive may wait: others that hold the socket, too, must find it as they left it.
    fn wait(&self) -> Option<Duration> {
        (!self.lasting).then_some(LONGEST_WAIT)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Socket>> {
        self.sockets.iter().flatten()
    }
}

/// What tells a listener's sockets from others. Port 0 is another port for each name.
pub(super) type Key<'a> = (SocketAddr, Option<&'a str>, Option<&'a str>);

/// The key of a listener.
pub(super) fn key(listener: &settings::Listener) -> Key<'_> {
    let name = (listener.address.port() == 0).then_some(listener.name.as_str());
    (listener.address, listener.interface.as_deref(), name)
}

/// Groups that sockets in use have joined for a plan. If it does not come about, they leave them again.
#[derive(Default)]
pub(super) struct NewMemberships(Vec<(Arc<Socket>, Membership)>);

impl NewMemberships {
    /// The plan comes about: they stay.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewMemberships {
    fn drop(&mut self) {
        for (socket, membership) in &self.0 {
            // A group that cannot be left is gone with its interface.
            let _ = socket.leave(membership);
        }
    }
}

/// Longest sleep of a worker in a socket: until then it sees nothing else.
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// Whether a listener has one socket, whatever the number of workers.
fn is_single(listener: &settings::Listener) -> bool {
    listener.address.ip().is_multicast() || !listener.groups.is_empty()
}

fn options(listener: &Listener, workers: usize, worker: usize) -> Options {
    let hears_all = worker > 0 && hears_all(listener.settings.address);
    Options {
        interface: listener.settings.interface.clone(),
        // Receivers of a multicast group on one machine share its port, by custom; each gets every datagram.
        reuse_address: listener.settings.address.ip().is_multicast(),
        reuse_port: workers > 1,
        receive_buffer: listener.settings.receive_buffer,
        // A run has one address and may have datagrams for several workers.
        gro: listener.steering.is_none(),
        local_address: listener.wants_local || hears_all,
        hops: listener.wants_hops,
        ..Options::default()
    }
}

/// Whether what is sent to all may come to a socket that is bound to this address: not to one of this machine's own, of which
/// the kernel need not tell each datagram's then.
fn hears_all(address: SocketAddr) -> bool {
    if address.ip().is_unspecified() || address.ip().is_multicast() {
        return true;
    }
    // Who has not asked for broadcast may not connect to one of IPv4 (EACCES), but to an own address.
    let may_connect = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.connect((address.ip(), 9));
    address.is_ipv4() && may_connect().is_err()
}

fn membership(group: &settings::Membership) -> Membership {
    Membership { group: group.group, source: group.source, interface: group.interface.clone() }
}
