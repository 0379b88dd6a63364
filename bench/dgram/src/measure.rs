//! The figures of one process, as it prints them.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result};
use nix::time::{ClockId, clock_gettime};

/// One side of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side {
    /// CPU time of the thread a datagram, ns.
    pub(crate) cpu: f64,
    /// Time a datagram, ns.
    pub(crate) wall: f64,
    pub(crate) datagrams: u64,
}

/// Both sides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    sides: [Side; 2],
}

impl Costs {
    pub(crate) fn send(&self) -> Side {
        self.sides[0]
    }

    pub(crate) fn receive(&self) -> Side {
        self.sides[1]
    }

    pub(crate) fn is_lossless(&self) -> bool {
        self.sides[0].datagrams == self.sides[1].datagrams
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for side in self.sides {
            write!(f, "{:.2} {:.2} ", side.cpu, side.wall)?;
        }
        write!(f, "{} {}", self.sides[0].datagrams, self.sides[1].datagrams)
    }
}

impl FromStr for Costs {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [a, b, c, d, sent, received]: [f64; 6] = numbers.try_into().ok().context("six numbers are expected")?;
        let sides =
            [Side { cpu: a, wall: b, datagrams: sent as u64 }, Side { cpu: c, wall: d, datagrams: received as u64 }];
        Ok(Self { sides })
    }
}

/// Adds up one side over many bursts.
#[derive(Default)]
pub(crate) struct Sum {
    cpu: u64,
    wall: u64,
    datagrams: u64,
}

impl Sum {
    /// Runs a burst, which returns how many datagrams it has dealt with. Warming up, it does not count.
    pub(crate) fn add(&mut self, counts: bool, burst: impl FnOnce() -> Result<u64>) -> Result<()> {
        let start = [ClockId::CLOCK_THREAD_CPUTIME_ID, ClockId::CLOCK_MONOTONIC].map(now);
        let datagrams = burst()?;
        if counts {
            self.wall += now(ClockId::CLOCK_MONOTONIC) - start[1];
            self.cpu += now(ClockId::CLOCK_THREAD_CPUTIME_ID) - start[0];
            self.datagrams += datagrams;
        }
        Ok(())
    }

    fn mean(&self) -> Side {
        let each = |total: u64| total as f64 / self.datagrams as f64;
        Side { cpu: each(self.cpu), wall: each(self.wall), datagrams: self.datagrams }
    }
}

pub(crate) fn costs(send: &Sum, receive: &Sum) -> Costs {
    Costs { sides: [send.mean(), receive.mean()] }
}

fn now(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}
