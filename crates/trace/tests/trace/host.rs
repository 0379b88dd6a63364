//! Hosts to trace, and what was traced of them.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::linux::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{network, program, skip};
use weir_trace::{Detail, Drop, Filter, SocketTrace, Trace, Tracer};

pub(crate) const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A network namespace.
pub(crate) struct Host {
    pub(crate) ns: NetNs,
    pub(crate) inode: u32,
}

impl Host {
    /// With loopback up and nothing else.
    pub(crate) fn new() -> Host {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        Host::of(ns)
    }

    fn of(ns: NetNs) -> Host {
        let inode = ns.run(|| fs::metadata("/proc/thread-self/ns/net").unwrap().st_ino() as u32).unwrap();
        Host { ns, inode }
    }

    pub(crate) fn socket(&self) -> UdpSocket {
        self.socket_at(LOCALHOST)
    }

    pub(crate) fn socket_at(&self, address: Ipv4Addr) -> UdpSocket {
        let socket = self.ns.run(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    pub(crate) fn filter(&self, ports: &[u16]) -> Filter {
        Filter { ports: ports.to_vec(), namespaces: vec![self.inode] }
    }

    pub(crate) fn trace(&self, ports: &[u16]) -> Tracer {
        start(&self.filter(ports))
    }

    /// Whether there is an nft to set the rules with.
    pub(crate) fn rules(&self, rules: &str) -> bool {
        let Some(nft) = program("nft") else { return false };
        let status = self.ns.run(|| {
            let mut child = Command::new(nft).args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
            child.wait().unwrap()
        });
        assert!(status.unwrap().success(), "{rules}");
        true
    }

    /// A counter of /proc/net/snmp.
    pub(crate) fn counter(&self, protocol: &str, name: &str) -> u64 {
        let text = self.ns.run(|| fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
        let mut lines =
            text.lines().filter(|line| line.starts_with(&format!("{protocol}:"))).map(str::split_whitespace);
        let index = lines.next().unwrap().position(|own| own == name).unwrap();
        lines.next().unwrap().nth(index).unwrap().parse().unwrap()
    }
}

/// Two hosts at the ends of a cable: 10.0.0.1 and 10.0.0.2.
pub(crate) fn cable() -> [(Host, Ipv4Addr); 2] {
    let [one, other] = network::cable(1500).unwrap();
    [(Host::of(one.ns), Ipv4Addr::new(10, 0, 0, 1)), (Host::of(other.ns), Ipv4Addr::new(10, 0, 0, 2))]
}

/// Ordinary users may not trace, in a user namespace of theirs neither.
pub(crate) fn permitted() -> bool {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let refused =
        REFUSED.get_or_init(|| Tracer::start(Detail::Drops, &Filter::default()).err().map(|error| error.to_string()));
    if let Some(refused) = refused {
        skip(refused);
    }
    refused.is_none()
}

pub(crate) fn start(filter: &Filter) -> Tracer {
    let tracer = Tracer::start(Detail::Everything, filter).unwrap();
    assert_eq!((tracer.detail(), tracer.refused()), (Detail::Everything, &[] as &[String]));
    tracer
}

pub(crate) fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

pub(crate) fn cookie(socket: &UdpSocket) -> u64 {
    socket2::SockRef::from(socket).cookie().unwrap()
}

/// Reads everything that waits; returns how many times it did.
pub(crate) fn drain(socket: &UdpSocket) -> u64 {
    let mut bytes = [0; 65_536];
    (0..).take_while(|_| socket.recv(&mut bytes).is_ok()).count() as u64
}

/// The only drop.
pub(crate) fn only(trace: &Trace) -> &Drop {
    assert_eq!(trace.missed.total(), 0, "{trace:?}");
    assert_eq!(trace.drops.len(), 1, "{:#?}", trace.drops);
    &trace.drops[0]
}

pub(crate) fn of(trace: &Trace, socket: u64) -> &SocketTrace {
    trace.sockets.iter().find(|own| own.cookie == socket).unwrap()
}
