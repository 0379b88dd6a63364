//! What is known when an account is closed: differences of counters, what was traced, who was there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_trace::{BySource, Detail, Drop, InterfaceCount, Prefixes, Sends, SocketTrace, SourceArrivals, Trace};

use super::session::{ReceivedSession, SentSession};
use crate::reading::Loss;

/// Everything a ledger is made of. All counts are of the time that is accounted for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Evidence {
    /// The port that datagrams go to.
    pub(super) port: u16,
    /// The sockets that receive there, or did.
    pub(super) sockets: Vec<SocketSeen>,
    /// How much was traced; `None`: nothing.
    pub(super) detail: Option<Detail>,
    /// What was traced.
    pub(super) trace: Trace,
    /// How sources are told apart; `None`: they are not asked for.
    pub(super) by_source: Option<Prefixes>,
    /// By how much totals may be apart, for they moved while they were read, datagrams.
    pub(super) moving: u64,
    /// Time in softirq of the processor that spent most there.
    pub(super) busiest_softirq: Duration,
    /// How long was followed.
    pub(super) took: Duration,
    /// The namespaces followed.
    pub(super) namespaces: Vec<NamespaceEvidence>,
    /// The group followed, if one was asked for.
    pub(super) group: Option<IpAddr>,
    /// What `weir send` told of its session.
    pub(super) sent: Option<SentSession>,
    /// What `weir recv` told.
    pub(super) received: Option<ReceivedSession>,
    /// Whether several ports are followed, so that what has no port cannot be attributed.
    pub(super) several_ports: bool,
}

#[cfg(debug_assertions)]
impl Evidence {
    /// Writes itself and what was made of it below the folder `WEIR_RECORD`: tests close it again (`recorded.rs`).
    pub(super) fn record(&self, everybody: &[SocketSeen], ledgers: &[super::book::Ledger]) {
        let Some(folder) = std::env::var_os("WEIR_RECORD") else { return };
        let file = std::path::Path::new(&folder).join(format!("{}-{}.json", std::process::id(), self.port));
        let _ = serde_json::to_vec(&(self, everybody, ledgers)).map(|text| std::fs::write(file, text));
    }
}

/// One namespace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NamespaceEvidence {
    /// Its inode number.
    pub(super) inode: u32,
    /// By how much its counters rose: `Udp.NoPorts`. Those that did not are not here.
    pub(super) counters: BTreeMap<String, u64>,
    /// UDP sockets seen in it, followed or not.
    pub(super) udp_sockets: usize,
    /// Packets waiting in the queues of its interfaces.
    pub(super) queued: u64,
    /// Next hops whose address is being asked for.
    pub(super) incomplete: u64,
    /// Losses that its counters tell, of all ports, and those that all namespaces share.
    pub(super) losses: Vec<Loss>,
}

impl NamespaceEvidence {
    /// By how much a counter rose.
    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// A UDP socket that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SocketSeen {
    /// Its cookie; where the kernel does not tell cookies, its inode number.
    pub(super) cookie: u64,
    /// Whether it is a cookie.
    pub(super) has_cookie: bool,
    /// Its namespace.
    pub(super) namespace: u32,
    /// What it is bound to; `None`: it was seen by the trace alone.
    pub(super) local: Option<SocketAddr>,
    /// What it is connected to.
    pub(super) peer: Option<SocketAddr>,
    /// The process that holds it, and its name.
    pub(super) process: Option<(u32, String)>,
    /// Whether that is the command that is followed, of which this socket's own process descends or is it: nobody was seen
    /// to hold it.
    pub(super) by_descent: bool,
    /// Datagrams it dropped (SK_MEMINFO_DROPS); a lower bound if it is gone.
    pub(super) drops: u64,
    /// Memory in its receive queue when it was first seen.
    pub(super) queued_at_start: u32,
    /// Memory in its receive queue now; 0 if it is gone.
    pub(super) queued: u32,
    /// SO_RCVBUF as granted.
    pub(super) receive_buffer: Option<u32>,
    /// Whether it is gone.
    pub(super) gone: bool,
    /// Number of the reading that saw it first; `None`: it was there at the start.
    pub(super) came: Option<u64>,
    /// Number of the reading that missed it first; `None`: it is still there, or only the trace saw it.
    pub(super) went: Option<u64>,
    /// Whether it was asked for, as far as that is known.
    pub(super) chosen: bool,
}

impl SocketSeen {
    /// A socket of which the trace alone knows: nobody listed it while it was there.
    pub(super) fn traced(cookie: u64, namespace: u32) -> SocketSeen {
        SocketSeen { cookie, has_cookie: true, namespace, gone: true, chosen: true, ..SocketSeen::default() }
    }
}

