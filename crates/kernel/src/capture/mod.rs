//! What passes an interface, in both directions, as packet(7) shows it.
//!
//! Frames are seen as the interface's queue has them: where segmentation is left to the interface (GSO), one frame
//! stands for many packets and is longer than the MTU; where checksums are (the default of veth), those of sent frames
//! are not there yet. So do tcpdump and Wireshark see them.

mod stamps;
#[doc(hidden)]
pub mod sys;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::sys::Batch;
use crate::Error;
use crate::error::During;
use crate::namespaces::NetNs;

/// A packet socket that hears one interface. Closing it ends the capture.
pub struct Tap {
    socket: OwnedFd,
    /// For errors.
    interface: String,
    batch: Batch,
    receive_buffer: usize,
    passed: u64,
    dropped: u64,
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it passed, ns since 1970-01-01 UTC (CLOCK_REALTIME).
    pub stamp: u64,
    /// Whether the interface sent it; else it received it.
    pub outgoing: bool,
    /// Its length, bytes from the Ethernet header on.
    pub length: u32,
    /// The first bytes of it.
    pub bytes: &'a [u8],
}

/// What a capture has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that passed.
    pub passed: u64,
    /// Of these, frames that found no room in the socket's buffer and are lost to the capture.
    pub dropped: u64,
}

impl Tap {
    /// Hears an interface of a namespace from now on, keeping the first `snap_length` bytes of each frame (0: all; at
    /// most 256 KiB). `receive_buffer` is the wanted size of the socket's buffer in bytes of kernel memory; without
    /// CAP_NET_ADMIN in the initial user namespace the kernel caps it at `net.core.rmem_max`.
    ///
    /// # Errors
    /// Without CAP_NET_RAW over the namespace, without such an interface, or out of descriptors.
    pub fn open(ns: &NetNs, interface: &str, snap_length: u32, receive_buffer: usize) -> Result<Tap, Error> {
        let snap_length = if snap_length == 0 { MAX_SNAP } else { (snap_length as usize).min(MAX_SNAP) };
        let operation = || format!("capture on {interface}");
        let (socket, receive_buffer, index) = ns.run(|| -> Result<_, Error> {
            let index = if_nametoindex(interface).during(operation)?;
            let socket = sys::create().during(operation)?;
            let granted = sys::grow_receive_buffer(socket.as_fd(), receive_buffer).during(operation)?;
            sys::stamp_arrivals(socket.as_fd()).during(operation)?;
            Ok((socket, granted, index))
        })??;
        stamps::await_stamps()?;
        // Frames come from here on.
        sys::bind(socket.as_fd(), index).during(operation)?;
        let frames = (MAX_BATCH_BYTES / snap_length).clamp(1, MAX_BATCH);
        let batch = Batch::new(frames, snap_length);
        Ok(Tap { socket, interface: interface.to_owned(), batch, receive_buffer, passed: 0, dropped: 0 })
    }

    /// Waits until there are frames, or `other` can be read or has been closed at its far end; returns whether it is
    /// the latter.
    ///
    /// # Errors
    /// If the kernel does not let us wait.
    pub fn wait(&self, other: BorrowedFd<'_>) -> Result<bool, Error> {
        let mut both = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN), PollFd::new(other, PollFlags::POLLIN)];
        loop {
            match poll(&mut both, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).during(|| format!("wait for frames on {}", self.interface)),
                Ok(_) => return Ok(both[1].any().unwrap_or(true)),
            }
        }
    }

    /// Takes a batch of frames that are there already and hands each to `take`; returns how many there were. 0: none is
    /// left.
    ///
    /// # Errors
    /// When the socket fails for good. An interface that goes down only pauses.
    pub fn receive(&mut self, mut take: impl FnMut(Frame<'_>)) -> Result<usize, Error> {
        loop {
            match self.batch.receive(self.socket.as_fd()) {
                Ok(count) => {
                    (0..count).for_each(|index| take(self.batch.frame(index)));
                    return Ok(count);
                }
                Err(Errno::EAGAIN) => return Ok(0),
                // Told once; then frames that came before can still be taken.
                Err(Errno::EINTR | Errno::ENETDOWN) => {}
                Err(errno) => return Err(errno).during(|| format!("capture on {}", self.interface)),
            }
        }
    }

    /// What has been counted so far.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&mut self) -> Result<Counts, Error> {
        // Reading resets the kernel's counters.
        let (passed, dropped) =
            sys::take_statistics(self.socket.as_fd()).during(|| format!("count frames of {}", self.interface))?;
        self.passed += u64::from(passed);
        self.dropped += u64::from(dropped);
        Ok(Counts { passed: self.passed, dropped: self.dropped })
    }

    /// Size of the socket's buffer as granted, bytes of kernel memory (a full-sized frame takes about 2 KiB).
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }
}

/// As much as a frame can have, super-packets of BIG TCP included; tcpdump's own limit.
const MAX_SNAP: usize = 256 << 10;
/// Frames in one call.
const MAX_BATCH: usize = 64;
/// What the frames of one call may take.
const MAX_BATCH_BYTES: usize = 16 << 20;
