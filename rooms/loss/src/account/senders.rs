//! Who sent to a port, how many datagrams, and which calls failed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nix::errno::Errno;
use weir_trace::Trace;

use crate::places::Place;

/// A socket that sent, or tried to send, to the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SendingSocket {
    pub(super) cookie: u64,
    pub(super) namespace: u32,
    /// Datagrams the kernel took.
    pub(super) taken: u64,
    /// Calls that failed, by error number. Each stands for one datagram.
    pub(super) failed: Failed,
    /// Datagrams handed to an interface's queue.
    pub(super) departed: u64,
}

type Failed = BTreeMap<i32, u64>;

impl SendingSocket {
    /// Datagrams it tried to send.
    pub(super) fn tried(&self) -> u64 {
        self.taken + self.failed.values().sum::<u64>()
    }
}

/// The sockets that send to `port`, and calls that failed, by error number, of which nobody can tell whether they meant this port.
///
/// A socket belongs to the port when it is connected to it, or when what it sent went there; of one that sends to several ports only
/// what is known to have gone there. If the port is followed `alone`, those of which nothing departed may have meant it: their calls
/// failed, or what they sent waits. They are its senders where there is no other.
pub(super) fn senders(trace: &Trace, port: u16, alone: bool) -> (Vec<SendingSocket>, Failed) {
    let mut beside = Failed::new();
    let (of_port, others): (Vec<_>, Vec<_>) = seen(trace, port).into_iter().partition(|(_, seen)| seen.is_of_port);
    let mut sockets: Vec<SendingSocket> =
        of_port.into_iter().map(|(key, seen)| seen.into_socket(key, &mut beside)).collect();
    sockets.retain(|socket| socket.tried() > 0);
    let guessed = others.into_iter().filter(|(_, seen)| alone && !seen.went_elsewhere);
    if sockets.is_empty() {
        sockets.extend(guessed.map(|(key, seen)| seen.into_socket(key, &mut beside)));
        sockets.retain(|socket| socket.tried() > 0);
    } else {
        guessed.for_each(|(_, seen)| add(&mut beside, seen.free.failed));
    }
    (sockets, beside)
}

fn add(all: &mut Failed, more: Failed) {
    for (errno, calls) in more {
        *all.entry(errno).or_default() += calls;
    }
}

/// What calls of a socket did, by its own word.
#[derive(Default)]
struct Calls {
    taken: u64,
    failed: Failed,
}

/// What a trace tells of one socket that may send to a port.
#[derive(Default)]
struct Seen {
    is_of_port: bool,
    /// Calls while it was connected to the port, and while it was not connected.
    connected: Calls,
    free: Calls,
    departed: u64,
    interfaces: BTreeSet<u32>,
    went_elsewhere: bool,
    /// Datagrams that were dropped before they departed; and those beyond the first of each joined buffer that was refused, or dropped
    /// by a queue.
    refused: u64,
    lost: u64,
    joined_refused: u64,
    joined_queued: u64,
}

/// By cookie and namespace. There may be tens of thousands: each row is looked at once.
fn seen(trace: &Trace, port: u16) -> BTreeMap<(u64, u32), Seen> {
    let mut home: HashMap<u64, u32> = HashMap::new();
    let mut all: BTreeMap<(u64, u32), Seen> = BTreeMap::new();
    for sends in &trace.sends {
        home.entry(sends.cookie).or_insert(sends.namespace);
        let seen = all.entry((sends.cookie, sends.namespace)).or_default();
        seen.is_of_port |= sends.port == port;
        let calls = match sends.port {
            0 => &mut seen.free,
            to if to == port => &mut seen.connected,
            _ => continue,
        };
        match sends.errno {
            0 => calls.taken += sends.datagrams,
            // EPERM is told of a datagram that netfilter dropped, ENOBUFS of one that a queue dropped.
            errno => *calls.failed.entry(errno).or_default() += sends.datagrams,
        }
    }
    // A bridge or router hands on what another namespace's socket sent: that has no calls here.
    let is_own = |cookie: u64, namespace: u32| cookie != 0 && home.get(&cookie).is_none_or(|home| *home == namespace);
    for passage in trace.departures.iter().filter(|passage| is_own(passage.cookie, passage.namespace)) {
        let seen = all.entry((passage.cookie, passage.namespace)).or_default();
        if passage.port == port {
            seen.is_of_port = true;
            seen.interfaces.insert(passage.interface);
            seen.departed += passage.datagrams;
        } else {
            seen.went_elsewhere |= passage.datagrams > 0;
        }
    }
    let drops = trace.drops.iter().filter(|drop| drop.outgoing && drop.port == port);
    for drop in drops.filter(|drop| is_own(drop.cookie, drop.namespace)) {
        let seen = all.entry((drop.cookie, drop.namespace)).or_default();
        seen.is_of_port = true;
        let joined = drop.datagrams.saturating_sub(drop.buffers);
        match Place::of_drop(&drop.reason, &drop.function, true) {
            Place::FirewallOut => {
                (seen.refused, seen.joined_refused) = (seen.refused + drop.datagrams, seen.joined_refused + joined);
            }
            Place::Qdisc => seen.joined_queued += joined,
            Place::NoRoute | Place::SendBuffer | Place::SendError | Place::Neighbour => seen.lost += drop.datagrams,
            _ => {}
        }
    }
    all
}

impl Seen {
    fn into_socket(mut self, (cookie, namespace): (u64, u32), beside: &mut Failed) -> SendingSocket {
        // A call that fails for a joined buffer fails for all its datagrams.
        for calls in [&mut self.connected, &mut self.free] {
            for (errno, joined) in [(Errno::EPERM, &mut self.joined_refused), (Errno::ENOBUFS, &mut self.joined_queued)]
            {
                if let Some(failed) = calls.failed.get_mut(&(errno as i32)) {
                    *failed += std::mem::take(joined);
                }
            }
        }
        // Of a socket that sends to several ports, what departed to this one and what was dropped on the way there came here.
        let is_connected = self.connected.taken > 0 || !self.connected.failed.is_empty();
        let calls = if is_connected || self.went_elsewhere { self.connected } else { std::mem::take(&mut self.free) };
        let failed = |errno: Errno| calls.failed.get(&(errno as i32)).copied().unwrap_or(0);
        // What the kernel took shows up again as departed, or as dropped on the way there.
        let seen = self.departed + self.lost + self.refused.saturating_sub(failed(Errno::EPERM));
        let seen = seen.saturating_sub(failed(Errno::ENOBUFS));
        // UDP_SEGMENT in control data: one call, many datagrams. Through a bridge of this host it departs twice.
        let is_seen_once = self.interfaces.len() == 1 || calls.taken == 0 && !is_connected;
        let taken = if is_seen_once { calls.taken.max(seen) } else { calls.taken };
        if let Some(known) = self.free.failed.get_mut(&(Errno::EPERM as i32)) {
            *known = known.saturating_sub(self.refused);
        }
        self.free.failed.retain(|_, calls| *calls > 0);
        add(beside, self.free.failed);
        SendingSocket { cookie, namespace, taken, failed: calls.failed, departed: self.departed }
    }
}

#[cfg(test)]
mod tests;
