//! Settings in short, and sinks that collect.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::{DestinationCount, Ledger};
use crate::plan::Plan;
use crate::settings::*;
use crate::sockets::Sockets;
use crate::worker::Workers;

/// One worker, one listener on loopback, one rule that takes everything to all destinations.
pub(super) fn settings(to: &[SocketAddr]) -> Settings {
    Settings {
        workers: 1,
        gather: Duration::ZERO,
        drain: Duration::from_secs(5),
        steering: None,
        listeners: vec![listener("127.0.0.1:0")],
        destinations: to.iter().map(|&to| destination(to)).collect(),
        groups: Vec::new(),
        rules: vec![rule((0..to.len()).map(Recipient::Destination).collect())],
        matching: Matching::First,
        on_loop: OnLoop::Off,
    }
}

pub(super) fn listener(address: &str) -> Listener {
    let address = address.parse().unwrap();
    Listener { name: "in".into(), address, interface: None, groups: Vec::new(), receive_buffer: Some(8 << 20) }
}

pub(super) fn destination(to: SocketAddr) -> Destination {
    toml::from_str(&format!("name = \"{to}\"\nto = \"{to}\"\nqueue = \"1MiB\"")).unwrap()
}

pub(super) fn rule(to: Vec<Recipient>) -> Rule {
    Rule { name: "all".into(), sources: Vec::new(), listeners: Vec::new(), to }
}

/// Starts workers in the calling thread's network.
pub(super) fn start(settings: Settings) -> Workers {
    let plan = Plan::build(Arc::new(settings), &BTreeMap::new(), None);
    let sockets = Sockets::open(&plan, Vec::new(), None).unwrap();
    Workers::start(plan, sockets).unwrap()
}

/// Goes over to other settings.
pub(super) fn reload(workers: &Workers, settings: Settings) {
    let plan = Plan::build(Arc::new(settings), &BTreeMap::new(), Some(&workers.plan()));
    let sockets = workers.open(&plan).unwrap();
    workers.replace(plan, sockets);
}

/// Where a listener listens.
pub(super) fn address(workers: &Workers, listener: usize) -> SocketAddr {
    workers.with_sockets(|_, sockets| sockets.local_addr(listener).unwrap())
}

/// A socket with a large receive buffer, whose waits end.
pub(super) fn sink(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &(64 << 20));
    socket
}

/// A port at which nobody listens for as long as the socket lives: it takes only what it sends itself.
pub(super) fn closed_port() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    socket
}

/// A socket that sends to the listener.
pub(super) fn source(to: SocketAddr) -> UdpSocket {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// Receives so many datagrams, with their senders.
pub(super) fn receive(sink: &UdpSocket, count: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut buffer = vec![0; 65_536];
    let mut receive = |number: usize| {
        let (length, from) = sink.recv_from(&mut buffer).unwrap_or_else(|error| panic!("datagram {number}: {error}"));
        (buffer[..length].to_vec(), from)
    };
    (0..count).map(&mut receive).collect()
}

/// Receives so many payloads.
pub(super) fn payloads(sink: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    receive(sink, count).into_iter().map(|(payload, _)| payload).collect()
}

/// Nothing more is in the queue of a socket.
pub(super) fn assert_empty(sink: &UdpSocket) {
    sink.set_nonblocking(true).unwrap();
    assert_eq!(sink.recv(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    sink.set_nonblocking(false).unwrap();
}

/// Ends the workers; the account must close.
pub(super) fn finish(workers: &Workers) -> Ledger {
    workers.stop(Duration::from_secs(5));
    let ledger = workers.ledger();
    assert!(ledger.closed, "{ledger:#?}");
    ledger
}

/// The only entry of a destination's name.
pub(super) fn count(ledger: &Ledger, name: impl ToString + Copy) -> DestinationCount {
    let name = name.to_string();
    let mut found = ledger.destinations.iter().filter(|to| to.name == name);
    let count = found.next().unwrap_or_else(|| panic!("no {name} in {ledger:#?}")).clone();
    assert!(found.next().is_none());
    count
}

/// A payload that tells its number and length.
pub(super) fn payload(number: u32, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| (at as u32).wrapping_mul(number | 1).to_le_bytes()[1]).collect();
    let number = number.to_be_bytes();
    let start = length.min(4);
    bytes[..start].copy_from_slice(&number[..start]);
    bytes
}
