//! Whether the kernel joins and cuts datagrams for a socket, and why not.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::error::reason;
use crate::sys::option::{get, set};
use crate::sys::{SOL_UDP, UDP_GRO, UDP_SEGMENT};

/// The state of an offload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offload {
    /// In force.
    Active,
    /// In force for datagrams shorter than so many bytes; why not for longer ones.
    Below(u16, String),
    /// Not in force, and why.
    Off(String),
}

/// Asks for runs of joined datagrams (UDP_GRO).
pub(crate) fn gro(socket: BorrowedFd<'_>, wanted: bool) -> Offload {
    if !wanted {
        return Offload::Off(NOT_ASKED_FOR.into());
    }
    match set(socket, SOL_UDP, UDP_GRO, 1) {
        Ok(()) => Offload::Active,
        Err(error) => Offload::Off(missing("UDP_GRO", "5.0", &error)),
    }
}

/// Why an option is not in force, which Linux has since this version.
fn missing(option: &str, since: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => format!("{option} needs Linux {since}"),
        _ => format!("{option}: {}", reason(error)),
    }
}

/// Whether sends may leave the cutting to the kernel (UDP_SEGMENT): as probed, and as the path has shown since.
#[derive(Debug)]
pub(crate) struct Segmentation {
    unavailable: Option<String>,
    /// Segments below this size are left to the kernel.
    ceiling: AtomicU32,
    /// Why longer ones are not.
    errno: AtomicI32,
}

impl Segmentation {
    pub(crate) fn probe(socket: BorrowedFd<'_>, wanted: bool) -> Self {
        let unavailable = if wanted {
            get(socket, SOL_UDP, UDP_SEGMENT).err().map(|error| missing("UDP_SEGMENT", "4.18", &error))
        } else {
            Some(NOT_ASKED_FOR.to_owned())
        };
        let ceiling = if unavailable.is_none() { NO_CEILING } else { 0 };
        Self { unavailable, ceiling: AtomicU32::new(ceiling), errno: AtomicI32::new(0) }
    }

    /// Never in force.
    pub(crate) fn none() -> Self {
        Self { unavailable: Some(NOT_ASKED_FOR.to_owned()), ceiling: AtomicU32::new(0), errno: AtomicI32::new(0) }
    }

    #[inline]
    pub(crate) fn takes(&self, segment: u16) -> bool {
        u32::from(segment) < self.ceiling.load(Ordering::Relaxed)
    }

    /// Remembers that a send cut by the kernel failed; `false`: the error does not come from the cutting.
    pub(crate) fn refuse(&self, segment: u16, errno: i32) -> bool {
        let ceiling = match errno {
            // The interface computes no checksums (before Linux 6.11), or the packets are encrypted.
            libc::EIO => 0,
            // Longer than the path takes; before Linux 6.14 EINVAL says so too.
            libc::EMSGSIZE | libc::EINVAL => u32::from(segment),
            _ => return false,
        };
        self.errno.store(errno, Ordering::Relaxed);
        self.ceiling.fetch_min(ceiling, Ordering::Relaxed);
        true
    }

    pub(crate) fn state(&self) -> Offload {
        if let Some(why) = &self.unavailable {
            return Offload::Off(why.clone());
        }
        let errno = self.errno.load(Ordering::Relaxed);
        let why = |what: &str| format!("{what}: {}", reason(&io::Error::from_raw_os_error(errno)));
        match self.ceiling.load(Ordering::Relaxed) {
            NO_CEILING => Offload::Active,
            0 => Offload::Off(why("the way out takes no segmented send (checksum offload off, or IPsec)")),
            ceiling => Offload::Below(ceiling as u16, why("longer segments do not fit the path")),
        }
    }
}

/// Above every segment size.
const NO_CEILING: u32 = 1 << 16;

const NOT_ASKED_FOR: &str = "not asked for";

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn probed() -> Segmentation {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        Segmentation::probe(socket.as_fd(), true)
    }

    #[test]
    fn what_is_missing_names_the_version_it_came_with() {
        let error = io::Error::from_raw_os_error;
        assert_eq!(missing("UDP_GRO", "5.0", &error(libc::ENOPROTOOPT)), "UDP_GRO needs Linux 5.0");
        assert_eq!(missing("UDP_GRO", "5.0", &error(libc::EPERM)), "UDP_GRO: operation not permitted");
    }

    #[test]
    fn a_segment_too_long_ends_it_for_that_size_and_above() {
        let offload = probed();
        assert_eq!(offload.state(), Offload::Active);
        assert!(offload.takes(u16::MAX));
        assert!(!offload.refuse(1400, libc::ENETUNREACH), "says nothing about the cutting");
        assert!(offload.takes(1400));
        assert!(offload.refuse(1400, libc::EMSGSIZE));
        assert!(!offload.takes(1400) && offload.takes(1399));
        assert!(offload.refuse(2000, libc::EINVAL));
        let Offload::Below(1400, why) = offload.state() else { panic!("{:?}", offload.state()) };
        assert!(why.starts_with("longer segments do not fit the path"), "{why}");
    }

    #[test]
    fn a_way_out_that_cannot_ends_it_for_good() {
        let offload = probed();
        assert!(offload.refuse(1400, libc::EIO));
        assert!(!offload.takes(1));
        assert!(matches!(offload.state(), Offload::Off(why) if why.contains("checksum offload")));
        assert_eq!(Segmentation::none().state(), Offload::Off("not asked for".into()));
    }
}
