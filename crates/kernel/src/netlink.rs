//! Requests to the kernel over netlink, and their answers.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::iter;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::Error;
use crate::error::During;
use crate::legible;

/// A netlink socket with one request under way at a time.
pub(crate) struct Requests {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Requests")
    }
}

impl Requests {
    /// Opens a socket of a protocol (NETLINK_ROUTE ...) in the calling thread's network namespace.
    pub(crate) fn open(protocol: isize) -> Result<Requests, Error> {
        let operation = || "open a netlink socket";
        let mut socket = Socket::new(protocol).during(operation)?;
        socket.bind_auto().during(operation)?;
        socket.connect(&SocketAddr::new(0, 0)).during(operation)?;
        // An error answer need not repeat our request.
        socket.set_cap_ack(true).during(operation)?;
        Ok(Requests { socket, sequence: 0, buffer: Vec::with_capacity(ANSWER_SIZE) })
    }

    /// Changes something: `flags` says how (NLM_F_CREATE ...).
    pub(crate) fn change<M: Message, S: Into<String>>(
        &mut self,
        message: M,
        flags: u16,
        operation: impl Fn() -> S,
    ) -> Result<(), Error> {
        self.exchange(message, NLM_F_ACK | flags, &operation).map(|_| ())
    }

    /// Asks for one object.
    pub(crate) fn get<M: Message, S: Into<String>>(
        &mut self,
        message: M,
        operation: impl Fn() -> S,
    ) -> Result<M, Error> {
        let answers = self.exchange(message, NLM_F_ACK, &operation)?;
        answers.into_iter().next().ok_or_else(|| Error::answer(operation(), "the kernel gave no answer"))
    }

    /// Asks for all objects of a kind; one that cannot be read is left out, unless none can.
    pub(crate) fn list<M: Message, S: Into<String>>(
        &mut self,
        message: M,
        operation: impl Fn() -> S,
    ) -> Result<Vec<M>, Error> {
        self.exchange(message, NLM_F_DUMP, &operation)
    }

    /// Sends a request and collects its answers. A list that changed while the kernel wrote it may miss something, and
    /// is asked for again.
    fn exchange<M: Message, S: Into<String>>(
        &mut self,
        message: M,
        flags: u16,
        operation: &impl Fn() -> S,
    ) -> Result<Vec<M>, Error> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut request = NetlinkMessage::new(header, message.into());
        request.finalize();
        for _ in 1..MOST_ATTEMPTS {
            if let (answers, false) = self.attempt(&mut request, operation)? {
                return Ok(answers);
            }
        }
        self.attempt(&mut request, operation).map(|(answers, _)| answers)
    }

    /// Answers up to the closing acknowledgement, error or end of list, and whether a list changed meanwhile.
    fn attempt<M: Message, S: Into<String>>(
        &mut self,
        request: &mut NetlinkMessage<M>,
        operation: &impl Fn() -> S,
    ) -> Result<(Vec<M>, bool), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        request.header.sequence_number = self.sequence;
        self.buffer.resize(request.buffer_len(), 0);
        request.serialize(&mut self.buffer);
        retry(|| self.socket.send(&self.buffer, 0)).during(operation)?;

        let (mut answers, mut changed) = (Vec::new(), false);
        let (lists, mut illegible) = (request.header.flags & NLM_F_DUMP == NLM_F_DUMP, None);
        loop {
            self.buffer.clear();
            retry(|| self.socket.recv(&mut self.buffer, 0)).during(operation)?;
            for answer in messages::<M>(&self.buffer) {
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(Illegible { is_object, error }) => {
                        let error = Error::answer(operation(), format!("unreadable answer of the kernel: {error}"));
                        if !(lists && is_object) {
                            return Err(error);
                        }
                        illegible = Some(error);
                        continue;
                    }
                };
                if answer.header.sequence_number != self.sequence {
                    continue; // What is left of an exchange that failed half-way.
                }
                changed |= answer.header.flags & NLM_F_DUMP_INTR != 0;
                let failed = |code: i32| Err(Errno::from_raw(code.saturating_neg())).during(operation);
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Error(error) if error.code.is_some() => return failed(error.raw_code()),
                    // A list that could not be finished, or begun.
                    NetlinkPayload::Done(done) if done.code < 0 => return failed(done.code),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => {
                        return match illegible {
                            Some(error) if answers.is_empty() => Err(error),
                            _ => Ok((answers, changed)),
                        };
                    }
                    _ => {}
                }
            }
        }
    }
}

