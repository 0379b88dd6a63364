//! A line for each interval of a sender.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use serde::Serialize;
use weir_program::clock::{self, nanos, now};
use weir_program::output::say;
use weir_traffic::{Exchange, SenderSettings};
use weir_units::format;

/// What was sent in an interval, by all senders.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Interval {
    /// When it began, after the first message.
    start_s: f64,
    end_s: f64,
    sent: u64,
    msgs_per_s: f64,
    mbit_per_s: f64,
}

/// Reports, until all have ended, what the senders sent in each interval; quietly where the result is to be JSON.
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
            let interval = Interval::new(begun - started, end - started, all - sent, settings.payload_bytes);
            if !quietly {
                interval.print(told.is_empty());
            }
            told.push(interval);
        }
        (begun, sent) = (end, all);
    }
    told
}

/// Waits for the time `until`, or for the end of all; returns whether that has come.
fn wait(senders: &[Exchange], until: u64) -> bool {
    // Each of the open ones, so that none is missed; those that have ended would be readable for ever.
    let open = senders.iter().filter(|sender| sender.closed().is_none());
    let mut fds: Vec<PollFd<'_>> = open.map(|sender| PollFd::new(sender.as_fd(), PollFlags::POLLIN)).collect();
    if !fds.is_empty() {
        clock::wait(&mut fds, Some(until));
    }
    senders.iter().all(|sender| sender.closed().is_some())
}

impl Interval {
    fn new(start: u64, end: u64, sent: u64, payload_bytes: usize) -> Self {
        let seconds = (end - start) as f64 / 1e9;
        let msgs_per_s = sent as f64 / seconds;
        let mbit_per_s = msgs_per_s * payload_bytes as f64 * 8e-6;
        Self { start_s: start as f64 / 1e9, end_s: end as f64 / 1e9, sent, msgs_per_s, mbit_per_s }
    }

    fn print(&self, first: bool) {
        if first {
            say!("{:>8}  {:>8}  {:>10}  {:>10}", "until", "sent", "per s", "Mbit/s");
        }
        let (rate, mbit) = (format::short(self.msgs_per_s), format::short(self.mbit_per_s));
        say!("{:>7.2}s  {:>8}  {rate:>10}  {mbit:>10}", self.end_s, self.sent);
    }
}

/// How often to look whether a connection was made: 2 ms.
const LOOK: u64 = 2_000_000;
