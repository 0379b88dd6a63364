//! The crate's unsafe code: socket options, batched receive and send, the error queue.
#![allow(unsafe_code)]

pub(crate) mod option;
pub(crate) mod receive;
pub(crate) mod report;
pub(crate) mod send;

use libc::c_int;

// Not in every C library's headers: include/uapi/linux/{udp,in,in6}.h, include/uapi/asm-generic/socket.h.
pub(crate) const SOL_UDP: c_int = 17;
pub(crate) const UDP_SEGMENT: c_int = 103;
pub(crate) const UDP_GRO: c_int = 104;
pub(crate) const SO_RXQ_OVFL: c_int = 40;
pub(crate) const SO_TIMESTAMPNS: c_int = 35;
pub(crate) const IPV6_MULTICAST_ALL: c_int = 29;
pub(crate) const IPV6_HDRINCL: c_int = 36;
pub(crate) const MCAST_JOIN_GROUP: c_int = 42;
pub(crate) const MCAST_LEAVE_GROUP: c_int = 45;
pub(crate) const MCAST_JOIN_SOURCE_GROUP: c_int = 46;
pub(crate) const MCAST_LEAVE_SOURCE_GROUP: c_int = 47;
pub(crate) const MCAST_MSFILTER: c_int = 48;

/// The control message that [`SO_TIMESTAMPNS`] asks for.
pub(crate) const SCM_TIMESTAMPNS: c_int = SO_TIMESTAMPNS;

/// Waits until whatever the kernel was reading or delivering when this was called is done with: a grace period of its RCU,
/// some milliseconds (membarrier(2), MEMBARRIER_CMD_GLOBAL of include/uapi/linux/membarrier.h).
pub(crate) fn wait_for_deliveries() -> std::io::Result<()> {
    const GLOBAL: c_int = 1;
    let none: c_int = 0;
    // SAFETY: the call takes numbers alone and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, none, none) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

fn check(result: c_int) -> std::io::Result<c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
