//! Socket buffers: what was asked for, what the kernel gave, and what held it back. socket(7).

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use libc::c_int;

use crate::error::Error;
use crate::sys::option::{get, set};

/// A socket's receive or send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Asked for, bytes; `None`: nothing, the kernel's default is in force.
    pub asked: Option<usize>,
    /// Bytes as the kernel accounts them, bookkeeping included: twice what was asked, unless capped.
    pub granted: usize,
    /// The sysctl that capped it; `None`: it was not capped.
    pub limit: Option<&'static str>,
}

/// One of the two buffers.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    forced: c_int,
    capped: c_int,
    name: &'static str,
    sysctl: &'static str,
}

pub(crate) const RECEIVE: Kind =
    Kind { forced: libc::SO_RCVBUFFORCE, capped: libc::SO_RCVBUF, name: "SO_RCVBUF", sysctl: "net.core.rmem_max" };

pub(crate) const SEND: Kind =
    Kind { forced: libc::SO_SNDBUFFORCE, capped: libc::SO_SNDBUF, name: "SO_SNDBUF", sysctl: "net.core.wmem_max" };

impl Buffer {
    /// Asks for a buffer: beyond the sysctl where the process may (CAP_NET_ADMIN), else as far as that goes.
    pub(crate) fn request(socket: BorrowedFd<'_>, kind: Kind, asked: Option<usize>) -> Result<Self, Error> {
        let failed = |source| Error::Option {
            option: kind.name,
            value: asked.map_or_else(|| "its default".into(), |bytes| bytes.to_string()),
            source,
        };
        let mut forced = false;
        if let Some(bytes) = asked {
            // The kernel doubles it, in an int.
            let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX).min(c_int::MAX / 2);
            forced = set(socket, libc::SOL_SOCKET, kind.forced, bytes).is_ok();
            if !forced {
                set(socket, libc::SOL_SOCKET, kind.capped, bytes).map_err(failed)?;
            }
        }
        let granted = get(socket, libc::SOL_SOCKET, kind.capped).map_err(failed)? as usize;
        let short = asked.is_some_and(|bytes| granted / 2 < bytes);
        Ok(Self { asked, granted, limit: (short && !forced).then_some(kind.sysctl) })
    }

    /// Asks for a buffer of a socket in use, which never shrinks: what was granted with CAP_NET_ADMIN would not be granted
    /// again without it.
    pub(crate) fn grow(socket: BorrowedFd<'_>, kind: Kind, asked: Option<usize>) -> Result<Self, Error> {
        let now = Self::request(socket, kind, None)?;
        let Some(bytes) = asked else { return Ok(now) };
        // What the kernel would grant, another socket shows.
        let other = UnixDatagram::unbound();
        let other = other.map_err(|source| Error::Option { option: kind.name, value: bytes.to_string(), source })?;
        let would = Self::request(other.as_fd(), kind, asked)?;
        if would.granted > now.granted {
            return Self::request(socket, kind, asked);
        }
        Ok(Self { asked, granted: now.granted, limit: would.limit.filter(|_| now.granted / 2 < bytes) })
    }
}
