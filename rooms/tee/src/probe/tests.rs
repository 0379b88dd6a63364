//! Probes in networks of the tests' own.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use weir_forward::health::{Cause, Verdict};
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_units::Span;

use super::*;

/// A network of its own with a thread in it that runs probes, for as long as the fixture lives.
struct Network {
    namespace: NetNs,
    runtime: Handle,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Network {
    /// Loopback is up. `ping_group_range`: groups that may have ping sockets.
    fn new(ping_group_range: &str) -> Self {
        let namespace = NetNs::create().unwrap();
        let (handles, handle) = channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let inside = namespace.try_clone().unwrap();
        let range = ping_group_range.to_owned();
        thread::spawn(move || {
            let serve = |handles: Sender<_>| {
                std::fs::write("/proc/sys/net/ipv4/ping_group_range", range).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                handles.send(runtime.handle().clone()).unwrap();
                let _ = runtime.block_on(stopped);
            };
            inside.run(move || serve(handles)).unwrap();
        });
        let runtime = handle.recv().unwrap();
        let mut links = Netlink::open(&namespace).unwrap();
        let loopback = links.link("lo").unwrap().index;
        links.set_up(loopback).unwrap();
        Self { namespace, runtime, _stop: stop }
    }

    /// Probes an address of this network.
    fn probe(&self, tcp: Option<u16>, address: &str) -> (Prober, Arc<Health>, Vec<String>) {
        self.probe_from(tcp, address, None)
    }

    /// The same, from an address and interface.
    fn probe_from(
        &self,
        tcp: Option<u16>,
        address: &str,
        from: Option<(&str, &str)>,
    ) -> (Prober, Arc<Health>, Vec<String>) {
        let health = Arc::<Health>::default();
        let (interval, timeout) = (Span::from_millis(10), Some(Span::from_millis(50)));
        let probe = Probe { tcp, ping: tcp.is_none(), interval, timeout };
        let address: SocketAddr = address.parse().unwrap();
        let (name, health_of) = ("sink".to_owned(), Arc::clone(&health));
        let interface = from.map(|(_, interface)| interface.to_owned());
        let from = from.map(|(address, _)| address.parse().unwrap());
        let target = Target { name, address, probe, from, interface, health: health_of };
        let mut prober = Prober::new(self.runtime.clone());
        let unprobed = self.namespace.run(|| prober.follow([target])).unwrap();
        (prober, health, unprobed)
    }
}

/// Waits until that is thought; probes come every 10 ms.
fn wait_for(health: &Health, down: Option<Cause>) {
    let start = Instant::now();
    while health.verdict().down != down {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", health.verdict());
        thread::yield_now();
    }
}

#[test]
fn a_tcp_probe_sees_a_service_come_and_go() {
    let network = Network::new("1 0");
    for host in ["127.0.0.1", "[::1]"] {
        // The probed port is not the destination's.
        let (_prober, health, unprobed) = network.probe(Some(7777), &format!("{host}:514"));
        assert!(unprobed.is_empty());
        wait_for(&health, Some(Cause::Probe));
        let listen = || TcpListener::bind(format!("{host}:7777")).unwrap();
        let service = network.namespace.run(listen).unwrap();
        wait_for(&health, None);
        drop(service);
        wait_for(&health, Some(Cause::Probe));
        assert_eq!(health.verdict().downs, 2);
    }
}

#[test]
fn a_ping_sees_a_host_come_and_go() {
    let network = Network::new("0 0");
    for (address, ignore) in [
        ("127.0.0.1:514", "/proc/sys/net/ipv4/icmp_echo_ignore_all"),
        ("[::1]:514", "/proc/sys/net/ipv6/icmp/echo_ignore_all"),
        ("[::ffff:127.0.0.1]:514", "/proc/sys/net/ipv4/icmp_echo_ignore_all"),
    ] {
        let silence = |silent| network.namespace.run(|| std::fs::write(ignore, silent).unwrap()).unwrap();
        silence("1");
        let (_prober, health, unprobed) = network.probe(None, address);
        assert!(unprobed.is_empty(), "{unprobed:?}");
        wait_for(&health, Some(Cause::Probe));
        silence("0");
        wait_for(&health, None);
        silence("1");
        wait_for(&health, Some(Cause::Probe));
        silence("0");
    }
}

#[test]
fn a_host_without_a_route_is_dead() {
    let network = Network::new("0 0");
    let mut links = Netlink::open(&network.namespace).unwrap();
    let loopback = links.link("lo").unwrap().index;
    for from in [None, Some(("127.0.0.1:514", "lo"))] {
        for tcp in [Some(80), None] {
            let (_prober, health, unprobed) = network.probe_from(tcp, "192.0.2.1:514", from);
            assert!(unprobed.is_empty());
            wait_for(&health, Some(Cause::Probe));
        }
    }
    // The way to it comes later.
    let late = [None, Some(("127.0.0.1:514", "lo"))].map(|from| {
        let (prober, health, _) = network.probe_from(None, "192.0.2.1:514", from);
        wait_for(&health, Some(Cause::Probe));
        (prober, health)
    });
    links.add_address(loopback, "192.0.2.1/32".parse().unwrap()).unwrap();
    late.iter().for_each(|(_, health)| wait_for(health, None));
}

#[test]
fn what_stays_is_probed_on_and_what_goes_is_not() {
    let network = Network::new("0 0");
    let (mut prober, health, _) = network.probe(Some(7777), "127.0.0.1:514");
    wait_for(&health, Some(Cause::Probe));
    prober.follow([]);
    health.note(Evidence::ProbeAnswered);
    // Another that is probed as often finds it dead many times over; this one stays as it is.
    let (_other, other, _) = network.probe(Some(7777), "127.0.0.1:515");
    for _ in 0..5 {
        wait_for(&other, Some(Cause::Probe));
        other.note(Evidence::ProbeAnswered);
    }
    assert_eq!(health.verdict(), Verdict { down: None, downs: 1 });
}

#[test]
fn who_may_not_ping_is_told_what_to_set() {
    let (_prober, health, unprobed) = Network::new("1 0").probe(None, "192.0.2.1:514");
    assert_eq!(
        unprobed,
        [
            "destination sink: ping 192.0.2.1: Permission denied (os error 13) (set net.ipv4.ping_group_range to include \
          this process's group)"
        ]
    );
    assert!(health.up());
}
