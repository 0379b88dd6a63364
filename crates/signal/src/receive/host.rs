//! Whether this machine drops packets in front of its sockets: looked at when something is missing.

use std::time::Duration;

use weir_kernel::counters::{Interfaces, Protocols, softnet};
use weir_kernel::namespaces::NetNs;

use super::Witness;

/// What the machine had dropped when it was last looked at.
#[derive(Debug)]
pub(super) struct Host {
    interfaces: Option<Interfaces>,
    protocols: Option<Protocols>,
    before: u64,
    looked: Duration,
    /// What the last look has found.
    dropped: bool,
}

impl Host {
    pub(super) fn open() -> Self {
        let ns = NetNs::current().ok();
        let interfaces = ns.as_ref().and_then(|ns| Interfaces::open(ns).ok());
        let protocols = ns.as_ref().and_then(|ns| Protocols::open(ns).ok());
        let mut host = Self { interfaces, protocols, before: 0, looked: Duration::ZERO, dropped: false };
        host.before = host.read();
        host
    }

    /// Packets dropped by receive paths, interfaces and the reverse path filter; each wraps by itself, what matters is whether it is
    /// another number.
    fn read(&mut self) -> u64 {
        let paths = softnet().unwrap_or_default();
        let paths = paths.iter().map(|cpu| u64::from(cpu.dropped) + u64::from(cpu.flow_limited.unwrap_or(0)));
        let interfaces = self.interfaces.as_ref().and_then(|interfaces| interfaces.read().ok()).unwrap_or_default();
        let protocols = self.protocols.as_mut().and_then(|protocols| protocols.read().ok());
        let filtered = protocols.and_then(|protocols| protocols.get("TcpExt", "IPReversePathFilter")).unwrap_or(0);
        let interfaces = interfaces.iter().map(|interface| interface.receive_dropped);
        paths.sum::<u64>() + interfaces.sum::<u64>() + filtered.unsigned_abs()
    }
}

impl Host {
    /// What was dropped until now belongs to no hole that is still to come.
    pub(super) fn refresh(&mut self, now: Duration) {
        if now >= self.looked + REFRESHES_APART {
            self.before = self.read();
            self.looked = now;
            self.dropped = false;
        }
    }
}

impl Witness for Host {
    /// Within a few milliseconds the answer stays the same: holes come in bursts.
    fn host_dropped(&mut self, now: Duration) -> bool {
        if now >= self.looked + LOOKS_APART || self.looked.is_zero() {
            let dropped = self.read();
            self.dropped = dropped != self.before;
            self.before = dropped;
            self.looked = now;
        }
        self.dropped
    }
}

/// From one look to the next while there are holes.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// From one look to the next while there are none.
const REFRESHES_APART: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;

    use weir_kernel::sysctl;
    use weir_testbed::network::cable;
    use weir_testbed::program;

    use super::*;

    #[test]
    fn what_the_reverse_path_filter_drops_was_dropped_here() {
        let (Some([a, b]), Some(ip)) = (cable(1500), program("ip")) else { return };
        // Strict, and the way back to the sender leads nowhere.
        sysctl::set(&b.ns, &[("ipv4/conf/all/rp_filter", "1"), ("ipv4/conf/eth0/rp_filter", "1")]).unwrap();
        let route = ["route", "add", "10.0.0.1/32", "dev", "lo"];
        assert!(b.run(|| Command::new(ip).args(route).status().unwrap()).success());
        let mut host = b.run(Host::open);
        let second = Duration::from_secs(1);
        assert!(!host.host_dropped(second));
        let socket = a.run(|| UdpSocket::bind("10.0.0.1:0").unwrap());
        socket.send_to(b"x", "10.0.0.2:5110").unwrap();
        let dropped = (2..1000).any(|second| {
            std::thread::sleep(Duration::from_millis(10));
            host.host_dropped(Duration::from_secs(second))
        });
        assert!(dropped);
    }
}
