//! Sends a load over real sockets, each datagram as one of its own.

use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bench_measure::machine;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use weir_dgram::{Options, Outgoing, Socket};
use weir_kernel::namespaces::NetNs;

use crate::load::Load;

/// Shared with the sending thread.
#[derive(Default)]
pub(crate) struct Progress {
    /// Datagrams sent so far.
    pub(crate) sent: AtomicU64,
    /// Set to end it.
    pub(crate) stop: AtomicBool,
}

/// Sends from the source's processor until told to stop: so many datagrams a second, some at once; as fast as it goes without a
/// rate. What is late is made up for.
pub(crate) fn send(ns: &NetNs, to: SocketAddr, load: &mut Load, rate: Option<f64>, progress: &Progress) -> Result<()> {
    // Nothing is joined (UDP_SEGMENT): a switch sends one datagram at a time.
    let options = Options { gso: false, send_buffer: Some(8 << 20), ..Options::default() };
    // From one port in all phases, with one clock: agents that spoke from elsewhere or began again would be others.
    let from = SocketAddr::new(to.ip(), to.port() + 1);
    let socket = ns.run(|| Socket::connect(Some(from), to, &options))??;
    machine::pin_thread(machine::TRAFFIC)?;
    let _ = nix::sys::prctl::set_timerslack(1);
    let start = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    let mut sent = 0_u64;
    let at_once = rate.map_or(BATCH, |rate| ((rate / 2000.0) as usize).clamp(1, BATCH));
    while !progress.stop.load(Ordering::Relaxed) {
        if let Some(rate) = rate {
            let due = TimeSpec::from(start + Duration::from_secs_f64(sent as f64 / rate));
            clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &due)?;
        }
        let uptime = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?).as_millis() as u32;
        let pieces: Vec<[IoSlice<'_>; 1]> = load.batch(at_once, uptime).map(|bytes| [IoSlice::new(bytes)]).collect();
        let messages: Vec<Outgoing<'_>> =
            pieces.iter().map(|pieces| Outgoing { pieces, segment: None, to: None }).collect();
        let mut left = &messages[..];
        while !left.is_empty() {
            let taken = socket.send(left);
            if let Some(error) = taken.error.filter(|error| error.kind() != ErrorKind::WouldBlock) {
                return Err(error).context(format!("send to {to}"));
            }
            sent += taken.messages as u64;
            left = &left[taken.messages..];
        }
        progress.sent.store(sent, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs `measure` while a thread sends; returns its result and how many were sent.
pub(crate) fn while_sending<T>(
    ns: &NetNs,
    to: SocketAddr,
    load: &mut Load,
    rate: Option<f64>,
    measure: impl FnOnce(&Progress) -> Result<T>,
) -> Result<(T, u64)> {
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(ns, to, load, rate, &progress));
        let result = measure(&progress);
        progress.stop.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| anyhow!("the source panicked"))??;
        Ok((result?, progress.sent.load(Ordering::Relaxed)))
    })
}

/// Datagrams that are sent at once, at most.
const BATCH: usize = 64;