/// What a request and its answers are.
pub(crate) trait Message: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<Self>> {}

impl<M: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<M>>> Message for M {}

/// The messages of a datagram of the kernel's. Of a link that cannot be read whole, what can be.
pub(crate) fn messages<M: Message>(mut bytes: &[u8]) -> impl Iterator<Item = Result<NetlinkMessage<M>, Illegible>> {
    iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let Some((length, kind)) = begin(bytes) else {
            let broken = mem::take(&mut bytes);
            return Some(NetlinkMessage::deserialize(broken).map_err(|error| Illegible { is_object: false, error }));
        };
        let (one, rest) = (&bytes[..length], bytes.get(length.next_multiple_of(ALIGNMENT)..));
        bytes = rest.unwrap_or_default();
        let message = NetlinkMessage::deserialize(one).or_else(|error| {
            let legible = (kind == legible::RTM_NEWLINK).then(|| legible::link(&one[HEADER..])).flatten();
            let whole = |payload: Vec<u8>| {
                let length = u32::try_from(HEADER + payload.len()).unwrap_or(u32::MAX);
                [&length.to_ne_bytes(), &one[4..HEADER], &payload].concat()
            };
            legible.and_then(|payload| NetlinkMessage::deserialize(&whole(payload)).ok()).ok_or(error)
        });
        Some(message.map_err(|error| Illegible { is_object: kind >= NLMSG_MIN_TYPE, error }))
    })
}

/// The length and type of the message that bytes begin with; `None`: it is not whole.
fn begin(bytes: &[u8]) -> Option<(usize, u16)> {
    let &[a, b, c, d, e, f] = bytes.first_chunk()?;
    let length = u32::from_ne_bytes([a, b, c, d]) as usize;
    (HEADER..=bytes.len()).contains(&length).then_some((length, u16::from_ne_bytes([e, f])))
}

/// A message that cannot be read.
pub(crate) struct Illegible {
    /// Whether it tells of an object, rather than of the exchange itself.
    is_object: bool,
    error: DecodeError,
}

/// A message of any kind, without its netlink header.
pub(crate) struct Raw {
    /// Its type (`RTM_GETQDISC`).
    pub(crate) kind: u16,
    /// What follows the header.
    pub(crate) payload: Vec<u8>,
}

impl NetlinkSerializable for Raw {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.payload.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.payload);
    }
}

impl NetlinkDeserializable for Raw {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Raw { kind: header.message_type, payload: payload.to_vec() })
    }
}

impl From<Raw> for NetlinkPayload<Raw> {
    fn from(message: Raw) -> Self {
        NetlinkPayload::InnerMessage(message)
    }
}

/// An attribute (`struct nlattr`: length with its 4 bytes, type; padded to 4 bytes).
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + ATTRIBUTE_HEADER).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

/// Kinds and values of attributes, up to one that does not look so.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    iter::from_fn(move || {
        let &[a, b, c, d] = bytes.first_chunk()?;
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]) & NLA_TYPE_MASK);
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Tells when something about a namespace has changed.
#[derive(Debug)]
pub struct Events {
    socket: Socket,
}

impl Events {
    /// Listens in the calling thread's network namespace to changes of interfaces, addresses, routes and rules.
    ///
    /// # Errors
    /// Out of file descriptors; the process may have no such socket (systemd's RestrictAddressFamilies).
    pub fn of_network() -> Result<Events, Error> {
        Self::open(NETWORK_CHANGES)
    }

