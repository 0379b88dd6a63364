//! What a service owes its surroundings: the service manager, scrapers, whoever reads its log or looks at its screen.

mod http;
mod manager;
mod observers;
mod privileges;
pub(super) mod screen;

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::{PATIENCE, Started, http as client, network};

use crate::weir;

/// A full disk behind standard error changes nothing but what can be read there.
#[test]
fn nobody_panics_when_standard_error_is_full() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let held = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    for (arguments, status) in [
        (&["recv", "--listen", "127.0.0.1:0", "--duration", "1ms"][..], 0),
        (&["recv", "--listen", &taken], 1),
        (&["send", "--to", &taken, "--payload", "15B"], 2),
    ] {
        let output = weir(arguments).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}

/// A machine of its own, on which fixed ports are free.
pub(super) struct Machine(NetNs);

impl Machine {
    /// `None` without the privilege to make one: the test is skipped.
    pub(super) fn new() -> Option<Self> {
        let ns = network::namespace()?;
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        Some(Self(ns))
    }

    /// Its network.
    pub(super) fn namespace(&self) -> NetNs {
        self.0.try_clone().unwrap()
    }

    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.run(work).unwrap()
    }

    /// Starts a service; returns when it is ready.
    #[track_caller]
    pub(super) fn start(&self, command: Command) -> Started {
        self.run(|| Started::ready(command))
    }

    pub(super) fn udp(&self, address: &str) -> UdpSocket {
        let socket = self.run(|| UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Head and body of what a service with the address [`ADMIN`] answers.
    pub(super) fn get(&self, path: &str) -> (String, String) {
        let answer = self.run(|| client::get(ADMIN, path));
        (answer.head, answer.body)
    }

    /// The value of the one sample that begins with this.
    pub(super) fn metric(&self, begins: &str) -> f64 {
        let (_, text) = self.get("/metrics");
        let samples: Vec<&str> = text.lines().filter(|line| line.starts_with(begins)).collect();
        assert_eq!(samples.len(), 1, "{begins}: {samples:?}");
        samples[0].rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// Sends these and sees them come out, one by one.
fn pass(from: &UdpSocket, to: SocketAddr, sink: &UdpSocket, payloads: &[&[u8]]) {
    for payload in payloads {
        from.send_to(payload, to).unwrap();
        let mut bytes = [0; 2000];
        let length = sink.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], *payload);
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(super) const ADMIN: &str = "127.0.0.1:9514";
const LISTEN: &str = "127.0.0.1:5514";
const SINK: &str = "127.0.0.1:5515";
