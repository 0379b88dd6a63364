//! Packet sockets and their options, packet(7).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void, socklen_t};

/// An unbound packet socket, which receives nothing yet.
pub(in crate::datapath) fn create() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers. Protocol 0: nothing is received before `bind`.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: `fd` was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Receives all protocols on the interface from here on.
pub(in crate::datapath) fn bind(socket: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    let ifindex = c_int::try_from(ifindex).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: sockaddr_ll is plain data, for which all-zero bytes are valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = ifindex;
    let length = size_of_val(&address) as socklen_t;
    // SAFETY: the pointer and length describe `address`, which outlives the call; the kernel only reads it.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

/// Sets an option of level SOL_PACKET.
pub(in crate::datapath) fn set_packet_option(socket: BorrowedFd<'_>, option: c_int, value: c_int) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, option, value)
}

/// Requests the kernel's arrival stamp (CLOCK_REALTIME) with every frame.
pub(in crate::datapath) fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Grows the receive and send buffers towards `bytes`; returns the effective receive buffer. The privileged option is
/// tried first, then the one that `net.core.rmem_max` limits.
pub(in crate::datapath) fn grow_buffers(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    let bytes = c_int::try_from(bytes / 2).unwrap_or(c_int::MAX / 2); // the kernel doubles it
    for (forced, capped) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        set(socket, libc::SOL_SOCKET, forced, bytes).or_else(|_| set(socket, libc::SOL_SOCKET, capped, bytes))?;
    }
    let granted: c_int = get(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?;
    Ok(granted as usize)
}

/// The socket's counts since the last call.
pub(in crate::datapath) fn take_statistics(socket: BorrowedFd<'_>) -> io::Result<PacketStatistics> {
    get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
}

/// `struct tpacket_stats` of linux/if_packet.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::datapath) struct PacketStatistics {
    /// Received frames, including dropped ones.
    pub(in crate::datapath) packets: u32,
    /// Frames dropped for lack of buffer.
    pub(in crate::datapath) drops: u32,
}

/// Types for which any bytes are a valid value.
trait Plain: Copy {}
impl Plain for c_int {}
impl Plain for PacketStatistics {}

fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    let length = size_of_val(&value) as socklen_t;
    let pointer: *const c_void = (&raw const value).cast();
    // SAFETY: pointer and length describe `value`, which outlives the call; the kernel only reads it.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, length) })?;
    Ok(())
}

fn get<T: Plain>(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<T> {
    // SAFETY: T is Plain, all-zero bytes are a value of it.
    let mut value: T = unsafe { mem::zeroed() };
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: pointer and length describe `value`; the kernel writes at most `length` bytes, and any bytes are a
    // value of the Plain type T.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length) })?;
    Ok(value)
}

pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
