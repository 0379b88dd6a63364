//! What a service owes its surroundings: the service manager, scrapers, whoever reads its log or looks at its screen.

mod manager;
mod observers;
mod privileges;
pub(super) mod screen;

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::or_skip;

pub(super) fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

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
        let ns = or_skip(NetNs::create())?;
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

    pub(super) fn udp(&self, address: &str) -> UdpSocket {
        let socket = self.run(|| UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    pub(super) fn get(&self, path: &str) -> (String, String) {
        self.run(|| {
            let mut stream = TcpStream::connect(ADMIN).unwrap();
            stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), body.to_owned())
        })
    }

    /// The value of the one sample that begins with this.
    pub(super) fn metric(&self, begins: &str) -> f64 {
        let (_, text) = self.get("/metrics");
        let samples: Vec<&str> = text.lines().filter(|line| line.starts_with(begins)).collect();
        assert_eq!(samples.len(), 1, "{begins}: {samples:?}");
        samples[0].rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// A service and its manager: this test. Killed when dropped.
pub(super) struct Service {
    pub(super) child: Child,
    manager: UnixDatagram,
    _directory: TempDir,
}

impl Service {
    /// Starts it; returns when it has said that it is ready.
    pub(super) fn start(machine: &Machine, mut command: Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        // Whoever the service becomes, it may speak to its manager.
        for path in [directory.path(), &socket] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        command.env("NOTIFY_SOCKET", &socket);
        let child = machine.run(move || command.spawn().unwrap());
        let service = Self { child, manager, _directory: directory };
        // A watchdog may be fed before.
        while !service.hear().starts_with("READY=1\n") {}
        service
    }

    /// What it tells its manager next.
    pub(super) fn hear(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub(super) fn end(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

pub(super) const WEIR: &str = env!("CARGO_BIN_EXE_weir");
pub(super) const ADMIN: &str = "127.0.0.1:9514";
const LISTEN: &str = "127.0.0.1:5514";
const SINK: &str = "127.0.0.1:5515";

/// Longer than anything takes that works.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
