//! The receive queue over time, and what it says of the reader.

use weir_kernel::trace::SocketTrace;
use weir_units::format;

use super::book::Level;
use super::evidence::{Evidence, SocketSeen};
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
    let seen = receivers.iter().find(|seen| seen.cookie == socket.cookie);
    if let Some(sentence) = seen.and_then(|seen| holds(socket, seen, dropped, evidence)) {
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

/// What the buffer can hold, and for how long that lasts.
fn holds(socket: &SocketTrace, seen: &SocketSeen, dropped: u64, evidence: &Evidence) -> Option<String> {
    let truesize = seen.truesize.filter(|size| *size > 0)?;
    let rate = (socket.enqueued + dropped) as f64 / evidence.took.as_secs_f64();
    let fit = f64::from(socket.receive_buffer) / f64::from(truesize);
    if rate <= 0.0 {
        return None;
    }
    let need = rate * socket.longest_stall_ns as f64 / 1e9 * f64::from(truesize) * MARGIN;
    let need = if need > f64::from(socket.receive_buffer) {
        format!("; such a stall at that rate needs {}", format::bytes(need))
    } else {
        String::new()
    };
    Some(format!(
        "its buffer of {} holds {} of these ({truesize} bytes each, measured): at the mean {}/s that bridges {}{need}",
        format::bytes(f64::from(socket.receive_buffer)),
        format::short(fit.floor()),
        format::short(rate),
        format::duration(fit / rate * 1e6)
    ))
}

/// The kernel releases what was read in steps of a quarter of the buffer (net/ipv4/udp.c, udp_rmem_release).
const MARGIN: f64 = 4.0 / 3.0;

fn duration(ns: u64) -> String {
    format::duration(ns as f64 / 1e3)
}

const MILLISECOND: u64 = 1_000_000;
