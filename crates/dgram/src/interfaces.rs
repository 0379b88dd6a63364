//! What sockets have by the name of an interface: where they are bound, the groups they have joined, the way out to groups.
//!
//! The kernel keeps all of it by the interface's index. An interface that is deleted and made anew under its name (a VLAN, a
//! bridge, a veth, a VPN's) has another, and a socket of the old one is deaf, or cannot send, for ever. So each socket with
//! such a name is listed here, without its owner's doing, and [`restore`] gives it on the new interface what it had on the old.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nix::net::if_::if_nameindex;
use socket2::{Domain, Protocol, SockRef, Type};

use crate::multicast::{self, Membership};
use crate::options::Ask;
use crate::sys::option::{attach_closed_filter, disconnect, interface_index, is_member};
use crate::{Error, Options};

/// What has become of an interface that sockets of this process need: a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is gone, or what sockets had on it cannot be had yet: why.
    Missing(String),
    /// Its sockets have again what they had: its name.
    Back(String),
}

/// Gives every socket again what it had on an interface whose name another one has now: to be called when interfaces,
/// addresses or routes have changed. `reroute`: groups that were joined where a route led, and whose interface is gone, are
/// joined where a route leads now.
pub fn restore(reroute: bool) -> Vec<Change> {
    let mut missing = lock(&MISSING);
    // Nobody waits to open a socket while the kernel's own lock is waited for.
    let sockets: Vec<Arc<Attached>> = lock(&SOCKETS).iter().filter_map(Weak::upgrade).collect();
    let mut found = Found::new();
    for socket in &sockets {
        socket.restore(reroute, &mut found);
    }
    let before = std::mem::take(&mut *missing);
    let mut changes = Vec::new();
    for (name, outcome) in found {
        let was = before.get(&name);
        match outcome {
            Ok(is_renewed) => {
                // It may have gone and come before anybody looked.
                changes.extend((is_renewed && was.is_none()).then(|| Change::Missing(gone(&name))));
                changes.extend((is_renewed || was.is_some()).then_some(Change::Back(name)));
            }
            Err(error) => {
                let is_gone = matches!(error, Error::Interface { .. });
                let why = if is_gone { gone(&name) } else { format!("interface {name}: {error}") };
                changes.extend((was != Some(&why)).then(|| Change::Missing(why.clone())));
                missing.insert(name, why);
            }
        }
    }
    changes
}

/// What the last [`restore`] found missing: a line on the first such interface.
///
/// # Errors
/// That line.
pub fn all_there() -> Result<(), String> {
    lock(&MISSING).values().next().map_or(Ok(()), |why| Err(why.clone()))
}

/// A descriptor, and what it has by names of interfaces.
#[derive(Debug)]
pub(crate) struct Attached {
    descriptor: OwnedFd,
    /// With the port that the kernel chose.
    pub(crate) local: SocketAddr,
    /// What it is connected to.
    pub(crate) peer: Option<SocketAddr>,
    /// Whether it was told which address of this machine to send from.
    pub(crate) has_fixed_source: bool,
    /// SO_BINDTODEVICE.
    device: Option<String>,
    /// Whether it receives what the kernel spreads over several (SO_REUSEPORT); groups come to each.
    is_shared: bool,
    /// IP_MULTICAST_IF.
    way_out: Option<String>,
    held: Mutex<Held>,
}

/// What it has by the index of an interface.
#[derive(Debug, Default)]
struct Held {
    way_out: u32,
    groups: Vec<Joined>,
}

/// A group, and the interface that it was joined on.
#[derive(Clone, Debug)]
struct Joined {
    membership: Membership,
    name: String,
    index: u32,
    /// The interface was not there at the last look, or the group could not be joined: whatever index it has, it is another.
    is_gone: bool,
}

/// By the names of interfaces, whether anything was had anew, or why it cannot be had.
type Found = BTreeMap<String, Result<bool, Error>>;

