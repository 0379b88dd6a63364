//! Packet sockets and recvmmsg(2).
#![allow(unsafe_code)]

use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, iovec, mmsghdr, sockaddr_ll, socklen_t};
use nix::errno::Errno;

use super::Frame;

/// A packet socket that is bound to nothing and therefore receives nothing yet.
pub fn create() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers. Protocol 0: nothing is received before `bind`.
    let fd = Errno::result(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: `fd` was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Receives every protocol on the interface from here on, sent frames too; 0: on all of them, those that come later included.
pub fn bind(socket: BorrowedFd<'_>, ifindex: u32) -> Result<(), Errno> {
    // SAFETY: sockaddr_ll is plain data, for which all-zero bytes are valid.
    let mut address: sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = c_int::try_from(ifindex).map_err(|_| Errno::ENODEV)?;
    let length = size_of_val(&address) as socklen_t;
    // SAFETY: the pointer and length describe `address`, which outlives the call; the kernel only reads it.
    Errno::result(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}

/// Asks for the kernel's stamp (CLOCK_REALTIME) with every frame.
pub(super) fn stamp_arrivals(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, libc::SO_TIMESTAMPNS, 1)
}

/// Grows the receive buffer towards `bytes`, by privilege if there is one; returns what was granted.
pub(super) fn grow_receive_buffer(socket: BorrowedFd<'_>, bytes: usize) -> Result<usize, Errno> {
    // The kernel doubles it.
    let half = c_int::try_from(bytes / 2).unwrap_or(c_int::MAX / 2);
    set(socket, libc::SO_RCVBUFFORCE, half).or_else(|_| set(socket, libc::SO_RCVBUF, half))?;
    let mut granted: c_int = 0;
    get(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &mut granted)?;
    Ok(granted as usize)
}

/// Frames that passed and frames dropped for want of room since the last call (`struct tpacket_stats` of
/// include/uapi/linux/if_packet.h); the first include the second.
pub fn take_statistics(socket: BorrowedFd<'_>) -> Result<(u32, u32), Errno> {
    let mut statistics = [0; 2];
    get(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut statistics)?;
    Ok((statistics[0], statistics[1]))
}

/// Receives frames into buffers of its own.
pub(super) struct Batch {
    headers: Vec<mmsghdr>,
    iovecs: Vec<iovec>,
    senders: Vec<sockaddr_ll>,
    control: Vec<Control>,
    /// One after the other, `snap_length` bytes each.
    bytes: Vec<u8>,
    snap_length: usize,
}

// SAFETY: the pointers in `headers` and `iovecs` are written anew before each use and only ever point into the other
// vectors of the same batch, which move along with it.
unsafe impl Send for Batch {}

impl Batch {
    /// Room for so many frames of so many bytes, neither of them 0.
    pub(super) fn new(frames: usize, snap_length: usize) -> Self {
        // SAFETY: all three are plain data, for which all-zero bytes are valid.
        let (header, vector, sender): (mmsghdr, iovec, sockaddr_ll) =
            unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        Batch {
            headers: vec![header; frames],
            iovecs: vec![vector; frames],
            senders: vec![sender; frames],
            control: vec![Control([0; CONTROL]); frames],
            bytes: vec![0; frames * snap_length],
            snap_length,
        }
    }

    /// Receives what is there; returns how many frames, at least 1.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.make_ready();
        let count = self.headers.len() as u32;
        // SAFETY: `headers` has `count` elements. Each points to one iovec, one address and one control buffer with
        // their lengths, all elements of vectors of `self`, which never grow and are not touched otherwise during the
        // call. Each iovec covers a part of `bytes` of its own. All were derived from unique references in
        // `make_ready`, just now. The timeout may be null. With MSG_TRUNC the kernel tells more bytes than it writes.
        let received = Errno::result(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                ptr::null_mut(),
            )
        })?;
        Ok(received as usize)
    }

    /// The frame at `index`, as the last call received it.
    pub(super) fn frame(&self, index: usize) -> Frame<'_> {
        let length = self.headers[index].msg_len as usize;
        let start = index * self.snap_length;
        Frame {
            stamp: self.control[index].stamp(self.headers[index].msg_hdr.msg_controllen as _).unwrap_or(0),
            outgoing: self.senders[index].sll_pkttype == libc::PACKET_OUTGOING,
            length: length as u32,
            bytes: &self.bytes[start..start + length.min(self.snap_length)],
        }
    }

    /// Points the headers at their buffers and resets what the kernel wrote into them.
    fn make_ready(&mut self) {
        let buffers = self.bytes.chunks_exact_mut(self.snap_length);
        let (iovecs, senders, control) = (&mut self.iovecs, &mut self.senders, &mut self.control);
        let parts = iovecs.iter_mut().zip(senders).zip(control).zip(buffers);
        for (header, (((vector, sender), control), buffer)) in self.headers.iter_mut().zip(parts) {
            *vector = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut *sender).cast();
            header.msg_namelen = size_of::<sockaddr_ll>() as socklen_t;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            header.msg_flags = 0;
        }
    }
}

/// Room for one `SCM_TIMESTAMPNS` (a cmsghdr and a timespec).
const CONTROL: usize = 32;

/// A control buffer, aligned as cmsg(3) wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Control {
    /// The stamp in the first `length` bytes. cmsg(3): length, level, type, then the data.
    fn stamp(&self, length: usize) -> Option<u64> {
        let word = |at: usize| -> Option<u64> {
            let bytes: [u8; 8] = self.0.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        let int = |at: usize| -> Option<c_int> {
            let bytes: [u8; 4] = self.0.get(at..at + 4)?.try_into().ok()?;
            Some(c_int::from_ne_bytes(bytes))
        };
        let found = length >= CONTROL && int(8)? == libc::SOL_SOCKET && int(12)? == libc::SCM_TIMESTAMPNS;
        if found { Some(word(16)? * 1_000_000_000 + word(24)?) } else { None }
    }
}

fn set(socket: BorrowedFd<'_>, option: c_int, value: c_int) -> Result<(), Errno> {
    let length = size_of_val(&value) as socklen_t;
    // SAFETY: pointer and length describe `value`, which outlives the call; the kernel only reads it.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), length) };
    Errno::result(result).map(drop)
}

/// Types any bytes are a valid value of.
trait Plain: Copy {}
impl Plain for c_int {}
impl Plain for [u32; 2] {}

fn get<T: Plain>(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: &mut T) -> Result<(), Errno> {
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: pointer and length describe `value`; the kernel writes at most `length` bytes, and any bytes are a value
    // of the Plain type T.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut *value).cast(), &raw mut length) };
    Errno::result(result).map(drop)
}
