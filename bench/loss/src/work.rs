//! The work that is done with and without a tracer.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::linux::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nix::time::{ClockId, clock_gettime};

const SIZE: usize = 100;

/// Datagrams of one look at a flood, and at loss-free traffic.
const FLOOD: u32 = 100_000;
const BURSTS: u32 = 800;
/// That many fit into the default receive buffer.
const BURST: u32 = 128;

const RATE: u32 = 300_000;
const PACED: u32 = 60_000;
/// Sent back to back: 30 us apart.
const TOGETHER: u32 = 9;

pub(crate) struct Bench {
    sender: UdpSocket,
    receiver: UdpSocket,
    /// The namespace's inode number.
    pub(crate) namespace: u32,
}

impl Bench {
    /// In the namespace of this thread.
    pub(crate) fn new() -> Result<Bench> {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        sender.connect(receiver.local_addr()?)?;
        receiver.set_nonblocking(true)?;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.st_ino() as u32;
        Ok(Bench { sender, receiver, namespace })
    }

    pub(crate) fn port(&self) -> Result<u16> {
        Ok(self.receiver.local_addr()?.port())
    }

    /// Nobody reads.
    pub(crate) fn flood(&self) -> Result<f64> {
        for _ in 0..1000 {
            self.sender.send(&[0; SIZE])?;
        }
        let cost = costs(FLOOD, || {
            for _ in 0..FLOOD {
                self.sender.send(&[0; SIZE])?;
            }
            Ok(())
        })?;
        self.drain(0)?;
        Ok(cost)
    }

    pub(crate) fn sent_and_read(&self) -> Result<f64> {
        costs(BURSTS * BURST, || {
            for _ in 0..BURSTS {
                for _ in 0..BURST {
                    self.sender.send(&[0; SIZE])?;
                }
                let read = self.drain(BURST)?;
                ensure!(read == BURST, "{read} of {BURST} came");
            }
            Ok(())
        })
    }

    /// Microseconds a datagram that was read while they were sent, of which 3.33 passed between two that were sent.
    pub(crate) fn paced(&self) -> Result<f64> {
        let done = AtomicBool::new(false);
        let begin = Instant::now();
        let read = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut read = 0;
                while !done.load(Ordering::Acquire) {
                    read += self.drain(0)?;
                }
                Ok(read)
            });
            let sent = self.send_paced(begin);
            done.store(true, Ordering::Release);
            let read: Result<u32> = reader.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the reader panicked")));
            sent.and(read)
        })?;
        let took = begin.elapsed();
        self.drain(0)?;
        Ok(took.as_secs_f64() * 1e6 / f64::from(read))
    }

    fn send_paced(&self, begin: Instant) -> Result<()> {
        for first in (0..PACED).step_by(TOGETHER as usize) {
            let due = Duration::from_secs(1) * first / RATE;
            while begin.elapsed() < due {
                std::hint::spin_loop();
            }
            for _ in 0..TOGETHER.min(PACED - first) {
                self.sender.send(&[0; SIZE])?;
            }
        }
        Ok(())
    }

    /// Reads what waits, at most `most` (0: all).
    fn drain(&self, most: u32) -> Result<u32> {
        let mut bytes = [0; SIZE];
        let mut read = 0;
        while most == 0 || read < most {
            match self.receiver.recv(&mut bytes) {
                Ok(_) => read += 1,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(read)
    }
}

/// Nanoseconds of this thread's processor a datagram.
fn costs(datagrams: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = processor_time()?;
    work()?;
    Ok((processor_time()? - before).as_secs_f64() * 1e9 / f64::from(datagrams))
}

fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
