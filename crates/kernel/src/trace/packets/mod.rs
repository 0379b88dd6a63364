//! Packets of this network namespace: one of so many of those that pass its interfaces, and those that the kernel drops.
//!
//! Two programs (`bpf/agent.bpf.c`): a filter at a packet socket that receives nothing, which chooses and counts, and one
//! at `kfree_skb`. What they count is exact; the packets themselves come through one ring, which is looked at when the
//! owner has the time. All privilege is needed at the start: interfaces that come later are sampled without any.

mod event;
mod sys;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use aya::maps::{Array, HashMap as KernelMap, MapData, PerCpuArray, PerCpuHashMap, RingBuf};
use aya::programs::{BtfTracePoint, SocketFilter};
use aya::{Ebpf, EbpfLoader};

use super::features::Types;
use super::programs::refusal;
use super::symbols::Symbols;
use crate::Error;
use crate::capture;
use crate::error::During;
use crate::links::Index;
use crate::namespaces::NetNs;
use sys::{DiscardedValue, SampledInterface, SampledValue, UnplacedValue};

pub use event::{Fate, HEADER, Packet};

/// Compiled by `make bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/agent.bpf.o");

/// Interfaces that can be sampled at once, as many as the maps of the programs hold.
pub const MOST_INTERFACES: usize = 4096;

/// More than the ring holds: 2 MiB of events with their headers.
const MOST_EVENTS: usize = 12_288;

/// What is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Packets that pass: needs CAP_NET_RAW and CAP_BPF.
    pub samples: bool,
    /// Packets that are dropped: needs CAP_BPF and CAP_PERFMON, and CAP_SYSLOG for the names of functions.
    pub drops: bool,
}

/// Programs that run until this is dropped.
pub struct Packets {
    ebpf: Ebpf,
    events: RingBuf<MapData>,
    /// Where the filter is; `None`: nothing is sampled.
    socket: Option<OwnedFd>,
    discards: bool,
    slots: HashMap<Index, Slot>,
    /// Slots that are free, and the counts in them.
    free: Vec<(u32, SampledValue)>,
    reasons: BTreeMap<u32, String>,
    symbols: Symbols,
}

struct Slot {
    number: u32,
    /// What was in it when the interface got it.
    before: SampledValue,
}

/// What was counted of an interface since its sampling began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Packets that could have been sampled. A super-packet is as many as its segments.
    pub pool: u64,
    /// Samples due at the configured chance.
    pub chosen: u64,
    /// Of those, left out, for less was to be kept.
    pub shed: u64,
    /// Of those, that found the ring full.
    pub lost: u64,
}

/// Packets dropped for one reason since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Name of the reason without `SKB_DROP_REASON_`; empty before Linux 5.17, which has none.
    pub reason: String,
    /// Packets. A super-packet is as many as its segments.
    pub packets: u64,
    /// Buffers of which an event tells.
    pub told: u64,
}

impl Packets {
    /// Loads what the kernel permits of what is wanted, and attaches it in this process's network namespace. What it does
    /// not permit comes second, a line each with the reason; `None`: it permits nothing.
    pub fn start(wanted: Wanted) -> (Option<Packets>, Vec<String>) {
        let mut refused = Vec::new();
        let started = Packets::load(wanted, &mut refused).map_err(|error| refused.push(error.to_string()));
        let started = started.ok().filter(|started| started.socket.is_some() || started.discards);
        (started, refused)
    }

