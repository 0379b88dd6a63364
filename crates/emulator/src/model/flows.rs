//! The flows of a direction: identified by their headers, counted, and given the same random sequences in every run.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

use super::identity::shared_key;
use super::loss::LossState;
use super::random::StreamKey;
use super::{FlowDrops, FlowIdentity, FlowTuple};

/// A flow of one [`Direction`](super::Direction); invalid for any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHandle(u32);

/// All flows of a direction, up to [`MAX_FLOWS`], and one that all others share.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    key: StreamKey,
    /// In order of appearance.
    flows: Vec<Flow>,
    handles: HashMap<FlowTuple, FlowHandle, KeyedHash>,
    /// Number of flows with the same identity except for the ordinal.
    ordinals: HashMap<FlowIdentity, u64, KeyedHash>,
    last: Option<(FlowTuple, FlowHandle)>,
    shared: Option<FlowHandle>,
    /// Hashes of the flows that found the table full.
    unlisted: HashSet<u64, KeyedHash>,
    recorded_drops: usize,
}

/// The state of a flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) key: StreamKey,
    /// Packets so far: the index of the next one.
    pub(super) packets: u64,
    pub(super) loss: LossState,
    tuple: FlowTuple,
    identity: FlowIdentity,
    /// Planned losses so far, listed or not.
    lost: u64,
    /// Packets that found the queue full.
    pub(super) queue_dropped: u64,
    drops: Vec<u64>,
    complete: bool,
}

impl Flows {
    pub(super) fn new(key: StreamKey) -> Self {
        let hash = KeyedHash(key.bits());
        Flows {
            key,
            flows: Vec::new(),
            handles: HashMap::with_hasher(hash),
            ordinals: HashMap::with_hasher(hash),
            last: None,
            shared: None,
            unlisted: HashSet::with_hasher(hash),
            recorded_drops: 0,
        }
    }

    /// Finds the flow, or adds it.
    #[inline]
    pub(super) fn find(&mut self, tuple: &FlowTuple) -> FlowHandle {
        match self.last {
            Some((last, handle)) if last == *tuple => handle,
            _ => {
                let handle = self.find_in_table(tuple);
                self.last = Some((*tuple, handle));
                handle
            }
        }
    }

    #[inline]
    pub(super) fn get(&mut self, handle: FlowHandle) -> &mut Flow {
        &mut self.flows[handle.0 as usize]
    }

    /// Counts a planned drop, and lists it if there is room.
    pub(super) fn record_drop(&mut self, handle: FlowHandle, index: u64) {
        let flow = &mut self.flows[handle.0 as usize];
        flow.lost += 1;
        if flow.complete && flow.drops.len() < MAX_DROPS_OF_FLOW && self.recorded_drops < MAX_DROPS {
            flow.drops.push(index);
            self.recorded_drops += 1;
        } else {
            flow.complete = false;
        }
    }

    pub(super) fn drops(&self) -> Vec<FlowDrops> {
        let shared = self.shared.map(|handle| handle.0 as usize);
        let report = |(place, flow): (usize, &Flow)| FlowDrops {
            flow: flow.tuple,
            identity: flow.identity,
            shared: shared == Some(place),
            packets: flow.packets,
            lost: flow.lost,
            queue_dropped: flow.queue_dropped,
            indexes: flow.drops.clone(),
            complete: flow.complete,
        };
        self.flows.iter().enumerate().map(report).collect()
    }

    pub(super) fn unlisted(&self) -> u64 {
        self.unlisted.len() as u64
    }

    fn find_in_table(&mut self, tuple: &FlowTuple) -> FlowHandle {
        let tuple = &without_non_ip_headers(tuple);
        if let Some(&handle) = self.handles.get(tuple) {
            return handle;
        }
        if self.handles.len() >= MAX_FLOWS {
            return self.find_shared(tuple);
        }
        let mut identity = FlowIdentity::without_ordinal(tuple);
        let ordinal = self.ordinals.entry(identity).or_insert(0);
        identity.ordinal = *ordinal;
        *ordinal += 1;
        let handle = self.admit(tuple, identity, identity.key(self.key));
        self.handles.insert(*tuple, handle);
        handle
    }

    fn find_shared(&mut self, tuple: &FlowTuple) -> FlowHandle {
        if self.unlisted.len() < MAX_UNLISTED {
            self.unlisted.insert(KeyedHash(self.key.bits()).hash_one(tuple));
        }
        if let Some(handle) = self.shared {
            return handle;
        }
        let handle = self.admit(tuple, FlowIdentity::without_ordinal(tuple), shared_key(self.key));
        self.shared = Some(handle);
        handle
    }

    fn admit(&mut self, tuple: &FlowTuple, identity: FlowIdentity, key: StreamKey) -> FlowHandle {
        // At most MAX_FLOWS + 1 are ever added.
        let handle = FlowHandle(self.flows.len() as u32);
        self.flows.push(Flow {
            key,
            packets: 0,
            loss: LossState::default(),
            tuple: *tuple,
            identity,
            lost: 0,
            queue_dropped: 0,
            drops: Vec::new(),
            complete: true,
        });
        handle
    }
}

