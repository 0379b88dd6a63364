//! Many datagrams in one system call: sendmmsg(2).

use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, iovec, mmsghdr};

use super::check;
use crate::address::Address;
use crate::control::{BESIDE_SPACE, Hops, beside};

/// Most messages in one call: as many as `cut` has bits.
pub(crate) const MAX_BATCH: usize = u64::BITS as usize;

/// Most pieces in a batch that [`Batch::push_cut`] takes.
pub(crate) const MAX_VECTORS: usize = 256;

/// Messages for one call. Nothing is written to it but for what is pushed.
pub(crate) struct Batch<'a> {
    /// The first `used` are initialised. Pointers to `controls` and `vectors` are set by `send` alone, for the batch may
    /// have moved before.
    headers: [MaybeUninit<mmsghdr>; MAX_BATCH],
    /// Initialised where the header of the same index has a control length.
    controls: [MaybeUninit<[u8; BESIDE_SPACE]>; MAX_BATCH],
    /// The first `vectors_used` are initialised: those of the cut messages, in their order.
    vectors: [MaybeUninit<iovec>; MAX_VECTORS],
    used: usize,
    vectors_used: usize,
    /// A bit for each message that was pushed in parts: its vectors are here, wherever that is by then.
    cut: u64,
    borrowed: PhantomData<&'a [IoSlice<'a>]>,
}

impl<'a> Batch<'a> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            headers: [const { MaybeUninit::uninit() }; MAX_BATCH],
            controls: [const { MaybeUninit::uninit() }; MAX_BATCH],
            vectors: [const { MaybeUninit::uninit() }; MAX_VECTORS],
            used: 0,
            vectors_used: 0,
            cut: 0,
            borrowed: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.used, self.vectors_used, self.cut) = (0, 0, 0);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Adds a message as it is, with these hops; with `segment` the kernel cuts it.
    ///
    /// # Panics
    /// If the batch is full.
    #[inline]
    pub(crate) fn push(
        &mut self,
        to: Option<&'a Address>,
        pieces: &'a [IoSlice<'a>],
        segment: Option<u16>,
        hops: Option<Hops>,
    ) {
        let mut header = header(to);
        // IoSlice is guaranteed to have the layout of iovec; the kernel only reads through these pointers.
        header.msg_hdr.msg_iov = pieces.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_iovlen = pieces.len() as _;
        self.add(header, segment, hops);
    }

    #[inline]
    fn add(&mut self, mut header: mmsghdr, segment: Option<u16>, hops: Option<Hops>) {
        if segment.is_some() || hops.is_some() {
            let (control, length) = beside(segment, hops);
            self.controls[self.used].write(control);
            header.msg_hdr.msg_controllen = length as _;
        }
        self.headers[self.used].write(header);
        self.used += 1;
    }

    /// Adds a datagram made of parts of pieces; `false`: there is no room for it.
    pub(crate) fn push_cut(
        &mut self,
        to: Option<&'a Address>,
        parts: impl Iterator<Item = &'a [u8]>,
        hops: Option<Hops>,
    ) -> bool {
        let before = self.vectors_used;
        if self.used == MAX_BATCH {
            return false;
        }
        for part in parts {
            if self.vectors_used == MAX_VECTORS {
                self.vectors_used = before;
                return false;
            }
            let vector = iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
            self.vectors[self.vectors_used].write(vector);
            self.vectors_used += 1;
        }
        let mut header = header(to);
        header.msg_hdr.msg_iovlen = (self.vectors_used - before) as _;
        self.cut |= 1 << self.used;
        self.add(header, None, hops);
        true
    }

    /// Sends as far as the kernel takes it; returns how many messages it took, at least one.
    ///
    /// # Errors
    /// Nothing was taken, and why the first was not.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut vector = self.vectors.as_mut_ptr().cast::<iovec>();
        for (at, (header, control)) in self.headers[..self.used].iter_mut().zip(&mut self.controls).enumerate() {
            // SAFETY: the first `used` headers are initialised.
            let header = unsafe { &mut header.assume_init_mut().msg_hdr };
            if header.msg_controllen != 0 {
                header.msg_control = control.as_mut_ptr().cast();
            }
            // Anew each time: since the last one the batch may have moved.
            if self.cut >> at & 1 == 1 {
                header.msg_iov = vector;
                vector = vector.wrapping_add(header.msg_iovlen as _);
            }
        }
        let descriptor = socket.as_raw_fd();
        let first = self.headers.as_mut_ptr().cast::<mmsghdr>();
        if self.used == 1 {
            // A call that copies less for a message alone.
            // SAFETY: the only header used is initialised; nothing else refers to it now.
            let header = unsafe { &(*first).msg_hdr };
            // SAFETY: as for sendmmsg below.
            return check(unsafe { send_one(descriptor, header) }).map(|_| 1);
        }
        // SAFETY: the descriptor is open while it is borrowed. `first` points to `used` initialised headers. Each has
        // either no name or one that `'a` outlives the batch for; pieces that it borrows likewise, or initialised
        // elements of `vectors`, as many as it was pushed with, taken in the same order; and no control message or the
        // initialised one of its index, whose length is said. All are only read but for `msg_len` of the headers, and
        // none is touched by others during the call.
        // The system call itself: musl's function of this name calls sendmsg for each message. The kernel's lengths are
        // wider than those of musl's headers, whose padding after them is zero.
        let sent = check(unsafe { libc::syscall(libc::SYS_sendmmsg, descriptor, first, self.used, FLAGS) } as c_int)?;
        Ok(sent as usize)
    }
}

