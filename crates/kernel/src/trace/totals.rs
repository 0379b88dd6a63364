//! Reads what the programs counted.

use std::collections::{BTreeMap, HashMap};

use aya::Pod;
use aya::maps::{Array, HashMap as KernelMap, Map, PerCpuArray, PerCpuHashMap};
use nix::time::{ClockId, clock_gettime};

use super::features::Types;
use super::programs::{Programs, refusal};
use super::symbols::Symbols;
use super::sys::{
    Counts, DropKey, FragmentKey, Fragmented, InterfaceKey, Key, ReaderValue, SendKey, SocketValue, SoftirqTime,
    Waiting,
};
use super::unread::Unread;
use super::{Detail, Drop, InterfaceCount, Sends, SocketTrace, Trace};
use crate::Error;

/// What is known from one reading to the next.
pub(super) struct Totals {
    reasons: BTreeMap<u32, String>,
    symbols: Symbols,
    unread: Unread,
    /// Times of each socket when it was last read: they never go back.
    times: HashMap<u64, SocketTrace>,
}

/// The kernel gives up fragments after this time (net.ipv4.ipfrag_time), nanoseconds.
const REASSEMBLY_NS: u64 = 30_000_000_000;

/// A stall counts from here on, nanoseconds.
const STALL_NS: u64 = 1_000_000;

impl Totals {
    pub(super) fn new(types: &Types) -> Totals {
        let mut reasons = types.own.enumerators("skb_drop_reason").unwrap_or_default();
        for name in reasons.values_mut() {
            if let Some(short) = name.strip_prefix("SKB_DROP_REASON_") {
                *name = short.to_owned();
            }
        }
        Totals { reasons, symbols: Symbols::default(), unread: Unread::default(), times: HashMap::new() }
    }

    pub(super) fn read(&mut self, programs: &Programs) -> Result<Trace, Error> {
        let mut drops: Vec<(DropKey, Counts)> = counted(programs, "drops")?;
        drops.extend(counted::<DropKey>(programs, "drops_by_port")?);
        let sockets = self.sockets(programs)?;
        let mut drops = self.unread.assign(drops, &sockets);
        if programs.detail >= Detail::Queues && programs.follows_some_namespaces() {
            // Followed sockets are known: these belong to others.
            drops.retain(|(key, _)| key.namespace != 0);
        }
        Ok(Trace {
            drops: self.drops(drops),
            arrivals: interface_counts(programs, "arrivals")?,
            departures: interface_counts(programs, "departures")?,
            sends: sends(programs)?,
            sockets,
            receive_softirq_ns: per_cpu::<SoftirqTime>(programs.map("softirq")?)?
                .iter()
                .map(|time| time.total)
                .collect(),
            reassembling: reassembling(programs)?,
            missed: per_cpu::<u64>(programs.map("missed")?)?.iter().sum::<u64>() + programs.recursions(),
        })
    }

    fn drops(&mut self, counted: Vec<(DropKey, Counts)>) -> Vec<Drop> {
        self.symbols.learn(counted.iter().map(|(key, _)| key.location));
        let drop = |(key, counts): (DropKey, Counts)| Drop {
            reason: match self.reasons.get(&key.reason) {
                _ if self.reasons.is_empty() => String::new(),
                Some(name) => name.clone(),
                // Subsystems have reasons of their own, without names here (include/net/dropreason.h).
                None => format!("{:#x}", key.reason),
            },
            function: self.symbols.name(key.location).to_owned(),
            namespace: key.namespace,
            interface: key.interface,
            cookie: key.cookie,
            port: key.port,
            from_port: key.from_port,
            outgoing: key.outgoing != 0,
            datagrams: counts.first,
            buffers: counts.second,
        };
        counted.into_iter().map(drop).collect()
    }

    fn sockets(&mut self, programs: &Programs) -> Result<Vec<SocketTrace>, Error> {
        let readers = KernelMap::<_, u32, ReaderValue>::try_from(programs.map("readers")?).map_err(unreadable)?;
        let mut sockets = Vec::new();
        for value in states(programs)? {
            let cookie = value.cookie;
            let reader = (value.reader != 0).then(|| readers.get(&value.reader, 0).ok()).flatten();
            let mut socket = socket(cookie, &value, now());
            if let Some(reader) = reader {
                socket.reader_waited_ns = reader.waited;
                socket.reader_longest_wait_ns = reader.longest;
                socket.behind = reader.behind;
            }
            if let Some(before) = self.times.get(&cookie) {
                for (time, before) in socket.level_ns.iter_mut().zip(before.level_ns) {
                    *time = before.max(*time);
                }
                socket.stalled_ns = socket.stalled_ns.max(before.stalled_ns);
                socket.longest_stall_ns = socket.longest_stall_ns.max(before.longest_stall_ns);
                if before.reader != socket.reader {
                    // Another task reads now, of which another time is known.
                    socket.reader_waited_ns = socket.reader_waited_ns.max(before.reader_waited_ns);
                }
            }
            self.times.insert(cookie, socket);
            sockets.push(socket);
        }
        Ok(sockets)
    }
}

