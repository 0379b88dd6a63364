//! What to do about a receive buffer that was full: a larger one, a faster reader, or both.
//!
//! A buffer only moves work to another time. It helps where the reader was idle for long enough to have read what was
//! lost, and must then hold what its own held at the worst and what was dropped before that was empty again. Where the
//! reader was never idle, it is too slow, and a buffer of any size is filled.

use serde::{Deserialize, Serialize};
use weir_kernel::trace::SocketTrace;

/// What helps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// SO_RCVBUF to ask for, bytes, which the kernel doubles; `null`: no buffer helps.
    pub receive_buffer: Option<u64>,
    /// How often the queue was full and emptied again: the buffer is for the worst of these.
    pub episodes: u64,
    /// Datagrams (buffers, where the kernel joins them) that came a second while any waited.
    pub arrive_per_s: f64,
    /// Datagrams (buffers, as above) that came a second on average, since the first came; 0: not told.
    #[serde(default)]
    pub mean_per_s: f64,
    /// How many its reader read a second while any waited.
    pub read_per_s: f64,
    /// Share of the time in which nothing waited: what the reader has to spare, percent.
    pub idle_pct: f64,
    /// Whether the reader is too slow, or nearly so.
    pub reader_too_slow: bool,
    /// What `weir loss check` needs to know to provide that buffer; `null`: no buffer helps.
    #[serde(default)]
    pub load: Option<Wait>,
}

/// The load for which that buffer is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Datagrams (buffers, where the kernel joins them) a second, while any wait.
    pub rate_per_s: u64,
    /// Payload of each, bytes, on average, as it came: of all that are joined in a buffer as it was read. `null`: not known.
    pub payload: Option<u64>,
    /// As long as so many would fill the buffer, milliseconds: a stall as bad as the bursts and stalls that were seen.
    pub stall_ms: u64,
}

/// What helps a socket that was followed for `took_ns`; `None`: nothing was lost there, or nothing was read. `came`: datagrams and
/// bytes that came to its port, where that is known.
pub(crate) fn of(socket: &SocketTrace, took_ns: u64, came: Option<(u64, u64)>) -> Option<Advice> {
    if socket.dropped == 0 || took_ns == 0 {
        return None;
    }
    // Silence before the first of all tells nothing of its reader.
    let took_ns = took_ns.min(socket.age_ns).max(1);
    let waiting = socket.waiting_ns.min(took_ns) as f64;
    let idle = took_ns as f64 - waiting;
    // What was lost would have been read meanwhile.
    let share = socket.dropped as f64 * each_ns(socket) / idle.max(1.0);
    let helps = share < TOO_MUCH && socket.reads > 0;
    let seconds = (waiting / 1e9).max(1e-9);
    let arrive_per_s = arrive_per_s(socket, seconds);
    let receive_buffer = helps.then(|| buffer(socket, share).div_ceil(2));
    Some(Advice {
        receive_buffer,
        episodes: socket.episodes,
        load: receive_buffer.map(|buffer| wait(socket, arrive_per_s, 2 * buffer, came)),
        arrive_per_s,
        mean_per_s: (socket.enqueued + socket.dropped) as f64 / (took_ns as f64 / 1e9),
        read_per_s: socket.reads as f64 / seconds,
        idle_pct: idle * 100.0 / took_ns as f64,
        reader_too_slow: share > MUCH || !helps,
    })
}

/// What helps a socket whose queue was full, and of which nothing was read in all of `took_ns`: nothing came into it, so that it
/// was not followed.
pub(crate) fn of_nobody(dropped: u64, took_ns: u64) -> Option<Advice> {
    (dropped > 0 && took_ns > 0).then(|| Advice {
        receive_buffer: None,
        episodes: 1,
        arrive_per_s: dropped as f64 / (took_ns as f64 / 1e9),
        mean_per_s: dropped as f64 / (took_ns as f64 / 1e9),
        read_per_s: 0.0,
        idle_pct: 0.0,
        reader_too_slow: true,
        load: None,
    })
}

