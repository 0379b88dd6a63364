//! Requests to rtnetlink and their answers.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::Error;
use crate::error::During;

/// A netlink socket with one request under way at a time.
pub(super) struct RouteSocket {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl RouteSocket {
    /// Opens a socket in the calling thread's network namespace.
    pub(super) fn open() -> Result<RouteSocket, Error> {
        let operation = || "open a netlink socket";
        let mut socket = Socket::new(NETLINK_ROUTE).during(operation)?;
        socket.bind_auto().during(operation)?;
        socket.connect(&SocketAddr::new(0, 0)).during(operation)?;
        // An error answer need not repeat our request.
        socket.set_cap_ack(true).during(operation)?;
        Ok(RouteSocket { socket, sequence: 0, buffer: Vec::with_capacity(ANSWER_SIZE) })
    }

    /// Changes something: `flags` says how (NLM_F_CREATE ...).
    pub(super) fn change<S: Into<String>>(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        operation: impl Fn() -> S,
    ) -> Result<(), Error> {
        self.exchange(message, NLM_F_ACK | flags, &operation).map(|_| ())
    }

    /// Asks for one object.
    pub(super) fn get<S: Into<String>>(
        &mut self,
        message: RouteNetlinkMessage,
        operation: impl Fn() -> S,
    ) -> Result<RouteNetlinkMessage, Error> {
        let answers = self.exchange(message, NLM_F_ACK, &operation)?;
        answers.into_iter().next().ok_or_else(|| Error::answer(operation(), "the kernel gave no answer"))
    }

    /// Asks for all objects of a kind.
    pub(super) fn list<M: Message, S: Into<String>>(
        &mut self,
        message: M,
        operation: impl Fn() -> S,
    ) -> Result<Vec<M>, Error> {
        self.exchange(message, NLM_F_DUMP, &operation)
    }

    /// Sends a request and collects its answers up to the closing acknowledgement, error or end of list.
    fn exchange<M: Message, S: Into<String>>(
        &mut self,
        message: M,
        flags: u16,
        operation: &impl Fn() -> S,
    ) -> Result<Vec<M>, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, message.into());
        request.finalize();

        self.buffer.resize(request.buffer_len(), 0);
        request.serialize(&mut self.buffer);
        retry(|| self.socket.send(&self.buffer, 0)).during(operation)?;

        let mut answers = Vec::new();
        loop {
            self.buffer.clear();
            retry(|| self.socket.recv(&mut self.buffer, 0)).during(operation)?;
            let mut rest = &self.buffer[..];
            while !rest.is_empty() {
                let answer = NetlinkMessage::<M>::deserialize(rest)
                    .map_err(|error| Error::answer(operation(), format!("unreadable answer of the kernel: {error}")))?;
                let length = (answer.header.length as usize).next_multiple_of(ALIGNMENT).min(rest.len());
                rest = &rest[length..];
                if answer.header.sequence_number != self.sequence {
                    continue; // What is left of an exchange that failed half-way.
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => {
                        return Err(Errno::from_raw(error.raw_code().saturating_neg())).during(operation);
                    }
                    NetlinkPayload::Done(_) => return Ok(answers),
                    _ => {}
                }
            }
        }
    }
}

/// What a request and its answers are.
pub(super) trait Message: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<Self>> {}

impl<M: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<M>>> Message for M {}

/// Tells when something about a namespace has changed.
pub(super) struct Events {
    socket: Socket,
}

impl Events {
    /// Listens in the calling thread's network namespace to these groups of changes.
    pub(super) fn open(groups: u32) -> Result<Events, Error> {
        let operation = || "listen to changes of the network";
        let mut socket = Socket::new(NETLINK_ROUTE).during(operation)?;
        socket.bind(&SocketAddr::new(0, groups)).during(operation)?;
        socket.set_non_blocking(true).during(operation)?;
        Ok(Events { socket })
    }

    /// Returns when something has changed since the last call, or after `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Result<(), Error> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).during(|| "wait for changes of the network"),
        }
        // What has changed is asked for anew, so that lost events (ENOBUFS) do not matter.
        let mut event = Vec::with_capacity(ANSWER_SIZE);
        while self.socket.recv(&mut event, 0).is_ok() {
            event.clear();
        }
        Ok(())
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
const ANSWER_SIZE: usize = 64 * 1024;

/// Changes to interfaces and to IPv6 routes (include/uapi/linux/rtnetlink.h, RTMGRP_LINK and RTMGRP_IPV6_ROUTE).
pub(super) const LINK_CHANGES: u32 = 1 | 0x400;

/// Changes to the multicast forwarding of bridges (RTNLGRP_MDB).
pub(super) const MDB_CHANGES: u32 = 1 << (26 - 1);

/// NLMSG_ALIGNTO.
const ALIGNMENT: usize = 4;
