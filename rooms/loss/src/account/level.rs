//! The receive queue over time, and what it says of the reader.

use weir_trace::SocketTrace;
use weir_units::format;

use super::book::Level;
use super::evidence::Evidence;
use crate::advice::{self, Advice};
use crate::places::Place;

/// The level of a receiver's queue; of several, that of the fullest. `None`: not traced.
pub(super) fn of(sockets: &[SocketTrace]) -> Option<Level> {
    let socket = fullest(sockets)?;
    let ms = |ns: u64| (ns as f64 / 1e3).round() / 1e3;
    Some(Level {
        receive_buffer: socket.receive_buffer,
        max: socket.level_max,
        longest_stall_ms: ms(socket.longest_stall_ns),
        reader_waited_ms: socket.reader_waited_ns.map(ms),
    })
}

/// What helps the fullest of them; `None`: nothing was lost there, or it is not known.
pub(super) fn advice(sockets: &[SocketTrace], evidence: &Evidence) -> Option<Advice> {
    advice::of(fullest(sockets)?, u64::try_from(evidence.took.as_nanos()).ok()?)
}

fn fullest(sockets: &[SocketTrace]) -> Option<&SocketTrace> {
    sockets.iter().filter(|socket| socket.receive_buffer > 0).max_by_key(|socket| (socket.level_max, socket.enqueued))
}

/// Says why a receive buffer was full.
pub(super) fn explain(
    sockets: &[SocketTrace],
    advice: Option<&Advice>,
    lost: &dyn Fn(Place) -> u64,
    evidence: &Evidence,
    explanation: &mut Vec<String>,
) {
    let dropped = lost(Place::ReceiveBuffer);
    let Some(socket) = fullest(sockets).filter(|_| dropped > 0) else { return };
    let stall = socket.longest_stall_ns;
    // The sum has no short ones.
    explanation.push(stalled(stall, socket.stalled_ns.max(stall)));
    // A reader is followed from the first reading on that has seen it.
    let waited = socket.reader_waited_ns.filter(|waited| *waited > 0).map(time);
    explanation.extend(waited.map(|waited| format!("its reader waited for a CPU for {waited} in all")));
    explanation.extend(advice.map(Advice::to_string));
    let (softirq, waiting) = (evidence.busiest_softirq.as_nanos() as u64, socket.waiting_ns);
    if waiting > 0 && softirq > waiting / 2 {
        let percent = format::short((softirq as f64 * 100.0 / waiting as f64).min(100.0));
        explanation.push(format!(
            "while datagrams waited, one CPU spent {percent} % of the time in softirq, where packets are received: spread them (RPS, more queues)"
        ));
    }
}

/// How long a reader did not read, ns.
pub(super) fn stalled(longest: u64, total: u64) -> String {
    let (longest, total) = (time(longest), time(total));
    format!("its reader did not read for {longest} at the longest, while datagrams waited; in all for {total}")
}

fn time(ns: u64) -> String {
    format::duration(ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Half a second of traffic in ten: one processor was busy with nothing else.
    #[test]
    fn silence_is_in_no_share() {
        let socket = SocketTrace {
            receive_buffer: 212_992,
            level_max: 212_992,
            waiting_ns: 500 * MILLISECOND,
            longest_stall_ns: 400 * MILLISECOND,
            ..SocketTrace::default()
        };
        let evidence = Evidence { busiest_softirq: Duration::from_millis(450), ..Evidence::default() };
        let mut told = Vec::new();
        explain(&[socket], None, &|_| 7, &evidence, &mut told);
        assert!(told[1].contains("one CPU spent 90 % of the time"), "{told:?}");
    }
}
