//! Batched receiving with the kernel's stamps.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Fixed buffers for `recvmmsg`.
pub(crate) struct Inbox {
    size: usize,
    bytes: Vec<u8>,
    controls: Vec<Control>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

/// Room for one stamp.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// A datagram.
pub(crate) struct Message<'a> {
    /// Its beginning, as far as the buffer reaches.
    pub(crate) bytes: &'a [u8],
    /// Its full length.
    pub(crate) length: usize,
    /// When it arrived at the interface, ns of CLOCK_REALTIME; `None`: the socket was not asked for it.
    pub(crate) arrival: Option<u64>,
}

impl Inbox {
    /// Room for `count` datagrams of which `size` bytes are kept.
    pub(crate) fn new(count: usize, size: usize) -> Inbox {
        let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: mmsghdr is plain data (integers and pointers), for which all zeros is a valid value.
        let header: libc::mmsghdr = unsafe { mem::zeroed() };
        Inbox {
            size,
            bytes: vec![0; count * size],
            controls: vec![Control([0; CONTROL]); count],
            slices: vec![empty; count],
            headers: vec![header; count],
        }
    }

    /// Takes what is there, at most as much as there is room. Returns how many, 0 if there was nothing.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        for (index, header) in self.headers.iter_mut().enumerate() {
            let slice = &mut self.slices[index];
            slice.iov_base = self.bytes[index * self.size..][..self.size].as_mut_ptr().cast();
            slice.iov_len = self.size;
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = self.controls[index].0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the descriptor is open for the borrow; `headers` has as many elements as is said, each pointing at one
        // slice and one control buffer of the lengths given, all of which this structure owns and nobody else refers
        // to during the call; a null timeout is allowed.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                flags,
                ptr::null_mut(),
            )
        };
        match usize::try_from(received) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error => Err(error),
            },
        }
    }

    /// One of those that the last call took.
    pub(crate) fn message(&self, index: usize) -> Message<'_> {
        let header = &self.headers[index];
        let length = header.msg_len as usize;
        let bytes = &self.bytes[index * self.size..][..length.min(self.size)];
        Message { bytes, length, arrival: self.stamp(index) }
    }

    /// One control message at most is asked for, so that it is the first.
    fn stamp(&self, index: usize) -> Option<u64> {
        let filled = self.headers[index].msg_hdr.msg_controllen;
        if filled < CONTROL {
            return None;
        }
        let control = &self.controls[index].0;
        // SAFETY: the buffer is longer than a cmsghdr, which is plain integers; read_unaligned asks for no alignment.
        let header: libc::cmsghdr = unsafe { ptr::read_unaligned(control.as_ptr().cast()) };
        if (header.cmsg_level, header.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            return None;
        }
        // SAFETY: CONTROL has room for the header and a timespec behind it; a timespec is plain integers.
        let time: libc::timespec = unsafe { ptr::read_unaligned(control[HEADER..].as_ptr().cast()) };
        Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// A control message's header, padded (CMSG_LEN(0)).
const HEADER: usize = size_of::<libc::cmsghdr>();

/// A header and a stamp (CMSG_SPACE of a timespec; both are multiples of 8 bytes).
const CONTROL: usize = HEADER + size_of::<libc::timespec>();
