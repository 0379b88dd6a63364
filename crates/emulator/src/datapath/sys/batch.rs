//! Many frames in one system call: recvmmsg(2), sendmmsg(2).

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::rc::Rc;

use libc::{c_int, iovec, mmsghdr};

use super::socket::check;
use crate::datapath::pool::Slot;

/// Max frames per call.
pub(in crate::datapath) const MAX_BATCH: usize = 64;

/// A received frame, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::datapath) struct Message {
    /// Bytes in the slot, without the margin.
    pub(in crate::datapath) length: usize,
    /// Whether the frame was longer than the slot.
    pub(in crate::datapath) truncated: bool,
    /// The kernel's arrival stamp, CLOCK_REALTIME, ns.
    pub(in crate::datapath) stamp: Option<u64>,
}

/// Receives frames into its own slots, which can be exchanged for others.
pub(in crate::datapath) struct ReceiveBatch {
    headers: Vec<mmsghdr>,
    iovecs: Vec<iovec>,
    control: Vec<Control>,
    slots: Vec<Slot>,
    /// Headers below this index were used since they were last prepared.
    used: usize,
}

impl ReceiveBatch {
    /// Receives one frame per slot in a call; `slots` must have no other holder.
    pub(in crate::datapath) fn new(slots: Vec<Slot>) -> Self {
        // SAFETY: mmsghdr and iovec are plain data, for which all-zero bytes are valid.
        let (header, vector): (mmsghdr, iovec) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let used = slots.len();
        Self {
            headers: vec![header; used],
            iovecs: vec![vector; used],
            control: vec![Control([0; CONTROL]); used],
            slots,
            used,
        }
    }

    /// Receives the waiting frames; returns their number.
    pub(in crate::datapath) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.make_ready();
        let count = self.headers.len() as u32;
        // SAFETY: `headers` has `count` elements. Each points to one iovec and one control buffer with its length, both
        // elements of vectors of `self`, which never grow and are not touched otherwise during the call. Each iovec
        // covers bytes of a slot that `self` owns and that had no other holder when the pointer was derived from a
        // unique reference (`make_ready`, after which slots are only given away by `exchange`, which makes a new one).
        // The timeout may be null.
        let received = check(unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        });
        self.used = *received.as_ref().unwrap_or(&1) as usize;
        received.map(|n| n as usize)
    }

    /// The frame at `index` from the last call.
    pub(in crate::datapath) fn message(&self, index: usize) -> Message {
        let header = &self.headers[index];
        Message {
            length: header.msg_len as usize,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            stamp: self.control[index].stamp(header.msg_hdr.msg_controllen as _),
        }
    }

    /// The whole slot at `index`.
    pub(in crate::datapath) fn slot(&self, index: usize) -> &[u8] {
        &self.slots[index]
    }

    /// Takes the slot at `index` and replaces it by a `fresh` one, without other holders.
    pub(in crate::datapath) fn exchange(&mut self, index: usize, fresh: Slot) -> Slot {
        debug_assert!(index < self.used, "only a slot that was received into is made ready again");
        mem::replace(&mut self.slots[index], fresh)
    }

    /// Points the used headers at their slots again and resets the fields that the kernel wrote.
    fn make_ready(&mut self) {
        for index in 0..self.used {
            let slot = Rc::get_mut(&mut self.slots[index]).map_or(&mut [][..], |slot| &mut slot[..]);
            self.iovecs[index] = iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let control = &mut self.control[index].0;
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[index];
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = control.len() as _;
            header.msg_flags = 0;
        }
        self.used = 0;
    }
}

/// Sends frames of one or two pieces each, as far as the kernel accepts them; returns how many. At most [`MAX_BATCH`]
/// are tried.
///
/// # Errors
/// No frame was accepted: the error of the first one.
pub(in crate::datapath) fn send(socket: BorrowedFd<'_>, frames: &[[IoSlice<'_>; 2]]) -> io::Result<usize> {
    // SAFETY: mmsghdr is plain data, for which all-zero bytes are valid.
    let mut headers: [mmsghdr; MAX_BATCH] = unsafe { mem::zeroed() };
    let count = frames.len().min(MAX_BATCH);
    for (header, frame) in headers.iter_mut().zip(frames) {
        // IoSlice is guaranteed to have the layout of iovec; the kernel only reads through these pointers.
        header.msg_hdr.msg_iov = frame.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_iovlen = if frame[1].is_empty() { 1 } else { 2 };
    }
    // SAFETY: `headers` has at least `count` elements, each zero but for a pointer to one or two IoSlices that `frames`
    // borrows for longer than the call; they are read as iovecs and borrow bytes that are only read.
    // The system call itself: musl's function of this name calls sendmsg for each message. The kernel's lengths are wider
    // than those of musl's headers, whose padding after them is zero.
    let sent = check(unsafe {
        libc::syscall(libc::SYS_sendmmsg, socket.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT)
    } as c_int)?;
    Ok(sent as usize)
}

/// Room for one `SCM_TIMESTAMPNS` (a cmsghdr and a timespec).
const CONTROL: usize = 32;

/// A control buffer, aligned as cmsg(3) requires.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Control {
    /// The arrival stamp in the first `length` bytes. cmsg(3): length, level, type, then the data.
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    #[test]
    fn frames_of_two_pieces_arrive_whole_and_slots_can_be_exchanged() {
        let (a, b) = socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_NONBLOCK).unwrap();
        let slots = || (0..4).map(|_| Slot::from([0u8; 6])).collect();
        let mut batch = ReceiveBatch::new(slots());
        for round in 0..3u8 {
            let round = [round];
            let pieces = [b"head" as &[u8], &round, b"long frame", b""].map(IoSlice::new);
            let frames = [[pieces[0], pieces[1]], [pieces[2], pieces[3]]];
            assert_eq!(send(a.as_fd(), &frames).unwrap(), 2);
            assert_eq!(batch.receive(b.as_fd()).unwrap(), 2);
            let message = batch.message(0);
            assert_eq!((message.length, message.truncated, message.stamp), (5, false, None));
            assert!(batch.message(1).truncated);
            let taken = batch.exchange(0, Slot::from([0u8; 6]));
            assert_eq!(&taken[..5], &[b'h', b'e', b'a', b'd', round[0]]);
            assert_eq!(batch.slot(1), b"long f");
        }
        assert_eq!(batch.receive(b.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn stamps_are_read_from_control_messages_made_by_hand() {
        let mut control = Control([0; CONTROL]);
        control.0[0..8].copy_from_slice(&32u64.to_ne_bytes());
        control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        control.0[12..16].copy_from_slice(&libc::SCM_TIMESTAMPNS.to_ne_bytes());
        control.0[16..24].copy_from_slice(&7u64.to_ne_bytes());
        control.0[24..32].copy_from_slice(&5u64.to_ne_bytes());
        assert_eq!(control.stamp(32), Some(7_000_000_005));
        assert_eq!(control.stamp(16), None);
        control.0[12] = 99;
        assert_eq!(control.stamp(32), None);
    }
}
