//! Reads what the programs counted.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;

use aya::Pod;
use aya::maps::{Array, HashMap as KernelMap, Map, PerCpuArray, PerCpuHashMap};
use nix::time::{ClockId, clock_gettime};

use super::closed;
use super::extras::address;
use super::programs::{Programs, refusal};
use super::samples::{self, Samples};
use super::symbols::Symbols;
use super::sys::{
    Counts, DropKey, FragmentKey, InterfaceKey, Key, PlaceKey, SendKey, SocketValue, SourceKey, Tallies, Waiting,
};
use super::types::{Reasons, Types};
use super::{BySource, Cast, Drop, InterfaceCount, Missed, Sends, SocketTrace, SourceArrivals, Trace};
use weir_kernel::Error;

/// What is known from one reading to the next.
pub(super) struct Totals {
    reasons: Reasons,
    symbols: Symbols,
    /// Each socket when it was read last: times never go back.
    known: HashMap<u64, Known>,
    /// Sockets that were removed from the hash map.
    removed: u64,
    /// Whether tasks have the numbers of the first PID namespace here, as they have in the trace (PROC_PID_INIT_INO,
    /// include/linux/proc_ns.h).
    sees_tasks: bool,
    /// Sockets whose state gave way to others'.
    crowded_out: u64,
    /// Datagrams that were read and that nobody saw being queued: virtual machines were seen to skip all tracepoints on one CPU for some
    /// milliseconds.
    skipped: u64,
}

/// A socket at one reading.
struct Known {
    value: SocketValue,
    told: SocketTrace,
    /// That of its reader.
    run_delay_ns: u64,
}

/// The kernel gives up fragments after this time (net.ipv4.ipfrag_time), nanoseconds.
const REASSEMBLY_NS: u64 = 30_000_000_000;

/// A stall counts from here on, nanoseconds.
const STALL_NS: u64 = 1_000_000;

