//! Who sent to a port, how many datagrams, and which calls failed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use nix::errno::Errno;
use weir_kernel::trace::{Drop, InterfaceCount, Sends, Trace};

use crate::places::Place;

/// A socket that sent, or tried to send, to the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SendingSocket {
    pub(super) cookie: u64,
    pub(super) namespace: u32,
    /// Datagrams the kernel took.
    pub(super) taken: u64,
    /// Calls that failed, by error number. Each stands for one datagram.
    pub(super) failed: BTreeMap<i32, u64>,
    /// Calls that failed and may have been to another port: the socket sends to several. Not in `failed`.
    pub(super) doubtful: BTreeMap<i32, u64>,
    /// Datagrams handed to an interface's queue.
    pub(super) departed: u64,
    /// Datagrams that the kernel took and that departed nowhere, of a socket that sends to several ports. Not in `taken`.
    pub(super) vanished: u64,
    /// Whether nothing but failed calls was seen, so that its port is a guess.
    pub(super) guessed: bool,
}

impl SendingSocket {
    /// Datagrams it tried to send.
    pub(super) fn tried(&self) -> u64 {
        self.taken + self.failed.values().sum::<u64>()
    }
}

/// Drops that happen before a datagram is handed to an interface's queue.
fn before_departure(place: Place) -> bool {
    matches!(place, Place::NoRoute | Place::FirewallOut | Place::SendBuffer | Place::SendError | Place::Neighbour)
}

/// The sockets that send to `port`. A socket belongs to the port when it is connected to it, or when what it sent went
/// there; of one that sends to several ports only what is known to have gone there.
pub(super) fn sending_sockets(trace: &Trace, port: u16, alone: bool) -> Vec<SendingSocket> {
    let certain = certain_sockets(trace, port);
    if alone && certain.is_empty() { guessed_sockets(trace) } else { certain }
}

/// Sockets of which nothing departed: their calls failed, or what they sent waits. They may have meant any port.
fn guessed_sockets(trace: &Trace) -> Vec<SendingSocket> {
    let departed = trace.departures.iter().filter(|passage| passage.datagrams > 0);
    let departed: HashSet<u64> = departed.map(|passage| passage.cookie).collect();
    let guessed = |sends: &&Sends| sends.port == 0 && sends.datagrams > 0 && !departed.contains(&sends.cookie);
    let mut sockets: BTreeMap<u64, SendingSocket> = BTreeMap::new();
    for sends in trace.sends.iter().filter(guessed) {
        let socket = sockets.entry(sends.cookie).or_insert_with(|| SendingSocket {
            cookie: sends.cookie,
            namespace: sends.namespace,
            guessed: true,
            ..SendingSocket::default()
        });
        match sends.errno {
            0 => socket.taken += sends.datagrams,
            errno => *socket.failed.entry(errno).or_default() += sends.datagrams,
        }
    }
    sockets.into_values().collect()
}

/// Calls that failed, by error number, of sockets that are connected to no port and of which nothing departed, beside those
/// that sent: nobody can tell which port they meant.
pub(super) fn failed_beside(trace: &Trace, senders: &[SendingSocket]) -> BTreeMap<i32, u64> {
    let mut failed = BTreeMap::new();
    let own: HashSet<u64> = senders.iter().map(|sender| sender.cookie).collect();
    let others = guessed_sockets(trace).into_iter().filter(|socket| !own.contains(&socket.cookie));
    for (errno, calls) in others.flat_map(|socket| socket.failed) {
        *failed.entry(errno).or_default() += calls;
    }
    failed
}

/// Rows of a trace by the socket that they are of: there may be tens of thousands, and each is asked for its own.
struct ByCookie<'a, T>(HashMap<u64, Vec<&'a T>>);

impl<'a, T> ByCookie<'a, T> {
    fn new(rows: impl Iterator<Item = &'a T>, cookie: impl Fn(&T) -> u64) -> Self {
        let mut of: HashMap<u64, Vec<&T>> = HashMap::new();
        for row in rows {
            of.entry(cookie(row)).or_default().push(row);
        }
        ByCookie(of)
    }

    /// Its rows, in their order.
    fn of(&self, cookie: u64) -> &[&'a T] {
        self.0.get(&cookie).map(Vec::as_slice).unwrap_or_default()
    }
}

/// What a trace tells of sockets that may send to a port.
struct Rows<'a> {
    sends: ByCookie<'a, Sends>,
    departures: ByCookie<'a, InterfaceCount>,
    /// Drops on the way out, of what was for the port.
    drops: ByCookie<'a, Drop>,
}

impl<'a> Rows<'a> {
    fn new(trace: &'a Trace, port: u16) -> Self {
        let drops = trace.drops.iter().filter(|drop| drop.outgoing && drop.port == port);
        Rows {
            sends: ByCookie::new(trace.sends.iter(), |sends| sends.cookie),
            departures: ByCookie::new(trace.departures.iter(), |passage| passage.cookie),
            drops: ByCookie::new(drops, |drop| drop.cookie),
        }
    }
}

fn certain_sockets(trace: &Trace, port: u16) -> Vec<SendingSocket> {
    let rows = Rows::new(trace, port);
    let mut cookies: BTreeSet<(u64, u32)> = BTreeSet::new();
    cookies.extend(trace.sends.iter().filter(|sends| sends.port == port).map(|sends| (sends.cookie, sends.namespace)));
    // A bridge or router hands on what another namespace's socket sent: that has no calls here.
    cookies.extend(
        trace
            .departures
            .iter()
            .filter(|passage| passage.port == port && passage.cookie != 0)
            .filter(|passage| rows.sends.of(passage.cookie).iter().all(|sends| sends.namespace == passage.namespace))
            .map(|passage| (passage.cookie, passage.namespace)),
    );
    let outgoing = trace.drops.iter().filter(|drop| drop.outgoing && drop.cookie != 0 && drop.port == port);
    cookies.extend(outgoing.map(|drop| (drop.cookie, drop.namespace)));
    let own =
        |cookie: u64, namespace: u32| rows.sends.of(cookie).first().is_none_or(|sends| sends.namespace == namespace);
    cookies
        .into_iter()
        .filter(|(cookie, namespace)| own(*cookie, *namespace))
        .map(|(cookie, namespace)| sending_socket(&rows, port, cookie, namespace))
        .filter(|socket| socket.tried() > 0 || !socket.doubtful.is_empty())
        .collect()
}

