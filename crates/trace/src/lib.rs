//! What happens to UDP datagrams inside the kernel, counted by eBPF programs at tracepoints.
//!
//! The programs are C (`bpf/loss.bpf.c`), compiled beforehand (`make bpf`); offsets and the names of drop reasons come
//! from the running kernel's own type information (BTF). A [`Tracer`] counts inside the kernel, in maps; nothing is sent
//! to user space per datagram.

mod btf;
mod closed;
mod extras;
#[doc(hidden)]
pub mod foreign;
pub mod packets;
mod programs;
mod samples;
mod symbols;
mod sys;
mod totals;
mod types;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use weir_kernel::Error;

pub use extras::{Extras, Prefixes};
pub use samples::{Sample, Samples};
pub use types::drop_reasons;

/// Where a kernel keeps its type information.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Counts for as long as it lives.
pub struct Tracer {
    programs: programs::Programs,
    totals: totals::Totals,
}

impl Tracer {
    /// Loads what the kernel permits of `detail` and begins to count what `filter` names.
    ///
    /// # Errors
    /// In one line with the remedy: no privilege (CAP_BPF and CAP_PERFMON, or inside a user namespace), no type
    /// information, or not even drops can be traced.
    pub fn start(detail: Detail, filter: &Filter) -> Result<Tracer, Error> {
        Tracer::start_with_types(Path::new(BTF), detail, filter)
    }

    /// As [`Tracer::start`], telling more than counts.
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn start_with(detail: Detail, filter: &Filter, extras: &Extras) -> Result<Tracer, Error> {
        Tracer::load(Path::new(BTF), detail, filter, extras)
    }

    /// As [`Tracer::start`], with the kernel's type information from another file: to show what happens on a kernel that
    /// lacks a feature.
    ///
    /// # Errors
    /// As [`Tracer::start`].
    pub fn start_with_types(types: &Path, detail: Detail, filter: &Filter) -> Result<Tracer, Error> {
        Tracer::load(types, detail, filter, &Extras::default())
    }

    fn load(types: &Path, detail: Detail, filter: &Filter, extras: &Extras) -> Result<Tracer, Error> {
        let types = types::Types::read(types)?;
        let programs = programs::Programs::load(&types, detail, filter, extras)?;
        Ok(Tracer { programs, totals: totals::Totals::new(&types) })
    }

    /// How much is traced: less than was asked for where [`Tracer::refused`] names something.
    pub fn detail(&self) -> Detail {
        self.programs.detail
    }

    /// What this kernel does not have or permit, one line each with the reason.
    pub fn refused(&self) -> &[String] {
        &self.programs.refused
    }

    /// Follows something else from now on. What was counted stays.
    ///
    /// # Errors
    /// If more namespaces are named than there is room for (4096).
    pub fn follow(&mut self, filter: &Filter) -> Result<(), Error> {
        self.programs.follow(filter)
    }

    /// Totals since the start.
    ///
    /// # Errors
    /// If the kernel refuses to read a map.
    pub fn read(&mut self) -> Result<Trace, Error> {
        self.totals.read(&self.programs)
    }

    /// Samples taken so far ([`Extras::samples`]).
    ///
    /// # Errors
    /// If the kernel refuses to read a map.
    pub fn samples(&mut self) -> Result<Samples, Error> {
        self.totals.samples(&self.programs)
    }

    /// Removes the states of closed sockets, so that a trace may go on for ever; to be called after [`Tracer::read`], with what
    /// is `open` (by cookie) by then.
    ///
    /// # Errors
    /// If the kernel refuses to change a map.
    pub fn remove_closed(&mut self, open: impl Fn(u64) -> bool) -> Result<(), Error> {
        self.totals.remove_closed(&mut self.programs, open)
    }
}

/// How much is traced. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Detail {
    /// Drops alone (`kfree_skb`).
    Drops,
    /// And of each socket: what is put into its queue and read from it, the queue's level, its reader's stalls.
    Queues,
    /// And what arrives, departs and is sent, by port.
    Everything,
}

impl Detail {
    /// In a word, as flags and JSON have it.
    pub fn name(self) -> &'static str {
        match self {
            Detail::Drops => "drops",
            Detail::Queues => "queues",
            Detail::Everything => "everything",
        }
    }
}

/// What is followed. Empty lists follow everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// UDP ports a datagram goes to.
    pub ports: Vec<u16>,
    /// Inode numbers of network namespaces (`/proc/PID/ns/net`).
    pub namespaces: Vec<u32>,
}

