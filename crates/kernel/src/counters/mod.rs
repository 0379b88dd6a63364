//! What the kernel counted: of a socket, of a network namespace, of an interface, of a CPU's receive path.

mod interfaces;
mod snmp;
mod softnet;

use std::fmt;
use std::fs;
use std::os::fd::AsFd;

pub use interfaces::{InterfaceCounters, Interfaces};
pub use snmp::Snmp;
pub use softnet::{Softnet, softnet};

use crate::error::During;
use crate::namespaces::NetNs;
use crate::{Error, sys};

/// Memory and drops of one socket (SO_MEMINFO; include/uapi/linux/sock_diag.h). Bytes are `truesize`: buffers with their
/// overhead, several times the payload of small datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Bytes received and not read yet.
    pub receive_used: u32,
    /// Limit of `receive_used` (SO_RCVBUF, doubled by the kernel).
    pub receive_limit: u32,
    /// Bytes handed to the interface and not released yet.
    pub send_used: u32,
    /// Limit of what waits to be sent (SO_SNDBUF, doubled by the kernel).
    pub send_limit: u32,
    /// Bytes reserved ahead.
    pub forward_allocated: u32,
    /// Bytes waiting to be sent or acknowledged.
    pub send_queued: u32,
    /// Bytes of options and filters.
    pub options: u32,
    /// Bytes that arrived while the socket was in use.
    pub backlog: u32,
    /// Datagrams dropped since the socket was opened: buffer full, or checksum wrong. It wraps at 2^32.
    pub drops: u32,
}

/// Reads a socket's memory and drops.
///
/// # Errors
/// If the descriptor is no socket.
pub fn socket_memory(socket: impl AsFd) -> Result<SocketMemory, Error> {
    let [receive_used, receive_limit, send_used, send_limit, forward_allocated, send_queued, options, backlog, drops] =
        sys::socket_memory(socket.as_fd()).during(|| "read a socket's memory (SO_MEMINFO)")?;
    Ok(SocketMemory {
        receive_used,
        receive_limit,
        send_used,
        send_limit,
        forward_allocated,
        send_queued,
        options,
        backlog,
        drops,
    })
}

/// Reads the protocol counters of a network namespace.
///
/// # Errors
/// If the namespace cannot be entered or /proc/net cannot be read.
pub fn snmp(ns: &NetNs) -> Result<Snmp, Error> {
    ns.run(|| {
        let mut counters = Snmp::default();
        counters.add_tables(&read("snmp")?);
        counters.add_tables(&read("netstat")?);
        // Absent in a kernel without IPv6.
        if let Ok(list) = read("snmp6") {
            counters.add_list(&list);
        }
        Ok(counters)
    })?
}

/// A file of the calling thread's network namespace.
fn read(name: impl fmt::Display) -> Result<String, Error> {
    let path = format!("/proc/thread-self/net/{name}");
    fs::read_to_string(&path).during(|| format!("read {path}"))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::links::Netlink;

    #[test]
    fn drops_of_a_full_socket_are_counted_everywhere() {
        const SENT: u32 = 300;
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        let (sender, receiver) = ns
            .run(|| {
                let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
                let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
                sender.connect(receiver.local_addr().unwrap()).unwrap();
                (sender, receiver)
            })
            .unwrap();
        nix::sys::socket::setsockopt(&receiver, nix::sys::socket::sockopt::RcvBuf, &4096).unwrap();
        for _ in 0..SENT {
            sender.send(&[0; 200]).unwrap();
        }
        let memory = socket_memory(&receiver).unwrap();
        assert_eq!(memory.receive_limit, 8192);
        assert!(memory.receive_used > 0);

        receiver.set_nonblocking(true).unwrap();
        let mut received = 0;
        while receiver.recv(&mut [0; 200]).is_ok() {
            received += 1;
        }
        assert!(received > 0 && memory.drops > 0);
        assert_eq!(received + memory.drops, SENT);
        let counters = snmp(&ns).unwrap();
        assert_eq!(counters.get("Udp", "RcvbufErrors"), Some(memory.drops.into()));
        assert_eq!(counters.get("Udp", "OutDatagrams"), Some(SENT.into()));
        assert_eq!(counters.get("TcpExt", "ListenDrops"), Some(0));
        assert_eq!(counters.get("Udp", "NoSuchCounter"), None);
    }

    #[test]
    fn only_sockets_have_socket_memory() {
        let file = fs::File::open("/dev/null").unwrap();
        let error = socket_memory(&file).unwrap_err();
        assert_eq!(error.to_string(), "read a socket's memory (SO_MEMINFO): socket operation on non-socket");
    }
}
