//! ICMP messages that were about nobody here.

use crate::proc;

/// How many ICMP messages the calling thread's network namespace has taken that it had no use for, of both families: broken
/// ones, and reports about datagrams that no socket here can have sent (net/ipv4/udp.c, __udp4_lib_err). `None`: the
/// kernel does not tell.
///
/// Who forges reports and has to guess ports makes one of these for each guess that fails.
pub fn strays() -> Option<u64> {
    let of_v4 = proc::read("snmp").ok().and_then(|text| in_errors(&text));
    let of_v6 = proc::read("snmp6").ok().and_then(|text| in_errors_v6(&text));
    match (of_v4, of_v6) {
        (None, None) => None,
        (of_v4, of_v6) => Some(of_v4.unwrap_or_default().saturating_add(of_v6.unwrap_or_default())),
    }
}

/// Two lines that begin with `Icmp:`: names, and their values.
fn in_errors(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Icmp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let (_, value) = names.split_whitespace().zip(values.split_whitespace()).find(|(name, _)| *name == "InErrors")?;
    value.parse().ok()
}

/// A line for each name.
fn in_errors_v6(text: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next()? == "Icmp6InErrors").then(|| words.next()?.parse().ok()).flatten())
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::time::{Duration, Instant};

    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;
    use crate::links::Netlink;
    use crate::namespaces::NetNs;

    #[test]
    fn the_kernels_tables_are_read() {
        let v4 = "Ip: Forwarding InErrors\nIp: 1 77\nIcmp: InMsgs InErrors InCsumErrors\nIcmp: 9 5 1\nIcmpMsg: InType3\nIcmpMsg: 3\n";
        assert_eq!(in_errors(v4), Some(5));
        assert_eq!(in_errors_v6("Icmp6InMsgs   \t9\nIcmp6InErrors                   \t3\n"), Some(3));
        for text in ["", "Icmp:", "Icmp: InErrors\nIcmp:\n", "Icmp: InErrors\nIcmp: x\n", "Icmp6InErrors\n"] {
            assert_eq!((in_errors(text), in_errors_v6(text)), (None, None), "{text:?}");
        }
    }

    #[test]
    fn a_report_that_somebody_waits_for_is_no_stray() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        ns.run(|| {
            let before = strays().unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect("127.0.0.1:9").unwrap();
            socket.send(b"x").unwrap();
            // Refused: its own report has come.
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert_eq!(socket.recv(&mut [0; 4]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
            assert_eq!(strays(), Some(before));
        })
        .unwrap();
    }

    /// A port unreachable message (RFC 792) about a datagram from 127.0.0.1 that nobody sent.
    fn guess(port: u16) -> Vec<u8> {
        let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
        message.extend([0x45, 0, 0, 28, 0, 7, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        message.extend(port.to_be_bytes());
        message.extend([0, 9, 0, 8, 0, 0]);
        let sum: u32 = message.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        message[2..4].copy_from_slice(&(!folded as u16).to_be_bytes());
        message
    }

    #[test]
    fn a_guess_that_fails_is_a_stray() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        ns.run(|| {
            let before = strays().unwrap();
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
            for port in 40_000..40_010 {
                socket.send_to(&guess(port), &SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            }
            let deadline = Instant::now() + Duration::from_secs(10);
            while strays() != Some(before + 10) {
                assert!(Instant::now() < deadline, "{before} {:?}", strays());
                std::thread::yield_now();
            }
        })
        .unwrap();
    }
}