/// Running totals since the tracer started. They never go back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Datagrams that were dropped. Port 0: those of ports that gave way to others ([`Missed::ports`]), by place and reason.
    /// Namespace 0: those that were lost out of a receive queue, by its closed socket or with a wrong checksum; theirs may be one
    /// that is not followed.
    pub drops: Vec<Drop>,
    /// Datagrams handed to a namespace's protocols by an interface (`netif_receive_skb`), those of bridge ports left
    /// out; of bonds and macvlan the lower interface is told.
    pub arrivals: Vec<InterfaceCount>,
    /// Datagrams handed to an interface's queue (`net_dev_queue`), before its qdisc. What sockets that are not connected
    /// sent to ports that are not followed is there, too, as port 0: their calls do not tell where they go.
    pub departures: Vec<InterfaceCount>,
    /// Calls that send, by socket and result (`sock_send_length`).
    pub sends: Vec<Sends>,
    /// Sockets that took or gave datagrams.
    pub sockets: Vec<SocketTrace>,
    /// Datagrams whose first fragment came and which wait for others now.
    pub reassembling: u64,
    /// What came from whom, and what of it was lost ([`Extras::by_source`]).
    pub by_source: BySource,
    /// Cookies of sockets that descendants of this process have used ([`Extras::descendants`]).
    pub used_by_descendants: BTreeSet<u64>,
    /// What could not be counted.
    pub missed: Missed,
}

/// Counts by source: an address, or the first bits of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BySource {
    /// What came to a namespace, as [`Trace::arrivals`], all its interfaces together.
    pub arrivals: Vec<SourceArrivals>,
    /// What was dropped, as [`Trace::drops`], of which interface and source port are left out (0), and cookies of senders.
    pub drops: Vec<(IpAddr, Drop)>,
    /// Counts that gave way to others', at least: unless 0, the others are lower bounds.
    pub evicted: u64,
}

/// Datagrams of one source that came to a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceArrivals {
    /// Who sent them.
    pub source: IpAddr,
    /// The network namespace's inode number.
    pub namespace: u32,
    /// Destination port.
    pub port: u16,
    /// Datagrams.
    pub datagrams: u64,
}

/// Events that could not be counted: a map was full, a program was interrupted by itself, or the kernel skipped it, as far as that
/// shows. Unless 0, what they are of is a lower bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Missed {
    /// Datagrams dropped.
    pub drops: u64,
    /// Datagrams dropped of which only place and reason are known.
    pub ports: u64,
    /// Datagrams put into or read from a queue.
    pub queues: u64,
    /// Sockets whose state gave way to others', with all that was counted of them; of those that are still open it begins
    /// anew.
    pub sockets: u64,
    /// Datagrams that arrived or departed.
    pub passages: u64,
    /// Calls that send.
    pub sends: u64,
}

impl Missed {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Missed { drops, ports, queues, sockets, passages, sends } = self;
        drops + ports + queues + sockets + passages + sends
    }

    /// What was missed after `before`.
    #[must_use]
    pub fn since(&self, before: &Missed) -> Missed {
        Missed {
            drops: self.drops.saturating_sub(before.drops),
            ports: self.ports.saturating_sub(before.ports),
            queues: self.queues.saturating_sub(before.queues),
            sockets: self.sockets.saturating_sub(before.sockets),
            passages: self.passages.saturating_sub(before.passages),
            sends: self.sends.saturating_sub(before.sends),
        }
    }
}

/// Datagrams dropped at one place in the kernel. A joined super-packet counts as its datagrams, a fragmented datagram
/// with its first fragment: where another is lost, the kernel drops the first when it gives the datagram up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drop {
    /// Name of the drop reason without `SKB_DROP_REASON_`: `SOCKET_RCVBUFF`. Kernels before 5.17 have none: empty.
    pub reason: String,
    /// The function that dropped it, `udp_queue_rcv_one_skb`; empty where /proc/kallsyms is hidden.
    pub function: String,
    /// The network namespace's inode number; 0: not known (read from a queue, whose socket nobody could tell).
    pub namespace: u32,
    /// The interface it was received by or leaves by; 0: none yet.
    pub interface: u32,
    /// Cookie of the receiving socket; when `outgoing` of the sending socket; 0: none.
    pub cookie: u64,
    /// Destination port; 0: others.
    pub port: u16,
    /// Whether it was being sent (not received by any interface of this namespace yet).
    pub outgoing: bool,
    /// Datagrams.
    pub datagrams: u64,
    /// Kernel buffers (skbs), of which one may hold many datagrams (GRO, GSO).
    pub buffers: u64,
}