/// Max flows that a direction distinguishes.
pub(super) const MAX_FLOWS: usize = 65_536;
/// Max distinct flows beyond the table that are counted; the count stays there.
const MAX_UNLISTED: usize = 1 << 20;
/// Max planned drops listed per flow.
pub(super) const MAX_DROPS_OF_FLOW: usize = 100_000;
/// Max planned drops listed for all flows of a direction.
pub(super) const MAX_DROPS: usize = 1_000_000;

/// All packets that are not IP are one flow, whatever their addresses.
fn without_non_ip_headers(tuple: &FlowTuple) -> FlowTuple {
    const UNSPECIFIED: IpAddr = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
    match tuple.protocol {
        Some(_) => *tuple,
        None => FlowTuple { protocol: None, source: UNSPECIFIED, destination: UNSPECIFIED, ports: None },
    }
}

/// A hash for the tables, keyed so that its collisions are unpredictable without the seed, and faster than the standard
/// one. Unlike a [`StreamKey`] it may change between versions.
#[derive(Clone, Copy, Debug)]
struct KeyedHash(u64);

impl BuildHasher for KeyedHash {
    type Hasher = KeyedHash;

    fn build_hasher(&self) -> KeyedHash {
        *self
    }
}

impl Hasher for KeyedHash {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for &word in words {
            self.write_u64(u64::from_le_bytes(word));
        }
        let (halves, rest) = rest.as_chunks();
        for &half in halves {
            self.write_u64(u64::from(u32::from_le_bytes(half)));
        }
        for &byte in rest {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    /// Multiplies and folds the product, as wyhash does.
    #[inline]
    fn write_u64(&mut self, value: u64) {
        const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ value) * FACTOR;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::{Key, Way};
    use super::*;

    #[test]
    fn rerun_with_other_ephemeral_ports_gives_the_same_keys() {
        let keys = |ports: [u16; 4]| {
            let mut flows = flows();
            let tuples = [tuple(ports[0], 80), tuple(ports[1], 80), tuple(ports[2], 443), tuple(ports[3], 80)];
            tuples.map(|tuple| {
                let handle = flows.find(&tuple);
                flows.get(handle).key.bits()
            })
        };
        let first = keys([40_000, 40_001, 40_002, 40_003]);
        assert_eq!(first, keys([60_000, 33_333, 50_000, 40_000]));
        let distinct: HashSet<_> = first.into_iter().collect();
        assert_eq!(distinct.len(), 4, "flows that are alike are told apart by their ordinal");
    }

    #[test]
    fn flow_is_found_again() {
        let mut flows = flows();
        let first = flows.find(&tuple(1, 80));
        let second = flows.find(&tuple(2, 80));
        assert_ne!(first, second);
        assert_eq!(flows.find(&tuple(1, 80)), first);
        assert_eq!(flows.drops().len(), 2);
    }

    #[test]
    fn all_that_is_not_ip_is_one_flow() {
        let mut flows = flows();
        let first = flows.find(&FlowTuple { protocol: None, ..tuple(1, 2) });
        let second = flows.find(&FlowTuple { protocol: None, ..tuple(3, 4) });
        assert_eq!(first, second);
    }

    #[test]
    fn flows_past_the_table_share_one() {
        let mut flows = flows();
        let nth = |n: u32| FlowTuple { source: IpAddr::V4(Ipv4Addr::from_bits(n)), ..tuple(1, 80) };
        let handles: Vec<_> = (0..MAX_FLOWS as u32 + 3).map(|n| flows.find(&nth(n))).collect();
        assert_eq!(handles[MAX_FLOWS], handles[MAX_FLOWS + 2]);
        assert_ne!(handles[MAX_FLOWS - 1], handles[MAX_FLOWS]);
        flows.find(&nth(MAX_FLOWS as u32));
        assert_eq!(flows.unlisted(), 3, "each counts once");
        assert_eq!(flows.find(&nth(5)), handles[5], "those in the table stay");
        let shared: Vec<_> = flows.drops().into_iter().filter(|drops| drops.shared).map(|drops| drops.flow).collect();
        assert_eq!(shared, [nth(MAX_FLOWS as u32)]);
    }

    #[test]
    fn list_of_drops_is_bounded_and_says_so() {
        let mut flows = flows();
        let handles: Vec<_> = (0..12).map(|port| flows.find(&tuple(port, 80))).collect();
        for &handle in &handles {
            for index in 0..=MAX_DROPS_OF_FLOW as u64 - u64::from(handle == handles[0]) {
                flows.record_drop(handle, index);
            }
        }
        let drops: Vec<_> = flows.drops().into_iter().map(|drops| (drops.indexes.len(), drops.complete)).collect();
        assert_eq!(drops[0], (MAX_DROPS_OF_FLOW, true));
        assert_eq!(drops[1], (MAX_DROPS_OF_FLOW, false));
        assert_eq!(drops[11], (0, false));
        assert_eq!(drops.iter().map(|&(length, _)| length).sum::<usize>(), MAX_DROPS);
    }

    fn flows() -> Flows {
        Flows::new(StreamKey::of(Key { seed: 1, link: 0, direction: Way::Forward }))
    }

    fn tuple(source_port: u16, destination_port: u16) -> FlowTuple {
        FlowTuple {
            protocol: Some(17),
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
            ports: Some((source_port, destination_port)),
        }
    }
}