impl Totals {
    pub(super) fn new(types: &Types) -> Totals {
        Totals {
            reasons: types.reasons(),
            symbols: Symbols::default(),
            known: HashMap::new(),
            removed: 0,
            sees_tasks: fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]"),
            crowded_out: 0,
            skipped: 0,
        }
    }

    pub(super) fn read(&mut self, programs: &Programs) -> Result<Trace, Error> {
        // Read before the others: what comes meanwhile is never in `places` alone.
        let mut gave_way: HashMap<PlaceKey, Counts> = counted::<PlaceKey>(programs, "places")?.into_iter().collect();
        let mut drops = counted::<DropKey>(programs, "drops")?;
        for (key, counts) in &drops {
            if let Some(rest) = gave_way.get_mut(&place_of(key)) {
                let Counts { first, second } = *rest;
                *rest =
                    Counts { first: first.saturating_sub(counts.first), second: second.saturating_sub(counts.second) };
            }
        }
        gave_way.retain(|_, rest| rest.first > 0);
        let ports = gave_way.values().map(|rest| rest.first).sum();
        drops.extend(gave_way.into_iter().map(|(key, rest)| (of_any_port(&key), rest)));
        let drops = self.drops(drops);
        let sockets = self.sockets(programs)?;
        let tallies: Vec<Tallies> = per_cpu(programs.map("tallies")?)?;
        let tally =
            |of: fn(&Tallies) -> u64, names: &[&str]| tallies.iter().map(of).sum::<u64>() + programs.recursions(names);
        Ok(Trace {
            drops,
            arrivals: interface_counts(programs, "arrivals")?,
            departures: interface_counts(programs, "departures")?,
            sends: sends(programs)?,
            sockets,
            reassembling: reassembling(programs)?,
            by_source: self.by_source(programs, tallies.iter().map(|tallies| tallies.sourced).sum())?,
            used_by_descendants: used_by_descendants(programs)?,
            missed: Missed {
                drops: tally(|tallies| tallies.drops, &["drop"]),
                ports,
                queues: tally(|tallies| tallies.queues, &["enqueue", "dequeue"]) + self.skipped,
                sockets: self.crowded_out,
                passages: tally(|tallies| tallies.passages, &["arrive", "depart"]),
                sends: tally(|tallies| tallies.sends, &["sent"]),
            },
        })
    }

    pub(super) fn samples(&mut self, programs: &Programs) -> Result<Samples, Error> {
        samples::read(programs, &mut self.symbols, &self.reasons)
    }

    fn by_source(&mut self, programs: &Programs, sourced: u64) -> Result<BySource, Error> {
        if sourced == 0 {
            return Ok(BySource::default());
        }
        let map = PerCpuHashMap::<_, SourceKey, Counts>::try_from(programs.map("sources")?).map_err(unreadable)?;
        let mut all: HashMap<SourceKey, Counts> = HashMap::new();
        // Keys come and go while they are listed.
        for key in map.keys().take(MOST_KEYS) {
            let key = key.map_err(unreadable)?;
            if let Ok(values) = map.get(&key, 0) {
                all.insert(key, sum(&values));
            }
        }
        self.symbols.learn(all.keys().map(|key| key.location).filter(|location| *location != 0));
        let mut by_source = BySource { evicted: sourced.saturating_sub(all.len() as u64), ..BySource::default() };
        for (key, counts) in all {
            let source = address(key.from, key.version);
            let (namespace, port, datagrams) = (key.namespace, key.port, counts.first);
            if key.location == 0 {
                by_source.arrivals.push(SourceArrivals { source, namespace, port, datagrams });
                continue;
            }
            let drop = Drop {
                reason: self.reasons.name(key.reason).into_owned(),
                function: self.symbols.name(key.location).to_owned(),
                namespace,
                interface: 0,
                cookie: key.cookie,
                port,
                outgoing: key.outgoing != 0,
                datagrams,
                buffers: counts.second,
            };
            by_source.drops.push((source, drop));
        }
        Ok(by_source)
    }

    pub(super) fn remove_closed(&mut self, programs: &mut Programs, open: impl Fn(u64) -> bool) -> Result<(), Error> {
        for cookie in self.known.keys().filter(|cookie| !open(**cookie)) {
            self.removed += u64::from(closed::remove(programs, *cookie)?);
        }
        Ok(())
    }

    fn drops(&mut self, counted: Vec<(DropKey, Counts)>) -> Vec<Drop> {
        self.symbols.learn(counted.iter().map(|(key, _)| key.location));
        let drop = |(key, counts): (DropKey, Counts)| Drop {
            reason: self.reasons.name(key.reason).into_owned(),
            function: self.symbols.name(key.location).to_owned(),
            namespace: key.namespace,
            interface: key.interface,
            cookie: key.cookie,
            port: key.port,
            outgoing: key.outgoing != 0,
            datagrams: counts.first,
            buffers: counts.second,
        };
        counted.into_iter().map(drop).collect()
    }

    fn sockets(&mut self, programs: &Programs) -> Result<Vec<SocketTrace>, Error> {
        let mut sockets = Vec::new();
        let hashed = hashed(programs)?;
        let states = states(programs)?;
        let there = states.in_hash as u64 + self.removed;
        // What was given a state while they were listed may be among them; then this is too low, until it is read again.
        self.crowded_out = self.crowded_out.max(hashed.saturating_sub(there));
        let mut known = HashMap::with_capacity(states.all.len());
        let mut skipped = 0;
        for value in states.all {
            let cookie = value.cookie;
            let mut socket = socket(cookie, &value, now());
            let before = self.known.get(&cookie).filter(|before| before.value.born == value.born);
            if let (Some(before), Some(queued)) = (before, socket.queued_before) {
                // What had been read at the last reading had been queued by now.
                skipped += before.value.reads.saturating_sub(queued + socket.enqueued);
            }
            let mut run_delay_ns = before.map_or(0, |before| before.run_delay_ns);
            if self.sees_tasks
                && before.is_none_or(|before| before.value.reads != value.reads)
                && let Some(delay_ns) = run_delay_ns_of(value.reader)
            {
                let is_same = before.is_some_and(|before| before.value.reader == value.reader);
                let more = if is_same { delay_ns.saturating_sub(run_delay_ns) } else { 0 };
                let waited = before.and_then(|before| before.told.reader_waited_ns).unwrap_or(0);
                (socket.reader_waited_ns, run_delay_ns) = (Some(waited + more), delay_ns);
            }
            if let Some(Known { told: before, .. }) = before {
                socket.stalled_ns = socket.stalled_ns.max(before.stalled_ns);
                socket.waiting_ns = socket.waiting_ns.max(before.waiting_ns);
                socket.episodes = socket.episodes.max(before.episodes);
                socket.episode_max = socket.episode_max.max(before.episode_max);
                socket.longest_stall_ns = socket.longest_stall_ns.max(before.longest_stall_ns);
                socket.reader_waited_ns = socket.reader_waited_ns.or(before.reader_waited_ns);
            }
            known.insert(cookie, Known { value, told: socket, run_delay_ns });
            sockets.push(socket);
        }
        self.known = known;
        self.skipped = self.skipped.max(skipped);
        Ok(sockets)
    }
}

/// Datagrams whose first fragment came, and which wait for others.
fn reassembling(programs: &Programs) -> Result<u64, Error> {
    let map = KernelMap::<_, FragmentKey, Waiting>::try_from(programs.map("waiting")?).map_err(unreadable)?;
    let now = now();
    let waits = |waiting: &Waiting| {
        let is_followed = waiting.port != 0 && programs.follows_port(waiting.port);
        is_followed && now.saturating_sub(waiting.since) < REASSEMBLY_NS
    };
    Ok(map.iter().take(MOST_KEYS).filter_map(Result::ok).filter(|(_, waiting)| waits(waiting)).count() as u64)
}

fn place_of(key: &DropKey) -> PlaceKey {
    let DropKey { location, namespace, reason, outgoing, .. } = *key;
    PlaceKey { location, namespace, reason, outgoing: outgoing.into(), unused: 0 }
}

