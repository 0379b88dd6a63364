//! The receive queue over time, and what it says of the reader.

use weir_kernel::trace::SocketTrace;

use super::book::Level;
use super::evidence::Evidence;
use crate::loss::places::Place;
use crate::report::format;

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
    sockets: &[SocketTrace],
    lost: &dyn Fn(Place) -> u64,
    evidence: &Evidence,
    explanation: &mut Vec<String>,
) {
    let dropped = lost(Place::ReceiveBuffer);
    let Some(socket) = fullest(sockets).filter(|_| dropped > 0) else { return };
    let took: u64 = socket.level_ns.iter().sum();
    let stall = socket.longest_stall_ns;
    explanation.push(format!(
        "its reader did not read for {} at the longest, while datagrams waited; in all for {}",
        duration(stall),
        duration(socket.stalled_ns)
    ));
    let longest_wait = socket.reader_longest_wait_ns;
    if longest_wait > MILLISECOND {
        let behind = behind(socket).map_or_else(String::new, |name| format!(", the longest time behind `{name}`"));
        explanation.push(format!(
            "for {} of that its reader was ready to run and had no processor (at the longest {}){behind}",
            duration(socket.reader_waited_ns),
            duration(longest_wait)
        ));
    } else if socket.reader != 0 && stall > MILLISECOND {
        explanation.push("its reader was not kept from running: it waited for something else, or worked".to_owned());
    }
    if let Some(sentence) = too_small(socket, dropped, took) {
        explanation.push(sentence);
    }
    let softirq: u64 = evidence.trace.receive_softirq_ns.iter().copied().max().unwrap_or(0);
    if took > 0 && softirq > took / 2 {
        explanation.push(format!(
            "one processor spent {} % of the time in the receive path's softirq (NET_RX): spread it (RPS, more queues)",
            format::short(softirq as f64 * 100.0 / took as f64)
        ));
    }
}

/// What the buffer can hold, and what came while nobody read.
fn too_small(socket: &SocketTrace, dropped: u64, took: u64) -> Option<String> {
    let came = socket.enqueued + dropped;
    let share_full = socket.level_ns[4] as f64 / took.max(1) as f64;
    if took == 0 || socket.enqueued == 0 {
        return None;
    }
    let bytes = format::short(f64::from(socket.receive_buffer));
    Some(format!(
        "{came} came to a buffer of {bytes} bytes, which was full for {} % of the time",
        format::short(share_full * 100.0)
    ))
}

fn duration(ns: u64) -> String {
    format::duration(ns as f64 / 1e3)
}

const MILLISECOND: u64 = 1_000_000;