impl Advice {
    /// Whether nothing was read at all.
    pub(crate) fn is_of_nobody(&self) -> bool {
        self.receive_buffer.is_none() && self.read_per_s == 0.0
    }
}

/// What to do about a reader that reads nothing.
pub(crate) const HANGS: &str =
    "no buffer helps, its reader reads nothing: see what it waits for (`cat /proc/PID/stack`, gdb)";

/// Datagrams a second while any wait. What comes into the empty queue begins such a time, and came in none: a quick reader
/// has as many of these times as datagrams, all of them short. In stalls the rate is that of the sender alone.
fn arrive_per_s(socket: &SocketTrace, seconds: f64) -> f64 {
    let waiting = (socket.enqueued + socket.dropped).saturating_sub(socket.began) as f64 / seconds;
    let stalled = socket.came_in_stalls as f64 / (socket.stalled_ns as f64 / 1e9).max(1e-9);
    if socket.came_in_stalls < ENOUGH { waiting } else { waiting.max(stalled) }
}

fn wait(socket: &SocketTrace, arrive_per_s: f64, buffer: u64, came: Option<(u64, u64)>) -> Wait {
    // The load's datagrams are what the socket's buffers are: what a check weighs is one that is as large.
    let read = mean(socket.read_bytes, socket.reads).min(MOST_PAYLOAD);
    let is_joined = socket.read_datagrams != Some(socket.reads);
    // What its program cuts off has come all the same, and takes its memory.
    let as_it_came = came.map(|(datagrams, bytes)| mean(bytes, datagrams).clamp(read, MOST_PAYLOAD));
    let payload = if is_joined { Some(read) } else { as_it_came };
    // Many small ones may take more memory than a large one, and their reader may have taken less than was in them.
    let most = if is_joined { (read + LEAST_OVERHEAD) as f64 * LATE } else { f64::INFINITY };
    let each = f64::from(socket.truesize.max(1)).min(most);
    let filled_in_ms = buffer as f64 / each / arrive_per_s.max(1.0) * 1e3;
    Wait { rate_per_s: arrive_per_s.ceil().max(1.0) as u64, payload, stall_ms: filled_in_ms.ceil().max(1.0) as u64 }
}

impl Wait {
    /// As `weir loss check` takes it: what is not known it sees itself.
    pub(crate) fn flags(&self) -> String {
        let payload = self.payload.map_or_else(String::new, |payload| format!(" --payload {payload}B"));
        format!("--rate {}/s{payload} --stall {}ms", self.rate_per_s, self.stall_ms)
    }
}

/// To the nearest: what is read between two counts is in one of them.
pub(crate) fn mean(bytes: u64, datagrams: u64) -> u64 {
    (bytes + datagrams / 2).checked_div(datagrams).unwrap_or(0)
}

/// Time that its reader takes for one. Stalls that come now and then take time of their own, whatever is read; a reader
/// that comes late each time is slow.
fn each_ns(socket: &SocketTrace) -> f64 {
    let quick = socket.reads.saturating_sub(socket.stalls);
    if quick == 0 || socket.stalls as f64 > socket.reads as f64 * OFTEN {
        return socket.waiting_ns as f64 / socket.reads.max(1) as f64;
    }
    socket.waiting_ns.saturating_sub(socket.stalled_ns) as f64 / quick as f64
}

/// Bytes of truesize. While what was lost is read the next may come: with little to spare they add up.
fn buffer(socket: &SocketTrace, share: f64) -> u64 {
    let held = u64::from(socket.receive_buffer) + socket.episode_max;
    // Of as many as were seen, the next is worse than all with a chance of one in as many and one.
    let unseen = 1.0 + UNSEEN / (socket.episodes.max(1) as f64).sqrt();
    let bytes = held as f64 * LATE * unseen / (1.0 - share / TOO_MUCH).max(0.25);
    (bytes as u64).next_multiple_of(PAGE)
}

/// Share of the idle time that the lost ones may take: reading them brings stalls of its own.
const TOO_MUCH: f64 = 0.9;