    fn load(wanted: Wanted, refused: &mut Vec<String>) -> Result<Packets, Error> {
        let types = match wanted.drops.then(|| Types::read(Path::new(super::BTF))).transpose() {
            Ok(types) => types,
            Err(error) => {
                refused.push(error.to_string());
                None
            }
        };
        let arguments = types.as_ref().and_then(|types| types.own.arguments("kfree_skb")).unwrap_or(0);
        let mut reasons = types.as_ref().and_then(|types| types.own.enumerators("skb_drop_reason")).unwrap_or_default();
        for name in reasons.values_mut() {
            if let Some(short) = name.strip_prefix("SKB_DROP_REASON_") {
                *name = short.to_owned();
            }
        }
        let numbered = |wanted: &str| reasons.iter().find(|(_, name)| *name == wanted).map_or(u32::MAX, |(&n, _)| n);
        let (has_reason, has_socket) = (u8::from(arguments >= 3), u8::from(arguments >= 4));
        let (namespace, backlog) = (NetNs::current()?.inode()?, numbered("CPU_BACKLOG"));
        let mut ebpf = EbpfLoader::new()
            .btf(types.as_ref().map(|types| &types.loader))
            .override_global("has_reason", &has_reason, true)
            .override_global("has_rx_sk", &has_socket, true)
            .override_global("namespace", &namespace, true)
            .override_global("reason_backlog", &backlog, true)
            .load(OBJECT)
            .map_err(|error| refusal("load eBPF maps", &error))?;
        let ring = ebpf.take_map("events").ok_or_else(|| missing("events"))?;
        let events = RingBuf::try_from(ring).map_err(|error| refusal("map the ring of packets", &error))?;
        let mut packets = Packets {
            ebpf,
            events,
            socket: None,
            discards: false,
            slots: HashMap::new(),
            free: (0..MOST_INTERFACES as u32).rev().map(|slot| (slot, SampledValue::default())).collect(),
            reasons,
            symbols: Symbols::opened(),
        };
        if wanted.samples {
            packets.socket = packets.attach_filter().map_err(|error| refused.push(error.to_string())).ok();
        }
        if let Some(types) = &types {
            packets.discards = packets.attach_drops(types).map_err(|error| refused.push(error.to_string())).is_ok();
        }
        Ok(packets)
    }

    fn attach_filter(&mut self) -> Result<OwnedFd, Error> {
        let operation = || "sample packets";
        let failed = |error: &(dyn std::error::Error + 'static)| refusal("sample packets", error);
        let socket = capture::sys::create().during(operation)?;
        let program: &mut SocketFilter = self
            .ebpf
            .program_mut("sample")
            .ok_or_else(|| missing("sample"))?
            .try_into()
            .map_err(|_| missing("sample"))?;
        program.load().map_err(|error| failed(&error))?;
        program.attach(&socket).map_err(|error| failed(&error))?;
        // Packets come from here on, and none gets past the filter.
        capture::sys::bind(socket.as_fd(), 0).during(operation)?;
        Ok(socket)
    }

    fn attach_drops(&mut self, types: &Types) -> Result<(), Error> {
        let operation = "trace kfree_skb";
        if types.own.arguments("kfree_skb").is_none() {
            return Err(Error::answer(operation, "this kernel has no such tracepoint"));
        }
        let program: &mut BtfTracePoint = self
            .ebpf
            .program_mut("discard")
            .ok_or_else(|| missing("discard"))?
            .try_into()
            .map_err(|_| missing("discard"))?;
        let attached = program.load("kfree_skb", &types.loader).and_then(|()| program.attach().map(drop));
        attached.map_err(|error| refusal(operation, &error))
    }

    /// Whether packets are sampled.
    pub fn samples(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether drops are told.
    pub fn drops(&self) -> bool {
        self.discards
    }

    /// Samples one of `rate` packets of an interface (at least 1), and keeps of these the share `kept`, from 0 to 1.
    /// `false`: so many interfaces are sampled already.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn sample(&mut self, interface: Index, rate: u32, kept: f64) -> Result<bool, Error> {
        let slot = match self.slots.get(&interface) {
            Some(slot) => slot.number,
            None => {
                let Some((number, before)) = self.free.pop() else { return Ok(false) };
                self.slots.insert(interface, Slot { number, before });
                number
            }
        };
        let chance = (1_u64 << 32) / u64::from(rate.max(1));
        let kept = ((chance as f64 * kept) as u64).min(chance);
        self.interfaces()?
            .insert(interface, SampledInterface { chance, kept, slot, unused: 0 }, 0)
            .map_err(|error| refusal("set what is sampled", &error))?;
        Ok(true)
    }

    /// Samples an interface no more; returns what was counted.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn leave(&mut self, interface: Index) -> Result<Sampled, Error> {
        if !self.slots.contains_key(&interface) {
            return Ok(Sampled::default());
        }
        // It may have been removed already.
        let _ = self.interfaces()?.remove(&interface);
        let counted = self.sampled(interface)?;
        if let Some(Slot { number, .. }) = self.slots.remove(&interface) {
            let now = self.slot(number)?;
            self.free.push((number, now));
        }
        Ok(counted)
    }

