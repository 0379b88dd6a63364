//! Features of newer kernels, each with its name, its minimum version and a probe.

use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Type};

use crate::memory::Memory;
use crate::sys::option::{get, set};
use crate::sys::{SOL_UDP, UDP_GRO, UDP_SEGMENT};

/// Something that a kernel may be too old for.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The socket option by which it is known.
    pub name: &'static str,
    /// The first version of Linux that has it: major, minor.
    pub since: (u32, u32),
    probe: fn(BorrowedFd<'_>) -> std::io::Result<()>,
}

/// The kernel cuts what is sent in one call into datagrams (GSO), udp(7).
pub const SEGMENT: Feature =
    Feature { name: "UDP_SEGMENT", since: (4, 18), probe: |socket| get(socket, SOL_UDP, UDP_SEGMENT).map(drop) };

/// The kernel hands over runs of datagrams in one call (GRO), udp(7).
pub const COALESCE: Feature =
    Feature { name: "UDP_GRO", since: (5, 0), probe: |socket| set(socket, SOL_UDP, UDP_GRO, 1) };

/// A socket's queues and drops in one call, include/uapi/linux/sock_diag.h.
pub const MEMORY: Feature =
    Feature { name: "SO_MEMINFO", since: (4, 12), probe: |socket| Memory::of(socket).map(drop) };

/// All there are.
pub const ALL: [Feature; 3] = [SEGMENT, COALESCE, MEMORY];

impl Feature {
    /// Whether this kernel has it: tried on a socket made for the purpose.
    ///
    /// # Errors
    /// The kernel's answer, ENOPROTOOPT where it does not know the option.
    pub fn probe(&self) -> std::io::Result<()> {
        let socket = socket2::Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        (self.probe)(socket.as_fd())
    }

    /// In words, why it is not there.
    pub(crate) fn missing(&self, error: &std::io::Error) -> String {
        match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => format!("{} needs Linux {}.{}", self.name, self.since.0, self.since.1),
            _ => format!("{}: {}", self.name, crate::error::reason(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is promised of a version is there from that version on.
    #[test]
    fn a_kernel_that_is_new_enough_has_it() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        for feature in ALL {
            match feature.probe() {
                Ok(()) => {}
                Err(error) if version < feature.since => {
                    assert!(feature.missing(&error).starts_with(feature.name), "{error}");
                }
                Err(error) => panic!("Linux {version:?} without {}: {error}", feature.name),
            }
        }
    }

    #[test]
    fn a_missing_feature_names_the_version_it_came_with() {
        let unknown = std::io::Error::from_raw_os_error(libc::ENOPROTOOPT);
        assert_eq!(COALESCE.missing(&unknown), "UDP_GRO needs Linux 5.0");
        let refused = std::io::Error::from_raw_os_error(libc::EPERM);
        assert_eq!(SEGMENT.missing(&refused), "UDP_SEGMENT: operation not permitted");
    }
}
