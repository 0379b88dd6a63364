//! Hosts on one switch, each a namespace of its own.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use weir_kernel::counters::{Snmp, snmp};
use weir_kernel::links::{MacAddress, Netlink};
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::{Program, Running};
pub(super) use weir_testbed::await_that;
use weir_testbed::network::{self, Switch};

use crate::WEIR;

/// A host with one interface, `eth0`, of MTU 1500, without a route to anywhere but its switch.
pub(super) struct Host {
    pub(super) ns: NetNs,
    pub(super) name: &'static str,
    /// `10.0.0.N/24` for the Nth host of a network, from 1.
    pub(super) v4: Ipv4Addr,
    /// `fd00::N/64`.
    pub(super) v6: Ipv6Addr,
    switch: Arc<Switch>,
}

/// Makes hosts that reach one another; `None` without the privilege to: the test is skipped.
pub(super) fn network<const N: usize>(names: [&'static str; N]) -> Option<[Host; N]> {
    let switch = Arc::new(Switch::create()?);
    let mut number = 0;
    Some(names.map(|name| {
        number += 1;
        Host::connect(&switch, name, number)
    }))
}

impl Host {
    fn connect(switch: &Arc<Switch>, name: &'static str, number: u8) -> Host {
        let network::Host { ns, v4: IpAddr::V4(v4), v6: IpAddr::V6(v6) } = switch.plug(number, name) else {
            panic!("an address of the wrong family")
        };
        // Without a link-local address it could not look for neighbours on behalf of another source.
        let own = MacAddress::local(network::Host::mac(number)).link_local();
        let mut netlink = Netlink::open(&ns).unwrap();
        let eth0 = netlink.link("eth0").unwrap().index;
        netlink.add_address(eth0, IpNet::new(own.into(), 64).unwrap()).unwrap();
        Host { ns, name, v4, v6, switch: Arc::clone(switch) }
    }

    /// Makes the switch ask who listens to which IPv4 group, and send a group to nobody else. Returns when it does so:
    /// first it waits as long as answers may take.
    pub(super) fn switch_asks(&self, shell: &Path) {
        let script =
            "cd /sys/class/net/br0/bridge; echo 10 > multicast_query_response_interval; echo 1 > multicast_querier";
        let program = Program::below(Path::new(&*WEIR), &self.switch.ns, "switch", shell);
        let (status, _, stderr) =
            program.args(["-e", "-c", script]).stderr(Stdio::piped()).spawn().unwrap().output().unwrap();
        assert_eq!(status, 0, "{}", String::from_utf8_lossy(&stderr));
    }

    /// The network of the switch that joins the hosts; its port to a host has the host's name.
    pub(super) fn switch(&self) -> &NetNs {
        &self.switch.ns
    }

    /// Runs `f` on a thread inside this host.
    pub(super) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.ns.run(f).unwrap()
    }

    /// `10.0.0.N:port`.
    pub(super) fn at(&self, port: u16) -> SocketAddr {
        (self.v4, port).into()
    }

    /// `[fd00::N]:port`.
    pub(super) fn at6(&self, port: u16) -> SocketAddr {
        (self.v6, port).into()
    }

    /// Requests for this host's interfaces.
    pub(super) fn netlink(&self) -> Netlink {
        Netlink::open(&self.ns).unwrap()
    }

    /// A program of this host, to be given arguments and started. It ends with its owner.
    pub(super) fn program(&self, name: impl AsRef<std::ffi::OsStr>) -> Program<'_> {
        Program::below(Path::new(&*WEIR), &self.ns, self.name, name).stdin(Stdio::null())
    }

    /// Runs a program that is to do well, and returns its standard output.
    #[track_caller]
    pub(super) fn output(&self, name: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
        let program = self.program(name).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (status, stdout, stderr) = program.spawn().unwrap().output().unwrap();
        assert_eq!(status, 0, "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// The protocol counters.
    pub(super) fn counters(&self) -> Snmp {
        snmp(&self.ns).unwrap()
    }

    /// Waits until a program listens on a UDP port; there is no event for somebody else's bind.
    #[track_caller]
    pub(super) fn await_port(&self, port: u16, program: &mut Running) {
        await_that(&format!("port {port} to be bound"), || {
            if let Some(status) = program.wait_timeout(Duration::ZERO).unwrap() {
                panic!("the program ended with {status} before it bound port {port}");
            }
            !self.udp_queues(port).is_empty()
        });
    }

    /// Waits until a program has read all that its sockets on a UDP port hold.
    #[track_caller]
    pub(super) fn await_read(&self, port: u16) {
        await_that(&format!("port {port} to be read"), || self.udp_queues(port).iter().all(|&bytes| bytes == 0));
    }

    /// Bytes that wait in the sockets bound to a UDP port (/proc/net/udp: `sl local_address rem_address st tx:rx`).
    fn udp_queues(&self, port: u16) -> Vec<u64> {
        let port = format!("{port:04X}");
        let table = self.run(|| {
            let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap();
            read("udp") + &read("udp6")
        });
        let sockets = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let bound = sockets.filter(|fields| fields[1].rsplit(':').next() == Some(&port));
        bound.map(|fields| u64::from_str_radix(fields[4].split_once(':').unwrap().1, 16).unwrap()).collect()
    }
}
