//! A socket of a running program, and its receive buffer.

use std::os::fd::{AsFd, OwnedFd, RawFd};

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::Error;
use crate::error::During;

/// Takes a copy of a process's descriptor (pidfd_getfd(2), from Linux 5.6). Both refer to the same socket.
///
/// # Errors
/// If the process is gone or has no such descriptor (EBADF), or without the right to trace it: the same user, or
/// CAP_SYS_PTRACE.
pub fn borrow(pid: u32, fd: RawFd) -> Result<OwnedFd, Error> {
    let operation = || format!("borrow descriptor {fd} of process {pid}");
    let gone = || Error::answer(format!("process {pid}"), "gone");
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let reason = |errno: rustix::io::Errno| match errno {
        rustix::io::Errno::SRCH => gone(),
        rustix::io::Errno::PERM => {
            Error::answer(operation(), "not permitted (needs CAP_SYS_PTRACE: run as root, or as the program's user)")
        }
        errno => Error::System { operation: operation(), errno: nix::errno::Errno::from_raw(errno.raw_os_error()) },
    };
    let process = pidfd_open(number, PidfdFlags::empty()).map_err(reason)?;
    pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).map_err(reason)
}

/// The size of a socket's receive buffer, bytes of truesize: what SK_MEMINFO and getsockopt(SO_RCVBUF) tell.
///
/// # Errors
/// If it is no socket.
pub fn receive_buffer(socket: impl AsFd) -> Result<u32, Error> {
    let size = getsockopt(&socket, sockopt::RcvBuf).during(|| "read SO_RCVBUF")?;
    Ok(u32::try_from(size).unwrap_or(u32::MAX))
}

/// Gives a socket a receive buffer of `bytes` of truesize, as [`receive_buffer`] tells it: the kernel is asked for half
/// of that and doubles it (socket(7)). Beyond `net.core.rmem_max` only with CAP_NET_ADMIN (SO_RCVBUFFORCE), else as
/// much as that allows. Returns what it has now.
///
/// # Errors
/// If it is no socket.
pub fn set_receive_buffer(socket: impl AsFd, bytes: u32) -> Result<u32, Error> {
    let half = bytes.div_ceil(2) as usize;
    if setsockopt(&socket, sockopt::RcvBufForce, &half).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &half).during(|| format!("set SO_RCVBUF to {half}"))?;
    }
    receive_buffer(socket)
}
