//! Many datagrams in one system call: recvmmsg(2).

use std::cell::UnsafeCell;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, iovec, mmsghdr};

use super::check;
use crate::address::Address;

/// Room for messages: payload, source address and control messages of each.
pub(crate) struct Slots {
    /// One a slot. All pointers in it lead to the vectors below, which are never moved or grown.
    headers: Vec<mmsghdr>,
    /// Read by the kernel alone.
    _vectors: Vec<iovec>,
    names: Vec<UnsafeCell<[u8; Address::LONGEST]>>,
    controls: Vec<UnsafeCell<[u8; CONTROL]>>,
    bytes: Vec<UnsafeCell<u8>>,
    /// Where the first slot begins in `bytes`.
    start: usize,
    capacity: usize,
    stride: usize,
    /// Slots that the last call filled.
    filled: usize,
    /// Slots whose header the kernel may have written to since it was last made ready.
    dirty: usize,
}

// SAFETY: the pointers in `headers` and `_vectors` lead to heap memory that the value itself owns and that moves with it
// from thread to thread; nothing else holds them, and nothing about them belongs to a thread.
unsafe impl Send for Slots {}

// SAFETY: what stands in the cells is written by the kernel alone, during `receive`, which has the value to itself
// (`&mut self`). Through a shared reference everything is only read.
unsafe impl Sync for Slots {}

impl Slots {
    /// `count` slots (at least one) of `capacity` bytes each.
    pub(crate) fn new(count: usize, capacity: usize) -> Self {
        let count = count.max(1);
        // Slots a power of two apart would share the same few sets of the processor's caches.
        let stride = capacity.next_multiple_of(LINE) + 3 * LINE;
        let bytes = cells(vec![0; count * stride + LINE]);
        // The kernel copies whole lines the fastest.
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        let names: Vec<_> = (0..count).map(|_| UnsafeCell::new([0; Address::LONGEST])).collect();
        let controls: Vec<_> = (0..count).map(|_| UnsafeCell::new([0; CONTROL])).collect();
        // One pointer to all cells, for a pointer to one of them must not be used for its neighbours.
        let base = bytes.as_ptr().wrapping_add(start);
        let mut vectors: Vec<iovec> = (0..count)
            .map(|slot| iovec { iov_base: base.wrapping_add(slot * stride).cast_mut().cast(), iov_len: capacity })
            .collect();
        let vector = vectors.as_mut_ptr();
        // SAFETY: mmsghdr is plain data, for which all-zero bytes are valid.
        let mut headers: Vec<mmsghdr> = vec![unsafe { mem::zeroed() }; count];
        for (slot, header) in headers.iter_mut().enumerate() {
            header.msg_hdr.msg_iov = vector.wrapping_add(slot);
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = names[slot].get().cast();
            header.msg_hdr.msg_control = controls[slot].get().cast();
        }
        Self { headers, _vectors: vectors, names, controls, bytes, start, capacity, stride, filled: 0, dirty: count }
    }

