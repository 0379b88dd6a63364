//! One entry of a socket's error queue: recvmsg(2) with MSG_ERRQUEUE.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;
use crate::address::{Address, canonical};
use crate::control::parse_error;
use crate::errors::{QUOTED, Reported};

/// Takes the next entry.
///
/// # Errors
/// WouldBlock: there is none. InvalidData: it cannot be read.
pub(crate) fn take(socket: BorrowedFd<'_>) -> io::Result<Reported> {
    let (mut name, mut control, mut quoted) = ([0_u8; Address::LONGEST], [0_u8; CONTROL], [0_u8; QUOTED]);
    let mut piece = libc::iovec { iov_base: quoted.as_mut_ptr().cast(), iov_len: QUOTED };
    // SAFETY: msghdr is plain data, for which all-zero bytes are valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = name.len() as u32;
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the descriptor is open while it is borrowed. `header` points to two arrays with their lengths, and to one iovec
    // with a third; the kernel writes to these and to the header, all of which outlive the call and are not touched during it.
    let received = check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) } as libc::c_int)?;
    let (name_length, control_length) = (header.msg_namelen as usize, header.msg_controllen as usize);
    let reported = parse_error(&control[..control_length.min(CONTROL)]).ok_or(io::ErrorKind::InvalidData)?;
    let destination = Address::decode(&name[..name_length.min(name.len())]).map(canonical);
    Ok(Reported { destination, quoted: quoted[..(received as usize).min(QUOTED)].to_vec(), ..reported })
}

/// Room for an error with its offender (64), a stamp, drops and packet information.
const CONTROL: usize = 256;
