//! Who sent to a port, how many datagrams, and which calls failed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use nix::errno::Errno;
use weir_trace::{Drop, InterfaceCount, Sends, Trace};

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
    pub(super) beside: BTreeMap<i32, u64>,
    /// Datagrams handed to an interface's queue.
    pub(super) departed: u64,
}

impl SendingSocket {
    /// Datagrams it tried to send.
    pub(super) fn tried(&self) -> u64 {
        self.taken + self.failed.values().sum::<u64>()
    }
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
            ..SendingSocket::default()
        });
        match sends.errno {
            0 => socket.taken += sends.datagrams,
            errno => *socket.failed.entry(errno).or_default() += sends.datagrams,
        }
    }
    sockets.into_values().collect()
}

/// Calls that failed, by error number, of which nobody can tell whether they meant this port: of senders to several ports and, if
/// this port is followed `alone`, of sockets that are not connected and of which nothing departed.
pub(super) fn failed_beside(trace: &Trace, senders: &[SendingSocket], alone: bool) -> BTreeMap<i32, u64> {
    let own: HashSet<u64> = senders.iter().map(|sender| sender.cookie).collect();
    let others = if alone { guessed_sockets(trace) } else { Vec::new() };
    let others = others.into_iter().filter(|socket| !own.contains(&socket.cookie)).flat_map(|socket| socket.failed);
    let mut failed = BTreeMap::new();
    for (errno, calls) in senders.iter().flat_map(|sender| sender.beside.clone()).chain(others) {
        *failed.entry(errno).or_default() += calls;
    }
    failed
}

/// What a trace tells of one socket that may send to a port.
#[derive(Default)]
struct Rows<'a> {
    sends: Vec<&'a Sends>,
    departures: Vec<&'a InterfaceCount>,
    /// Drops on the way out, of what was for the port.
    drops: Vec<&'a Drop>,
}

fn certain_sockets(trace: &Trace, port: u16) -> Vec<SendingSocket> {
    // There may be tens of thousands, and each is asked for its own.
    let mut sockets: BTreeMap<u64, Rows<'_>> = BTreeMap::new();
    for sends in &trace.sends {
        sockets.entry(sends.cookie).or_default().sends.push(sends);
    }
    for passage in trace.departures.iter().filter(|passage| passage.cookie != 0) {
        sockets.entry(passage.cookie).or_default().departures.push(passage);
    }
    for drop in trace.drops.iter().filter(|drop| drop.outgoing && drop.cookie != 0 && drop.port == port) {
        sockets.entry(drop.cookie).or_default().drops.push(drop);
    }
    let mut sending = Vec::new();
    for (cookie, rows) in &sockets {
        let sent = rows.sends.iter().filter(|sends| sends.port == port).map(|sends| sends.namespace);
        let departed = rows.departures.iter().filter(|passage| passage.port == port).map(|passage| passage.namespace);
        let dropped = rows.drops.iter().map(|drop| drop.namespace);
        // A bridge or router hands on what another namespace's socket sent: that has no calls here.
        let is_own = |namespace: &u32| rows.sends.first().is_none_or(|sends| sends.namespace == *namespace);
        let namespaces: BTreeSet<u32> = sent.chain(departed).chain(dropped).filter(is_own).collect();
        sending.extend(namespaces.into_iter().map(|namespace| sending_socket(rows, port, *cookie, namespace)));
    }
    sending.retain(|socket| socket.tried() > 0 || !socket.beside.is_empty());
    sending
}

fn sending_socket(rows: &Rows<'_>, port: u16, cookie: u64, namespace: u32) -> SendingSocket {
    let mut interfaces: BTreeSet<u32> = BTreeSet::new();
    let (mut departed, mut went_elsewhere) = (0, false);
    for passage in rows.departures.iter().filter(|passage| passage.namespace == namespace) {
        if passage.port == port {
            interfaces.insert(passage.interface);
            departed += passage.datagrams;
        } else {
            went_elsewhere |= passage.datagrams > 0;
        }
    }
    // Datagrams that were dropped before they departed; and those beyond the first of each joined buffer that was refused, or
    // dropped by a queue.
    let (mut refused, mut lost, mut joined_refused, mut joined_queued) = (0, 0, 0, 0);
    for drop in rows.drops.iter().filter(|drop| drop.namespace == namespace) {
        let joined = drop.datagrams.saturating_sub(drop.buffers);
        match Place::of_drop(&drop.reason, &drop.function, true) {
            Place::FirewallOut => (refused, joined_refused) = (refused + drop.datagrams, joined_refused + joined),
            Place::Qdisc => joined_queued += joined,
            Place::NoRoute | Place::SendBuffer | Place::SendError | Place::Neighbour => lost += drop.datagrams,
            _ => {}
        }
    }
    let (mut connected, mut free) = (Calls::default(), Calls::default());
    for sends in &rows.sends {
        let calls = match sends.port {
            0 => &mut free,
            to if to == port => &mut connected,
            _ => continue,
        };
        match sends.errno {
            0 => calls.taken += sends.datagrams,
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
    // Of a socket that sends to several ports, what departed to this one and what was dropped on the way there came here.
    let is_connected = connected.any();
    let calls = if is_connected || went_elsewhere { connected } else { std::mem::take(&mut free) };
    let failed = |errno: Errno| calls.failed.get(&(errno as i32)).copied().unwrap_or(0);
    // What the kernel took shows up again as departed, or as dropped on the way there.
    let seen = departed + lost + refused.saturating_sub(failed(Errno::EPERM));
    let seen = seen.saturating_sub(failed(Errno::ENOBUFS));
    // UDP_SEGMENT in control data: one call, many datagrams. Through a bridge of this host it departs twice.
    let is_seen_once = interfaces.len() == 1 || calls.taken == 0 && !is_connected;
    let taken = if is_seen_once { calls.taken.max(seen) } else { calls.taken };
    if let Some(known) = free.failed.get_mut(&(Errno::EPERM as i32)) {
        *known = known.saturating_sub(refused);
    }
    free.failed.retain(|_, calls| *calls > 0);
    SendingSocket { cookie, namespace, taken, failed: calls.failed, beside: free.failed, departed }
}

/// What calls of a socket did, by its own word.
#[derive(Default)]
struct Calls {
    taken: u64,
    failed: BTreeMap<i32, u64>,
}

impl Calls {
    fn any(&self) -> bool {
        self.taken > 0 || !self.failed.is_empty()
    }
}

#[cfg(test)]
mod tests;
