//! What is known at one moment: running totals since the watch began, and how fast they grow. As JSON it is one line of
//! `--json`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;

use serde::{Serialize, Serializer};
use weir_units::format::shown;

use super::rows;
use crate::places::Place;
use crate::reading::Loss;

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// Of this form: 1.
    pub version: u32,
    /// When it was read, in UTC: `2026-07-01T12:00:00.000Z`.
    pub time: String,
    /// Seconds since the watch began.
    pub elapsed_s: f64,
    /// Seconds since the snapshot before; `None`: it is the first, and has no rates.
    pub interval_s: Option<f64>,
    /// Where the numbers come from.
    pub sources: Sources,
    /// UDP sockets that are open.
    pub sockets: Vec<Socket>,
    /// Drops as eBPF saw them, by place; empty without it. In JSON each port of those that lose most alone.
    #[serde(serialize_with = "rows::serialize")]
    pub drops: Vec<Drops>,
    /// Drops as the kernel's own counters have them, by place; those of sockets are with the sockets. In JSON only what
    /// has counted something.
    #[serde(serialize_with = "those_that_counted")]
    pub counted: Vec<Counted>,
    /// Processors that are online.
    pub processors: Vec<Processor>,
    /// Hardware interrupts, over all processors; `None`: /proc does not tell.
    pub interrupts: Option<Count>,
    /// Interfaces.
    pub interfaces: Vec<Interface>,
    /// Network namespaces that are watched.
    pub namespaces: Vec<Namespace>,
    /// What could not be read, a line each.
    pub notes: Vec<String>,
}

/// A total since the watch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Count {
    /// How many.
    pub total: u64,
    /// How many more a second since the snapshot before; `None`: there is none.
    pub per_s: Option<f64>,
}

/// Where the numbers come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sources {
    /// What eBPF traces: `everything`, `queues`, `drops`, `off`, or `starting`.
    pub trace: &'static str,
    /// Why it does not trace as much as it was asked to, in one line.
    pub trace_refused: Option<String>,
    /// Events that could not be counted: unless 0, what is traced are lower bounds.
    pub trace_missed: u64,
    /// Datagrams dropped that are told without their port: too many others were.
    pub trace_missed_ports: u64,
    /// Sockets of which what was counted gave way to others: those that are open have `lower_bound`, or are unknown.
    pub trace_missed_sockets: u64,
    /// Datagrams dropped of which nobody can tell whether it was in a namespace that is watched: they are in no count.
    pub trace_missed_namespaces: u64,
}

/// A UDP socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Socket {
    /// Where it is bound: `10.0.0.2:5000`, `[::]:5000`.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// Its cookie, which no other socket since boot has; `None`: the kernel has no sock_diag.
    pub cookie: Option<u64>,
    /// Inode number of its network namespace.
    pub namespace: u32,
    /// Process that has it open; `None`: that is not told without privilege, or the kernel itself has it.
    pub pid: Option<u32>,
    /// Name of that process.
    pub process: Option<String>,
    /// Datagrams that the program read; `None` without eBPF.
    pub received: Option<Count>,
    /// Their bytes.
    pub received_bytes: Option<Count>,
    /// Whether eBPF has counted more of it, which gave way to other sockets: what is traced of it is a lower bound.
    pub lower_bound: bool,
    /// Memory that its receive queue takes now, bytes of truesize.
    pub queue_bytes: u64,
    /// The most that was seen since the watch began: of every datagram with eBPF, else of every snapshot.
    pub queue_max_bytes: u64,
    /// What it may take (SO_RCVBUF as granted), bytes of truesize; `None`: the kernel has no sock_diag.
    pub buffer_bytes: Option<u64>,
    /// Datagrams dropped at the socket (SK_MEMINFO): buffer full, checksum wrong, filtered. With UDP_GRO the kernel counts
    /// joined datagrams as one; `places` do not.
    pub drops: Count,
    /// Its drops by place, as eBPF saw them; empty without it.
    pub places: Vec<SocketDrops>,
    /// The longest time that datagrams waited and nobody read, ms; `None` without eBPF.
    pub longest_stall_ms: Option<f64>,
}

