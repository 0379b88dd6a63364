//! Datagrams that a program reads into too small a buffer: the kernel throws the rest away, and counts nothing.

use weir_kernel::trace::{Drop, InterfaceCount, SocketTrace, Trace};

use super::Receiver;

/// Bytes that were cut off of what a socket gave in the time of a trace, at least. `None`: none, as far as can be told; 0: maybe.
/// How long those are of which no call has told yet is not known: as long as datagrams can be.
pub(super) fn at_least(trace: &Trace, cookie: u64, namespace: u32) -> Option<u64> {
    let socket = trace.sockets.iter().find(|socket| socket.cookie == cookie && socket.reads > 0)?;
    // Of joined ones a call takes many.
    if socket.read_datagrams != Some(socket.reads) || trace.missed.total() > 0 {
        return None;
    }
    let (came, bytes) = came_to(trace, cookie, namespace)?;
    // What waited before was read first, and has not come since.
    let read = socket.reads.saturating_sub(socket.queued_before.unwrap_or(0));
    let unread = came.checked_sub(read)?;
    let missing = bytes.checked_sub(socket.read_bytes).filter(|missing| *missing > 0)?;
    Some(missing.saturating_sub(unread.saturating_mul(MOST_PAYLOAD)))
}

/// As [`at_least`], where datagrams come all the time and some are always under way. `came` is what came since the first
/// reading of the socket, and before its last: of these only what is in its queue now may be unread, and no payload is longer
/// than its memory. `None`: it cannot be told, for some may never have come to the queue.
pub(super) fn in_motion(trace: &Trace, came: &[InterfaceCount], cookie: u64, namespace: u32) -> Option<u64> {
    let socket = trace.sockets.iter().find(|socket| socket.cookie == cookie && socket.reads > 0)?;
    if socket.read_datagrams != Some(socket.reads) || trace.missed.total() > 0 {
        return None;
    }
    let own = |drop: &&Drop| (drop.port == socket.port || drop.port == 0) && [namespace, 0].contains(&drop.namespace);
    let lost = trace.drops.iter().filter(own).any(|drop| drop.datagrams > 0);
    if lost || socket.dropped > 0 || trace.reassembling > 0 || shares_its_port(trace, cookie, namespace) {
        return None;
    }
    let (came, bytes) = sum(came, socket.port, namespace);
    (came <= socket.enqueued).then(|| bytes.saturating_sub(socket.read_bytes).saturating_sub(socket.level.into()))
}

/// Why nobody can tell whether the program of a receiver cuts off; `None`: it can be told.
pub(super) fn why_unknown(trace: &Trace, receiver: &Receiver, namespace: u32) -> Option<&'static str> {
    let socket = trace.sockets.iter().find(|socket| socket.cookie == receiver.cookie);
    let joined = socket.is_some_and(|socket| socket.reads > 0 && socket.read_datagrams != Some(socket.reads));
    if receiver.joins == Some(true) || joined {
        return Some("it takes joined datagrams, UDP_GRO");
    }
    if shares_its_port(trace, receiver.cookie, namespace) {
        return Some("several sockets have its port");
    }
    (trace.missed.total() > 0).then_some("the trace missed some")
}

/// Whether other sockets of its port are traced.
fn shares_its_port(trace: &Trace, cookie: u64, namespace: u32) -> bool {
    let Some(socket) = trace.sockets.iter().find(|socket| socket.cookie == cookie) else { return false };
    let is_other = |other: &SocketTrace| other.cookie != cookie;
    trace.sockets.iter().any(|other| (other.port, other.namespace) == (socket.port, namespace) && is_other(other))
}

/// Datagrams and bytes to a port.
fn sum(arrivals: &[InterfaceCount], port: u16, namespace: u32) -> (u64, u64) {
    let came = arrivals.iter().filter(|count| (count.port, count.namespace) == (port, namespace));
    came.fold((0, 0), |sum, count| (sum.0 + count.datagrams, sum.1 + count.bytes))
}

/// Datagrams that came to the port of a socket, and their bytes; `None`: there are others of that port, or it is not traced.
pub(in crate::check) fn came_to(trace: &Trace, cookie: u64, namespace: u32) -> Option<(u64, u64)> {
    let socket = trace.sockets.iter().find(|socket| socket.cookie == cookie)?;
    if shares_its_port(trace, cookie, namespace) {
        return None;
    }
    let sum = sum(&trace.arrivals, socket.port, namespace);
    (sum.0 > 0).then_some(sum)
}

