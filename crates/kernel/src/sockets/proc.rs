//! /proc/net/udp and udp6, for kernels without sock_diag.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Memory, UdpSocket};
use crate::Error;
use crate::namespaces::NetNs;
use crate::proc::NetFile;

/// The two files of a namespace.
#[derive(Debug)]
pub(super) struct Proc {
    udp: NetFile,
    /// Absent in a kernel without IPv6.
    udp6: Option<NetFile>,
}

impl Proc {
    pub(super) fn open(ns: &NetNs) -> Result<Proc, Error> {
        ns.run(|| Ok(Proc { udp: NetFile::open("udp")?, udp6: NetFile::open("udp6").ok() }))?
    }

    pub(super) fn read(&self) -> Result<Vec<UdpSocket>, Error> {
        let mut sockets = parse(&self.udp.read()?);
        if let Some(udp6) = &self.udp6 {
            sockets.extend(parse(&udp6.read()?));
        }
        Ok(sockets)
    }
}

/// A heading, then `sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer drops` (net/ipv4/udp.c,
/// udp4_format_sock), addresses and queues in hexadecimal. What does not look so is left out.
pub(crate) fn parse(text: &str) -> Vec<UdpSocket> {
    text.lines().skip(1).filter_map(row).collect()
}

fn row(line: &str) -> Option<UdpSocket> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [_, local, peer, _, queues, _, _, _, _, inode, _, _, drops] = *columns.first_chunk()?;
    let (_, received) = queues.split_once(':')?;
    let received = u32::from_str_radix(received, 16).ok()?;
    let peer = address(peer)?;
    Some(UdpSocket {
        cookie: None,
        inode: inode.parse().ok()?,
        local: address(local)?,
        peer: (peer.port() != 0 || !peer.ip().is_unspecified()).then_some(peer),
        interface: None,
        memory: Memory { rmem_alloc: received, queued: received, drops: drops.parse().ok()?, ..Memory::default() },
    })
}

/// `0100007F:1F90`: words of the address as the processor has them, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(words.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match words.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let bytes: Vec<[u8; 4]> = (0..4).map(|i| word(8 * i)).collect::<Option<_>>()?;
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes.concat()).ok()?).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the kernel writes a line on this processor.
    fn written(socket: &UdpSocket) -> String {
        let address = |address: SocketAddr| {
            let words: Vec<u32> = match address.ip() {
                IpAddr::V4(ip) => vec![u32::from_ne_bytes(ip.octets())],
                IpAddr::V6(ip) => ip.octets().as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect(),
            };
            let words: String = words.iter().map(|word| format!("{word:08X}")).collect();
            format!("{words}:{:04X}", address.port())
        };
        let nobody = if socket.local.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let (local, peer) = (address(socket.local), address(socket.peer.unwrap_or(nobody.parse().unwrap())));
        let UdpSocket { inode, memory: Memory { queued, drops, .. }, .. } = socket;
        format!(
            " 2046: {local} {peer} 07 00000000:{queued:08X} 00:00000000 00000000     0        0 {inode} 2 \
             0000000000000000 {drops}         \n"
        )
    }

    prop_compose! {
        fn any_address()(ip in any::<IpAddr>(), port in 1..u16::MAX) -> SocketAddr {
            SocketAddr::new(ip, port)
        }
    }

    prop_compose! {
        fn any_socket()(local in any_address(), port in any::<u16>(), inode: u32, queue: u32,
            drops: u32) -> UdpSocket {
            let memory = Memory { rmem_alloc: queue, queued: queue, drops, ..Memory::default() };
            let peer = (port != 0).then(|| SocketAddr::new(local.ip(), port));
            UdpSocket { cookie: None, inode, local, peer, interface: None, memory }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(sockets in prop::collection::vec(any_socket(), 0..4)) {
            let text: String = sockets.iter().map(written).collect();
            prop_assert_eq!(parse(&format!("  sl  local_address\n{text}")), sockets);
        }

        #[test]
        fn lines_that_look_otherwise_are_left_out(socket in any_socket(), strange in "\\PC{0,40}", length in 0usize..13) {
            let sound = written(&socket);
            let columns: Vec<&str> = sound.split_whitespace().collect();
            let mut text = format!("  sl  local_address\n{strange}\n{}\n{sound}", columns[..length].join(" "));
            // Addresses, queues, inode number, drops.
            for column in [1, 2, 4, 9, 12] {
                let mut columns = columns.clone();
                columns[column] = "g";
                text += &format!("{}\n", columns.join(" "));
            }
            prop_assert_eq!(parse(&text), [socket]);
        }
    }
}
