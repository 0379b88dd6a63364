//! Reads receivers' buffers and the CPUs' activity while a cell runs.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Result;
use nix::poll::{PollFd, PollFlags};
use weir_kernel::processors::Activity;
use weir_program::clock::{self, Nanos, nanos, now};
use weir_program::stop::Stop;
use weir_traffic::{Gauge, Level};

/// The readings.
#[derive(Debug, Default)]
pub struct Watched {
    /// By receiver, in the order of the scenario: all readings of its buffer until it ended.
    pub buffers: Vec<Vec<Look>>,
    /// Activity of the CPUs in the sending window.
    pub activity: Option<Activity>,
    /// Length of that time.
    pub seconds: f64,
}

/// A reading of a receiver's buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Time after the start of sending.
    pub at: Duration,
    /// The values.
    pub level: Level,
}

/// Reads every `every` from the start of sending until every receiver has ended and the window is over, or to the stop.
pub fn watch(
    gauges: &[Option<Gauge>],
    every: Duration,
    begin: Nanos,
    window: Duration,
    stop: &Stop,
) -> Result<Watched> {
    clock::precise_timers();
    sleep(begin, stop);
    let before = Activity::read()?;
    let started = now();
    let end = begin.saturating_add(nanos(window));
    let mut watched = Watched { buffers: vec![Vec::new(); gauges.len()], ..Watched::default() };
    let mut next = started;
    loop {
        let at = now();
        let mut open = false;
        for (gauge, seen) in gauges.iter().zip(&mut watched.buffers) {
            if let Some(level) = gauge.as_ref().and_then(|gauge| gauge.look().ok().flatten()) {
                open = true;
                seen.push(Look { at: Duration::from_nanos(at - begin), level });
            }
        }
        if watched.activity.is_none() && (at >= end || stop.is_set()) {
            watched.seconds = Duration::from_nanos(at - started).as_secs_f64();
            watched.activity = Some(Activity::read()?.since(&before));
        }
        if stop.is_set() || !open && at >= end {
            return Ok(watched);
        }
        // Missed readings are not made up for.
        let every = nanos(every).max(1);
        next = (next + every).max(at);
        sleep(if watched.activity.is_none() { next.min(end) } else { next }, stop);
    }
}

/// Whatever ends a cell early ends this as well.
fn sleep(until: Nanos, stop: &Stop) {
    while now() < until && !stop.is_set() {
        clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(until));
    }
}

impl Watched {
    /// Activity of one CPU, or of all together. `None`: unknown.
    pub fn activity_of(&self, processor: Option<usize>) -> Option<Activity> {
        let all = self.activity.as_ref()?;
        match processor {
            Some(processor) => all.of(u32::try_from(processor).ok()?),
            None => Some(all.clone()),
        }
    }
}

/// The longest time that datagrams waited and nobody read: at every reading the buffer was not empty, and no read had
/// returned since the first. A lower bound. `None` without readings.
pub fn longest_stall(looks: &[Look]) -> Option<Duration> {
    let mut since: Option<(Duration, u64)> = None;
    let mut longest = Duration::ZERO;
    for look in looks {
        since = match since {
            _ if look.level.bytes == 0 => None,
            Some((begin, reads)) if reads == look.level.reads => {
                longest = longest.max(look.at - begin);
                Some((begin, reads))
            }
            _ => Some((look.at, look.level.reads)),
        };
    }
    (!looks.is_empty()).then_some(longest)
}

/// The share of readings with the buffer at least this full. `None` without readings.
pub fn share_above(looks: &[Look], fraction: f64) -> Option<f64> {
    let above = |look: &&Look| f64::from(look.level.bytes) >= fraction * f64::from(look.level.max);
    (!looks.is_empty()).then(|| looks.iter().filter(above).count() as f64 / looks.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(seen: &[(u32, u64)]) -> Vec<Look> {
        let look = |(at, &(bytes, reads)): (u64, &(u32, u64))| Look {
            at: Duration::from_millis(at),
            level: Level { bytes, max: 100, reads },
        };
        (0..).zip(seen).map(look).collect()
    }

    #[test]
    fn a_stall_needs_something_that_waits_and_nobody_who_reads() {
        let longest = |seen: &[(u32, u64)]| longest_stall(&looks(seen));
        assert_eq!(longest(&[]), None);
        assert_eq!(longest(&[(0, 1), (0, 1), (0, 1)]), Some(Duration::ZERO), "nothing waits");
        assert_eq!(longest(&[(5, 1), (5, 2), (5, 3)]), Some(Duration::ZERO), "it is read");
        assert_eq!(longest(&[(0, 1), (5, 1), (9, 1), (9, 1), (1, 2), (9, 2)]), Some(Duration::from_millis(2)));
        assert_eq!(longest(&[(5, 1), (0, 1), (5, 1)]), Some(Duration::ZERO), "emptied between");
    }

    #[test]
    fn shares_are_of_all_looks() {
        assert_eq!(share_above(&[], 0.9), None);
        assert_eq!(share_above(&looks(&[(0, 0), (89, 0), (90, 0), (100, 0)]), 0.9), Some(0.5));
    }
}