impl Attached {
    /// A descriptor that has just been given these options.
    pub(crate) fn new(
        descriptor: OwnedFd,
        options: &Options,
        (local, peer): (SocketAddr, Option<SocketAddr>),
        has_fixed_source: bool,
    ) -> Arc<Self> {
        let (device, way_out) = (options.interface.clone(), options.multicast_interface.clone());
        let index = way_out.as_ref().and_then(|name| interface_index(descriptor.as_fd(), name).ok()).unwrap_or(0);
        let is_shared = options.reuse_port && peer.is_none() && !local.ip().is_multicast();
        let held = Mutex::new(Held { way_out: index, groups: Vec::new() });
        let attached = Arc::new(Self { descriptor, local, peer, has_fixed_source, device, is_shared, way_out, held });
        if attached.is_named() {
            attached.list();
        }
        attached
    }

    /// The descriptor of before has joined these; this one is another of the same socket.
    pub(crate) fn has_joined_as(self: &Arc<Self>, before: &Self) {
        let groups = lock(&before.held).groups.clone();
        self.add(groups);
    }

    /// Remembers a group that was joined by this index; 0: where a route led.
    pub(crate) fn joined(self: &Arc<Self>, membership: &Membership, index: u32) {
        self.add(Joined::of(self.as_fd(), membership, index));
    }

    /// Forgets a group; the index by which it was joined.
    pub(crate) fn forget(&self, membership: &Membership) -> Option<u32> {
        let groups = &mut lock(&self.held).groups;
        let at = groups.iter().position(|joined| joined.membership == *membership)?;
        Some(groups.swap_remove(at).index)
    }

    /// See [`Socket::is_outlived`](crate::Socket::is_outlived).
    pub(crate) fn is_outlived(&self) -> bool {
        let is_new = |name: &String| !self.is_bound_to(name) && index(self.as_fd(), name).is_ok();
        self.is_shared && lock(&self.held).groups.is_empty() && self.device.as_ref().is_some_and(is_new)
    }

    /// A socket that is connected as this one is to be, if a route leads there.
    pub(crate) fn probe(&self, peer: SocketAddr, device: Option<&[u8]>) -> io::Result<socket2::Socket> {
        let probe = socket2::Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        probe.bind_device(device)?;
        probe.connect(&peer.into())?;
        Ok(probe)
    }

    /// Takes destination and device away and sets them anew. Nobody needs a privilege for that (__udp_disconnect of
    /// net/ipv4/udp.c; a socket without a device may be bound to one since Linux 5.7), but to go from one device to another
    /// CAP_NET_RAW. Meanwhile nothing comes in.
    pub(crate) fn attach_anew(&self, device: Option<&[u8]>) -> io::Result<()> {
        let socket = SockRef::from(&self.descriptor);
        let mut address = self.local;
        match self.peer {
            None => attach_closed_filter(self.as_fd())?,
            Some(_) if self.has_fixed_source => {}
            Some(SocketAddr::V4(_)) => address.set_ip(Ipv4Addr::UNSPECIFIED.into()),
            Some(SocketAddr::V6(_)) => address.set_ip(Ipv6Addr::UNSPECIFIED.into()),
        }
        disconnect(self.as_fd())?;
        socket.bind_device(device)?;
        // A port that the kernel had chosen went, too; another stays, and cannot be bound again.
        let _ = socket.bind(&address.into());
        match self.peer {
            Some(peer) => socket.connect(&peer.into()),
            None => socket.detach_filter(),
        }
    }

    fn is_named(&self) -> bool {
        self.device.is_some() || self.way_out.is_some()
    }

    fn add(self: &Arc<Self>, joined: impl IntoIterator<Item = Joined>) {
        let mut held = lock(&self.held);
        let is_listed = self.is_named() || !held.groups.is_empty();
        held.groups.extend(joined);
        if !is_listed && !held.groups.is_empty() {
            self.list();
        }
    }

    fn list(self: &Arc<Self>) {
        let mut sockets = lock(&SOCKETS);
        if sockets.len() == sockets.capacity() {
            sockets.retain(|listed| listed.strong_count() > 0);
        }
        sockets.push(Arc::downgrade(self));
    }

    fn restore(&self, reroute: bool, found: &mut Found) {
        let mut held = lock(&self.held);
        let mut note = |name: &str, outcome: Result<bool, Error>| {
            let found = found.entry(name.to_owned()).or_insert(Ok(false));
            if let Ok(before) = *found {
                *found = outcome.map(|is_renewed| is_renewed | before);
            }
        };
        if let Some(name) = &self.device {
            note(name, self.rebind(name, self.is_shared && held.groups.is_empty()));
        }
        if let Some(name) = &self.way_out {
            note(name, self.send_through(name, &mut held.way_out));
        }
        for joined in &mut held.groups {
            let outcome = joined.restore(self.as_fd(), reroute);
            note(&joined.name, outcome);
        }
    }

