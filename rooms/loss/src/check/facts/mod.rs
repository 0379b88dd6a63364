//! What is known of the machine: everything that findings are made of, and nothing else, so that findings are a function
//! of it. `None` is unknown, and nothing is found wrong with it.

mod collect;
mod interfaces;
mod losses;
mod receivers;

use std::net::SocketAddr;

use serde::Serialize;

use super::seen::Seen;

pub use collect::{Look, Scope, collect};
pub use losses::Lost;

/// All facts, as they were during one short look.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Seconds for which counters were watched.
    pub watched_s: f64,
    /// Processors that are online.
    pub processors: usize,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// What a datagram of the load's payload takes.
    pub truesize: Truesize,
    /// Settings that hold for the whole machine, and for the namespace.
    pub settings: Sysctls,
    /// Bytes of a page.
    pub page: Option<u64>,
    /// Pages that all UDP sockets hold (/proc/net/sockstat).
    pub udp_pages: Option<u64>,
    /// The receive path of each processor.
    pub softnet: Vec<Softnet>,
    /// Sockets that were asked for.
    pub receivers: Vec<Receiver>,
    /// Other sockets that have dropped something since they were opened, the worst now first.
    pub losing: Vec<Receiver>,
    /// What was lost while we looked, the most first.
    pub losses: Vec<Lost>,
    /// What came, where the load was taken from it; null: it was stated.
    pub seen: Option<Seen>,
    /// Whether the payload of the load is the mean of what came, and not stated.
    pub payload_is_mean: bool,
    /// Interfaces that datagrams may come in by.
    pub interfaces: Vec<Interface>,
    /// Bridges of the namespace.
    pub bridges: Vec<Bridge>,
    /// Datagrams that the reverse path filter dropped (TcpExt IPReversePathFilter).
    pub reverse_path_drops: Option<Counted>,
    /// Datagrams of which fragments were missing (Ip ReasmFails).
    pub reassembly_failures: Option<Counted>,
    /// Datagrams that found UDP's memory used up (Udp MemErrors).
    pub memory_errors: Option<Counted>,
    /// Connection tracking; `None`: not loaded, or not to be seen.
    pub tracking: Option<Tracking>,
    /// Whether a multicast group is received.
    pub group: bool,
    /// What could not be seen, and why, a line each.
    pub unseen: Vec<String>,
}

/// A counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Since boot, or since the object was made.
    pub total: u64,
    /// While we watched.
    pub recent: u64,
}

/// The memory of a datagram in a receive buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Truesize {
    /// Bytes.
    pub bytes: u64,
    /// Where it was measured.
    pub source: String,
}

/// Sysctls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sysctls {
    /// net.core.rmem_max: the most a program may ask for, bytes; it gets twice that.
    pub rmem_max: Option<u64>,
    /// net.core.rmem_default: what a socket has that asks for nothing, bytes.
    pub rmem_default: Option<u64>,
    /// net.core.netdev_max_backlog: packets a processor's backlog holds.
    pub netdev_max_backlog: Option<u64>,
    /// net.core.netdev_budget: packets a round of packet work may take.
    pub netdev_budget: Option<u64>,
    /// net.core.netdev_budget_usecs: how long it may take.
    pub netdev_budget_usecs: Option<u64>,
    /// net.ipv4.udp_mem, pages: all UDP sockets together; the last is the hard limit.
    pub udp_mem: Option<[u64; 3]>,
}

/// The receive path of a processor (/proc/net/softnet_stat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Softnet {
    /// Its number.
    pub cpu: u32,
    /// Packets.
    pub processed: Counted,
    /// Packets dropped because the backlog was full.
    pub dropped: Counted,
    /// Rounds that ended with packets still waiting.
    pub squeezed: Counted,
}

/// A running receiver.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Receiver {
    /// Where it receives.
    pub address: SocketAddr,
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// The number of its inode.
    #[serde(skip)]
    pub inode: u32,
    /// Who has it open; `None`: not to be seen.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// Its receive buffer, bytes as the kernel accounts them (twice what was asked for).
    pub buffer: u64,
    /// Bytes in it at the end.
    pub level: u64,
    /// Drops of the socket.
    pub drops: Counted,
    /// Whether datagrams waited and nothing was read in all the time that we looked; only where it was traced.
    pub hangs: bool,
}

impl Receiver {
    /// Its address and who has it.
    pub(super) fn who(&self) -> String {
        match (&self.process, self.pid) {
            (Some(process), Some(pid)) => format!("{} ({process}, pid {pid})", self.address),
            _ => self.address.to_string(),
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Largest IP packet, bytes.
    pub mtu: u64,
    /// Mbit/s; `None`: it has none, as virtual ones.
    pub speed_mbit: Option<u64>,
    /// Whether a card is behind it.
    pub hardware: bool,
    /// Whether packets reach the stack through the processors' backlog: loopback and veth.
    pub through_backlog: bool,
    /// The bridge it is a port of.
    pub bridge: Option<String>,
    /// The receive ring; `None`: it has none, or does not tell.
    pub ring: Option<Ring>,
    /// Interrupt moderation, likewise.
    pub moderation: Option<Moderation>,
    /// Pause frames (802.3x), likewise.
    pub pause: Option<Pause>,
    /// Receive queues.
    pub queues: Vec<Queue>,
    /// Most receive queues that it could have; `None`: it does not tell.
    pub most_queues: Option<u32>,
    /// Frames that found the ring full.
    pub ring_drops: Counted,
    /// The reverse path filter in force: 0 off, 1 strict, 2 loose.
    pub rp_filter: Option<u8>,
    /// Whether the default route leads through it; `None`: there is none.
    pub default_route: Option<bool>,
}

/// A receive ring, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ring {
    /// In force.
    pub length: u64,
    /// Possible.
    pub most: u64,
}

/// How a card holds interrupts back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moderation {
    /// Microseconds after a frame.
    pub usecs: u64,
    /// Frames after which it interrupts all the same; 0: no such limit.
    pub frames: u64,
    /// Whether the driver chooses.
    pub adaptive: bool,
}

/// Pause frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Whether the card obeys them.
    pub obeys: bool,
    /// Whether it sends them when its ring is nearly full.
    pub sends: bool,
}

/// A receive queue of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Its number.
    pub number: u32,
    /// Processors that it hands packets to (rps_cpus).
    pub steered_to: usize,
}

/// A bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// Whether it forwards groups only to those who asked.
    pub snoops: bool,
    /// Whether it asks who listens.
    pub asks: bool,
    /// Whether anybody is known to ask; `None`: it does not tell.
    pub asked: Option<bool>,
    /// Ports with a known speed: name and Mbit/s.
    pub ports: Vec<(String, u64)>,
}

/// Connection tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tracking {
    /// Entries in the namespace.
    pub entries: u64,
    /// Most entries; `None`: not to be seen.
    pub most: Option<u64>,
    /// Packets dropped because an entry could not be made.
    pub drops: Counted,
}
