//! Packet counters of a namespace's interfaces, as in /proc/net/dev.

use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::NetFile;

/// Counters of one interface since it was made. A super-packet counts as one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Its name.
    pub name: String,
    /// Packets that came in.
    pub received: u64,
    /// Packets that came in and were dropped by the interface.
    pub receive_dropped: u64,
    /// Packets that went out.
    pub sent: u64,
    /// Packets that were to go out and were dropped: with a veth, because the receive path behind it was full
    /// (`net.core.netdev_max_backlog`) or its peer was down.
    pub send_dropped: u64,
}

/// Reads the counters of one namespace again and again. Unlike netlink, it never waits for the kernel's lock on
/// interfaces (RTNL), which others hold for long while they make or remove networks.
#[derive(Debug)]
pub struct Interfaces {
    file: NetFile,
}

impl Interfaces {
    /// Opens the counters of `ns`.
    ///
    /// # Errors
    /// If the namespace cannot be entered, without /proc, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Interfaces, Error> {
        let file = ns.run(|| NetFile::open("dev"))??;
        Ok(Interfaces { file })
    }

    /// Reads the counters of all interfaces.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn read(&self) -> Result<Vec<InterfaceCounters>, Error> {
        self.file.read().map(|text| parse(&text))
    }
}

/// Two lines of headings, then `name: bytes packets errs drop fifo frame compressed multicast`, the first four again
/// for sending, and more (net/core/net-procfs.c). What does not look so is left out.
pub(crate) fn parse(text: &str) -> Vec<InterfaceCounters> {
    let row = |line: &str| {
        let (name, columns) = line.split_once(':')?;
        let columns: Vec<u64> = columns.split_whitespace().map(|column| column.parse().ok()).collect::<Option<_>>()?;
        let [_, received, _, receive_dropped, _, _, _, _, _, sent, _, send_dropped] = *columns.first_chunk()?;
        Some(InterfaceCounters { name: name.trim().to_owned(), received, receive_dropped, sent, send_dropped })
    };
    text.lines().skip(2).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use proptest::prelude::*;

    use super::*;
    use crate::links::Netlink;

    #[test]
    fn counts_what_passes_through_an_interface() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        let interfaces = Interfaces::open(&ns).unwrap();
        let before = interfaces.read().unwrap();
        assert_eq!(before[0].name, "lo");
        ns.run(|| {
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..7 {
                receiver.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
            }
        })
        .unwrap();
        let after = interfaces.read().unwrap();
        assert_eq!((after[0].sent - before[0].sent, after[0].received - before[0].received), (7, 7));
    }

    #[test]
    fn reads_what_kernels_write() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes ...\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let expected =
            InterfaceCounters { name: "eth0".into(), received: 2, receive_dropped: 4, sent: 10, send_dropped: 12 };
        assert_eq!(parse(text), [expected]);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(?s).*") {
            parse(&text);
        }
    }
}
