//! The TCP sockets of a host, from /proc/net/tcp and tcp6 (Documentation/networking/proc_net_tcp.rst).

use std::fs::File;
use std::io::{self, Read, Seek};

use anyhow::{Context, Result};
use weir_kernel::namespaces::NetNs;

/// Tells the states of a namespace's TCP sockets, again and again.
#[derive(Debug)]
pub(super) struct Connections(Vec<File>);

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    local_port: u16,
    remote_port: u16,
    state: u8,
}

impl Connections {
    /// Opens the tables. The one of IPv6 may be missing.
    pub(super) fn open(ns: &NetNs) -> Result<Self> {
        let open = |path| match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => result.map(Some).with_context(|| format!("open {path}")),
        };
        let files = ns.run(|| PATHS.into_iter().map(open).collect::<Result<Vec<_>>>())??;
        Ok(Self(files.into_iter().flatten().collect()))
    }

    /// Whether a socket listens on the port.
    pub(super) fn listens(&self, port: u16) -> Result<bool> {
        self.any(|row| row.state == LISTEN && row.local_port == port)
    }

    /// Whether a connection to the port is still being made.
    pub(super) fn connects(&self, port: u16) -> Result<bool> {
        self.any(|row| row.state == SYN_SENT && row.remote_port == port)
    }

    fn any(&self, wanted: impl Fn(Row) -> bool) -> Result<bool> {
        for mut file in &self.0 {
            let mut text = String::new();
            file.rewind().and_then(|()| file.read_to_string(&mut text)).context("read /proc/net/tcp")?;
            if text.lines().skip(1).filter_map(parse).any(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `0: 0100007F:1451 00000000:0000 0A ...`: number, addresses with ports, state.
pub(crate) fn parse(line: &str) -> Option<Row> {
    let mut fields = line.split_whitespace().skip(1);
    let mut port = || u16::from_str_radix(fields.next()?.rsplit_once(':')?.1, 16).ok();
    let (local_port, remote_port) = (port()?, port()?);
    Some(Row { local_port, remote_port, state: u8::from_str_radix(fields.next()?, 16).ok()? })
}

const PATHS: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];

// States of include/net/tcp_states.h.
const SYN_SENT: u8 = 2;
const LISTEN: u8 = 10;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use weir_kernel::links::Netlink;

    use super::*;

    #[test]
    fn reads_a_row() {
        let line = "   0: 0100007F:1451 0200000A:0050 02 00000000:00000000 00:00000000 00000000     0        0 17";
        assert_eq!(parse(line), Some(Row { local_port: 5201, remote_port: 80, state: SYN_SENT }));
        let v6 = "  1: 00000000000000000000000000000000:1452 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 1";
        assert_eq!(parse(v6), Some(Row { local_port: 5202, remote_port: 0, state: LISTEN }));
        assert_eq!(parse("  sl  local_address rem_address   st"), None);
    }

    #[test]
    fn sees_who_listens() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        let connections = Connections::open(&ns).unwrap();
        for address in ["127.0.0.1:5201", "[::1]:5202"] {
            let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
            assert!(!connections.listens(port).unwrap());
            let listener = ns.run(|| TcpListener::bind(address).unwrap()).unwrap();
            assert!(connections.listens(port).unwrap() && !connections.connects(port).unwrap());
            drop(listener);
            assert!(!connections.listens(port).unwrap());
        }
    }
}
