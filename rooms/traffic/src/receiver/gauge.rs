//! Reads a receiver's buffer from another thread.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use weir_dgram::Socket;

/// Reads a receiver's socket as long as it receives. It does not keep the socket open.
#[derive(Debug)]
pub struct Gauge {
    pub(super) socket: Weak<Socket>,
    pub(super) reads: Arc<AtomicU64>,
}

/// A reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Bytes in the receive buffer, as the kernel accounts them. The kernel subtracts read bytes in steps of a quarter
    /// of the buffer: up to that much may be gone already.
    pub bytes: u32,
    /// Max bytes in it.
    pub max: u32,
    /// Receive calls so far that returned data.
    pub reads: u64,
}

impl Gauge {
    /// Takes a reading. `None`: the receiver has ended.
    ///
    /// # Errors
    /// Before Linux 4.12.
    pub fn look(&self) -> io::Result<Option<Level>> {
        let Some(socket) = self.socket.upgrade() else { return Ok(None) };
        // Before the level: a read in between then appears as one too few, never as a stall.
        let reads = self.reads.load(Ordering::Relaxed);
        let memory = socket.memory()?;
        Ok(Some(Level { bytes: memory.receive_queue, max: memory.receive_buffer, reads }))
    }
}
