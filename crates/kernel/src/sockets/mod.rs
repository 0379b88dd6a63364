//! The UDP sockets of a network namespace: addresses, memory, drops, owners, groups.
//!
//! [`Sockets`] asks the kernel by sock_diag(7), which needs no privilege; [`owners`] finds the processes, as far as we may
//! look at them, [`borrow`] takes a copy of a descriptor from one, and [`groups`] lists what the interfaces have joined.

mod borrow;
mod diag;
mod groups;
mod owners;
mod proc;

use std::net::SocketAddr;

pub use borrow::{borrow, receive_buffer, set_receive_buffer};
pub use groups::{Membership, groups};
pub use owners::{Owner, Owners, owners};

use crate::Error;
use crate::links::Index;
use crate::namespaces::NetNs;

/// A bound UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// Its cookie (SO_COOKIE), never used twice while the machine runs; `None`: read from /proc.
    pub cookie: Option<u64>,
    /// Its inode number, as in /proc/PID/fd; 0: no file refers to it (the kernel's own, or closing).
    pub inode: u32,
    /// The address it is bound to.
    pub local: SocketAddr,
    /// The address it is connected to; `None`: not connected.
    pub peer: Option<SocketAddr>,
    /// The interface it is bound to (SO_BINDTODEVICE); `None`: none, or read from /proc.
    pub interface: Option<Index>,
    /// The user who made it.
    pub uid: u32,
    /// Its memory and drops.
    pub memory: Memory,
}

/// Memory of a socket, bytes of truesize, and its drops (include/uapi/linux/sock_diag.h, SK_MEMINFO_*). What is `None`
/// /proc does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In the receive queue. While its reader drains it, up to a quarter of the buffer more than there is: releases are
    /// accounted in batches.
    pub rmem_alloc: u32,
    /// What may be there: SO_RCVBUF as getsockopt tells it, twice what was set.
    pub receive_buffer: Option<u32>,
    /// Sent and not yet taken by the interface.
    pub wmem_alloc: u32,
    /// What may be there: SO_SNDBUF.
    pub send_buffer: Option<u32>,
    /// Reserved from `net.ipv4.udp_mem` and not in use.
    pub forward_alloc: Option<u32>,
    /// Corked data (UDP_CORK) waiting to be sent.
    pub wmem_queued: Option<u32>,
    /// Options: filters, memberships.
    pub option_memory: Option<u32>,
    /// In the backlog of a socket that is locked.
    pub backlog: Option<u32>,
    /// Buffers it did not take: its receive queue was full, their checksum was wrong, its filter said no, or UDP's memory
    /// was used up. A joined super-packet (UDP_GRO) counts once. Wraps at 2^32.
    pub drops: u32,
}

/// Where the kernel was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// sock_diag(7).
    SockDiag,
    /// /proc/net/udp and udp6: without cookies, interfaces and buffer sizes.
    Proc,
}

/// Reads the UDP sockets of one namespace, of IPv4 and IPv6, again and again.
#[derive(Debug)]
pub struct Sockets {
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    SockDiag(diag::Diag),
    Proc(proc::Proc),
}

impl Sockets {
    /// Opens a netlink socket in `ns`; /proc/net/udp, where the kernel has no sock_diag for UDP (CONFIG_INET_UDP_DIAG) or
    /// refuses it.
    ///
    /// # Errors
    /// If the namespace cannot be entered, without /proc as well, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Sockets, Error> {
        let asked = ns.run(diag::Diag::open)?.and_then(|mut diag| diag.read().map(|_| diag));
        let reader = match asked {
            Ok(diag) => Reader::SockDiag(diag),
            Err(_) => Reader::Proc(proc::Proc::open(ns)?),
        };
        Ok(Sockets { reader })
    }

    /// Where it reads.
    pub fn source(&self) -> Source {
        match self.reader {
            Reader::SockDiag(_) => Source::SockDiag,
            Reader::Proc(_) => Source::Proc,
        }
    }

    /// The sockets now, in no order. Hundreds take less than a millisecond. One that is bound or closed meanwhile may
    /// miss or be there.
    ///
    /// # Errors
    /// If the kernel's answer cannot be read.
    pub fn read(&mut self) -> Result<Vec<UdpSocket>, Error> {
        match &mut self.reader {
            Reader::SockDiag(diag) => diag.read(),
            Reader::Proc(proc) => proc.read(),
        }
    }
}
