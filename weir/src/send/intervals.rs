//! One line per interval, for senders and receivers.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use serde::Serialize;
use serde_json::Value;
use weir_program::clock::{self, nanos, now};
use weir_program::output::say;
use weir_traffic::{Exchange, SenderSettings};

use crate::lines;

/// A column: its name, its width, and its text in the syntax of [`lines::Line`].
pub(crate) type Column = (&'static str, usize, &'static str);

/// Prints an interval, after the names of the columns if it is the first.
pub(crate) fn print(interval: &Value, columns: &[Column], first: bool) {
    let row = |until: &str, text: &dyn Fn(&Column) -> String| {
        let fields: String = columns.iter().map(|column| format!("  {:>1$}", text(column), column.1)).collect();
        say!("{until:>8}{fields}");
    };
    if first {
        row("until", &|(name, ..)| (*name).to_owned());
    }
    let until = format!("{:.2}s", interval["end_s"].as_f64().unwrap_or_default());
    row(&until, &|(.., text)| lines::filled(interval, text).unwrap_or_else(|| "-".to_owned()));
}

const COLUMNS: &[Column] = &[("sent", 8, "{sent}"), ("per s", 10, "{msgs_per_s}"), ("Mbit/s", 10, "{mbit_per_s}")];

/// Messages that all senders sent in an interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Interval {
    /// Its start, after the first message.
    start_s: f64,
    end_s: f64,
    sent: u64,
    msgs_per_s: f64,
    mbit_per_s: f64,
}

/// Prints what the senders sent in each interval until all have ended; silent if the result is JSON.
pub(super) fn tell(every: Duration, settings: &SenderSettings, senders: &[Exchange], quietly: bool) -> Vec<Interval> {
    let (mut told, mut begun, mut sent, mut started, mut ended) = (Vec::new(), 0, 0, None, false);
    while !ended {
        let every = nanos(every);
        let next = started.map_or(now() + LOOK, |started| begun.max(started) + every);
        ended = wait(senders, next);
        started = started.or_else(|| senders.iter().filter_map(Exchange::window).map(|window| window.start).min());
        let (at, Some(started)) = (now(), started) else { continue };
        begun = begun.max(started);
        if at < begun + every && !ended {
            continue;
        }
        let all: u64 = senders.iter().map(Exchange::sent).sum();
        let end = if ended { at } else { at - (at - started) % every };
        if end > begun && (!ended || all > sent) {
            let [start_s, end_s] = [begun, end].map(|at| (at - started) as f64 / 1e9);
            let msgs_per_s = (all - sent) as f64 / (end_s - start_s);
            let mbit_per_s = msgs_per_s * settings.payload_bytes as f64 * 8e-6;
            let interval = Interval { start_s, end_s, sent: all - sent, msgs_per_s, mbit_per_s };
            if !quietly {
                print(&serde_json::to_value(interval).unwrap_or_default(), COLUMNS, told.is_empty());
            }
            told.push(interval);
        }
        (begun, sent) = (end, all);
    }
    told
}

/// Waits for the time `until` or the end of all senders; returns whether all have ended.
fn wait(senders: &[Exchange], until: u64) -> bool {
    // Only the open ones: senders that have ended stay readable.
    let open = senders.iter().filter(|sender| sender.closed().is_none());
    let mut fds: Vec<PollFd<'_>> = open.map(|sender| PollFd::new(sender.as_fd(), PollFlags::POLLIN)).collect();
    if !fds.is_empty() {
        clock::wait(&mut fds, Some(until));
    }
    senders.iter().all(|sender| sender.closed().is_some())
}

/// Time between two checks for a connection: 2 ms.
const LOOK: u64 = 2_000_000;