/// Sends one message as it is.
#[inline]
pub(crate) fn send_alone(socket: BorrowedFd<'_>, to: Option<&Address>, pieces: &[IoSlice<'_>]) -> io::Result<()> {
    let mut header = header(to).msg_hdr;
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _;
    // SAFETY: the descriptor is open while it is borrowed; the header points to the pieces, which have the layout of
    // iovec, and to the name or none, all of which outlive the call.
    check(unsafe { send_one(socket.as_raw_fd(), &header) }).map(drop)
}

/// Sends one datagram with a control message, or none where that is empty.
pub(crate) fn send_beside(socket: BorrowedFd<'_>, to: &Address, payload: &[u8], control: &[u8]) -> io::Result<()> {
    let pieces = [IoSlice::new(payload)];
    let mut header = header(Some(to)).msg_hdr;
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = 1;
    header.msg_control = control.as_ptr().cast_mut().cast();
    header.msg_controllen = control.len() as _;
    // SAFETY: the descriptor is open while it is borrowed; the header points to the piece, which has the layout of iovec, to
    // the name and to the control message, all of which outlive the call, and of which the lengths are said.
    check(unsafe { send_one(socket.as_raw_fd(), &header) }).map(drop)
}

#[inline]
fn header(to: Option<&Address>) -> mmsghdr {
    // SAFETY: mmsghdr is plain data, for which all-zero bytes are valid.
    let mut header: mmsghdr = unsafe { mem::zeroed() };
    if let Some(to) = to {
        let name = to.as_bytes();
        header.msg_hdr.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = name.len() as u32;
    }
    header
}

/// # Safety
/// All that `header` points to must be valid for reading.
unsafe fn send_one(descriptor: c_int, header: &libc::msghdr) -> c_int {
    if header.msg_controllen == 0 && header.msg_iovlen == 1 {
        // SAFETY: the caller vouches for the one iovec, the bytes it describes, and the name; the kernel only reads.
        let sent = unsafe {
            let piece = *header.msg_iov;
            let name = header.msg_name.cast();
            libc::sendto(descriptor, piece.iov_base, piece.iov_len, FLAGS, name, header.msg_namelen)
        };
        return sent as c_int;
    }
    // SAFETY: the caller vouches for everything that the header points to; the kernel only reads.
    (unsafe { libc::sendmsg(descriptor, header, FLAGS) }) as c_int
}

/// Never wait. No signal: there is none for datagrams.
const FLAGS: c_int = libc::MSG_DONTWAIT;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_batch_that_has_moved_is_sent_once_more_as_it_was() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        source.connect(sink.local_addr().unwrap()).unwrap();
        let whole = [IoSlice::new(b"whole")];
        let mut batch = Batch::new();
        assert!(batch.push_cut(None, [&b"in "[..], b"parts"].into_iter(), None));
        batch.push(None, &whole, None, None);
        assert!(batch.push_cut(None, [&b"cut"[..]].into_iter(), None));
        assert_eq!(batch.send(source.as_fd()).unwrap(), 3);
        let mut moved = Box::new(batch);
        // Where it was there is something else now.
        let other = std::hint::black_box(Batch::new());
        assert_eq!((moved.send(source.as_fd()).unwrap(), other.len()), (3, 0));
        let mut bytes = [0; 16];
        for expected in ["in parts", "whole", "cut"].repeat(2) {
            let length = sink.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], expected.as_bytes());
        }
    }
}
