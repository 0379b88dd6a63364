//! Multicast groups, any-source and source-specific, by the protocol-independent calls of RFC 3678 section 5.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::option::{interface_index, membership, set};
use crate::sys::{IPV6_MULTICAST_ALL, MCAST_JOIN_GROUP, MCAST_JOIN_SOURCE_GROUP};
use crate::sys::{MCAST_LEAVE_GROUP, MCAST_LEAVE_SOURCE_GROUP};
use crate::{Error, Socket};

/// A group to receive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Membership {
    /// The group's address.
    pub group: IpAddr,
    /// Source-specific multicast: the one source to receive from (one membership each for several). `None`: any.
    pub source: Option<IpAddr>,
    /// The interface to receive on; `None`: the one that a route to the group leads to.
    pub interface: Option<String>,
}

impl Socket {
    /// Joins a group. From the first one on the socket receives only groups that it has joined itself, not those of
    /// other sockets of the machine.
    ///
    /// # Errors
    /// No multicast address, families that do not belong together, no such interface, too many memberships, a member
    /// already.
    pub fn join(&self, member: &Membership) -> Result<(), Error> {
        let index = self.check("join", member)?;
        join(self.as_fd(), member, index)?;
        self.attached.joined(member, index);
        Ok(())
    }

    /// Leaves a group that was joined with the same [`Membership`].
    ///
    /// # Errors
    /// As for [`Self::join`]; the socket is no member.
    pub fn leave(&self, member: &Membership) -> Result<(), Error> {
        let index = match self.attached.forget(member) {
            Some(index) => index,
            None => self.check("leave", member)?,
        };
        leave(self.as_fd(), member, index)
    }

    /// The index of the interface to join or leave a group on; 0: where a route leads.
    fn check(&self, operation: &'static str, member: &Membership) -> Result<u32, Error> {
        let group = member.group;
        if !group.is_multicast() {
            return Err(Error::NotMulticast(group));
        }
        if let Some(source) = member.source
            && source.is_ipv4() != group.is_ipv4()
        {
            return Err(Error::Family { operation: format!("{operation} {group} from {source}") });
        }
        // A socket bound to `[::]` receives both, and joins groups of both.
        if group.is_ipv6() && self.local_addr().is_ipv4() {
            return Err(Error::Family { operation: format!("{operation} {group} on {}", self.local_addr()) });
        }
        let Some(name) = &member.interface else { return Ok(0) };
        interface_index(self.as_fd(), name).map_err(|source| Error::Interface { name: name.clone(), source })
    }
}

pub(crate) fn join(socket: BorrowedFd<'_>, member: &Membership, interface: u32) -> Result<(), Error> {
    let own_groups_only = if member.group.is_ipv4() {
        set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)
    } else {
        set(socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
    };
    // IPv6 learnt it in Linux 4.20; an older kernel delivers other sockets' groups too.
    let joined = own_groups_only.or_else(unknown_option).and_then(|()| {
        let option = if member.source.is_some() { MCAST_JOIN_SOURCE_GROUP } else { MCAST_JOIN_GROUP };
        membership(socket, option, interface, member.group, member.source)
    });
    joined.map_err(|source| Error::Membership { operation: "join", membership: member.to_string(), source })
}

pub(crate) fn leave(socket: BorrowedFd<'_>, member: &Membership, interface: u32) -> Result<(), Error> {
    let option = if member.source.is_some() { MCAST_LEAVE_SOURCE_GROUP } else { MCAST_LEAVE_GROUP };
    let failed = |source| Error::Membership { operation: "leave", membership: member.to_string(), source };
    membership(socket, option, interface, member.group, member.source).map_err(failed)
}

/// `239.1.1.1 from 10.0.0.1 on eth0`.
impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.group)?;
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        if let Some(interface) = &self.interface {
            write!(f, " on {interface}")?;
        }
        Ok(())
    }
}

fn unknown_option(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::ENOPROTOOPT) { Ok(()) } else { Err(error) }
}
