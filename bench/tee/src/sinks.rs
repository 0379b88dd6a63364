//! Receiving sockets, read seldom and many datagrams at once: a reader that wakes for each takes the processor from what
//! is measured.

use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use bench_measure::machine;
use nix::sys::socket::{setsockopt, sockopt};
use weir_kernel::namespaces::NetNs;

use crate::stream;
use crate::sys::Inbox;

/// What one sink got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Datagrams with a sequence number not seen before.
    pub(crate) distinct: u64,
    /// Datagrams with one seen before.
    pub(crate) repeated: u64,
    /// Datagrams that are not as they were sent.
    pub(crate) broken: u64,
    /// From just before the send call to the arrival at the sink's interface, ns, in the order of arrival.
    pub(crate) delays: Vec<i64>,
    seen: Vec<u64>,
}

/// How closely a sink looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At headers and lengths.
    Count,
    /// At every byte.
    Whole,
    /// At headers and times.
    Time,
}

/// Sockets at some addresses of the sinks' host.
pub(crate) struct Sinks {
    sockets: Vec<UdpSocket>,
    size: usize,
    look: Look,
}

impl Sinks {
    /// Opens one for each address, for datagrams of `size`.
    pub(crate) fn open(ns: &NetNs, addresses: &[SocketAddrV4], size: usize, look: Look) -> Result<Sinks> {
        let bind = || addresses.iter().map(UdpSocket::bind).collect::<Result<Vec<_>, _>>();
        let sockets = ns.run(bind)??;
        for socket in &sockets {
            // Only root gets more than net.core.rmem_max.
            setsockopt(socket, sockopt::RcvBufForce, &BUFFER)
                .or_else(|_| setsockopt(socket, sockopt::RcvBuf, &BUFFER))?;
            if look == Look::Time {
                setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
            }
        }
        Ok(Sinks { sockets, size, look })
    }

    /// Runs `work` while a thread reads, then reads until nothing has come for `quiet`. One tally a sink.
    pub(crate) fn while_reading<T>(
        &self,
        quiet: Duration,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Vec<Tally>)> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| self.read(&done, quiet));
            let result = work();
            done.store(true, Ordering::Relaxed);
            let tallies = reading.join().map_err(|_| anyhow!("a sink panicked"))??;
            Ok((result?, tallies))
        })
    }

    fn read(&self, done: &AtomicBool, quiet: Duration) -> Result<Vec<Tally>> {
        machine::pin_thread(machine::TRAFFIC)?;
        let kept = if self.look == Look::Whole { self.size + 1 } else { stream::LEAST };
        let mut inbox = Inbox::new(BATCH, kept);
        let mut tallies = vec![Tally::default(); self.sockets.len()];
        let mut idle = Duration::ZERO;
        while idle < quiet {
            let mut taken = 0;
            for (socket, tally) in self.sockets.iter().zip(&mut tallies) {
                loop {
                    let count = inbox.receive(socket.as_fd())?;
                    for index in 0..count {
                        tally.count(&inbox, index, self.size, self.look);
                    }
                    taken += count;
                    if count < BATCH {
                        break;
                    }
                }
            }
            if taken == 0 {
                sleep(PAUSE);
                idle += if done.load(Ordering::Relaxed) { PAUSE } else { Duration::ZERO };
            } else {
                idle = Duration::ZERO;
            }
        }
        Ok(tallies)
    }
}

impl Tally {
    fn count(&mut self, inbox: &Inbox, index: usize, size: usize, look: Look) {
        let message = inbox.message(index);
        let Some((sequence, sent)) = stream::read(message.bytes).filter(|_| message.length == size) else {
            self.broken += 1;
            return;
        };
        if look == Look::Whole && !stream::is_whole(message.bytes, size) {
            self.broken += 1;
            return;
        }
        if let Some(arrival) = message.arrival {
            self.delays.push(arrival as i64 - sent as i64);
        }
        let (word, bit) = (sequence as usize / 64, 1 << (sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize((word + 1).next_power_of_two(), 0);
        }
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        self.distinct += u64::from(new);
        self.repeated += u64::from(!new);
    }

    /// How many of `sent` datagrams are missing.
    ///
    /// # Errors
    /// If it got more than were sent.
    pub(crate) fn lost(&self, sent: u64) -> Result<u64> {
        ensure!(self.distinct <= sent, "{} of {sent} datagrams arrived", self.distinct);
        Ok(sent - self.distinct)
    }
}

const BATCH: usize = 64;

/// Enough for everything that may come while the reader has no turn, bytes.
const BUFFER: usize = 128 << 20;

/// From one look to the next where nothing comes.
const PAUSE: Duration = Duration::from_millis(1);
