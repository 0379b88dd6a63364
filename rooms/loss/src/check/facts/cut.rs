//! Datagrams that a program reads into too small a buffer: the kernel throws the rest away, and counts nothing.

use weir_kernel::trace::Trace;

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

/// Datagrams that came to the port of a socket, and their bytes; `None`: there are others of that port, or it is not traced.
pub(in crate::check) fn came_to(trace: &Trace, cookie: u64, namespace: u32) -> Option<(u64, u64)> {
    let socket = trace.sockets.iter().find(|socket| socket.cookie == cookie)?;
    let is_other = |other: u64| other != cookie;
    let others = trace.sockets.iter().filter(|other| (other.port, other.namespace) == (socket.port, namespace));
    if others.map(|other| other.cookie).any(is_other) {
        return None;
    }
    let came = trace.arrivals.iter().filter(|count| (count.port, count.namespace) == (socket.port, namespace));
    let sum = came.fold((0, 0), |sum, count| (sum.0 + count.datagrams, sum.1 + count.bytes));
    (sum.0 > 0).then_some(sum)
}

/// Of UDP over IPv6.
const MOST_PAYLOAD: u64 = 65_527;

#[cfg(test)]
mod tests {
    use weir_kernel::trace::{InterfaceCount, SocketTrace};

    use super::*;

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
