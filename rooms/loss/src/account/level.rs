//! The receive queue over time, and what it says of the reader.

use weir_kernel::trace::SocketTrace;

use super::book::Level;
use super::evidence::{Evidence, SocketSeen};
use super::remarks::Explanation;
use crate::places::Place;

/// The level of a receiver's queue; of several, that of the fullest. `None`: not traced.
pub(super) fn of(sockets: &[SocketTrace]) -> Option<Level> {
    let socket = fullest(sockets)?;
    let total: u64 = socket.level_ns.iter().sum();
    let share = |ns: u64| if total == 0 { 0.0 } else { round(ns as f64 * 100.0 / total as f64) };
    let ms = |ns: u64| round(ns as f64 / 1e6);
    Some(Level {
        receive_buffer: socket.receive_buffer,
        max: socket.level_max,
        share_of_time_pct: socket.level_ns.map(share),
        longest_stall_ms: ms(socket.longest_stall_ns),
        reader_waited_ms: ms(socket.reader_waited_ns),
        behind: behind(socket),
    })
}

fn fullest(sockets: &[SocketTrace]) -> Option<&SocketTrace> {
    sockets.iter().filter(|socket| socket.receive_buffer > 0).max_by_key(|socket| (socket.level_max, socket.enqueued))
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Name of the task that ran instead of the reader.
fn behind(socket: &SocketTrace) -> Option<String> {
    let name = socket.behind.split(|byte| *byte == 0).next().unwrap_or_default();
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// Says why a receive buffer was full.
pub(super) fn explain(
    receivers: &[&SocketSeen],
    sockets: &[SocketTrace],
    lost: &dyn Fn(Place) -> u64,
    evidence: &Evidence,
    explanation: &mut Vec<Explanation>,
) {
    let dropped = lost(Place::ReceiveBuffer);
    let Some(socket) = fullest(sockets).filter(|_| dropped > 0) else { return };
    let took: u64 = socket.level_ns.iter().sum();
    let stall = socket.longest_stall_ns;
    explanation.push(Explanation::Stalled { longest: stall, total: socket.stalled_ns });
    let longest_wait = socket.reader_longest_wait_ns;
    if longest_wait > MILLISECOND {
        let behind = behind(socket);
        explanation.push(Explanation::Waited { total: socket.reader_waited_ns, longest: longest_wait, behind });
    } else if socket.reader != 0 && stall > MILLISECOND {
        explanation.push(Explanation::NotKept);
    }
    let seen = receivers.iter().find(|seen| seen.cookie == socket.cookie);
    explanation.extend(seen.and_then(|seen| holds(socket, seen, dropped, evidence)));
    let softirq: u64 = evidence.trace.receive_softirq_ns.iter().copied().max().unwrap_or(0);
    if took > 0 && softirq > took / 2 {
        explanation.push(Explanation::OneProcessor(softirq as f64 * 100.0 / took as f64));
    }
}

/// What the buffer can hold, and for how long that lasts.
fn holds(socket: &SocketTrace, seen: &SocketSeen, dropped: u64, evidence: &Evidence) -> Option<Explanation> {
    let truesize = seen.truesize.filter(|size| *size > 0)?;
    let rate = (socket.enqueued + dropped) as f64 / evidence.took.as_secs_f64();
    if rate <= 0.0 {
        return None;
    }
    let bytes = f64::from(socket.receive_buffer);
    let need = rate * socket.longest_stall_ns as f64 / 1e9 * f64::from(truesize) * MARGIN;
    Some(Explanation::Buffer { bytes, truesize, rate, need: (need > bytes).then_some(need) })
}

/// The kernel releases what was read in steps of a quarter of the buffer (net/ipv4/udp.c, udp_rmem_release).
const MARGIN: f64 = 4.0 / 3.0;

const MILLISECOND: u64 = 1_000_000;
