//! A host's counters of datagrams that reached it but no program. A namespace carries only the cell's traffic, so its
//! counters began at 0.

use weir_kernel::counters::Snmp;

/// The counters of a host, by protocol and name; 0 if its kernel lacks one.
pub(super) fn counter(host: &Snmp) -> impl Fn(&str, &str) -> u64 {
    move |protocol: &str, name: &str| host.get(protocol, name).unwrap_or(0).unsigned_abs()
}

/// A counter of UDP over IPv4 and IPv6.
fn of_udp(count: impl Fn(&str, &str) -> u64, name: &str) -> u64 {
    count("Udp", name) + count("Udp6", name)
}

/// Datagrams that reached the receiving host but no program: wrong checksums, full buffers, no such port.
pub(super) fn udp_lost(host: &Snmp) -> u64 {
    of_udp(counter(host), "InErrors") + of_udp(counter(host), "NoPorts")
}

/// Of these, those dropped because a socket's buffer was full.
pub(super) fn buffer_overruns(host: &Snmp) -> u64 {
    of_udp(counter(host), "RcvbufErrors")
}

/// Of this many drops of a socket, those for a wrong checksum: the socket counts them together with those for a full
/// buffer. If several sockets share a host, no drop for a full buffer is taken for the other kind.
pub(super) fn wrong_checksums(drops: u64, count: impl Fn(&str, &str) -> u64) -> u64 {
    let both = |name: &str| of_udp(&count, name);
    both("InCsumErrors").min(drops.saturating_sub(both("RcvbufErrors") + both("MemErrors")))
}

/// A sentence about the datagrams that this node could not reassemble. `None`: none.
pub(super) fn not_reassembled(ipv4: bool, count: impl Fn(&str, &str) -> u64, kind: &str, name: &str) -> Option<String> {
    let (ip, high, time) = match ipv4 {
        true => ("Ip", "net.ipv4.ipfrag_high_thresh", "net.ipv4.ipfrag_time"),
        false => ("Ip6", "net.ipv6.ip6frag_high_thresh", "net.ipv6.ip6frag_time"),
    };
    // Each datagram that was given up is among the failed ones (net/ipv4/ip_fragment.c, net/ipv6/reassembly.c).
    let (whole, given_up) = (count(ip, "ReasmOKs"), count(ip, "ReasmTimeout"));
    let refused = count(ip, "ReasmFails").saturating_sub(given_up);
    (refused + given_up > 0).then(|| {
        format!(
            "{kind} `{name}` reassembled {whole} datagrams; {refused} fragments were dropped, for example because their memory \
             was full (raise it in {kind}s.{name}.setup: `sysctl -w {high}=67108864`), and {given_up} datagrams were given up: \
             fragments were missing after {time}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters by protocol and name; all others are 0.
    fn of<'a>(known: &'a [(&'a str, &'a str, u64)]) -> impl Fn(&str, &str) -> u64 + 'a {
        move |protocol: &str, name: &str| {
            let found = known.iter().find(|(of, named, _)| (*of, *named) == (protocol, name));
            found.map_or(0, |(_, _, count)| *count)
        }
    }

    #[test]
    fn a_wrong_checksum_is_no_full_buffer() {
        let host = [("Udp", "InErrors", 302), ("Udp", "InCsumErrors", 302)];
        assert_eq!(wrong_checksums(302, of(&host)), 302);
        let both = [("Udp", "RcvbufErrors", 40), ("Udp6", "InCsumErrors", 7)];
        assert_eq!(wrong_checksums(47, of(&both)), 7);
        // Those of another socket of the host are not among this one's.
        assert_eq!((wrong_checksums(40, of(&both)), wrong_checksums(0, of(&both))), (0, 0));
        assert_eq!(wrong_checksums(9, of(&[("Udp", "MemErrors", 9), ("Udp", "InCsumErrors", 5)])), 0);
    }

    #[test]
    fn what_was_not_put_together_is_reported_with_what_to_raise() {
        let of_host = |ipv4, counts: &[(&str, &str, u64)]| not_reassembled(ipv4, of(counts), "host", "b");
        assert_eq!(of_host(true, &[("Ip", "ReasmReqds", 6000), ("Ip", "ReasmOKs", 150)]), None);
        let full = [("Ip", "ReasmOKs", 3), ("Ip", "ReasmFails", 4102), ("Ip", "ReasmTimeout", 2)];
        let said = of_host(true, &full).unwrap();
        assert!(said.starts_with("host `b` reassembled 3 datagrams; 4100 fragments "), "{said}");
        assert!(said.contains("in hosts.b.setup: `sysctl -w net.ipv4.ipfrag_high_thresh="), "{said}");
        assert!(said.ends_with("and 2 datagrams were given up: fragments were missing after net.ipv4.ipfrag_time"));
        assert_eq!(of_host(false, &full), None);
        let six = of_host(false, &[("Ip6", "ReasmFails", 5)]).unwrap();
        assert!(six.contains("5 fragments") && six.contains("net.ipv6.ip6frag_high_thresh"), "{six}");
    }
}