    /// Binds it to the interface that has the name now; whether it was bound to another.
    fn rebind(&self, name: &str, is_shared: bool) -> Result<bool, Error> {
        if self.is_bound_to(name) {
            return Ok(false);
        }
        index(self.as_fd(), name)?;
        if is_shared {
            return Err(Error::Interface { name: name.to_owned(), source: io::Error::from_raw_os_error(libc::ENODEV) });
        }
        if let Some(peer) = self.peer {
            // Without a route it would have no destination afterwards.
            self.probe(peer, Some(name.as_bytes())).map_err(|source| Error::Connect { address: peer, source })?;
        }
        let failed = |source| Error::Option { option: "SO_BINDTODEVICE", value: name.to_owned(), source };
        self.attach_anew(Some(name.as_bytes())).map_err(failed)?;
        Ok(true)
    }

    fn is_bound_to(&self, name: &str) -> bool {
        // ENODEV: the one that it is bound to is gone.
        SockRef::from(&self.descriptor).device().is_ok_and(|device| device.as_deref() == Some(name.as_bytes()))
    }

    fn send_through(&self, name: &str, known: &mut u32) -> Result<bool, Error> {
        let index = index(self.as_fd(), name)?;
        if index == *known {
            return Ok(false);
        }
        Ask { socket: self.as_fd(), v6: self.local.is_ipv6() }.multicast_interface(name)?;
        *known = index;
        Ok(true)
    }
}

impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Joined {
    /// `None`: the kernel does not tell where a route led.
    fn of(socket: BorrowedFd<'_>, membership: &Membership, index: u32) -> Option<Self> {
        let (name, index) = match &membership.interface {
            Some(name) => (name.clone(), index),
            None => {
                let interfaces = if_nameindex().ok()?;
                let on = interfaces.iter().find(|on| is_member(socket, on.index(), membership.group))?;
                (on.name().to_str().ok()?.to_owned(), on.index())
            }
        };
        Some(Self { membership: membership.clone(), name, index, is_gone: false })
    }

    /// Joins the group on the interface that has the name now; whether that is another of the name.
    fn restore(&mut self, socket: BorrowedFd<'_>, reroute: bool) -> Result<bool, Error> {
        let index = match index(socket, &self.name) {
            Ok(index) if index == self.index && !self.is_gone => return Ok(false),
            Ok(index) => index,
            Err(error) => {
                self.is_gone = true;
                if !reroute || self.membership.interface.is_some() {
                    return Err(error);
                }
                0
            }
        };
        self.is_gone = true;
        // The interface took the membership along, but not its entry at the socket, of which there may be 20. That of a source
        // cannot be left without the interface.
        let source = self.membership.source.filter(|_| index == self.index);
        let _ = multicast::leave(socket, &Membership { source, ..self.membership.clone() }, self.index);
        match multicast::join(socket, &self.membership, index) {
            // By another descriptor of the same socket it has been joined already: a group, or a source of it.
            Err(Error::Membership { source, .. })
                if matches!(source.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {}
            joined => joined?,
        }
        (self.index, self.is_gone) = (index, false);
        if index == 0
            && let Some(joined) = Self::of(socket, &self.membership, index)
        {
            *self = joined;
        }
        Ok(index != 0)
    }
}

/// `interface eth0.7 is back: ...`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => write!(f, "{why}: what is bound to it, joined on it or sent through it waits"),
            Self::Back(name) => write!(f, "interface {name} is back: bound, joined and sent through anew"),
        }
    }
}

fn index(socket: BorrowedFd<'_>, name: &str) -> Result<u32, Error> {
    interface_index(socket, name).map_err(|source| Error::Interface { name: name.to_owned(), source })
}

fn gone(name: &str) -> String {
    format!("interface {name} is gone")
}

/// Nobody panics while holding one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that have something by a name.
static SOCKETS: Mutex<Vec<Weak<Attached>>> = Mutex::new(Vec::new());

/// By name, why it is missing. Held while sockets are given what they had.
static MISSING: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
