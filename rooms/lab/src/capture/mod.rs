//! Packets that pass an interface, into a pcapng file.
//!
//! A separate thread takes them from the kernel and writes them in large pieces; the traffic does not wait for it.
//! Packets that it misses are counted.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use weir_kernel::capture::{Counts, Frame, Tap};
use weir_kernel::namespaces::NetNs;
use weir_report::store;
use weir_wire::pcapng::{self, Direction, Interface, LinkType, Packet, Statistics};

/// A running capture. Dropping it ends it silently.
pub struct Capture {
    thread: JoinHandle<CaptureReport>,
    /// Closing it ends the capture.
    wake: PipeWriter,
}

/// The result of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureReport {
    /// The file.
    pub file: PathBuf,
    /// Frames in the file; with segmentation offload one holds many packets.
    pub packets: u64,
    /// Frames that are missing in the file, because the thread was too late.
    pub dropped: u64,
    /// Why the capture ended early, in one line; later frames are in no count.
    pub error: Option<String>,
}

impl Capture {
    /// Captures both directions of `interface` of the namespace to `file` from now on: the first `snap` bytes of
    /// each frame, 0: all of it.
    ///
    /// # Errors
    /// The interface cannot be captured, or the file not created.
    pub fn start(ns: &NetNs, interface: &str, file: &Path, snap: u32) -> Result<Capture> {
        let tap = Tap::open(ns, interface, snap, RECEIVE_BUFFER)?;
        let out = Output::create(file)?;
        let (woken, wake) = io::pipe().context("capture: make a pipe")?;
        let writer = Writer { tap, out, woken, started: now() };
        let (interface, file) = (interface.to_owned(), file.to_owned());
        let thread = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || writer.run(&interface, snap, file))
            .context("start the capture's thread")?;
        Ok(Capture { thread, wake })
    }

    /// Ends the capture once all packets so far are in the file.
    ///
    /// # Errors
    /// Only if the thread has panicked; other errors are in the report.
    pub fn stop(self) -> Result<CaptureReport> {
        drop(self.wake);
        self.thread.join().map_err(|_| anyhow::anyhow!("capture: its thread has panicked"))
    }
}

/// The thread's state.
struct Writer {
    tap: Tap,
    out: Output,
    woken: PipeReader,
    started: u64,
}

impl Writer {
    fn run(mut self, interface: &str, snap: u32, file: PathBuf) -> CaptureReport {
        pcapng::section_header(&mut self.out.pending, concat!("weir ", env!("CARGO_PKG_VERSION")));
        pcapng::interface(
            &mut self.out.pending,
            &Interface { name: interface, description: "", snap_length: snap, link_type: LinkType::Ethernet },
        );
        let copied = self.copy();
        let counts = self.tap.counts();
        let Counts { passed, dropped } = counts.as_ref().copied().unwrap_or_default();
        let statistics = Statistics {
            interface: 0,
            started: self.started,
            ended: now(),
            received: passed,
            dropped,
            delivered: self.out.written + self.out.pending_packets,
        };
        pcapng::statistics(&mut self.out.pending, &statistics);
        // On a full disk there may be room for this: the last, incomplete piece was removed.
        let finished = self.out.flush();
        let error = copied.and(finished).and_then(|()| Ok(counts.map(drop)?)).err();
        let error = error.map(|error| format!("capture on {interface} into {}: {error:#}", file.display()));
        CaptureReport { file, packets: self.out.written, dropped, error }
    }

    /// Copies frames until the capture is stopped or fails.
    fn copy(&mut self) -> Result<()> {
        loop {
            if self.tap.wait(self.woken.as_fd())? {
                // All packets so far are in the socket; later ones are not waited for.
                let Counts { passed, dropped } = self.tap.counts()?;
                self.drain(passed - dropped)?;
                return self.out.flush();
            }
            self.drain(u64::MAX)?;
            if self.tap.receive_buffer() >= LARGE_BUFFER {
                // Frames then come in larger groups, which saves most wake-ups. Only the end is noticed a little later.
                std::thread::sleep(REST);
            }
        }
    }

    /// Copies the frames in the socket, up to this many since the start.
    fn drain(&mut self, max: u64) -> Result<()> {
        loop {
            let out = &mut self.out;
            let count = self.tap.receive(|frame| {
                if out.written + out.pending_packets < max {
                    pcapng::packet(&mut out.pending, &packet(&frame));
                    out.pending_packets += 1;
                }
            })?;
            if self.out.pending.len() >= PIECE {
                self.out.flush()?;
            }
            if count == 0 || self.out.written + self.out.pending_packets >= max {
                return Ok(());
            }
        }
    }
}

fn packet<'a>(frame: &Frame<'a>) -> Packet<'a> {
    Packet {
        interface: 0,
        stamp: frame.stamp,
        direction: Some(if frame.outgoing { Direction::Outbound } else { Direction::Inbound }),
        original_length: frame.length,
        bytes: frame.bytes,
        comment: "",
    }
}

/// A file with only whole blocks, whatever happens to the disk.
struct Output {
    file: File,
    /// Its length so far.
    length: u64,
    /// Packets in it.
    written: u64,
    /// Blocks to be written.
    pending: Vec<u8>,
    pending_packets: u64,
}

impl Output {
    fn create(path: &Path) -> Result<Output> {
        let file = store::fresh(path).with_context(|| format!("write {}", path.display()))?;
        Ok(Output { file, length: 0, written: 0, pending: Vec::with_capacity(2 * PIECE), pending_packets: 0 })
    }

    /// Writes what is pending; blocks that cannot be written are dropped.
    fn flush(&mut self) -> Result<()> {
        let result = self.file.write_all_at(&self.pending, self.length);
        match result {
            Ok(()) => {
                self.length += self.pending.len() as u64;
                self.written += self.pending_packets;
            }
            // Only for a file with a length.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        self.pending.clear();
        self.pending_packets = 0;
        Ok(result?)
    }
}

/// CLOCK_REALTIME, as the kernel stamps frames.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Kernel memory for waiting frames: some 0.2 s of full-sized ones at 1 Gbit/s.
const RECEIVE_BUFFER: usize = 64 << 20;
/// Kernel memory that 10 Gbit/s do not fill within several rests.
const LARGE_BUFFER: usize = 16 << 20;
const REST: Duration = Duration::from_millis(1);
/// Bytes per write.
const PIECE: usize = 1 << 20;

#[cfg(test)]
mod tests;
