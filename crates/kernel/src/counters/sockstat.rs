//! Memory of fragments and of UDP, as in /proc/net/sockstat.

use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::read;
use crate::sysctl;

/// Fragments of a namespace that wait to be joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reassembly {
    /// Of IPv4.
    pub ipv4: FragmentQueues,
    /// Of IPv6; `None`: the kernel has none.
    pub ipv6: Option<FragmentQueues>,
}

/// Incomplete datagrams and what they may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentQueues {
    /// Datagrams of which pieces wait.
    pub datagrams: u64,
    /// Their memory, bytes of truesize.
    pub memory: u64,
    /// Beyond this many bytes new fragments are dropped (`net.ipv4.ipfrag_high_thresh`); `None`: not shown here.
    pub high_threshold: Option<u64>,
}

/// Reads what waits to be joined in a namespace.
///
/// # Errors
/// If the namespace cannot be entered or /proc/net cannot be read.
pub fn reassembly(ns: &NetNs) -> Result<Reassembly, Error> {
    let (four, six) = ns.run(|| Ok::<_, Error>((read("sockstat")?, read("sockstat6").ok())))??;
    let setting = |name: &str| sysctl::find(ns, name).map(|value| value.and_then(|value| value.parse().ok()));
    let queues = |text: &str, protocol: &str, high: &str| {
        let Some([datagrams, memory]) = values(text, protocol, ["inuse", "memory"]) else { return Ok(None) };
        Ok(Some(FragmentQueues { datagrams, memory, high_threshold: setting(high)? }))
    };
    let ipv4 = queues(&four, "FRAG", "ipv4/ipfrag_high_thresh")?
        .ok_or_else(|| Error::answer("read /proc/net/sockstat", "it has no line FRAG"))?;
    let ipv6 = match six {
        Some(six) => queues(&six, "FRAG6", "ipv6/ip6frag_high_thresh")?,
        None => None,
    };
    Ok(Reassembly { ipv4, ipv6 })
}

/// Memory of all UDP sockets of the machine, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpMemory {
    /// In use, over all namespaces. Each processor may hold 1 MiB of it that is not counted yet (include/net/sock.h,
    /// SK_MEMORY_PCPU_RESERVE).
    pub pages: u64,
    /// `net.ipv4.udp_mem`: below the first nothing is limited, beyond the third datagrams are dropped. `None`: only
    /// shown in the first namespace.
    pub limits: Option<[u64; 3]>,
    /// Bytes of a page.
    pub page_size: u64,
}

/// Reads the memory of UDP; the limits as the namespace, else the calling thread's, shows them.
///
/// # Errors
/// If the namespace cannot be entered or /proc/net cannot be read.
pub fn udp_memory(ns: &NetNs) -> Result<UdpMemory, Error> {
    let text = ns.run(|| read("sockstat"))??;
    let [pages] = values(&text, "UDP", ["mem"])
        .ok_or_else(|| Error::answer("read /proc/net/sockstat", "it has no memory of UDP"))?;
    let limits = match sysctl::find(ns, "ipv4/udp_mem")? {
        Some(limits) => Some(limits),
        None => sysctl::find(&NetNs::current()?, "ipv4/udp_mem")?,
    };
    let limits = limits.and_then(|limits| {
        let limits: Vec<u64> = limits.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        limits.try_into().ok()
    });
    Ok(UdpMemory { pages, limits, page_size: procfs::page_size() })
}

/// A line `UDP: inuse 3 mem 2`: the values of these names.
pub(crate) fn values<const N: usize>(text: &str, protocol: &str, names: [&str; N]) -> Option<[u64; N]> {
    let line = text.lines().find_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |name: &str| words.chunks_exact(2).find(|pair| pair[0] == name)?[1].parse().ok();
    let found: Vec<u64> = names.iter().map(|name| value(name)).collect::<Option<_>>()?;
    found.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
    use proptest::prelude::*;

    use super::*;
    use crate::links::Netlink;

    #[test]
    fn reads_what_kernels_write() {
        let text = "sockets: used 18\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 127\nUDP: inuse 2 mem 9\n\
                    FRAG: inuse 3 memory 4096\n";
        assert_eq!(values(text, "FRAG", ["inuse", "memory"]), Some([3, 4096]));
        assert_eq!(values(text, "UDP", ["mem"]), Some([9]));
        assert_eq!(values(text, "UDP6", ["mem"]), None);
        assert_eq!(values(text, "UDP", ["memory"]), None);
    }

    #[test]
    fn a_first_fragment_waits() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        // More fragments follow: the flag of the third word. The kernel fills in length, identification and checksum.
        let mut packet = [0u8; 20 + 64];
        packet[..2].copy_from_slice(&[0x45, 0]);
        packet[4..10].copy_from_slice(&[0x12, 0x34, 0x20, 0, 64, 17]);
        packet[12..20].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
        let before = reassembly(&ns).unwrap();
        assert_eq!(before.ipv4.datagrams, 0);
        ns.run(|| {
            let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw).unwrap();
            sendto(raw.as_raw_fd(), &packet, &SockaddrIn::new(127, 0, 0, 1, 0), MsgFlags::empty()).unwrap();
        })
        .unwrap();
        let after = reassembly(&ns).unwrap();
        assert_eq!(after.ipv4.datagrams, 1);
        assert!(after.ipv4.memory >= 64, "{after:?}");
        assert!(after.ipv4.high_threshold.is_some());
    }

    /// Three numbers of pages, as the first network of the machine shows them, and no other.
    fn limits_shown() -> Option<[u64; 3]> {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/udp_mem").ok()?;
        let pages: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        Some(pages.try_into().unwrap())
    }

    #[test]
    fn memory_of_udp_has_the_limits_that_the_caller_is_shown() {
        let ns = NetNs::create().unwrap();
        let memory = udp_memory(&ns).unwrap();
        assert_eq!(memory.limits, limits_shown());
        assert_eq!(memory.page_size, nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).unwrap().unwrap() as u64);
        // Nobody is shown them in another network.
        let hidden = ns.run(|| (udp_memory(&ns).unwrap().limits, limits_shown())).unwrap();
        assert_eq!(hidden, (None, None));
    }

    proptest! {
        #[test]
        fn a_line_is_found_whatever_lies_beside_it(strange in "\\PC{0,30}", numbers: [u32; 2]) {
            let [inuse, memory] = numbers.map(u64::from);
            let text = format!("x{strange}\nUDP: {strange}\nUDP6: inuse 7\n");
            prop_assert_eq!(values(&text, "UDP", ["no such name"]), None);
            let text = format!("x{strange}\nUDP: inuse {inuse} mem {memory}\nUDP: {strange}\n");
            prop_assert_eq!(values(&text, "UDP", ["mem", "inuse"]), Some([memory, inuse]));
        }
    }
}
