//! What to do about a receive buffer that was full: a larger one, or a faster reader.
//!
//! A buffer only moves work to another time. It helps where the reader takes more than comes, on average, and must then hold
//! what its own held at the worst and what was dropped before that was empty again. Else a buffer of any size is filled.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_trace::SocketTrace;
use weir_units::format::{self, counted};

/// What helps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// SO_RCVBUF to ask for, bytes, which the kernel doubles; `null`: no buffer helps.
    pub receive_buffer: Option<u64>,
    /// How often the queue was full and emptied again: the buffer is for the worst of these.
    pub episodes: u64,
    /// Datagrams (buffers, where the kernel joins them) that came a second on average, since the first came.
    pub arrive_per_s: f64,
    /// How many its reader read a second while any waited: as many as it can.
    pub read_per_s: f64,
}

/// What helps a socket that was followed for `took_ns`; `None`: nothing was lost there, or nothing was read.
pub(crate) fn of(socket: &SocketTrace, took_ns: u64) -> Option<Advice> {
    if socket.dropped == 0 || took_ns == 0 {
        return None;
    }
    // Silence before the first of all tells nothing of its reader.
    let took_ns = took_ns.min(socket.age_ns).max(1);
    let waiting_ns = socket.waiting_ns.clamp(1, took_ns);
    let per_s = |datagrams: u64, ns: u64| datagrams as f64 / (ns as f64 / 1e9);
    let arrive_per_s = per_s(socket.enqueued + socket.dropped, took_ns);
    let read_per_s = per_s(socket.reads, waiting_ns);
    let receive_buffer = (arrive_per_s < TOO_MUCH * read_per_s).then(|| buffer(socket).div_ceil(2));
    Some(Advice { receive_buffer, episodes: socket.episodes, arrive_per_s, read_per_s })
}

/// What helps a socket whose queue was full, and of which nothing was read in all of `took_ns`: nothing came into it, so that it
/// was not followed.
pub(crate) fn of_nobody(dropped: u64, took_ns: u64) -> Option<Advice> {
    (dropped > 0 && took_ns > 0).then(|| Advice {
        receive_buffer: None,
        episodes: 1,
        arrive_per_s: dropped as f64 / (took_ns as f64 / 1e9),
        read_per_s: 0.0,
    })
}

impl Advice {
    /// Whether nothing was read at all.
    pub(crate) fn is_of_nobody(&self) -> bool {
        self.receive_buffer.is_none() && self.read_per_s == 0.0
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [arrive, read] = [self.arrive_per_s, self.read_per_s].map(|per_s| format::short(per_s.round()));
        match self.receive_buffer {
            _ if self.is_of_nobody() => write!(f, "no buffer helps: {arrive}/s arrive, and its reader reads nothing"),
            Some(buffer) => write!(
                f,
                "a receive buffer helps: SO_RCVBUF {}, for the worst of {} that it was full; {arrive}/s arrive, and its \
                 reader can read {read}/s",
                format::count(buffer.cast_signed()),
                counted(self.episodes as usize, "time")
            ),
            None => write!(
                f,
                "no buffer helps: {arrive}/s arrive, and its reader can read {read}/s: a faster handler, several \
                 datagrams a call (recvmmsg), more readers (SO_REUSEPORT)"
            ),
        }
    }
}

/// What to do about a reader that reads nothing.
pub(crate) const HANGS: &str =
    "no buffer helps, its reader reads nothing: see what it waits for (`cat /proc/PID/stack`, gdb)";

/// To the nearest: what is read between two counts is in one of them.
pub(crate) fn mean(bytes: u64, datagrams: u64) -> u64 {
    (bytes + datagrams / 2).checked_div(datagrams).unwrap_or(0)
}

/// Bytes of truesize.
fn buffer(socket: &SocketTrace) -> u64 {
    let held = u64::from(socket.receive_buffer) + socket.episode_max;
    // The kernel releases what was read in steps of a quarter of the buffer (net/ipv4/udp.c, udp_rmem_release).
    let bytes = held.saturating_mul(4).div_ceil(3);
    // The worst of a few is soon surpassed.
    let times = if socket.episodes < FEW { 2 } else { 1 };
    bytes.saturating_mul(times).next_multiple_of(PAGE)
}

/// Share of what its reader can read, from which on a queue has no end (M/M/1: it holds nine on average, and more at times).
const TOO_MUCH: f64 = 0.9;

const FEW: u64 = 4;

const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A handler of 0.5 ms a datagram at 5,000 a second: the commonest fault, in which no buffer helps.
    #[test]
    fn a_reader_that_is_too_slow_is_told_so() {
        let slow = SocketTrace {
            enqueued: 20_256,
            reads: 20_000,
            dropped: 29_744,
            age_ns: 10 * SECOND,
            waiting_ns: 10 * SECOND,
            episodes: 1,
            episode_max: 29_744 * 832,
            receive_buffer: 212_992,
            ..SocketTrace::default()
        };
        let advice = of(&slow, 11 * SECOND).unwrap();
        assert_eq!((advice.receive_buffer, advice.arrive_per_s, advice.read_per_s), (None, 5_000.0, 2_000.0));
    }

    /// 3,000/s all the time, a reader that takes 20 us and stalls for 100 ms twice a second.
    #[test]
    fn a_reader_that_stalls_now_and_then_needs_a_buffer() {
        let stalling = SocketTrace {
            enqueued: 29_000,
            reads: 29_000,
            dropped: 1_000,
            age_ns: 10 * SECOND,
            // Stalls, what is read after them, and each of the others for 20 us.
            waiting_ns: (200 + 40 + 48) * SECOND / 100,
            episodes: 20,
            episode_max: 50 * 1280,
            receive_buffer: 212_992,
            ..SocketTrace::default()
        };
        let advice = of(&stalling, 10 * SECOND).unwrap();
        assert_eq!((advice.arrive_per_s, advice.receive_buffer), (3_000.0, Some(186_368)));
        let seldom = of(&SocketTrace { episodes: 3, ..stalling }, 10 * SECOND).unwrap();
        assert_eq!(seldom.receive_buffer, Some(370_688));
    }

    #[test]
    fn a_reader_that_hangs_is_told_so() {
        let advice = of_nobody(5_000, 2 * SECOND).unwrap();
        assert!(advice.is_of_nobody());
        assert_eq!((advice.arrive_per_s, of_nobody(0, SECOND)), (2_500.0, None));
    }

    #[test]
    fn where_nothing_was_lost_there_is_no_advice() {
        assert_eq!(of(&SocketTrace { reads: 9, enqueued: 9, ..SocketTrace::default() }, SECOND), None);
    }
}
