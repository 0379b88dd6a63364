//! A sender, a receiver and a switch between them; what is drawn for one test; sockets that count.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::Program;
use weir_kernel::sysctl;
use weir_testbed::random::Source;
use weir_testbed::{await_that, program};

use super::{Following, WEIR};
use crate::network::{Host, network};

/// Two hosts and what was drawn for them.
pub(super) struct Scene {
    pub(super) sender: Host,
    pub(super) receiver: Host,
    pub(super) seed: Source,
    /// The receiver's port.
    pub(super) port: u16,
    /// Datagrams to be received, and to be lost.
    pub(super) kept: u64,
    pub(super) lost: u64,
    /// Their payloads' sizes, by which rules and filters tell them apart.
    pub(super) kept_size: usize,
    pub(super) lost_size: usize,
    pub(super) nft: PathBuf,
    pub(super) tc: PathBuf,
}

impl Scene {
    /// `None`, with a word about it, without the privilege or the tools (a failure under `CI`).
    pub(super) fn set() -> Option<Scene> {
        Scene::with(["sender", "receiver"]).map(|(scene, [])| scene)
    }

    /// With further hosts on the switch.
    pub(super) fn with<const N: usize, const MORE: usize>(names: [&'static str; N]) -> Option<(Scene, [Host; MORE])> {
        let (nft, tc) = (program("nft")?, program("tc")?);
        let mut hosts = network(names)?.into_iter();
        let (sender, receiver) = (hosts.next().unwrap(), hosts.next().unwrap());
        let rest: Vec<Host> = hosts.collect();
        let Ok(rest) = rest.try_into() else { panic!("two hosts and {MORE} more") };
        // So that nothing but the tests' datagrams is on the wires, and none is lost for want of a neighbour.
        for (host, other) in [(&sender, &receiver), (&receiver, &sender)] {
            let eth0 = host.netlink().link("eth0").unwrap().index;
            let mac = other.netlink().link("eth0").unwrap().mac.unwrap();
            host.netlink().add_neighbour(eth0, other.v4.into(), mac).unwrap();
            host.netlink().add_neighbour(eth0, other.v6.into(), mac).unwrap();
        }
        let mut seed = Source::drawn();
        let port = u16::try_from(seed.number(5000..30000)).unwrap();
        // All of either kind fit into the smallest receive buffer together: 256 datagrams of at most 100 bytes.
        let (kept, lost) = (seed.number(20..120), seed.number(5..80));
        let (kept_size, lost_size) = (seed.size(1..50), seed.size(50..100));
        let scene = Scene { sender, receiver, seed, port, kept, lost, kept_size, lost_size, nft, tc };
        Some((scene, rest))
    }

    /// Follows the port on both hosts.
    #[track_caller]
    pub(super) fn follow(&self) -> Following {
        Following::port(self.port, &[&self.sender.ns, &self.receiver.ns])
    }

    /// What was to be lost was lost at this place, all else has been received, and nothing is left over.
    #[track_caller]
    pub(super) fn closes(&self, following: Following, place: &str) {
        let account = following.end().traced();
        account.of(self.port).closes(self.kept + self.lost, self.kept, &[(place, self.lost)]);
    }

    /// Sends all datagrams, and finds those that were to be lost at this place.
    #[track_caller]
    pub(super) fn loses_at(&mut self, place: &str) {
        let reader = Reader::start(self.listen());
        let (socket, to) = (self.source(), self.to());
        let following = self.follow();
        self.send_all(&socket, to);
        reader.await_count(self.kept);
        self.closes(following, place);
    }

    /// Where the receiver listens.
    pub(super) fn to(&self) -> SocketAddr {
        self.receiver.at(self.port)
    }

    /// The same in IPv6.
    pub(super) fn to6(&self) -> SocketAddr {
        self.receiver.at6(self.port)
    }

    /// A socket of the receiver's on the port.
    pub(super) fn listen(&self) -> UdpSocket {
        self.receiver.run(|| UdpSocket::bind(self.to())).unwrap()
    }

    /// The same, with room for seconds of traffic: its reader may stand still.
    pub(super) fn listen_roomy(&self) -> UdpSocket {
        let socket = self.listen();
        setsockopt(&socket, sockopt::RcvBufForce, &(32 << 20)).unwrap();
        socket
    }

    /// A socket of the sender's on a port of the kernel's choice.
    pub(super) fn source(&self) -> UdpSocket {
        self.sender.run(|| UdpSocket::bind(self.sender.at(0))).unwrap()
    }

    /// Which of the datagrams are to be lost, in an order that is drawn.
    pub(super) fn order(&mut self) -> Vec<bool> {
        let mut order: Vec<bool> = (0..self.kept + self.lost).map(|number| number < self.lost).collect();
        self.seed.shuffle(&mut order);
        order
    }

    /// Payload of a datagram to be lost or kept.
    pub(super) fn payload(&self, lost: bool) -> Vec<u8> {
        vec![u8::from(lost); if lost { self.lost_size } else { self.kept_size }]
    }

    /// Sends all datagrams in the drawn order to one address; every call must succeed.
    #[track_caller]
    pub(super) fn send_all(&mut self, socket: &UdpSocket, to: SocketAddr) {
        for lost in self.order() {
            let payload = self.payload(lost);
            assert_eq!(socket.send_to(&payload, to).unwrap(), payload.len());
        }
    }

    /// A rule that drops what is to be lost, and counts it, in a chain of its own at a hook.
    pub(super) fn dropping(&self, family: &str, hook: &str) -> String {
        format!(
            "add table {family} t; add chain {family} t c {{ type filter hook {hook} priority 0; }}; \
             add rule {family} t c udp dport {} udp length {} counter drop",
            self.port,
            8 + self.lost_size,
        )
    }

    /// nft on a host.
    #[track_caller]
    pub(super) fn nft(&self, host: &Host, commands: &str) {
        host.output(&self.nft, &[commands]);
    }

    /// nft on the switch.
    #[track_caller]
    pub(super) fn nft_on_switch(&self, commands: &str) {
        let program = Program::below(Path::new(&*WEIR), self.sender.switch(), "switch", &self.nft);
        let (status, _, stderr) = program.args([commands]).stderr(Stdio::piped()).spawn().unwrap().output().unwrap();
        assert_eq!(status, 0, "{commands}: {}", String::from_utf8_lossy(&stderr));
    }

    /// Packets that the only rule with a counter on a host has matched.
    #[track_caller]
    pub(super) fn matched(&self, host: &Host) -> u64 {
        let listing = host.output(&self.nft, &["list ruleset"]);
        let counts: Vec<u64> = listing
            .split("counter packets ")
            .skip(1)
            .map(|rest| rest.split_whitespace().next().unwrap().parse().unwrap())
            .collect();
        let [count] = counts[..] else { panic!("not one counter: {listing}") };
        count
    }

    /// tc on a host.
    #[track_caller]
    pub(super) fn tc(&self, host: &Host, arguments: &str) -> String {
        host.output(&self.tc, &arguments.split(' ').collect::<Vec<_>>())
    }

    /// `ip` on a host.
    #[track_caller]
    pub(super) fn ip(&self, host: &Host, arguments: &str) -> String {
        host.output(self.tc.with_file_name("ip"), &arguments.split(' ').collect::<Vec<_>>())
    }
}

/// Changes settings of a host, paths below /proc/sys/net.
#[track_caller]
pub(super) fn set(ns: &NetNs, settings: &[(&str, &str)]) {
    sysctl::set(ns, settings).unwrap();
}

/// How much a protocol counter of a host has grown since.
#[track_caller]
pub(super) fn grown(host: &Host, before: &weir_kernel::counters::Snmp, table: &str, name: &str) -> u64 {
    u64::try_from(host.counters().since(before).get(table, name).unwrap()).unwrap()
}

/// A call that must fail with this error.
#[track_caller]
pub(super) fn expect_errors(result: io::Result<usize>, errno: Errno) {
    assert_eq!(result.map_err(|error| error.raw_os_error()), Err(Some(errno as i32)));
}

/// Reads a socket and counts.
pub(super) struct Reader {
    state: Arc<State>,
    thread: Option<JoinHandle<UdpSocket>>,
}

#[derive(Default)]
struct State {
    count: AtomicU64,
    ends: AtomicBool,
}

impl Reader {
    /// Counts datagrams.
    pub(super) fn start(socket: UdpSocket) -> Reader {
        Reader::joined(socket, usize::MAX)
    }