/// A socket's drops at one place, since the watch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SocketDrops {
    /// Where.
    pub place: Place,
    /// How many.
    pub datagrams: u64,
}

/// Datagrams dropped at one place, as eBPF saw them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drops {
    /// Inode number of the network namespace; `None`: nothing tells it any more (a queue that was thrown away with its
    /// socket), and no socket of that port is known.
    pub namespace: Option<u32>,
    /// Destination port; 0: a fragment whose first piece was never seen; `None`: of any, for there were too many others to
    /// tell it.
    pub port: Option<u16>,
    /// Where.
    pub place: Place,
    /// The kernel's drop reason; empty before Linux 5.17.
    pub reason: String,
    /// The function that dropped it; empty where /proc/kallsyms is hidden.
    pub function: String,
    /// How many.
    pub datagrams: Count,
    /// Rows with a port that are summed here: a line has no room for all.
    pub rows: usize,
}

/// What a counter of the kernel says of a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counted {
    /// Inode number of the network namespace; `None`: the counter is the machine's.
    pub namespace: Option<u32>,
    /// Where.
    pub place: Place,
    /// The counter: `Udp.NoPorts`, `softnet.dropped`, `eth0 rx_missed`.
    pub counter: String,
    /// How many; packets, where the counter does not know datagrams.
    pub datagrams: Count,
    /// Of these, how many before eBPF was attached; 0 without eBPF.
    pub before_trace: u64,
    /// Whether the card counted it, so that eBPF saw nothing.
    #[serde(skip)]
    pub of_card: bool,
}

/// How a processor spent its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Processor {
    /// Its number.
    pub cpu: u32,
    /// In hardware interrupts.
    pub irq: Time,
    /// In software interrupts, where packets are received.
    pub softirq: Time,
    /// In the kernel for programs.
    pub system: Time,
    /// In programs.
    pub user: Time,
    /// In nothing.
    pub idle: Time,
    /// Taken by the host of this virtual machine.
    pub steal: Time,
    /// NET_RX software interrupts; `None`: /proc/softirqs does not tell.
    pub net_rx: Option<Count>,
}

/// Time since the watch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Time {
    /// Seconds.
    pub total_s: f64,
    /// Share of the time since the snapshot before, percent; `None`: there is none.
    pub pct: Option<f64>,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interface {
    /// Inode number of its network namespace.
    pub namespace: u32,
    /// Its name.
    pub name: String,
    /// Packets that came in.
    pub received: Count,
    /// Packets that went out.
    pub sent: Count,
    /// Packets lost coming in, by whatever counter of the interface.
    pub receive_drops: Count,
    /// Packets lost going out, those of its queue (qdisc) included.
    pub send_drops: Count,
}

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Namespace {
    /// Its inode number.
    pub inode: u32,
    /// What it is called: as `ip netns` does, or by a process in it.
    pub name: String,
    /// Buffers handed to UDP sockets (Udp and Udp6 InDatagrams): the kernel's count, in which joined datagrams are one.
    pub received: Count,
}