impl Drop {
    /// Whether a reader, or who asked whether there is something to read, found its checksum wrong (net/ipv4/udp.c,
    /// net/ipv6/udp.c). Its socket counts it among its drops, and nothing else tells which socket that is.
    pub fn is_found_by_reader(&self) -> bool {
        // The compiler may have split a function: `udp_recvmsg.part.0`.
        let function = self.function.split('.').next().unwrap_or_default();
        let unnamed = self.function.is_empty() && self.reason == "UDP_CSUM" && self.namespace == 0;
        unnamed || FOUND_BY_READER.contains(&function) && self.reason != "QUEUE_PURGE"
    }
}

const FOUND_BY_READER: [&str; 5] =
    ["udp_recvmsg", "udpv6_recvmsg", "__first_packet_length", "first_packet_length", "udp_read_skb"];

/// To whom a datagram comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cast {
    /// One host.
    #[default]
    Unicast,
    /// Those that have joined a group.
    Group,
    /// All hosts of a network.
    Broadcast,
}

/// Datagrams that passed an interface. A fragmented datagram counts once, with its first fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceCount {
    /// The network namespace's inode number.
    pub namespace: u32,
    /// The interface.
    pub interface: u32,
    /// Destination port.
    pub port: u16,
    /// Cookie of the sending socket; 0 for arrivals.
    pub cookie: u64,
    /// To whom they came; departures do not tell.
    pub cast: Cast,
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes, headers of UDP not counted.
    pub bytes: u64,
}

/// Calls of one socket that send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sends {
    /// The socket's cookie.
    pub cookie: u64,
    /// Its network namespace's inode number.
    pub namespace: u32,
    /// Its own port.
    pub from_port: u16,
    /// The port it is connected to; 0: not connected.
    pub port: u16,
    /// 0: sent; else the error number (EPERM: a firewall; ENETUNREACH: no route; EAGAIN: the send buffer is full).
    pub errno: i32,
    /// Calls.
    pub calls: u64,
    /// Datagrams they stood for: more than calls where the socket has UDP_SEGMENT set. One call with UDP_SEGMENT in its
    /// control data counts as one here; `departures` tell the truth of those.
    pub datagrams: u64,
}

/// What one UDP socket took and gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketTrace {
    /// The socket's cookie, as SO_COOKIE and sock_diag tell it.
    pub cookie: u64,
    /// Its network namespace's inode number.
    pub namespace: u32,
    /// Its own port.
    pub port: u16,
    /// Buffers put into the receive queue (`sk_data_ready`), each of which may hold many datagrams (GRO).
    pub enqueued: u64,
    /// Receive calls that returned data (`sock_recv_length`), those that only peek left out.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Datagrams they returned; without UDP_GRO equal to `reads`. `None`: the socket has UDP_GRO on, and its datagrams
    /// were of different sizes.
    pub read_datagrams: Option<u64>,
    /// Memory in the queue when last seen, bytes of truesize.
    pub level: u32,
    /// The most it has been.
    pub level_max: u32,
    /// SO_RCVBUF as the kernel granted it, bytes of truesize.
    pub receive_buffer: u32,
    /// The longest time that datagrams waited and nobody read, ns, one that goes on included.
    pub longest_stall_ns: u64,
    /// Time in which datagrams waited and nobody read, beyond 1 ms each, ns.
    pub stalled_ns: u64,
    /// Time since it was given this state: since the first was put into its queue, ns.
    pub age_ns: u64,
    /// Time in which anything waited, one that goes on included, ns.
    pub waiting_ns: u64,
    /// Buffers that found the receive buffer full.
    pub dropped: u64,
    /// Buffers that were in the queue before the first that was counted; `None`: nothing was counted yet.
    pub queued_before: Option<u64>,
    /// How often the queue ran full and was emptied again, one that goes on included.
    pub episodes: u64,
    /// The most that was dropped in one of these, bytes of truesize: so much more its buffer would have had to hold.
    pub episode_max: u64,
    /// The task that read last: its thread id; 0: none yet.
    pub reader: u32,
    /// Time that its readers were ready to run and did not, ns; `None`: /proc does not tell.
    pub reader_waited_ns: Option<u64>,
}
