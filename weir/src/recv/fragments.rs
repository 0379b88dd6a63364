//! Datagrams in fragments that the kernel could not put together while `weir recv` listened.

use serde::Serialize;
use weir_kernel::counters::{self, FragmentQueues, Snmp};
use weir_kernel::namespaces::NetNs;
use weir_program::output::say;

/// What had been counted when it began.
pub(super) struct Watch {
    ns: NetNs,
    before: Snmp,
}

impl Watch {
    /// Begins in the calling thread's network namespace. `None`: the kernel does not tell.
    pub(super) fn begin() -> Option<Self> {
        let ns = NetNs::current().ok()?;
        let before = counters::snmp(&ns).ok()?;
        Some(Self { ns, before })
    }

    /// What has been counted since.
    pub(super) fn end(&self) -> Option<Fragments> {
        let counted = counters::snmp(&self.ns).ok()?.since(&self.before);
        let waiting = counters::reassembly(&self.ns).unwrap_or_default();
        Some(Fragments {
            ipv4: Reassembly::of("Ip", &counted, Some(waiting.ipv4)),
            ipv6: Reassembly::of("Ip6", &counted, waiting.ipv6),
        })
    }
}

/// Of all programs of the network namespace. Null: the kernel does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fragments {
    ipv4: Option<Reassembly>,
    ipv6: Option<Reassembly>,
}

impl Fragments {
    pub(super) fn print(&self) {
        for (of, protocol, sysctl) in
            [(self.ipv4, "IPv4", "net.ipv4.ipfrag_high_thresh"), (self.ipv6, "IPv6", "net.ipv6.ip6frag_high_thresh")]
        {
            for line in of.map(|of| of.lines(protocol, sysctl)).unwrap_or_default() {
                say!("fragments     {line}");
            }
        }
    }
}

/// Datagrams and fragments of IPv4 or IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Reassembly {
    /// Datagrams that were given up, and fragments that were refused (ReasmFails).
    failures: u64,
    /// The former alone: not all fragments had come in time (ReasmTimeout; net.ipv4.ipfrag_time, 30 s).
    timeouts: u64,
    /// Datagrams that waited for more fragments at the end; in neither count.
    waiting: u64,
    /// Whether the memory for these was nearly full at the end.
    memory_full: bool,
}

impl Reassembly {
    fn of(protocol: &str, counted: &Snmp, queues: Option<FragmentQueues>) -> Option<Self> {
        let count = |name: &str| counted.get(protocol, name).map(|count| u64::try_from(count).unwrap_or(0));
        let queues = queues.unwrap_or_default();
        // Fragments of several KiB find no room before the last byte is taken.
        let nearly = |most: u64| queues.memory.saturating_mul(4) >= most.saturating_mul(3);
        Some(Self {
            failures: count("ReasmFails")?,
            timeouts: count("ReasmTimeout").unwrap_or(0),
            waiting: queues.datagrams,
            memory_full: queues.high_threshold.is_some_and(nearly),
        })
    }

    fn lines(self, protocol: &str, sysctl: &str) -> Vec<String> {
        let whose = "of all programs of this network namespace";
        let refused = self.failures.saturating_sub(self.timeouts);
        let mut lines = Vec::new();
        if self.timeouts > 0 {
            lines.push(format!(
                "{} datagrams of {protocol} could not be put together, {whose}: fragments of them did not come",
                self.timeouts
            ));
        }
        if refused > 0 {
            let why = if self.memory_full {
                format!("memory for them was full: raise the sysctl {sysctl}")
            } else {
                format!(
                    "memory for them was full for a time (the sysctl {sysctl} raises it), or they did not fit together"
                )
            };
            lines.push(format!("{refused} of {protocol} could not be put together, {whose}: {why}"));
        }
        if self.waiting > 0 {
            lines.push(format!("{} datagrams of {protocol} still waited for some, {whose}", self.waiting));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread;
    use std::time::Duration;

    use socket2::{Domain, Protocol, Socket, Type};
    use weir_kernel::links::Netlink;
    use weir_kernel::sysctl;

    use super::*;

    /// A first fragment, of which no other follows.
    fn send(ns: &NetNs, identification: u8) {
        // More follow: the flag of the third word. The kernel fills in length and checksum.
        let mut packet = [0; 20 + 64];
        packet[0] = 0x45;
        packet[4..10].copy_from_slice(&[0x12, identification, 0x20, 0, 64, 17]);
        packet[12..20].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
        let to: SocketAddr = "127.0.0.1:0".parse().unwrap();
        ns.run(|| {
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW))).unwrap();
            raw.send_to(&packet, &to.into()).unwrap();
        })
        .unwrap();
    }

    /// The header is written by whoever sends.
    const IPPROTO_RAW: i32 = 255;

    /// What is told once it is as it should be: the kernel may take its time.
    fn await_told(watch: &Watch, is_so: impl Fn(Reassembly) -> bool) -> Reassembly {
        for _ in 0..10_000 {
            let told = watch.end().unwrap().ipv4.unwrap();
            if is_so(told) {
                return told;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("{:?}", watch.end());
    }

    #[test]
    fn what_waits_and_what_finds_no_room_is_told() {
        let ns = NetNs::create().unwrap();
        Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
        let watch = ns.run(Watch::begin).unwrap().unwrap();
        send(&ns, 1);
        let told = await_told(&watch, |told| told.waiting > 0);
        assert_eq!(told, Reassembly { waiting: 1, ..Reassembly::default() });
        // No room at all.
        sysctl::set(&ns, &[("ipv4/ipfrag_low_thresh", "0"), ("ipv4/ipfrag_high_thresh", "0")]).unwrap();
        send(&ns, 2);
        let told = await_told(&watch, |told| told.failures > 0);
        assert_eq!((told.failures, told.timeouts, told.memory_full), (1, 0, true));
    }

    #[test]
    fn a_remark_says_how_many_why_and_what_helps() {
        let told = |failures, timeouts, waiting, memory_full| {
            Reassembly { failures, timeouts, waiting, memory_full }.lines("IPv4", "net.x")
        };
        assert_eq!(told(0, 0, 0, true), Vec::<String>::new());
        assert_eq!(
            told(9, 2, 3, true),
            [
                "2 datagrams of IPv4 could not be put together, of all programs of this network namespace: fragments of them \
                 did not come",
                "7 of IPv4 could not be put together, of all programs of this network namespace: memory for them was full: \
                 raise the sysctl net.x",
                "3 datagrams of IPv4 still waited for some, of all programs of this network namespace",
            ]
        );
        assert!(
            told(1, 0, 0, false)[0].ends_with("for a time (the sysctl net.x raises it), or they did not fit together")
        );
    }
}
