//! The TCP sockets of a network, from /proc/net/tcp and tcp6 (Documentation/networking/proc_net_tcp.rst).

use std::fs::File;
use std::io::Seek;

use procfs::net::{TcpNetEntries, TcpNetEntry, TcpState};
use procfs::{FromReadSI, current_system_info};

use crate::Error;
use crate::error::During;
use crate::namespaces::NetNs;
use crate::proc::path;

/// Tells the states of a namespace's TCP sockets, again and again.
#[derive(Debug)]
pub struct TcpSockets(Vec<File>);

impl TcpSockets {
    /// Opens the tables. The one of IPv6 may be missing.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or there is no /proc.
    pub fn open(ns: &NetNs) -> Result<Self, Error> {
        ns.run(|| {
            let tcp = File::open(path("tcp")).during(|| format!("open {}", path("tcp")))?;
            Ok(Self([Some(tcp), File::open(path("tcp6")).ok()].into_iter().flatten().collect()))
        })?
    }

    /// Whether a socket listens on the port.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn listens(&self, port: u16) -> Result<bool, Error> {
        self.any(|socket| socket.state == TcpState::Listen && socket.local_address.port() == port)
    }

    /// Whether a connection to the port is still being made.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn connects(&self, port: u16) -> Result<bool, Error> {
        self.any(|socket| socket.state == TcpState::SynSent && socket.remote_address.port() == port)
    }

    fn any(&self, wanted: impl Fn(&TcpNetEntry) -> bool) -> Result<bool, Error> {
        for mut file in &self.0 {
            let operation = || "read /proc/net/tcp".to_owned();
            file.rewind().during(operation)?;
            let sockets = TcpNetEntries::from_read(file, current_system_info());
            if sockets.map_err(|error| Error::answer(operation(), error.to_string()))?.0.iter().any(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::links::{MacAddress, Netlink, VethEnd};

    #[test]
    fn sees_who_listens() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        let sockets = TcpSockets::open(&ns).unwrap();
        for address in ["127.0.0.1:5201", "[::1]:5202"] {
            let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
            assert!(!sockets.listens(port).unwrap());
            let listener = ns.run(|| TcpListener::bind(address).unwrap()).unwrap();
            assert!(sockets.listens(port).unwrap() && !sockets.connects(port).unwrap());
            drop(listener);
            assert!(!sockets.listens(port).unwrap());
        }
    }

    #[test]
    fn sees_who_waits_for_an_answer() {
        let (ns, silent) = (NetNs::create().unwrap(), NetNs::create().unwrap());
        let mut netlink = Netlink::open(&ns).unwrap();
        let end = |ns, name, number| VethEnd { ns, name, mac: MacAddress::local(number), mtu: 1500, queue_length: 0 };
        netlink.add_veth(&end(&ns, "near", 1), &end(&silent, "far", 2)).unwrap();
        let index = netlink.link("near").unwrap().index;
        netlink.set_up(index).unwrap();
        netlink.add_address(index, "10.9.0.1/24".parse().unwrap()).unwrap();
        let sockets = TcpSockets::open(&ns).unwrap();
        let socket = ns.run(|| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        assert!(!sockets.connects(5201).unwrap());
        let to: std::net::SocketAddr = "10.9.0.2:5201".parse().unwrap();
        socket.connect(&to.into()).unwrap_err();
        assert!(sockets.connects(5201).unwrap() && !sockets.connects(5202).unwrap());
    }
}
