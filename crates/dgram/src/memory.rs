//! What a socket holds and has dropped (SO_MEMINFO, Linux 4.12).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::Socket;
use crate::sys::option;

/// A socket's queues, as the kernel accounts them: bookkeeping included. include/uapi/linux/sock_diag.h, SK_MEMINFO_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in the receive queue.
    pub receive_queue: u32,
    /// Most bytes there (SO_RCVBUF, doubled).
    pub receive_buffer: u32,
    /// Bytes sent that the interface has not done with.
    pub send_queue: u32,
    /// Most bytes there (SO_SNDBUF, doubled).
    pub send_buffer: u32,
    /// Datagrams dropped since the socket was made, modulo 2^32: receive buffer full, filtered, bad checksum.
    pub drops: u32,
}

impl Socket {
    /// Queues and drops at this moment.
    ///
    /// # Errors
    /// Before Linux 4.12.
    pub fn memory(&self) -> io::Result<Memory> {
        Memory::of(self.as_fd())
    }
}

impl Memory {
    /// Those of any socket, at this moment.
    ///
    /// # Errors
    /// Before Linux 4.12.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let [receive_queue, receive_buffer, send_queue, send_buffer, .., drops] = option::memory(socket)?;
        Ok(Self { receive_queue, receive_buffer, send_queue, send_buffer, drops })
    }
}