impl Snapshot {
    /// Fills in how fast everything has grown since `before`. What was not there then has grown from 0.
    pub fn pace(&mut self, before: &Snapshot) {
        let span = self.elapsed_s - before.elapsed_s;
        if span <= 0.0 {
            return;
        }
        self.interval_s = Some(span);
        let known = index(&before.sockets, |socket| (socket.namespace, socket.cookie, socket.address.as_str()));
        for socket in &mut self.sockets {
            let before = known.get(&(socket.namespace, socket.cookie, socket.address.as_str())).copied();
            socket.drops.pace(before.map(|before| before.drops), span);
            pace(&mut socket.received, before.and_then(|before| before.received), span);
            pace(&mut socket.received_bytes, before.and_then(|before| before.received_bytes), span);
        }
        let known = index(&before.drops, Drops::key);
        let counts: Vec<_> =
            self.drops.iter().map(|drops| known.get(&drops.key()).map(|known| known.datagrams)).collect();
        self.drops.iter_mut().zip(counts).for_each(|(drops, before)| drops.datagrams.pace(before, span));
        let known = index(&before.counted, Counted::key);
        let counts: Vec<_> =
            self.counted.iter().map(|counted| known.get(&counted.key()).map(|known| known.datagrams)).collect();
        self.counted.iter_mut().zip(counts).for_each(|(counted, before)| counted.datagrams.pace(before, span));
        let known = index(&before.processors, |processor| processor.cpu);
        for processor in &mut self.processors {
            if let Some(before) = known.get(&processor.cpu) {
                processor.pace(before, span);
            }
        }
        pace(&mut self.interrupts, before.interrupts, span);
        let known = index(&before.interfaces, |interface| (interface.namespace, interface.name.as_str()));
        for now in &mut self.interfaces {
            let before = known.get(&(now.namespace, now.name.as_str())).copied();
            now.received.pace(before.map(|before| before.received), span);
            now.sent.pace(before.map(|before| before.sent), span);
            now.receive_drops.pace(before.map(|before| before.receive_drops), span);
            now.send_drops.pace(before.map(|before| before.send_drops), span);
        }
        let known = index(&before.namespaces, |namespace| namespace.inode);
        for now in &mut self.namespaces {
            now.received.pace(known.get(&now.inode).map(|before| before.received), span);
        }
    }

    /// Puts what loses most first, and of what loses nothing what is busiest.
    pub fn sort(&mut self) {
        self.sockets.sort_by(|one, other| by(Sort::Drops, one, other));
        self.drops
            .sort_by(|one, other| worst(one.datagrams, other.datagrams).then_with(|| one.names().cmp(&other.names())));
        self.counted
            .sort_by(|one, other| worst(one.datagrams, other.datagrams).then_with(|| one.key().cmp(&other.key())));
        let lost = |interface: &Interface| interface.receive_drops.plus(interface.send_drops);
        let passed = |interface: &Interface| interface.received.plus(interface.sent);
        self.interfaces.sort_by(|one, other| {
            worst(lost(one), lost(other))
                .then_with(|| worst(passed(one), passed(other)))
                .then_with(|| (one.namespace, &one.name).cmp(&(other.namespace, &other.name)))
        });
    }

    /// The same with all that others have named as a terminal may have it.
    pub(crate) fn shown(&self) -> Snapshot {
        let mut now = self.clone();
        let sockets = now
            .sockets
            .iter_mut()
            .flat_map(|socket| [Some(&mut socket.address), socket.process.as_mut()].into_iter().flatten());
        let drops = now.drops.iter_mut().flat_map(|drops| [&mut drops.reason, &mut drops.function]);
        let counted = now.counted.iter_mut().map(|counted| &mut counted.counter);
        let interfaces = now.interfaces.iter_mut().map(|interface| &mut interface.name);
        let namespaces = now.namespaces.iter_mut().map(|namespace| &mut namespace.name);
        let said = now.notes.iter_mut().chain(&mut now.sources.trace_refused);
        for name in sockets.chain(drops).chain(counted).chain(interfaces).chain(namespaces).chain(said) {
            if let Cow::Owned(escaped) = shown(name) {
                *name = escaped;
            }
        }
        now
    }

    /// What a namespace is called; its number where it has no name.
    pub fn name_of(&self, inode: u32) -> String {
        let known = self.namespaces.iter().find(|namespace| namespace.inode == inode && !namespace.name.is_empty());
        known.map_or_else(|| inode.to_string(), |namespace| namespace.name.clone())
    }
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// What loses most; then what is busiest.
    #[default]
    Drops,
    /// What is busiest.
    Rate,
    /// What is fullest, now or at its worst.
    Buffer,
    /// Whose reader stalled longest.
    Stall,
    /// The lowest port.
    Port,
}

