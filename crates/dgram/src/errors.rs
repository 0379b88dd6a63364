//! The error queue: what the network, or the kernel itself, reported about datagrams sent earlier. ip(7), IP_RECVERR.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use crate::Socket;
use crate::sys::report;

/// What became of a datagram that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// As an error number, e.g. ECONNREFUSED.
    pub errno: i32,
    /// Who says so.
    pub origin: Origin,
    /// ICMP type (RFC 792, RFC 4443); 0 for other origins.
    pub kind: u8,
    /// ICMP code; 0 for other origins.
    pub code: u8,
    /// EMSGSIZE: the path MTU, bytes; else without meaning.
    pub info: u32,
    /// The node that sent the ICMP message; absent for other origins.
    pub offender: Option<IpAddr>,
    /// Where the datagram was going; absent where the kernel does not tell.
    pub destination: Option<SocketAddr>,
    /// What the datagram's payload began with, as far as the report quotes it, at most [`QUOTED`] bytes: RFC 792 asks for none
    /// of it, RFC 1122 for as much as has room.
    pub quoted: Vec<u8>,
}

/// Bytes of the payload that are looked at.
pub const QUOTED: usize = 32;

/// Where a report comes from: SO_EE_ORIGIN_* of include/uapi/linux/errqueue.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine: the datagram is longer than the path takes and may not be fragmented, say.
    Local,
    /// An ICMP message.
    Icmp,
    /// An ICMPv6 message.
    Icmp6,
    /// Another, by number.
    Other(u8),
}

impl Socket {
    /// Takes one report off the error queue; `None`: it is empty. Without [`Options::errors`](crate::Options) it always
    /// is.
    ///
    /// # Errors
    /// The kernel refuses, or its report cannot be read (InvalidData).
    pub fn next_error(&self) -> io::Result<Option<Reported>> {
        match report::take(self.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            report => report.map(Some),
        }
    }
}