    /// Receives what is there, at most a slot's worth each; returns how many slots were filled. `ancillary`: whether
    /// control messages may come, too. `wait`: for the first message, as long as the socket says (SO_RCVTIMEO). `most`: fills
    /// no more slots than this, at least one.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        ancillary: bool,
        wait: bool,
        most: usize,
    ) -> io::Result<usize> {
        let most = most.clamp(1, self.headers.len());
        for header in &mut self.headers[..self.dirty] {
            header.msg_hdr.msg_namelen = Address::LONGEST as u32;
            header.msg_hdr.msg_controllen = CONTROL as _;
            header.msg_hdr.msg_flags = 0;
        }
        (self.filled, self.dirty) = (0, 1);
        let received = match (most, ancillary) {
            (1, false) => self.receive_payload(socket, flags(wait)),
            (1, true) => self.receive_one(socket, flags(wait)),
            _ => self.receive_many(socket, flags(wait), most),
        }?;
        self.filled = received;
        self.dirty = self.headers.len().min(received + 1);
        Ok(received)
    }

    /// `most`: no more than there are slots.
    fn receive_many(&mut self, socket: BorrowedFd<'_>, flags: c_int, most: usize) -> io::Result<usize> {
        let headers = &mut self.headers[..most];
        let (first, count) = (headers.as_mut_ptr(), headers.len() as u32);
        // SAFETY: the descriptor is open while it is borrowed. `first` points to `count` headers. Each points to one
        // iovec, a name and a control buffer with the lengths said, all in vectors that `self` owns, that never grow and
        // that nobody else touches during the call, since `self` is borrowed exclusively. The iovec covers `capacity`
        // bytes of `bytes` at a slot's beginning, the slots do not overlap, and the last ends within `bytes`. All that
        // the kernel writes to besides the headers lies in UnsafeCells, through pointers made from shared references:
        // reading them in between does not end these pointers' validity. The timeout may be null.
        let received = check(unsafe { libc::recvmmsg(socket.as_raw_fd(), first, count, flags as _, ptr::null_mut()) })?;
        Ok(received as usize)
    }

    /// A call that copies less, for the first slot alone.
    fn receive_one(&mut self, socket: BorrowedFd<'_>, flags: c_int) -> io::Result<usize> {
        let header = &raw mut self.headers[0].msg_hdr;
        // SAFETY: as for recvmmsg above, with one header.
        let length = check_length(unsafe { libc::recvmsg(socket.as_raw_fd(), header, flags) })?;
        self.headers[0].msg_len = length;
        Ok(1)
    }

    /// A call that copies even less, where nothing comes beside the payload.
    fn receive_payload(&mut self, socket: BorrowedFd<'_>, flags: c_int) -> io::Result<usize> {
        let header = &mut self.headers[0];
        let start = self.bytes.as_ptr().wrapping_add(self.start).cast_mut().cast();
        let (name, length) = (header.msg_hdr.msg_name.cast(), &raw mut header.msg_hdr.msg_namelen);
        // SAFETY: the descriptor is open while it is borrowed; behind `start` `bytes` holds the slot's `capacity` bytes, the
        // name has the length that `length` points to, and the rest is as for recvmmsg above.
        let received = unsafe { libc::recvfrom(socket.as_raw_fd(), start, self.capacity, flags, name, length) };
        header.msg_len = check_length(received)?;
        header.msg_hdr.msg_controllen = 0;
        Ok(1)
    }

    /// Slots that the last call filled.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Payload as far as it fitted, and its length as it came.
    ///
    /// # Panics
    /// If the last call did not fill the slot.
    pub(crate) fn payload(&self, slot: usize) -> (&[u8], usize) {
        let length = self.header(slot).msg_len as usize;
        let start = self.bytes.as_ptr().wrapping_add(self.start + slot * self.stride).cast::<u8>();
        // SAFETY: the slot exists (`header` has checked it), so its `capacity` bytes lie within `bytes` and are
        // initialised. They are only written to by `receive`, which needs `self` exclusively.
        let bytes = unsafe { std::slice::from_raw_parts(start, length.min(self.capacity)) };
        (bytes, length)
    }

    /// `struct sockaddr` of the sender. Panics as [`Self::payload`].
    pub(crate) fn name(&self, slot: usize) -> &[u8] {
        let length = self.header(slot).msg_hdr.msg_namelen as usize;
        // SAFETY: the cell is initialised and only written to by `receive`, which needs `self` exclusively.
        let name = unsafe { &*self.names[slot].get() };
        &name[..length.min(name.len())]
    }

    /// Control messages. Panics as [`Self::payload`].
    pub(crate) fn control(&self, slot: usize) -> &[u8] {
        let length: usize = self.header(slot).msg_hdr.msg_controllen as _; // 32 bits in some C libraries
        // SAFETY: as for the name.
        let control = unsafe { &*self.controls[slot].get() };
        &control[..length.min(control.len())]
    }

    fn header(&self, slot: usize) -> &mmsghdr {
        assert!(slot < self.filled, "message {slot} of {}", self.filled);
        &self.headers[slot]
    }
}

fn check_length(received: libc::ssize_t) -> io::Result<u32> {
    u32::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// The same bytes, to be written to behind shared references.
fn cells(bytes: Vec<u8>) -> Vec<UnsafeCell<u8>> {
    let mut bytes = ManuallyDrop::new(bytes);
    // SAFETY: pointer, length and capacity are those of a Vec that is not used or dropped any more; UnsafeCell<u8> has
    // the layout of u8.
    unsafe { Vec::from_raw_parts(bytes.as_mut_ptr().cast(), bytes.len(), bytes.capacity()) }
}

/// Wait for the first message at most; tell how long a datagram was even if it does not fit.
fn flags(wait: bool) -> c_int {
    libc::MSG_TRUNC | if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT }
}

/// Room for all control messages that our options ask for: stamp 32, drops 24, segment size 24, packet information of
/// both families 72, hops 24.
const CONTROL: usize = 192;

/// Bytes of a cache line.
const LINE: usize = 64;