    /// Listens in the calling thread's network namespace to these groups of changes.
    pub(crate) fn open(groups: u32) -> Result<Events, Error> {
        let operation = || "listen to changes of the network";
        let mut socket = Socket::new(NETLINK_ROUTE).during(operation)?;
        socket.bind(&SocketAddr::new(0, groups)).during(operation)?;
        socket.set_non_blocking(true).during(operation)?;
        Ok(Events { socket })
    }

    /// Returns when something has changed since the last call, or after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<(), Error> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).during(|| "wait for changes of the network"),
        }
        self.take();
        Ok(())
    }

    /// Whether something has changed since the last call; returns at once.
    pub fn take(&self) -> bool {
        // What has changed is asked for anew, so that lost events (ENOBUFS) do not matter.
        let (mut event, mut changed) = (Vec::with_capacity(ANSWER_SIZE), false);
        loop {
            match self.socket.recv(&mut event, 0) {
                Err(error) if error.raw_os_error() != Some(Errno::ENOBUFS as i32) => return changed,
                _ => changed = true,
            }
            event.clear();
        }
    }
}

/// Readable when something has changed.
impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Calls again when a signal came between.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The kernel packs a list into messages of at most 32 KiB (net/netlink/af_netlink.c, netlink_dump).
pub(crate) const ANSWER_SIZE: usize = 64 * 1024;

/// Changes to interfaces (RTMGRP_LINK).
pub(crate) const LINKS: u32 = 1;

/// Changes to interfaces and to IPv6 routes (include/uapi/linux/rtnetlink.h, RTMGRP_LINK and RTMGRP_IPV6_ROUTE).
pub(crate) const LINK_CHANGES: u32 = 1 | 0x400;

/// Changes to interfaces, addresses, routes and rules of both families (RTMGRP_LINK, RTMGRP_IPV4_IFADDR,
/// RTMGRP_IPV4_ROUTE, RTMGRP_IPV4_RULE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE, RTNLGRP_IPV6_RULE).
pub(crate) const NETWORK_CHANGES: u32 = 1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 1 << (19 - 1);

/// Changes to the multicast forwarding of bridges (RTNLGRP_MDB).
pub(crate) const MDB_CHANGES: u32 = 1 << (26 - 1);

/// A list that changes all the time is taken as it is in the end.
const MOST_ATTEMPTS: usize = 4;

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Types below tell of the exchange itself: errors, ends.
const NLMSG_MIN_TYPE: u16 = 16;

/// NLMSG_ALIGNTO.
const ALIGNMENT: usize = 4;

/// Length of `struct nlattr`.
const ATTRIBUTE_HEADER: usize = 4;

/// Without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const NLA_TYPE_MASK: u16 = 0x3fff;

#[cfg(test)]
mod tests {
    use netlink_sys::protocols::NETLINK_SOCK_DIAG;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_that_cannot_begin_is_an_error() {
        // sock_diag of a protocol without such: struct inet_diag_req_v2 with IPPROTO_EGP.
        let mut payload = vec![0; 56];
        payload[..2].copy_from_slice(&[2, 8]);
        let mut socket = Requests::open(NETLINK_SOCK_DIAG).unwrap();
        let refused = socket.list(Raw { kind: 20, payload }, || "list");
        assert_eq!(refused.map(|answers| answers.len()).unwrap_err().errno(), Some(Errno::ENOENT));
        // The same conversation goes on.
        let mut payload = vec![0; 56];
        payload[..2].copy_from_slice(&[2, 17]);
        assert!(socket.list(Raw { kind: 20, payload }, || "list").is_ok());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(written in prop::collection::vec(
            (0..0x3fffu16, prop::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let bytes: Vec<u8> = written.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect();
            let read: Vec<_> = attributes(&bytes).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(attributes(&bytes).count() <= bytes.len() / ATTRIBUTE_HEADER);
        }
    }
}
