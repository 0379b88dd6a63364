//! Packets sampled and dropped by the programs of `bpf/agent.bpf.c`: a filter at a packet socket that receives nothing, which
//! chooses and counts, and one at `kfree_skb`.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use aya::maps::{Array, HashMap as KernelMap, MapData, PerCpuArray, PerCpuHashMap, RingBuf};
use aya::programs::{BtfTracePoint, SocketFilter};
use aya::{Ebpf, EbpfLoader};

use super::sys::{DiscardedValue, SampledInterface, SampledValue, UnplacedValue};
use super::{Discarded, Packet, Sampled, Wanted};
use crate::BTF;
use crate::programs::refusal;
use crate::symbols::Symbols;
use crate::types::{Reasons, Types};
use weir_kernel::Error;
use weir_kernel::capture;
use weir_kernel::error::During;
use weir_kernel::links::Index;
use weir_kernel::namespaces::NetNs;

/// Compiled by `make bpf`.
pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/agent.bpf.o");

/// Interfaces that can be sampled at once, as many as the maps of the programs hold.
pub(super) const MOST_INTERFACES: usize = 4096;

/// More than the ring holds: 2 MiB of events with their headers.
const MOST_EVENTS: usize = 12_288;

/// Programs that run until this is dropped.
pub(super) struct Programs {
    ebpf: Ebpf,
    events: RingBuf<MapData>,
    /// Where the filter is; `None`: nothing is sampled.
    socket: Option<OwnedFd>,
    discards: bool,
    slots: HashMap<Index, Slot>,
    /// Slots that are free, and the counts in them.
    free: Vec<(u32, SampledValue)>,
    reasons: Reasons,
    symbols: Symbols,
}

struct Slot {
    number: u32,
    /// What was in it when the interface got it.
    before: SampledValue,
}

impl Programs {
    /// Loads what the kernel permits of what is wanted, and attaches it in this process's network namespace; what it does not
    /// permit of it, a line each.
    ///
    /// # Errors
    /// If it permits no eBPF at all.
    pub(super) fn load(wanted: Wanted, refused: &mut Vec<String>) -> Result<Programs, Error> {
        let types = match wanted.drops.then(|| Types::read(Path::new(BTF))).transpose() {
            Ok(types) => types,
            Err(error) => {
                refused.push(error.to_string());
                None
            }
        };
        let arguments = types.as_ref().and_then(|types| types.own.arguments("kfree_skb")).unwrap_or(0);
        let reasons = types.as_ref().map(Types::reasons).unwrap_or_default();
        let (has_reason, has_socket) = (u8::from(arguments >= 3), u8::from(arguments >= 4));
        let (namespace, backlog) = (NetNs::current()?.inode()?, reasons.number("CPU_BACKLOG"));
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
        let mut programs = Programs {
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
            programs.socket = programs.attach_filter().map_err(|error| refused.push(error.to_string())).ok();
        }
        if let Some(types) = &types {
            programs.discards = programs.attach_drops(types).map_err(|error| refused.push(error.to_string())).is_ok();
        }
        Ok(programs)
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
    pub(super) fn samples(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether drops are told.
    pub(super) fn drops(&self) -> bool {
        self.discards
    }

    /// Samples packets of an interface at a chance of 2^32, and keeps them at another, which is no greater. `false`: so many
    /// interfaces are sampled already.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn sample(&mut self, interface: Index, chance: u64, kept: u64) -> Result<bool, Error> {
        let slot = match self.slots.get(&interface) {
            Some(slot) => slot.number,
            None => {
                let Some((number, before)) = self.free.pop() else { return Ok(false) };
                self.slots.insert(interface, Slot { number, before });
                number
            }
        };
        self.interfaces()?
            .insert(interface, SampledInterface { chance, kept, slot, unused: 0 }, 0)
            .map_err(|error| refusal("set what is sampled", &error))?;
        Ok(true)
    }

    /// Samples an interface no more; returns what was counted.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn leave(&mut self, interface: Index) -> Result<Sampled, Error> {
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
    pub(super) fn sampled(&self, interface: Index) -> Result<Sampled, Error> {
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
    pub(super) fn tell_drops(&mut self, events: u32) -> Result<(), Error> {
        let map = self.ebpf.map_mut("allowance").ok_or_else(|| missing("allowance"))?;
        Array::<_, i64>::try_from(map)
            .and_then(|mut map| map.set(0, i64::from(events), 0))
            .map_err(|error| refusal("set how many drops are told", &error))
    }

    /// Packets dropped, by reason, and those that had no room to be counted by theirs.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn discarded(&self) -> Result<(Vec<Discarded>, u64), Error> {
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
    pub(super) fn reason(&self, reason: u32) -> std::borrow::Cow<'_, str> {
        self.reasons.name(reason)
    }

    /// Looks up functions that dropped packets: all that are new at once, for the kernel's whole table is read for them, some
    /// 100 ms.
    pub(super) fn learn_functions(&mut self, locations: impl IntoIterator<Item = u64>) {
        self.symbols.learn(locations);
    }

    /// The function that dropped a packet; empty: it is not known, or was not looked up.
    pub(super) fn function(&self, location: u64) -> &str {
        self.symbols.name(location)
    }

    /// Takes the packets that have come, in order: no more than fit into the ring, for in a flood there is no end to them.
    pub(super) fn take(&mut self, mut each: impl FnMut(Packet<'_>)) {
        for _ in 0..MOST_EVENTS {
            let Some(event) = self.events.next() else { return };
            if let Some(packet) = Packet::read(&event) {
                each(packet);
            }
        }
    }

    /// Samples no more and tells of no more drops; what has come can still be taken, what was counted be read.
    pub(super) fn stop(&mut self) {
        self.socket = None;
        // Nobody else changes it; where it cannot be set, events go on to come.
        let _ = self.tell_drops(0);
    }
}

fn missing(name: &str) -> Error {
    Error::answer(format!("find {name} among the eBPF programs"), "it is missing")
}

fn unreadable(error: &(dyn std::error::Error + 'static)) -> Error {
    refusal("read what was counted of packets", error)
}
