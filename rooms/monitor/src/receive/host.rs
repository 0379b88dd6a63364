//! Whether this machine drops packets in front of its sockets: looked at when something is missing.

use std::time::Duration;

use weir_kernel::counters::{Interfaces, softnet};
use weir_kernel::namespaces::NetNs;

use super::Witness;

/// What the machine had dropped when it was last looked at.
#[derive(Debug)]
pub(super) struct Host {
    interfaces: Option<Interfaces>,
    before: u64,
    looked: Duration,
    /// What the last look has found.
    dropped: bool,
}

impl Host {
    pub(super) fn open() -> Self {
        let interfaces = NetNs::current().and_then(|ns| Interfaces::open(&ns)).ok();
        let mut host = Self { interfaces, before: 0, looked: Duration::ZERO, dropped: false };
        host.before = host.read();
        host
    }

    /// Packets dropped by receive paths and interfaces; each wraps by itself, what matters is whether it is another number.
    fn read(&self) -> u64 {
        let paths = softnet().unwrap_or_default();
        let paths = paths.iter().map(|cpu| u64::from(cpu.dropped) + u64::from(cpu.flow_limited.unwrap_or(0)));
        let interfaces = self.interfaces.as_ref().and_then(|interfaces| interfaces.read().ok()).unwrap_or_default();
        paths.sum::<u64>() + interfaces.iter().map(|interface| interface.receive_dropped).sum::<u64>()
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