/// What was counted between two readings of one tracer. A total that went back, which none does, counts 0.
pub(crate) fn difference(later: &Trace, earlier: &Trace) -> Trace {
    Trace {
        drops: subtract(&later.drops, &earlier.drops, drop_key, drop_less),
        arrivals: interface_counts(&later.arrivals, &earlier.arrivals),
        departures: interface_counts(&later.departures, &earlier.departures),
        sends: subtract(&later.sends, &earlier.sends, sends_key, |sends, before| Sends {
            calls: sends.calls.saturating_sub(before.calls),
            datagrams: sends.datagrams.saturating_sub(before.datagrams),
            ..*sends
        }),
        sockets: subtract(&later.sockets, &earlier.sockets, |socket| socket.cookie, socket_difference),
        reassembling: later.reassembling,
        by_source: by_source(&later.by_source, &earlier.by_source),
        used_by_descendants: later.used_by_descendants.clone(),
        missed: later.missed.since(&earlier.missed),
    }
}

fn by_source(later: &BySource, earlier: &BySource) -> BySource {
    let key = |arrivals: &SourceArrivals| (arrivals.source, arrivals.namespace, arrivals.port);
    BySource {
        arrivals: subtract(&later.arrivals, &earlier.arrivals, key, |arrivals, before| SourceArrivals {
            datagrams: arrivals.datagrams.saturating_sub(before.datagrams),
            ..*arrivals
        }),
        drops: subtract(
            &later.drops,
            &earlier.drops,
            |(source, drop)| (*source, drop_key(drop)),
            |(source, drop), (_, before)| (*source, drop_less(drop, before)),
        ),
        evicted: later.evicted.saturating_sub(earlier.evicted),
    }
}

fn drop_less(drop: &Drop, before: &Drop) -> Drop {
    Drop {
        datagrams: drop.datagrams.saturating_sub(before.datagrams),
        buffers: drop.buffers.saturating_sub(before.buffers),
        ..drop.clone()
    }
}

fn interface_counts(later: &[InterfaceCount], earlier: &[InterfaceCount]) -> Vec<InterfaceCount> {
    let key = |p: &InterfaceCount| (p.namespace, p.interface, p.port, p.cookie, p.cast);
    subtract(later, earlier, key, |count, before| InterfaceCount {
        datagrams: count.datagrams.saturating_sub(before.datagrams),
        bytes: count.bytes.saturating_sub(before.bytes),
        ..*count
    })
}

fn socket_difference(socket: &SocketTrace, before: &SocketTrace) -> SocketTrace {
    SocketTrace {
        enqueued: socket.enqueued.saturating_sub(before.enqueued),
        reads: socket.reads.saturating_sub(before.reads),
        read_bytes: socket.read_bytes.saturating_sub(before.read_bytes),
        read_datagrams: socket
            .read_datagrams
            .zip(before.read_datagrams)
            .map(|(datagrams, before)| datagrams.saturating_sub(before)),
        stalled_ns: socket.stalled_ns.saturating_sub(before.stalled_ns),
        waiting_ns: socket.waiting_ns.saturating_sub(before.waiting_ns),
        dropped: socket.dropped.saturating_sub(before.dropped),
        queued_before: before.queued_before.map(|queued| (queued + before.enqueued).saturating_sub(before.reads)),
        episodes: socket.episodes.saturating_sub(before.episodes),
        reader_waited_ns: socket
            .reader_waited_ns
            .map(|waited| waited.saturating_sub(before.reader_waited_ns.unwrap_or(0))),
        ..*socket
    }
}

type DropKey<'a> = (&'a str, &'a str, u32, u32, u64, u16, bool);

fn drop_key(drop: &Drop) -> DropKey<'_> {
    let Drop { reason, function, namespace, interface, cookie, port, outgoing, .. } = drop;
    (reason, function, *namespace, *interface, *cookie, *port, *outgoing)
}

fn sends_key(sends: &Sends) -> (u64, u32, u16, u16, i32) {
    (sends.cookie, sends.namespace, sends.from_port, sends.port, sends.errno)
}

