//! One entry of a socket's error queue: recvmsg(2) with MSG_ERRQUEUE.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;
use crate::address::Address;
use crate::errors::QUOTED;

/// An entry as the kernel wrote it.
pub(crate) struct Entry {
    name: [u8; Address::LONGEST],
    name_length: usize,
    control: [u8; CONTROL],
    control_length: usize,
    quoted: [u8; QUOTED],
    quoted_length: usize,
}

impl Entry {
    /// Takes the next entry. WouldBlock: there is none.
    pub(crate) fn take(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut entry = Self {
            name: [0; Address::LONGEST],
            name_length: 0,
            control: [0; CONTROL],
            control_length: 0,
            quoted: [0; QUOTED],
            quoted_length: 0,
        };
        let mut piece = libc::iovec { iov_base: entry.quoted.as_mut_ptr().cast(), iov_len: QUOTED };
        // SAFETY: msghdr is plain data, for which all-zero bytes are valid.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = entry.name.as_mut_ptr().cast();
        header.msg_namelen = entry.name.len() as u32;
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = entry.control.as_mut_ptr().cast();
        header.msg_controllen = entry.control.len() as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the descriptor is open while it is borrowed. `header` points to two arrays of `entry` with their
        // lengths, and to one iovec with a third; the kernel writes to these and to the header, all of which outlive the
        // call and are not touched during it.
        let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
        entry.quoted_length = (check(received as libc::c_int)? as usize).min(QUOTED);
        entry.name_length = (header.msg_namelen as usize).min(entry.name.len());
        entry.control_length = (header.msg_controllen as usize).min(entry.control.len());
        Ok(entry)
    }

    /// Where the datagram went to: `struct sockaddr`.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    /// What the datagram's payload began with.
    pub(crate) fn quoted(&self) -> &[u8] {
        &self.quoted[..self.quoted_length]
    }

    /// Control messages.
    pub(crate) fn control(&self) -> &[u8] {
        &self.control[..self.control_length]
    }
}

/// Room for an error with its offender (64), a stamp, drops and packet information.
const CONTROL: usize = 256;