/// The order of two sockets.
pub(crate) fn by(sort: Sort, one: &Socket, other: &Socket) -> std::cmp::Ordering {
    let drops = || worst(one.drops, other.drops);
    let rate = || worst(one.received.unwrap_or_default(), other.received.unwrap_or_default());
    let buffer = || other.share(other.queue_bytes).total_cmp(&one.share(one.queue_bytes));
    let most = || other.share(other.queue_max_bytes).total_cmp(&one.share(one.queue_max_bytes));
    let stall = || other.longest_stall_ms.unwrap_or(0.0).total_cmp(&one.longest_stall_ms.unwrap_or(0.0));
    let port = || {
        (one.port, one.namespace, &one.address, one.cookie).cmp(&(
            other.port,
            other.namespace,
            &other.address,
            other.cookie,
        ))
    };
    match sort {
        Sort::Drops => drops().then_with(rate),
        Sort::Rate => rate().then_with(drops),
        Sort::Buffer => buffer().then_with(most),
        Sort::Stall => stall().then_with(drops),
        Sort::Port => port(),
    }
    .then_with(most)
    .then_with(port)
}

/// More a second comes first, then more in total.
pub(super) fn worst(one: Count, other: Count) -> std::cmp::Ordering {
    let per_s = |count: Count| count.per_s.unwrap_or(0.0);
    per_s(other).total_cmp(&per_s(one)).then_with(|| other.total.cmp(&one.total))
}

impl Count {
    /// So many, of no known rate.
    pub fn new(total: u64) -> Self {
        Self { total, per_s: None }
    }

    /// Both together.
    pub fn plus(self, other: Count) -> Count {
        let per_s = self.per_s.zip(other.per_s).map(|(one, other)| one + other);
        Count { total: self.total + other.total, per_s }
    }

    fn pace(&mut self, before: Option<Count>, span: f64) {
        let more = self.total.saturating_sub(before.unwrap_or_default().total);
        self.per_s = Some(more as f64 / span);
    }
}

/// What was not known before has no rate: where eBPF begins late, its first totals are not one interval's.
fn pace(now: &mut Option<Count>, before: Option<Count>, span: f64) {
    if let (Some(now), Some(before)) = (now, before) {
        now.pace(Some(before), span);
    }
}

impl Socket {
    /// So much of its buffer, 1 for all of it; 0 where that is not known.
    pub fn share(&self, bytes: u64) -> f64 {
        self.buffer_bytes.map_or(0.0, |buffer| bytes as f64 / buffer.max(1) as f64)
    }
}

impl Processor {
    /// How its time was spent, by name.
    pub fn modes(&self) -> [(&'static str, Time); 6] {
        [
            ("irq", self.irq),
            ("softirq", self.softirq),
            ("system", self.system),
            ("user", self.user),
            ("idle", self.idle),
            ("steal", self.steal),
        ]
    }

    fn pace(&mut self, before: &Processor, span: f64) {
        let was = before.modes();
        let modes =
            [&mut self.irq, &mut self.softirq, &mut self.system, &mut self.user, &mut self.idle, &mut self.steal];
        let more: Vec<f64> =
            modes.iter().zip(was).map(|(now, (_, was))| (now.total_s - was.total_s).max(0.0)).collect();
        // Ticks are coarse, and a processor that sleeps may be counted late: shares of what was counted add up to 100.
        let all = more.iter().sum::<f64>();
        for (now, more) in modes.into_iter().zip(&more) {
            now.pct = (all > 0.0).then(|| more / all * 100.0);
        }
        pace(&mut self.net_rx, before.net_rx, span);
    }
}

impl Drops {
    /// What tells it from others.
    pub fn key(&self) -> DropsKey {
        (self.namespace, self.port, self.place, self.reason.clone(), self.function.clone())
    }

