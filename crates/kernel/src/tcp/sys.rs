//! The calls of this module that the standard library has no safe name for.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Fills `bytes` with the beginning of the socket's struct tcp_info; what an older kernel does not have stays.
pub(super) fn tcp_info(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<()> {
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: `socket` is borrowed, so its descriptor is open during the call. `bytes` is a valid, exclusive buffer of
    // `len` bytes without alignment demands on the kernel's copy; `len` is a valid, exclusive socklen_t. The kernel
    // writes at most `len` bytes of the buffer, which stay initialised bytes whatever it writes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &mut len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of the send queue that are not acknowledged: SIOCOUTQ (include/uapi/linux/sockios.h) is the number of TIOCOUTQ.
pub(super) fn outstanding(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: `socket` is borrowed, so its descriptor is open during the call. `bytes` is a valid, exclusive c_int, which is
    // all that the kernel writes.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(bytes.unsigned_abs()) } else { Err(io::Error::last_os_error()) }
}
