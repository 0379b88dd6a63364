//! Socket options and what is asked of a descriptor, socket(7).

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, socklen_t};

use super::{MCAST_MSFILTER, check};
use crate::address::Address;

/// Sets a number.
pub(crate) fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_plain(socket, level, option, &value)
}

/// Reads a number.
pub(crate) fn get(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    get_plain(socket, level, option)
}

/// SO_MEMINFO: include/uapi/linux/sock_diag.h, SK_MEMINFO_*.
pub(crate) fn memory(socket: BorrowedFd<'_>) -> io::Result<[u32; 9]> {
    get_plain(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)
}

/// The interface through which an IPv4 socket sends to groups.
pub(crate) fn set_multicast_interface_v4(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let any = libc::in_addr { s_addr: 0 };
    let request = libc::ip_mreqn { imr_multiaddr: any, imr_address: any, imr_ifindex: index as c_int };
    set_plain(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
}

/// Joins or leaves a group: MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP, or with a source MCAST_JOIN_SOURCE_GROUP,
/// MCAST_LEAVE_SOURCE_GROUP, at the level of the group's family. RFC 3678 section 5.
pub(crate) fn membership(
    socket: BorrowedFd<'_>,
    option: c_int,
    interface: u32,
    group: IpAddr,
    source: Option<IpAddr>,
) -> io::Result<()> {
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let group = Storage::from(group);
    match source {
        None => set_plain(socket, level, option, &GroupRequest { interface, group }),
        Some(source) => {
            set_plain(socket, level, option, &GroupSourceRequest { interface, group, source: source.into() })
        }
    }
}

/// Whether a socket is a member of a group on an interface: only then it has a filter of sources there. RFC 3678 section 5.2.
pub(crate) fn is_member(socket: BorrowedFd<'_>, interface: u32, group: IpAddr) -> bool {
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let mut filter = GroupFilter { interface, group: group.into(), mode: 0, sources: 0, first: Storage([0; 128]) };
    let mut length = size_of::<GroupFilter>() as socklen_t;
    let descriptor = socket.as_raw_fd();
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads the filter and writes at most `length` bytes to it,
    // numbers and addresses, for which any bytes are valid. Both outlive the call.
    let result =
        unsafe { libc::getsockopt(descriptor, level, MCAST_MSFILTER, (&raw mut filter).cast(), &raw mut length) };
    check(result).is_ok()
}

/// Drops everything that comes from now on: a filter of the one instruction `return 0`.
pub(crate) fn attach_closed_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut program = [libc::sock_filter { code, jt: 0, jf: 0, k: 0 }];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    // `filter` points to `program`, which outlives the call; the kernel copies both.
    set_plain(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Has a program choose among the sockets of a SO_REUSEPORT group, of which this is one.
pub(crate) fn attach_reuseport_program(socket: BorrowedFd<'_>, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // `filter` points to `program`, which outlives the call; the kernel copies both.
    set_plain(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &filter)
}

/// The index of an interface, by name, in the network namespace of the socket (not of the thread). netdevice(7).
pub(crate) fn interface_index(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    // SAFETY: all fields of an ifreq are numbers, arrays of them, or pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is open while it is borrowed; SIOCGIFINDEX reads the name, which ends with a zero because
    // it is shorter than its field, and writes the index to the request, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX as _, &raw mut request) })?;
    // SAFETY: the call succeeded, so the kernel wrote this field; any bits are a number.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
}

/// `struct group_req` of include/uapi/linux/in.h.
#[repr(C)]
struct GroupRequest {
    interface: u32,
    group: Storage,
}

/// `struct group_source_req` of include/uapi/linux/in.h.
#[repr(C)]
struct GroupSourceRequest {
    interface: u32,
    group: Storage,
    source: Storage,
}

/// `struct group_filter` of include/uapi/linux/in.h, with room for none of the sources.
#[repr(C)]
struct GroupFilter {
    interface: u32,
    group: Storage,
    mode: u32,
    sources: u32,
    first: Storage,
}

/// `struct __kernel_sockaddr_storage`: 128 bytes, aligned like a pointer.
#[repr(C, align(8))]
struct Storage([u8; 128]);

impl From<IpAddr> for Storage {
    fn from(ip: IpAddr) -> Self {
        let address = Address::from(std::net::SocketAddr::new(ip, 0));
        let mut bytes = [0; 128];
        bytes[..address.as_bytes().len()].copy_from_slice(address.as_bytes());
        Self(bytes)
    }
}

fn set_plain<T>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; pointer and length describe `value`, which outlives the call
    // and is only read. Padding in T is copied by the kernel and not looked at.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

/// Types any bytes are a valid value of.
trait Plain {}
impl Plain for c_int {}
impl Plain for [u32; 9] {}

fn get_plain<T: Plain>(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<T> {
    // SAFETY: T is Plain, all-zero bytes are a value of it.
    let mut value: T = unsafe { mem::zeroed() };
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `length` bytes to `value`, any
    // bytes of which are a value of the Plain type T, and the written length to `length`. Both outlive the call.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length) })?;
    Ok(value)
}

/// Takes a connected socket's destination away, and with it the source address and port that the kernel chose for it:
/// connect(2) to AF_UNSPEC (udp_disconnect of net/ipv4/udp.c).
pub(crate) fn disconnect(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: sockaddr is plain data, for which all-zero bytes are valid; they say AF_UNSPEC.
    let nowhere: libc::sockaddr = unsafe { mem::zeroed() };
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads `nowhere`, of which it is told the size, during
    // the call alone.
    check(unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, size_of_val(&nowhere) as socklen_t) })?;
    Ok(())
}