/// Each row less the row of the same key before.
fn subtract<'a, T: Clone, K: Eq + Hash + 'a>(
    later: &'a [T],
    earlier: &'a [T],
    key: impl Fn(&'a T) -> K,
    less: impl Fn(&T, &T) -> T,
) -> Vec<T> {
    let before: HashMap<K, &T> = earlier.iter().map(|row| (key(row), row)).collect();
    later.iter().map(|row| before.get(&key(row)).map_or_else(|| row.clone(), |before| less(row, before))).collect()
}

/// What may concern a port, of all that was traced: its rows, those of no known port, and those of its sockets. What left may tell of
/// whoever sends there, too, and stays whole.
pub(super) fn of_port(trace: &Trace, port: u16, sockets: &BTreeSet<u64>) -> Trace {
    let is_own = |to: u16, cookie: u64| to == port || to == 0 || sockets.contains(&cookie);
    Trace {
        drops: trace.drops.iter().filter(|drop| is_own(drop.port, drop.cookie)).cloned().collect(),
        arrivals: trace.arrivals.iter().filter(|count| is_own(count.port, 0)).copied().collect(),
        departures: trace.departures.clone(),
        sends: trace.sends.clone(),
        sockets: trace.sockets.iter().filter(|socket| is_own(socket.port, socket.cookie)).copied().collect(),
        reassembling: trace.reassembling,
        by_source: trace.by_source.clone(),
        used_by_descendants: trace.used_by_descendants.clone(),
        missed: trace.missed,
    }
}

/// How many datagrams of these ports moved between two readings, counted at each step they took; no ports: of all.
pub(super) fn moved(later: &Trace, earlier: &Trace, ports: &BTreeSet<u16>) -> u64 {
    let moved = moved_by_port(later, earlier).into_iter();
    moved.filter(|(port, _)| ports.is_empty() || ports.contains(port)).map(|(_, datagrams)| datagrams).sum()
}

/// The same of each port.
pub(super) fn moved_by_port(later: &Trace, earlier: &Trace) -> HashMap<u16, u64> {
    let moved = difference(later, earlier);
    let drops = moved.drops.iter().map(|drop| (drop.port, drop.datagrams));
    let passages = moved.arrivals.iter().chain(&moved.departures).map(|count| (count.port, count.datagrams));
    let sends = moved.sends.iter().map(|sends| (sends.port, sends.datagrams));
    let sockets = moved.sockets.iter().map(|socket| (socket.port, socket.enqueued + socket.reads));
    let mut ports: HashMap<u16, u64> = HashMap::new();
    for (port, datagrams) in drops.chain(passages).chain(sends).chain(sockets).filter(|(_, datagrams)| *datagrams > 0) {
        *ports.entry(port).or_default() += datagrams;
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop(port: u16, cookie: u64, datagrams: u64) -> Drop {
        Drop { reason: "NO_SOCKET".into(), port, cookie, datagrams, ..Drop::default() }
    }

    /// Of each of 100 ports a ledger is made of its own rows, not of those of a scan of all.
    #[test]
    fn a_port_has_its_own_rows_and_those_that_tell_no_port() {
        let passed = |port| InterfaceCount {
            namespace: 1,
            interface: 2,
            port,
            cookie: 3,
            datagrams: 1,
            bytes: 9,
            ..InterfaceCount::default()
        };
        let trace = Trace {
            drops: (0..=u16::MAX).map(|port| drop(port, 0, 1)).chain([drop(9, 77, 5)]).collect(),
            arrivals: (1..=u16::MAX).map(passed).collect(),
            departures: (1..=u16::MAX).map(passed).collect(),
            sockets: [(5000, 76), (9, 77), (9, 78)]
                .map(|(port, cookie)| SocketTrace { port, cookie, ..SocketTrace::default() })
                .to_vec(),
            ..Trace::default()
        };
        let own = of_port(&trace, 5000, &[77].into());
        let drops: Vec<(u16, u64)> = own.drops.iter().map(|drop| (drop.port, drop.cookie)).collect();
        assert_eq!(drops, [(0, 0), (5000, 0), (9, 77)]);
        assert_eq!(own.sockets.iter().map(|socket| socket.cookie).collect::<Vec<_>>(), [76, 77]);
        // Whoever sends to several ports is known by all that left.
        assert_eq!((own.arrivals.len(), own.departures.len()), (1, trace.departures.len()));
    }

    #[test]
    fn what_moved_is_known_of_all_ports_at_once() {
        let traced = |counts: &[(u16, u64)]| Trace {
            drops: counts.iter().map(|&(port, datagrams)| drop(port, 0, datagrams)).collect(),
            sockets: vec![SocketTrace {
                port: 9,
                cookie: 1,
                enqueued: 2,
                reads: counts[0].1,
                ..SocketTrace::default()
            }],
            ..Trace::default()
        };
        let (earlier, later) = (traced(&[(9, 1), (10, 4), (11, 6)]), traced(&[(9, 3), (10, 4), (11, 7)]));
        assert_eq!(moved_by_port(&later, &earlier), HashMap::from([(9, 4), (11, 1)]));
        let moved = |ports: &[u16]| moved(&later, &earlier, &ports.iter().copied().collect());
        assert_eq!([moved(&[]), moved(&[9]), moved(&[9, 10]), moved(&[10])], [5, 4, 4, 0]);
    }
}