    /// What was counted of an interface since its sampling began; nothing where it is not sampled.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn sampled(&self, interface: Index) -> Result<Sampled, Error> {
        let Some(Slot { number, before }) = self.slots.get(&interface) else { return Ok(Sampled::default()) };
        let now = self.slot(*number)?;
        Ok(Sampled {
            pool: now.pool - before.pool,
            chosen: now.chosen - before.chosen,
            shed: now.shed - before.shed,
            lost: now.lost - before.lost,
        })
    }

    fn slot(&self, number: u32) -> Result<SampledValue, Error> {
        let map = self.ebpf.map("samples").ok_or_else(|| missing("samples"))?;
        let map = PerCpuArray::<_, SampledValue>::try_from(map).map_err(|error| unreadable(&error))?;
        let values = map.get(&number, 0).map_err(|error| unreadable(&error))?;
        Ok(values.iter().fold(SampledValue::default(), |sum, one| SampledValue {
            pool: sum.pool + one.pool,
            chosen: sum.chosen + one.chosen,
            shed: sum.shed + one.shed,
            lost: sum.lost + one.lost,
        }))
    }

    fn interfaces(&mut self) -> Result<KernelMap<&mut MapData, Index, SampledInterface>, Error> {
        let map = self.ebpf.map_mut("interfaces").ok_or_else(|| missing("interfaces"))?;
        KernelMap::try_from(map).map_err(|error| unreadable(&error))
    }

    /// Has so many of the drops that come told by an event each, all others counted.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn tell_drops(&mut self, events: u32) -> Result<(), Error> {
        let map = self.ebpf.map_mut("allowance").ok_or_else(|| missing("allowance"))?;
        Array::<_, i64>::try_from(map)
            .and_then(|mut map| map.set(0, i64::from(events), 0))
            .map_err(|error| refusal("set how many drops are told", &error))
    }

    /// Packets dropped, by reason, and those that had no room to be counted by theirs.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn discarded(&self) -> Result<(Vec<Discarded>, u64), Error> {
        let map = self.ebpf.map("discards").ok_or_else(|| missing("discards"))?;
        let map = PerCpuHashMap::<_, u32, DiscardedValue>::try_from(map).map_err(|error| unreadable(&error))?;
        let mut all = Vec::new();
        for entry in &map {
            let (reason, values) = entry.map_err(|error| unreadable(&error))?;
            let (packets, told) = values.iter().fold((0, 0), |sum, one| (sum.0 + one.packets, sum.1 + one.told));
            all.push(Discarded { reason: self.reason(reason).into_owned(), packets, told });
        }
        all.sort_by(|a, b| a.reason.cmp(&b.reason));
        let map = self.ebpf.map("unplaced").ok_or_else(|| missing("unplaced"))?;
        let map = PerCpuArray::<_, UnplacedValue>::try_from(map).map_err(|error| unreadable(&error))?;
        let values = map.get(&0, 0).map_err(|error| unreadable(&error))?;
        Ok((all, values.iter().map(|one| one.missed).sum()))
    }

    /// The name of a reason, as in [`Discarded`]; those of subsystems, which the kernel does not name here, as a number.
    pub fn reason(&self, reason: u32) -> std::borrow::Cow<'_, str> {
        match self.reasons.get(&reason) {
            _ if self.reasons.is_empty() => "".into(),
            Some(name) => name.into(),
            None => format!("{reason:#x}").into(),
        }
    }

    /// Looks up functions that dropped packets: all that are new at once, for the kernel's whole table is read for them, some
    /// 100 ms.
    pub fn learn_functions(&mut self, locations: impl IntoIterator<Item = u64>) {
        self.symbols.learn(locations);
    }

    /// The function that dropped a packet; empty: it is not known, or was not looked up.
    pub fn function(&self, location: u64) -> &str {
        self.symbols.name(location)
    }

    /// Takes the packets that have come, in order: no more than fit into the ring, for in a flood there is no end to them.
    pub fn take(&mut self, mut each: impl FnMut(Packet<'_>)) {
        for _ in 0..MOST_EVENTS {
            let Some(event) = self.events.next() else { return };
            if let Some(packet) = Packet::read(&event) {
                each(packet);
            }
        }
    }

    /// Samples no more and tells of no more drops; what has come can still be taken, what was counted be read.
    pub fn stop(&mut self) {
        self.socket = None;
        // Nobody else changes it; where it cannot be set, events go on to come.
        let _ = self.tell_drops(0);
    }
}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packets")
            .field("samples", &self.samples())
            .field("drops", &self.drops())
            .finish_non_exhaustive()
    }
}

fn missing(name: &str) -> Error {
    Error::answer(format!("find {name} among the eBPF programs"), "it is missing")
}

fn unreadable(error: &(dyn std::error::Error + 'static)) -> Error {
    refusal("read what was counted of packets", error)
}