    /// Counts datagrams of one size, of which the kernel may join many (UDP_GRO).
    pub(super) fn joined(socket: UdpSocket, size: usize) -> Reader {
        let state = Arc::new(State::default());
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let thread = thread::spawn({
            let state = Arc::clone(&state);
            move || {
                state.read(&socket, size);
                socket
            }
        });
        Reader { state, thread: Some(thread) }
    }

    /// How many it has read.
    pub(super) fn count(&self) -> u64 {
        self.state.count.load(Ordering::SeqCst)
    }

    /// Waits until it has read as many.
    #[track_caller]
    pub(super) fn await_count(&self, count: u64) {
        await_that(&format!("{count} datagrams to be read"), || self.count() >= count);
        assert_eq!(self.count(), count);
    }

    /// Waits until it has read at least as many.
    #[track_caller]
    pub(super) fn await_some(&self, count: u64) {
        await_that(&format!("{count} datagrams to be read"), || self.count() >= count);
    }

    /// Gives the socket back.
    pub(super) fn stop(mut self) -> UdpSocket {
        self.state.ends.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }

    /// As [`Reader::stop`], and how many it has read in all: what was taken from the queue is counted a little later.
    pub(super) fn stop_counted(self) -> (UdpSocket, u64) {
        let state = Arc::clone(&self.state);
        let socket = self.stop();
        (socket, state.count.load(Ordering::SeqCst))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn read(&self, socket: &UdpSocket, size: usize) {
        let mut buffer = vec![0; 1 << 16];
        while !self.ends.load(Ordering::SeqCst) {
            match socket.recv(&mut buffer) {
                Ok(length) => _ = self.count.fetch_add(length.div_ceil(size).max(1) as u64, Ordering::SeqCst),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted), "{error}");
                }
            }
        }
    }
}