/// Of UDP over IPv6.
const MOST_PAYLOAD: u64 = 65_527;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::Counted;

    const HERE: u32 = 7;

    /// So many of 100 bytes came, and were read with so many bytes.
    fn trace(came: u64, reads: u64, read_bytes: u64) -> Trace {
        let socket = SocketTrace {
            cookie: 5,
            namespace: HERE,
            port: 5000,
            reads,
            read_bytes,
            read_datagrams: Some(reads),
            queued_before: Some(0),
            ..SocketTrace::default()
        };
        let arrivals = |namespace| InterfaceCount {
            namespace,
            port: 5000,
            datagrams: came,
            bytes: came * 100,
            ..InterfaceCount::default()
        };
        Trace { sockets: vec![socket], arrivals: vec![arrivals(HERE), arrivals(8)], ..Trace::default() }
    }

    #[test]
    fn what_no_call_has_told_of_may_be_as_long_as_a_datagram_can_be() {
        let cut = |trace: &Trace| at_least(trace, 5, HERE);
        assert_eq!(cut(&trace(20, 20, 20 * 50)), Some(1000));
        assert_eq!(cut(&trace(20, 19, 19 * 50)), Some(0));
        assert_eq!(cut(&trace(20_000, 19_990, 19_990 * 50)), Some(20_000 * 100 - 19_990 * 50 - 10 * 65_527));
        assert_eq!(cut(&trace(20, 20, 20 * 100)), None);
        // Those that waited before are none that came; nor can it be told where more was read than came.
        let mut before = trace(20, 23, 20 * 100 + 3 * 7);
        before.sockets[0].queued_before = Some(3);
        assert_eq!(cut(&before), None);
        assert_eq!(cut(&trace(20, 21, 21 * 50)), None);
    }

    /// Always a few wait: 300 came while it was looked, three of them are in the queue.
    fn moving(length: u64, reads_with: u64, level: u32) -> Option<u64> {
        let mut trace = trace(300, 297, 297 * length.min(reads_with));
        (trace.sockets[0].enqueued, trace.sockets[0].level) = (300, level);
        let came = [InterfaceCount { bytes: 300 * length, ..trace.arrivals[0] }];
        in_motion(&trace, &came, 5, HERE)
    }

    #[test]
    fn what_is_cut_off_is_found_while_datagrams_come_all_the_time() {
        assert_eq!(moving(200, 20, 3 * 768), Some(300 * 200 - 297 * 20 - 3 * 768));
        for (length, reads_with, truesize) in [(300, 250, 768), (1400, 1000, 2304), (9000, 8192, 10_240)] {
            assert!(moving(length, reads_with, 3 * truesize).unwrap() > 0, "{length}");
            assert_eq!(moving(length, 65_536, 3 * truesize), Some(0), "{length}");
        }
    }

    #[test]
    fn a_reader_of_short_and_long_ones_is_no_reader_that_cuts_off() {
        // The two long ones of 300 wait; or are lost, or wait for fragments, or are somebody else's.
        let healthy = || {
            let mut trace = trace(300, 298, 298 * 20);
            (trace.sockets[0].enqueued, trace.sockets[0].level) = (300, 2 * 65_536);
            trace
        };
        let came = |trace: &Trace| [InterfaceCount { bytes: 298 * 20 + 2 * 60_000, ..trace.arrivals[0] }];
        let told = |trace: &Trace| in_motion(trace, &came(trace), 5, HERE);
        assert_eq!(told(&healthy()), Some(0));
        let elsewhere = |change: &dyn Fn(&mut Trace)| {
            let mut trace = healthy();
            trace.sockets[0].level = 0;
            change(&mut trace);
            told(&trace)
        };
        assert_eq!(elsewhere(&|trace| trace.sockets[0].enqueued = 298), None);
        assert_eq!(elsewhere(&|trace| trace.sockets[0].dropped = 2), None);
        assert_eq!(elsewhere(&|trace| trace.reassembling = 1), None);
        let lost = Drop { namespace: HERE, port: 5000, datagrams: 2, ..Drop::default() };
        assert_eq!(elsewhere(&|trace| trace.drops = vec![lost.clone()]), None);
        // More was read than came: of what waited before.
        let mut before = healthy();
        before.sockets[0].read_bytes = 10_000_000;
        assert_eq!(told(&before), Some(0));
    }

    #[test]
    fn where_nobody_can_tell_it_is_said_why() {
        let receiver = |joins| Receiver {
            address: "127.0.0.1:5000".parse().unwrap(),
            cookie: 5,
            pid: None,
            process: None,
            buffer: 0,
            level: 0,
            drops: Counted::default(),
            hangs: false,
            cut: 0,
            joins,
        };
        let why = |trace: &Trace, joins| why_unknown(trace, &receiver(joins), HERE);
        assert_eq!(why(&trace(20, 20, 2000), Some(false)), None);
        assert!(why(&trace(20, 20, 2000), Some(true)).unwrap().contains("UDP_GRO"));
        let mut joined = trace(20, 10, 1000);
        joined.sockets[0].read_datagrams = None;
        assert!(why(&joined, None).unwrap().contains("UDP_GRO"));
        let mut several = trace(20, 20, 2000);
        several.sockets.push(SocketTrace { cookie: 6, ..several.sockets[0] });
        assert!(why(&several, None).unwrap().contains("several"));
    }

    #[test]
    fn joined_ones_and_those_of_several_sockets_are_not_told() {
        let mut joined = trace(20, 10, 10 * 50);
        joined.sockets[0].read_datagrams = Some(20);
        assert_eq!(at_least(&joined, 5, HERE), None);
        let mut several = trace(20, 20, 20 * 50);
        several.sockets.push(SocketTrace { cookie: 6, ..several.sockets[0] });
        assert_eq!(at_least(&several, 5, HERE), None);
        // That of another namespace is another's.
        several.sockets[1].namespace = 8;
        assert_eq!(at_least(&several, 5, HERE), Some(1000));
    }
}