fn of_any_port(key: &PlaceKey) -> DropKey {
    let PlaceKey { location, namespace, reason, outgoing, .. } = *key;
    DropKey { location, cookie: 0, namespace, interface: 0, reason, port: 0, outgoing: outgoing as u8, unused: 0 }
}

fn used_by_descendants(programs: &Programs) -> Result<BTreeSet<u64>, Error> {
    let used = KernelMap::<_, u64, u32>::try_from(programs.map("used")?).map_err(unreadable)?;
    used.keys().take(MOST_KEYS).map(|cookie| cookie.map_err(unreadable)).collect()
}

/// Sockets that were given a state in the hash map so far.
fn hashed(programs: &Programs) -> Result<u64, Error> {
    Ok(per_cpu::<Tallies>(programs.map("tallies")?)?.iter().map(|tallies| tallies.hashed).sum())
}

/// The states of sockets, and how many of them are in the hash map.
struct States {
    all: Vec<SocketValue>,
    in_hash: usize,
}

fn states(programs: &Programs) -> Result<States, Error> {
    let slots = Array::<_, SocketValue>::try_from(programs.map("socket_slots")?).map_err(unreadable)?;
    let map = KernelMap::<_, u64, SocketValue>::try_from(programs.map("sockets")?).map_err(unreadable)?;
    let mut all: Vec<SocketValue> =
        (0..slots.len()).filter_map(|slot| slots.get(&slot, 0).ok().filter(|state| state.cookie != 0)).collect();
    let in_slots: HashMap<u64, usize> = all.iter().enumerate().map(|(at, state)| (state.cookie, at)).collect();
    // Where one is removed while they are listed, the kernel begins again.
    let mut seen: HashSet<u64> = HashSet::new();
    for cookie in map.keys().take(MOST_KEYS) {
        let cookie = cookie.map_err(unreadable)?;
        if !seen.insert(cookie) {
            continue;
        }
        let Ok(value) = map.get(&cookie, 0) else { continue };
        // Whoever met a slot while it was being taken has counted here; the rest of the state is in the slot.
        match in_slots.get(&cookie).and_then(|&at| all.get_mut(at)) {
            Some(state) => {
                state.enqueued += value.enqueued;
                state.reads += value.reads;
                state.bytes += value.bytes;
                state.datagrams += value.datagrams;
                state.mixed |= value.mixed;
            }
            None => all.push(value),
        }
    }
    Ok(States { in_hash: seen.len(), all })
}

fn socket(cookie: u64, value: &SocketValue, now: u64) -> SocketTrace {
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
        longest_stall_ns: value.longest_stall.max(stall),
        stalled_ns: value.stalled + if stall > STALL_NS { stall } else { 0 },
        age_ns: now.saturating_sub(value.born),
        waiting_ns: value.waiting + stall,
        dropped: value.dropped,
        queued_before: u64::from(value.before).checked_sub(1),
        episodes: u64::from(value.episodes) + u64::from(value.episode > 0),
        episode_max: value.episode_max.max(value.episode),
        reader: value.reader,
        reader_waited_ns: None,
    }
}

/// How long a task has been ready to run and did not (Documentation/scheduler/sched-stats.rst); `None`: it is gone, or not to be
/// seen.
fn run_delay_ns_of(task: u32) -> Option<u64> {
    fs::read_to_string(format!("/proc/{task}/schedstat")).ok()?.split(' ').nth(1)?.parse().ok()
}

fn interface_counts(programs: &Programs, map: &str) -> Result<Vec<InterfaceCount>, Error> {
    let count = |(key, counts): (InterfaceKey, Counts)| InterfaceCount {
        namespace: key.namespace,
        interface: key.interface,
        port: key.port as u16,
        cookie: key.cookie,
        cast: [Cast::Unicast, Cast::Group, Cast::Broadcast].get(key.cast as usize).copied().unwrap_or_default(),
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
    // Where keys give way, they come and go while they are listed.
    let mut seen: HashSet<K> = HashSet::new();
    for key in map.keys().take(MOST_KEYS) {
        let key = key.map_err(unreadable)?;
        if seen.insert(key)
            && let Ok(values) = map.get(&key, 0)
        {
            add(key, &sum(&values));
        }
    }
    Ok(all.into_iter().collect())
}

fn sum(values: &[Counts]) -> Counts {
    let add = |sum: Counts, one: &Counts| Counts { first: sum.first + one.first, second: sum.second + one.second };
    values.iter().fold(NONE, add)
}

const NONE: Counts = Counts { first: 0, second: 0 };

fn per_cpu<V: Pod>(map: &Map) -> Result<Vec<V>, Error> {
    let map = PerCpuArray::<_, V>::try_from(map).map_err(unreadable)?;
    Ok(map.get(&0, 0).map_err(unreadable)?.iter().copied().collect())
}

/// More keys than the kernel lists of the largest map, where none is removed meanwhile.
pub(super) const MOST_KEYS: usize = 1 << 17;

pub(super) fn unreadable(error: impl Into<aya::maps::MapError>) -> Error {
    refusal("read what was traced", &error.into())
}

/// The clock of bpf_ktime_get_ns, nanoseconds.
pub(super) fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
