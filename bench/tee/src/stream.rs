//! What the source sends: NetFlow v9, since pmacct's tee takes nothing else, with a number, a stamp and a known body.
//!
//! ```text
//!  0  NetFlow v9 header (RFC 3954, section 5.1); its sequence number, at 12, is the datagram's
//! 20  a data FlowSet of an unknown template, to the end: id and length, then
//! 24  when the send call began, ns of CLOCK_REALTIME
//! 32  a body that follows from the sequence number
//! ```

use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench_measure::machine;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use weir_kernel::namespaces::NetNs;

use crate::network::UNFRAGMENTED;

/// Datagrams at a pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Payload bytes of each, at least [`LEAST`].
    pub(crate) size: usize,
    /// Datagrams that are sent at once (UDP_SEGMENT, or one after another where they need fragments), at least 1.
    pub(crate) run: usize,
    /// From the beginning of a run to the beginning of the next; zero: as fast as it goes.
    pub(crate) interval: Duration,
}

/// Shared with the sending thread.
#[derive(Default)]
pub(crate) struct Progress {
    /// Datagrams sent so far.
    pub(crate) sent: AtomicU64,
    /// Set to end it.
    pub(crate) stop: AtomicBool,
}

impl Stream {
    /// Datagrams of `size` in runs of `run` at `rate` a second.
    pub(crate) fn paced(size: usize, run: usize, rate: f64) -> Stream {
        Stream { size, run, interval: Duration::from_secs_f64(run as f64 / rate) }
    }

    /// Sends until told to stop, or `limit` datagrams; from the source's processor. What is late is made up for.
    pub(crate) fn send(&self, from: &NetNs, to: SocketAddrV4, progress: &Progress, limit: u64) -> Result<()> {
        let socket = from.run(|| UdpSocket::bind("0.0.0.0:0"))??;
        socket.connect(to)?;
        let joined = self.run > 1 && self.size <= UNFRAGMENTED;
        if joined {
            setsockopt(&socket, sockopt::UdpGsoSegment, &(self.size as i32)).context("UDP_SEGMENT")?;
        }
        let _ = setsockopt(&socket.as_fd(), sockopt::SndBufForce, &(8 << 20));
        machine::pin_thread(machine::TRAFFIC)?;
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut bytes = vec![0u8; self.size * self.run];
        let (start, mut sent, mut runs) = (monotonic()?, 0u64, 0u32);
        while !progress.stop.load(Ordering::Relaxed) && sent < limit {
            if !self.interval.is_zero() {
                let due = TimeSpec::from(start + self.interval * runs);
                clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &due)?;
            }
            let count = (limit - sent).min(self.run as u64);
            let stamp = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?).as_nanos() as u64;
            for (index, datagram) in bytes.chunks_exact_mut(self.size).take(count as usize).enumerate() {
                write(datagram, (sent + index as u64) as u32, stamp);
            }
            let run = &bytes[..count as usize * self.size];
            let mut calls = run.chunks(if joined { run.len() } else { self.size });
            match calls.try_for_each(|bytes| socket.send(bytes).map(drop)) {
                Ok(()) => sent += count,
                // A port that is not open yet.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error).context(format!("send a run of {count} to {to}")),
            }
            runs += 1;
            progress.sent.store(sent, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The shortest datagram: it has no body.
pub(crate) const LEAST: usize = 32;

fn write(datagram: &mut [u8], sequence: u32, stamp: u64) {
    let flowset_length = (datagram.len() - 20) as u16;
    datagram[..4].copy_from_slice(&[0, 9, 0, 1]);
    datagram[12..16].copy_from_slice(&sequence.to_be_bytes());
    datagram[20..22].copy_from_slice(&300u16.to_be_bytes());
    datagram[22..24].copy_from_slice(&flowset_length.to_be_bytes());
    datagram[24..32].copy_from_slice(&stamp.to_ne_bytes());
    let body = &mut datagram[LEAST..];
    let length = body.len();
    body.copy_from_slice(&BODY[start_of_body(sequence)..][..length]);
}

/// The sequence number and the stamp, if the beginning of a datagram is ours.
pub(crate) fn read(bytes: &[u8]) -> Option<(u32, u64)> {
    let ours = bytes.len() >= LEAST && bytes[..4] == [0, 9, 0, 1];
    let sequence = bytes.get(12..16)?.try_into().ok().map(u32::from_be_bytes)?;
    let stamp = bytes.get(24..32)?.try_into().ok().map(u64::from_ne_bytes)?;
    ours.then_some((sequence, stamp))
}

/// Whether a whole datagram is what was sent under its sequence number.
pub(crate) fn is_whole(bytes: &[u8], size: usize) -> bool {
    let Some((sequence, stamp)) = read(bytes) else { return false };
    let mut expected = vec![0; size];
    write(&mut expected, sequence, stamp);
    expected == bytes
}

fn start_of_body(sequence: u32) -> usize {
    sequence as usize * 61 % SHIFTS
}

/// Every datagram's body begins elsewhere in this.
static BODY: [u8; SHIFTS + 65_507] = {
    let (mut bytes, mut state, mut index) = ([0; SHIFTS + 65_507], 1u32, 0);
    while index < bytes.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes[index] = (state >> 24) as u8;
        index += 1;
    }
    bytes
};

const SHIFTS: usize = 4093;

fn monotonic() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

/// Runs `measure` while a thread sends; returns its result and how many were sent.
pub(crate) fn while_sending<T>(
    stream: &Stream,
    from: &NetNs,
    to: SocketAddrV4,
    measure: impl FnOnce(&Progress) -> Result<T>,
) -> Result<(T, u64)> {
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| stream.send(from, to, &progress, u64::MAX));
        let result = measure(&progress);
        progress.stop.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| anyhow::anyhow!("the source panicked"))??;
        Ok((result?, progress.sent.load(Ordering::Relaxed)))
    })
}

/// How long to wait at most for something that should be instantaneous.
pub(crate) fn patience() -> Instant {
    Instant::now() + Duration::from_secs(10)
}