    /// The same, borrowed.
    pub(super) fn names(&self) -> (Option<u32>, Option<u16>, Place, &str, &str) {
        (self.namespace, self.port, self.place, &self.reason, &self.function)
    }
}

/// Namespace, port, place, reason and function.
pub(crate) type DropsKey = (Option<u32>, Option<u16>, Place, String, String);

/// Namespace, place and counter.
pub(crate) type CountedKey = (Option<u32>, Place, String);

impl Counted {
    /// What a counter of a namespace, or of the machine, tells since the watch began.
    pub fn new(namespace: Option<u32>, loss: Loss) -> Counted {
        Counted {
            namespace,
            place: loss.place,
            of_card: loss.of_card,
            counter: loss.name,
            datagrams: Count::new(loss.packets),
            before_trace: 0,
        }
    }

    /// What tells it from others.
    pub fn key(&self) -> CountedKey {
        (self.namespace, self.place, self.counter.clone())
    }
}

fn those_that_counted<S: Serializer>(all: &[Counted], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().filter(|counted| counted.datagrams.total > 0))
}

fn index<'a, T, K: Eq + Hash>(all: &'a [T], key: impl Fn(&'a T) -> K) -> HashMap<K, &'a T> {
    all.iter().map(|one| (key(one), one)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn rates_are_what_was_added_over_the_time_it_took() {
        let now = fixture::at(60);
        assert_eq!(now.interval_s, Some(1.0));
        let busy = now.sockets.iter().find(|socket| socket.port == 5000).unwrap();
        assert_eq!(busy.received.unwrap().per_s, Some(12_000.0));
        assert_eq!(busy.drops, Count { total: 60_000, per_s: Some(1_000.0) });
        // The first has none.
        let first = fixture::first();
        assert!(first.interval_s.is_none() && first.sockets.iter().all(|socket| socket.drops.per_s.is_none()));
    }

    #[test]
    fn what_begins_between_two_snapshots_has_grown_from_nothing() {
        let before = fixture::at(59);
        let mut now = fixture::at(60);
        now.drops.push(Drops { port: Some(9), datagrams: Count::new(7), ..now.drops[0].clone() });
        let mut without_trace = before.clone();
        without_trace.sockets.iter_mut().for_each(|socket| socket.received = None);
        now.pace(&without_trace);
        assert_eq!(now.drops.last().unwrap().datagrams.per_s, Some(7.0));
        let mut late = fixture::first();
        late.elapsed_s = 60.0;
        late.pace(&without_trace);
        assert!(late.sockets.iter().all(|socket| socket.received.is_none_or(|received| received.per_s.is_none())));
    }

    #[test]
    fn what_loses_most_comes_first() {
        let mut now = fixture::at(60);
        now.sort();
        let ports = |now: &Snapshot| now.sockets.iter().map(|socket| socket.port).collect::<Vec<_>>();
        assert_eq!(ports(&now), [5000, 514, 8125, 53]);
        now.sockets.sort_by(|one, other| by(Sort::Port, one, other));
        assert_eq!(ports(&now), [53, 514, 5000, 8125]);
        now.sockets.sort_by(|one, other| by(Sort::Stall, one, other));
        assert_eq!(ports(&now)[0], 5000);
        assert_eq!(now.drops[0].place, Place::ReceiveBuffer);
        assert_eq!(now.interfaces[0].name, "eth0");
    }

    #[test]
    fn shares_of_a_processor_add_up() {
        let now = fixture::at(60);
        for processor in &now.processors {
            let sum: f64 = processor.modes().iter().map(|(_, time)| time.pct.unwrap()).sum();
            assert!((sum - 100.0).abs() < 1e-9, "{processor:?}");
        }
    }
}