fn sending_socket(rows: &Rows<'_>, port: u16, cookie: u64, namespace: u32) -> SendingSocket {
    let mut by_interface: BTreeMap<u32, u64> = BTreeMap::new();
    for passage in rows.departures.of(cookie) {
        if passage.namespace == namespace && passage.port == port {
            *by_interface.entry(passage.interface).or_default() += passage.datagrams;
        }
    }
    let drops = rows.drops.of(cookie).iter().filter(|drop| drop.namespace == namespace);
    let mut dropped_before: BTreeMap<Place, u64> = BTreeMap::new();
    // Datagrams beyond the first of each joined buffer that was refused, or dropped by a queue.
    let (mut joined_refused, mut joined_queued) = (0, 0);
    for drop in drops {
        let place = Place::of_drop(&drop.reason, &drop.function, true);
        match place {
            Place::FirewallOut => joined_refused += drop.datagrams.saturating_sub(drop.buffers),
            Place::Qdisc => joined_queued += drop.datagrams.saturating_sub(drop.buffers),
            _ => {}
        }
        if before_departure(place) {
            *dropped_before.entry(place).or_default() += drop.datagrams;
        }
    }
    let departed: u64 = by_interface.values().sum();
    let mut connected = Calls::default();
    let mut free = Calls::default();
    for sends in rows.sends.of(cookie) {
        let calls = if sends.port == port {
            &mut connected
        } else if sends.port == 0 {
            &mut free
        } else {
            continue;
        };
        match sends.errno {
            0 => {
                calls.taken += sends.datagrams;
                calls.single &= sends.calls == sends.datagrams;
            }
            // EPERM is told of a datagram that netfilter dropped, ENOBUFS of one that a queue dropped.
            errno => *calls.failed.entry(errno).or_default() += sends.datagrams,
        }
    }
    // A call that fails for a joined buffer fails for all its datagrams.
    for calls in [&mut connected, &mut free] {
        for (errno, joined) in [(Errno::EPERM, &mut joined_refused), (Errno::ENOBUFS, &mut joined_queued)] {
            if let Some(failed) = calls.failed.get_mut(&(errno as i32)) {
                *failed += std::mem::take(joined);
            }
        }
    }
    let refused = |calls: &Calls| calls.failed.get(&(Errno::EPERM as i32)).copied().unwrap_or(0);
    let reported = |calls: &Calls| calls.failed.get(&(Errno::ENOBUFS as i32)).copied().unwrap_or(0);
    let firewall = dropped_before.get(&Place::FirewallOut).copied().unwrap_or(0);
    let other: u64 = dropped_before.values().sum::<u64>() - firewall;
    // What the kernel took shows up again as departed, or as dropped on the way there.
    let seen =
        |calls: &Calls| (departed + other + firewall.saturating_sub(refused(calls))).saturating_sub(reported(calls));
    let mut socket = SendingSocket { cookie, namespace, departed, ..SendingSocket::default() };
    if connected.any() {
        socket.taken = connected.taken;
        socket.failed = connected.failed.clone();
        // UDP_SEGMENT in control data: one call, many datagrams.
        if !free.any() && connected.single && by_interface.len() == 1 {
            socket.taken = socket.taken.max(seen(&connected));
        }
        if !free.any() {
            return socket;
        }
        socket.doubtful = free.failed;
        // sendto() of a connected socket may go elsewhere; what departed beyond its own calls came here.
        socket.taken += seen(&connected).saturating_sub(connected.taken).min(free.taken);
        return socket;
    }
    let seen = seen(&free);
    let elsewhere = rows.departures.of(cookie).iter();
    let elsewhere = elsewhere.filter(|passage| passage.namespace == namespace && passage.port != port);
    let elsewhere: u64 = elsewhere.map(|passage| passage.datagrams).sum();
    if elsewhere == 0 {
        // All of it came here. Through a bridge of this host it departs twice.
        let twice = by_interface.len() > 1 && free.taken > 0;
        socket.taken = if twice { free.taken } else { seen.max(free.taken) };
        socket.failed = free.failed;
        return socket;
    }
    socket.taken = seen;
    let known = refused(&free).min(firewall);
    if known > 0 {
        socket.failed.insert(Errno::EPERM as i32, known);
    }
    socket.doubtful = free.failed.clone();
    if let Some(refused) = socket.doubtful.get_mut(&(Errno::EPERM as i32)) {
        *refused -= known;
    }
    socket.doubtful.retain(|_, calls| *calls > 0);
    // UDP_SEGMENT in control data makes more datagrams than calls.
    socket.vanished = if free.single { free.taken.saturating_sub(seen + elsewhere) } else { 0 };
    socket
}

struct Calls {
    taken: u64,
    /// Whether each call was one datagram.
    single: bool,
    failed: BTreeMap<i32, u64>,
}

impl Default for Calls {
    fn default() -> Self {
        Calls { taken: 0, single: true, failed: BTreeMap::new() }
    }
}

impl Calls {
    fn any(&self) -> bool {
        self.taken > 0 || !self.failed.is_empty()
    }
}

#[cfg(test)]
mod tests;