/// From here on a buffer has hardly room to help.
const MUCH: f64 = 0.5;

/// Stalls a read, from which on they are the reader's way of working.
const OFTEN: f64 = 0.2;

/// So many tell a rate.
const ENOUGH: u64 = 32;

/// The kernel releases what was read in steps of a quarter of the buffer (net/ipv4/udp.c, udp_rmem_release).
const LATE: f64 = 4.0 / 3.0;

/// Memory that a datagram takes beside its payload, at least: its struct sk_buff and its struct skb_shared_info.
const LEAST_OVERHEAD: u64 = 512;

/// Of a datagram, bytes.
const MOST_PAYLOAD: u64 = 65_507;

/// On top for what has not been seen, where one was.
const UNSEEN: f64 = 1.0;

const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use weir_units::{Frequency, Size, Span};

    use super::*;
    use crate::account::remarks::Explanation;
    use crate::check::load::Load;

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
            stalled_ns: 0,
            episodes: 1,
            episode_max: 29_744 * 832,
            receive_buffer: 212_992,
            ..SocketTrace::default()
        };
        let advice = of(&slow, 10 * SECOND, None).unwrap();
        assert_eq!((advice.receive_buffer, advice.reader_too_slow), (None, true));
        assert_eq!((advice.arrive_per_s, advice.read_per_s), (5_000.0, 2_000.0));
        let slower = SocketTrace { stalls: 20_000, stalled_ns: 10 * SECOND, ..slow };
        assert_eq!(of(&slower, 11 * SECOND, None).unwrap().receive_buffer, None);
    }

    #[test]
    fn a_reader_that_stalls_now_and_then_needs_a_buffer() {
        let stalling = SocketTrace {
            enqueued: 63_000,
            reads: 63_000,
            dropped: 37_000,
            age_ns: 10 * SECOND,
            waiting_ns: 660 * SECOND / 100,
            stalled_ns: 6 * SECOND,
            stalls: 100,
            truesize: 832,
            read_bytes: 6_300_000,
            read_datagrams: Some(63_000),
            episodes: 100,
            episode_max: 400 * 832,
            receive_buffer: 212_992,
            ..SocketTrace::default()
        };
        let advice = of(&stalling, 10 * SECOND, Some((100_000, 10_000_000))).unwrap();
        assert!(!advice.reader_too_slow, "{advice:?}");
        // What comes on average is less than what comes while any wait.
        assert_eq!((advice.mean_per_s, advice.arrive_per_s > 15_000.0), (10_000.0, true));
        let told = Explanation::Advice(advice.clone()).to_string();
        assert!(told.contains("/s arrive (10\u{2009}000/s on average)"), "{told}");
        let bytes = advice.receive_buffer.unwrap() * 2;
        assert!((600_000..1_500_000).contains(&bytes), "{bytes}");
        // The load for a check asks for the same: so many bytes arrive while nobody reads.
        let load = advice.load.unwrap();
        let asked = load.rate_per_s * load.stall_ms * 832 / 1000;
        assert!(asked >= bytes && asked < bytes + bytes / 50, "{load:?}: {asked} for {bytes}");
        assert_eq!(load.payload, Some(100));
    }

    /// recv(100) of datagrams of 1,400 B: a load of 100 B would need less than half of the buffer that is advised.
    #[test]
    fn the_load_has_the_payload_that_came_and_none_where_nobody_knows_it() {
        let cut = SocketTrace {
            enqueued: 63_000,
            reads: 63_000,
            dropped: 3_000,
            age_ns: 10 * SECOND,
            waiting_ns: SECOND,
            truesize: 2_304,
            read_bytes: 6_300_000,
            read_datagrams: Some(63_000),
            episodes: 100,
            episode_max: 30 * 2_304,
            receive_buffer: 212_992,
            ..SocketTrace::default()
        };
        let load = |socket: &SocketTrace, came| of(socket, 10 * SECOND, came).unwrap().load.unwrap();
        let known = load(&cut, Some((66_000, 66_000 * 1_400)));
        assert_eq!(known.payload, Some(1_400));
        assert!(known.flags().contains("/s --payload 1400B --stall "), "{}", known.flags());
        let unknown = load(&cut, None);
        assert_eq!((unknown.payload, unknown.stall_ms), (None, known.stall_ms));
        assert!(unknown.flags().contains("/s --stall "), "{}", unknown.flags());
        // What came to others of its port does not make it smaller.
        assert_eq!(load(&cut, Some((10, 500))).payload, Some(100));
    }

    /// Ten of 1,000 B in each buffer: whole, of different sizes, in as much memory as ten alone, and cut off.
    #[test]
    fn the_load_of_a_reader_of_joined_ones_is_that_of_the_buffers_and_needs_no_less() {
        let joined = SocketTrace {
            enqueued: 3_000,
            reads: 3_000,
            dropped: 2_900,
            began: 2_300,
            age_ns: 3 * SECOND,
            waiting_ns: SECOND,
            stalled_ns: SECOND,
            came_in_stalls: 3_700,
            stalls: 9,
            truesize: 10_815,
            read_bytes: 30_000_000,
            read_datagrams: Some(30_000),
            episodes: 9,
            episode_max: 400 * 10_815,
            receive_buffer: 1_000_000,
            ..SocketTrace::default()
        };
        let mixed = SocketTrace { read_datagrams: None, ..joined };
        let memory = SocketTrace { truesize: 23_040, ..joined };
        let cut = SocketTrace { read_bytes: 6_000_000, read_datagrams: Some(6_000), ..joined };
        for (socket, payload) in [(joined, 10_000), (mixed, 10_000), (memory, 10_000), (cut, 2_000)] {
            let advice = of(&socket, 3 * SECOND, Some((59_000, 59_000_000))).unwrap();
            let (buffer, wait) = (advice.receive_buffer.unwrap(), advice.load.unwrap());
            assert_eq!((wait.rate_per_s, wait.payload), (3_700, Some(payload)));
            let load = Load {
                rate: Frequency { micro_hertz: wait.rate_per_s * 1_000_000 },
                payload: Size { bytes: payload },
                stall: Span { nanos: wait.stall_ms * 1_000_000 },
            };
            // The least that one of that payload takes.
            let asked = load.need(payload + 512).asked();
            assert!(asked >= buffer, "{wait:?}: {asked} for {buffer}");
        }
    }

    /// 3,000/s all the time, a reader that takes 20 us and stalls for 100 ms twice a second.
    #[test]
    fn what_comes_between_stalls_is_in_no_rate_of_waiting() {
        let stalling = SocketTrace {
            enqueued: 29_000,
            reads: 29_000,
            dropped: 1_000,
            began: 24_000,
            age_ns: 10 * SECOND,
            // Stalls, what is read behind them, and each of the others for 20 us.
            waiting_ns: (200 + 40 + 48) * SECOND / 100,
            stalled_ns: 2 * SECOND,
            came_in_stalls: 6_000,
            stalls: 20,
            truesize: 1280,
            episodes: 20,
            episode_max: 50 * 1280,
            receive_buffer: 212_992,
            ..SocketTrace::default()
        };
        let advice = of(&stalling, 10 * SECOND, None).unwrap();
        assert_eq!(advice.arrive_per_s, 3_000.0);
        assert!(advice.receive_buffer.is_some(), "{advice:?}");
    }

    #[test]
    fn a_reader_that_hangs_is_told_so() {
        let advice = of_nobody(5_000, 2 * SECOND).unwrap();
        assert!(advice.is_of_nobody() && advice.reader_too_slow && advice.load.is_none());
        assert_eq!((advice.arrive_per_s, of_nobody(0, SECOND)), (2_500.0, None));
    }

    #[test]
    fn where_nothing_was_lost_there_is_no_advice() {
        assert_eq!(of(&SocketTrace { reads: 9, enqueued: 9, ..SocketTrace::default() }, SECOND, None), None);
    }
}
