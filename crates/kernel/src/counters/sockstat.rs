//! Memory of UDP, as in /proc/net/sockstat.

use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::read;
use crate::sysctl;

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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kernels_write() {
        let text = "sockets: used 18\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 127\nUDP: inuse 2 mem 9\n\
                    FRAG: inuse 3 memory 4096\n";
        assert_eq!(values(text, "FRAG", ["inuse", "memory"]), Some([3, 4096]));
        assert_eq!(values(text, "UDP", ["mem"]), Some([9]));
        assert_eq!(values(text, "UDP6", ["mem"]), None);
        assert_eq!(values(text, "UDP", ["memory"]), None);
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
