//! Receiving in batches: recvmmsg(2) into fixed buffers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::os::fd::AsFd;

use crate::Socket;
use crate::address::{Address, canonical};
use crate::control::Ancillary;
use crate::outgoing::may_be_reported;
use crate::sys::receive::Slots;

/// Where datagrams are received into, for any number of sockets in turn.
pub struct Inbox {
    slots: Slots,
    reported: u64,
}

/// One message: a datagram, or a run of them from the same sender.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The payload, as much of it as fitted.
    pub bytes: &'a [u8],
    /// The sender; IPv4 ones as such, also on a socket of both families.
    pub source: SocketAddr,
    /// A run: bytes of each datagram but the last, which may be shorter. `None`: a single one.
    pub segment: Option<NonZeroU16>,
    /// Whether the payload was longer than the buffer.
    pub truncated: bool,
    /// Bytes of the payload as it came, which exceeds that of `bytes` if it was truncated.
    pub length: usize,
    /// When the kernel received it, ns by CLOCK_REALTIME; `None` without [`Options::timestamps`](crate::Options).
    pub arrival: Option<u64>,
    /// The address it was sent to; `None` without [`Options::local_address`](crate::Options).
    pub local: Option<IpAddr>,
    /// Whether it was sent to others, too: to a broadcast or multicast address. `false` without
    /// [`Options::local_address`](crate::Options).
    pub to_all: bool,
    /// Index of the interface it came in on; `None` without [`Options::local_address`](crate::Options).
    pub interface: Option<u32>,
    /// TTL or hop limit with which it came; `None` without [`Options::hops`](crate::Options).
    pub hops: Option<u8>,
    /// How many datagrams the socket had dropped when this one was queued, since it was made, modulo 2^32. `None`
    /// without [`Options::count_drops`](crate::Options), and before the first drop.
    pub socket_drops: Option<u32>,
}

impl Inbox {
    /// Room for `messages` (at least one) of `bytes` each; 65,535 bytes hold every datagram and every run.
    pub fn new(messages: usize, bytes: usize) -> Self {
        Self { slots: Slots::new(messages, bytes), reported: 0 }
    }

    /// Receives what is there, in place of what was received before; returns how many messages, at least one.
    ///
    /// What the network has reported about datagrams *sent* from this socket is no error of a receive: it is counted
    /// ([`Self::reported`]) and the call repeated.
    ///
    /// # Errors
    /// WouldBlock: nothing is there. Others: the socket cannot receive.
    pub fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        self.take(socket, false, usize::MAX)
    }

    /// The same, `most` messages at most. `wait`: where nothing is there it waits for the first, as long as the socket may
    /// ([`Options::wait`](crate::Options::wait)): one system call where waiting for the socket and receiving are two. Where
    /// messages come one at a time, to take one spares the kernel the look for a second one, which costs as much as all else
    /// that a call does.
    ///
    /// # Errors
    /// As for [`Self::receive`].
    pub fn take(&mut self, socket: &Socket, wait: bool, most: usize) -> io::Result<usize> {
        let mut repeats = 0;
        loop {
            match self.slots.receive(socket.as_fd(), socket.tells_beside(), wait && socket.waits(), most) {
                Err(error) if repeats < MAX_REPEATS && is_passing(&error) => {
                    repeats += 1;
                    self.reported += u64::from(error.kind() != io::ErrorKind::Interrupted);
                }
                result => return result,
            }
        }
    }

    /// Messages that the last call received.
    pub fn len(&self) -> usize {
        self.slots.filled()
    }

    /// Whether the last call received nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A message that the last call received.
    ///
    /// # Panics
    /// If `index` is not below [`Self::len`].
    #[inline]
    pub fn message(&self, index: usize) -> Received<'_> {
        let (bytes, length) = self.slots.payload(index);
        let ancillary = Ancillary::parse(self.slots.control(index));
        let source = Address::decode(self.slots.name(index)).map_or(NOBODY, canonical);
        Received {
            bytes,
            source,
            segment: ancillary.segment,
            truncated: length > bytes.len(),
            length,
            arrival: ancillary.arrival,
            local: ancillary.local,
            to_all: ancillary.to_all,
            interface: ancillary.interface,
            hops: ancillary.hops,
            socket_drops: ancillary.socket_drops,
        }
    }

    /// All messages that the last call received.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Received<'_>> {
        (0..self.len()).map(|index| self.message(index))
    }

    /// The payload of a message that the last call received, as much of it as fitted.
    ///
    /// # Panics
    /// If `index` is not below [`Self::len`].
    #[inline]
    pub fn payload(&self, index: usize) -> &[u8] {
        self.slots.payload(index).0
    }

    /// The payloads of all messages that the last call received, as much of each as fitted.
    #[inline]
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.payload(index))
    }

    /// Errors met while receiving that the network had reported about datagrams sent before.
    pub fn reported(&self) -> u64 {
        self.reported
    }
}

impl<'a> Received<'a> {
    /// How many datagrams it came as. Those that were cut off are counted.
    #[inline]
    pub fn datagrams(&self) -> usize {
        self.segment.map_or(1, |segment| self.length.div_ceil(segment.get().into()).max(1))
    }

    /// The datagrams, as far as they fitted. An empty datagram is one empty slice.
    #[inline]
    pub fn segments(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let size = self.segment.map_or(usize::MAX, |segment| segment.get().into());
        let empty = self.bytes.is_empty().then_some(&[][..]);
        empty.into_iter().chain(self.bytes.chunks(size))
    }
}

fn is_passing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted || error.raw_os_error().is_some_and(may_be_reported)
}

/// Another report would have to arrive at every try.
const MAX_REPEATS: u32 = 16;

/// The kernel names the sender of every datagram.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: &[u8], length: usize, segment: u16) -> Received<'_> {
        Received {
            bytes,
            source: NOBODY,
            segment: NonZeroU16::new(segment),
            truncated: length > bytes.len(),
            length,
            arrival: None,
            local: None,
            to_all: false,
            interface: None,
            hops: None,
            socket_drops: None,
        }
    }

    #[test]
    fn a_run_is_cut_into_its_datagrams() {
        let lengths = |received: &Received<'_>| received.segments().map(<[u8]>::len).collect::<Vec<_>>();
        for (length, segment, expected) in [
            (0, 0, vec![0]),
            (0, 10, vec![0]),
            (7, 0, vec![7]),
            (7, 10, vec![7]),
            (10, 10, vec![10]),
            (21, 10, vec![10, 10, 1]),
        ] {
            let bytes = vec![0; length];
            let received = run(&bytes, length, segment);
            assert_eq!(lengths(&received), expected);
            assert_eq!(received.datagrams(), expected.len());
        }
        let cut_off = run(&[0; 15], 31, 10);
        assert_eq!((lengths(&cut_off), cut_off.datagrams()), (vec![10, 5], 4));
    }
}
