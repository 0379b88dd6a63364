//! What a trace tells beside its counts: who sent what was lost, what it looked like, whose sockets they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::linux::fs::MetadataExt;
use std::{fs, process};

/// What to tell beside the counts; by default nothing, which costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Counts by source; `None`: not.
    pub by_source: Option<Prefixes>,
    /// Headers to keep of what is dropped, so many at each place.
    pub samples: u32,
    /// Whether to tell the sockets that descendants of this process use, from now on.
    pub descendants: bool,
}

/// How much of a source's address counts: the rest is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Prefixes {
    /// Bits of an IPv4 address, at most 32.
    pub v4: u8,
    /// Bits of an IPv6 address, at most 128.
    pub v6: u8,
}

impl Prefixes {
    /// Every address by itself.
    pub const ADDRESSES: Prefixes = Prefixes { v4: 32, v6: 128 };

    /// The masks as the program has them, in network byte order.
    pub(super) fn masks(self) -> (u32, [u32; 4]) {
        let v4 = u32::MAX.checked_shl(32 - u32::from(self.v4.min(32))).unwrap_or(0);
        let v6 = u128::MAX.checked_shl(128 - u32::from(self.v6.min(128))).unwrap_or(0);
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(v6.to_be_bytes().chunks_exact(4)) {
            *word = bytes.try_into().map_or(0, u32::from_ne_bytes);
        }
        (v4.to_be(), words)
    }
}

/// An address as the program keeps it: words in network byte order.
pub(super) fn address(words: [u32; 4], version: u8) -> IpAddr {
    if version == 6 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        return IpAddr::V6(<[u8; 16]>::try_from(bytes).map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from));
    }
    IpAddr::V4(Ipv4Addr::from(words[0].to_ne_bytes()))
}

/// This process as the kernel finds it from within any PID namespace: its number, and device and inode of its namespace.
/// Without /proc nobody is found.
pub(super) fn ancestor() -> (u32, u64, u64) {
    let Ok(namespace) = fs::metadata("/proc/self/ns/pid") else { return (0, 0, 0) };
    let device = namespace.st_dev();
    // The kernel's own form of a device number (include/linux/kdev_t.h).
    let device = u64::from(libc::major(device)) << 20 | u64::from(libc::minor(device));
    (process::id(), device, namespace.st_ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_the_first_bits() {
        let (v4, v6) = Prefixes { v4: 24, v6: 48 }.masks();
        let keep = |address: IpAddr| match address {
            IpAddr::V4(v4_address) => {
                let word = u32::from_ne_bytes(v4_address.octets()) & v4;
                super::address([word, 0, 0, 0], 4)
            }
            IpAddr::V6(v6_address) => {
                let mut words = [0; 4];
                for ((word, bytes), mask) in words.iter_mut().zip(v6_address.octets().chunks_exact(4)).zip(v6) {
                    *word = u32::from_ne_bytes(bytes.try_into().unwrap()) & mask;
                }
                super::address(words, 6)
            }
        };
        assert_eq!(keep("10.1.2.3".parse().unwrap()), "10.1.2.0".parse::<IpAddr>().unwrap());
        assert_eq!(keep("2001:db8:1:2::3".parse().unwrap()), "2001:db8:1::".parse::<IpAddr>().unwrap());
        assert_eq!(Prefixes::ADDRESSES.masks(), (u32::MAX, [u32::MAX; 4]));
        assert_eq!(Prefixes { v4: 0, v6: 0 }.masks(), (0, [0; 4]));
    }
}