/// The state of each socket.
fn states(programs: &Programs) -> Result<Vec<SocketValue>, Error> {
    let slots = Array::<_, SocketValue>::try_from(programs.map("socket_slots")?).map_err(unreadable)?;
    let map = KernelMap::<_, u64, SocketValue>::try_from(programs.map("sockets")?).map_err(unreadable)?;
    let mut states: Vec<SocketValue> = (0..slots.len())
        .filter_map(|slot| steady(|| slots.get(&slot, 0).ok().filter(|state| state.cookie != 0)))
        .collect();
    for cookie in map.keys() {
        let cookie = cookie.map_err(unreadable)?;
        let Some(value) = steady(|| map.get(&cookie, 0).ok()) else { continue };
        // Whoever met a slot while it was being taken has counted here; the rest of the state is in the slot.
        match states.iter_mut().find(|state| state.cookie == cookie) {
            Some(state) => {
                state.enqueued += value.enqueued;
                state.reads += value.reads;
                state.bytes += value.bytes;
                state.datagrams += value.datagrams;
                state.mixed |= value.mixed;
            }
            None => states.push(value),
        }
    }
    Ok(states)
}

/// A value that did not move to another band of the level while it was copied.
fn steady(mut copy: impl FnMut() -> Option<SocketValue>) -> Option<SocketValue> {
    let mut value = copy()?;
    for _ in 0..8 {
        let again = copy()?;
        if again.band == value.band {
            break;
        }
        value = again;
    }
    Some(value)
}

fn socket(cookie: u64, value: &SocketValue, now: u64) -> SocketTrace {
    let mut level_ns = value.band_ns;
    let (since, band) = (value.band >> 3, (value.band & 7) as usize);
    if let Some(time) = level_ns.get_mut(band) {
        *time += now.saturating_sub(since);
    }
    let stall = if value.waiting_since == 0 { 0 } else { now.saturating_sub(value.waiting_since) };
    SocketTrace {
        cookie,
        namespace: value.namespace,
        port: value.port,
        enqueued: value.enqueued,
        reads: value.reads,
        read_bytes: value.bytes,
        read_datagrams: (value.joined == 0 || value.mixed == 0).then_some(value.datagrams),
        level: value.level,
        level_max: value.level_max,
        receive_buffer: value.receive_buffer,
        level_ns,
        longest_stall_ns: value.longest_stall.max(stall),
        stalled_ns: value.stalled + if stall > STALL_NS { stall } else { 0 },
        reader: value.reader,
        reader_waited_ns: 0,
        reader_longest_wait_ns: 0,
        behind: [0; 16],
    }
}

fn interface_counts(programs: &Programs, map: &str) -> Result<Vec<InterfaceCount>, Error> {
    let count = |(key, counts): (InterfaceKey, Counts)| InterfaceCount {
        namespace: key.namespace,
        interface: key.interface,
        port: key.port as u16,
        cookie: key.cookie,
        datagrams: counts.first,
        bytes: counts.second,
    };
    Ok(counted(programs, map)?.into_iter().map(count).collect())
}

fn sends(programs: &Programs) -> Result<Vec<Sends>, Error> {
    let sends = |(key, counts): (SendKey, Counts)| Sends {
        cookie: key.cookie,
        namespace: key.namespace,
        from_port: key.from_port,
        port: key.port,
        errno: key.errno,
        calls: counts.first,
        datagrams: counts.second,
    };
    Ok(counted(programs, "sends")?.into_iter().map(sends).collect())
}

/// Those that wait and of which no piece is known to be lost: the others are counted as drops already.
fn reassembling(programs: &Programs) -> Result<u64, Error> {
    let waiting = KernelMap::<_, FragmentKey, Waiting>::try_from(programs.map("waiting")?).map_err(unreadable)?;
    let known = KernelMap::<_, FragmentKey, Fragmented>::try_from(programs.map("fragmented")?).map_err(unreadable)?;
    let now = now();
    let mut count = 0;
    for entry in &waiting {
        let (key, value) = entry.map_err(unreadable)?;
        let of = |namespace| known.get(&FragmentKey { namespace, ..key }, 0).ok();
        let lost = [of(0), of(key.namespace)].iter().flatten().any(|known| known.lost != 0);
        let port = if value.port != 0 { value.port } else { of(0).map_or(0, |known| known.port) };
        let followed = port == 0 || programs.follows_port(port);
        if !lost && followed && now.saturating_sub(value.since) < REASSEMBLY_NS {
            count += 1;
        }
    }
    Ok(count)
}

/// Counts of all processors together, those in slots and those in the hash map.
fn counted<K: Key>(programs: &Programs, name: &str) -> Result<Vec<(K, Counts)>, Error> {
    let mut all: HashMap<K, Counts> = HashMap::new();
    let mut add = |key: K, counts: &Counts| {
        if *counts != NONE {
            let sum = all.entry(key).or_insert(NONE);
            *sum = Counts { first: sum.first + counts.first, second: sum.second + counts.second };
        }
    };
    let slots = PerCpuArray::<_, K::Slot>::try_from(programs.map(&format!("{name}_slots"))?).map_err(unreadable)?;
    for slot in 0..slots.len() {
        for one in slots.get(&slot, 0).map_err(unreadable)?.iter() {
            let (key, counts) = K::take(one);
            add(key, &counts);
        }
    }
    let map = PerCpuHashMap::<_, K, Counts>::try_from(programs.map(name)?).map_err(unreadable)?;
    for entry in &map {
        let (key, values) = entry.map_err(unreadable)?;
        values.iter().for_each(|counts| add(key, counts));
    }
    Ok(all.into_iter().collect())
}

const NONE: Counts = Counts { first: 0, second: 0 };

fn per_cpu<V: Pod>(map: &Map) -> Result<Vec<V>, Error> {
    let map = PerCpuArray::<_, V>::try_from(map).map_err(unreadable)?;
    Ok(map.get(&0, 0).map_err(unreadable)?.iter().copied().collect())
}

fn unreadable(error: impl Into<aya::maps::MapError>) -> Error {
    refusal("read what was traced", &error.into())
}

/// The clock of bpf_ktime_get_ns, nanoseconds.
fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
