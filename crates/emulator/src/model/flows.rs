//! The flows of a direction: recognised by their headers, counted, and given the same random sequences in every run.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

use super::loss::{LossProcess, LossState};
use super::random::StreamKey;
use super::{FlowDrops, FlowIdentity, FlowTuple};

/// A flow of one [`Direction`](super::Direction); worthless to any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHandle(u32);

/// All flows of a direction, up to [`MAX_FLOWS`], and one more that all others share.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    key: StreamKey,
    /// In order of appearance.
    flows: Vec<Flow>,
    handles: HashMap<FlowTuple, FlowHandle, KeyedHash>,
    /// How many flows have the same identity but for the ordinal.
    ordinals: HashMap<FlowIdentity, u64, KeyedHash>,
    last: Option<(FlowTuple, FlowHandle)>,
    shared: Option<FlowHandle>,
    /// Hashes of the flows that found the table full.
    unlisted: HashSet<u64, KeyedHash>,
    recorded_drops: usize,
}

/// What is known of a flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) key: StreamKey,
    /// Packets so far: the index of the next one.
    pub(super) packets: u64,
    pub(super) loss: LossState,
    tuple: FlowTuple,
    identity: FlowIdentity,
    drops: Vec<u64>,
    complete: bool,
}

impl Flows {
    pub(super) fn new(key: StreamKey) -> Self {
        let hash = KeyedHash(key);
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

    /// Looks the flow up, or admits it.
    #[inline]
    pub(super) fn find(&mut self, tuple: &FlowTuple, loss: &LossProcess) -> FlowHandle {
        match self.last {
            Some((last, handle)) if last == *tuple => handle,
            _ => {
                let handle = self.find_in_table(tuple, loss);
                self.last = Some((*tuple, handle));
                handle
            }
        }
    }

    #[inline]
    pub(super) fn get(&mut self, handle: FlowHandle) -> &mut Flow {
        &mut self.flows[handle.0 as usize]
    }

    /// Writes a planned drop down, if there is room.
    pub(super) fn record_drop(&mut self, handle: FlowHandle, index: u64) {
        let flow = &mut self.flows[handle.0 as usize];
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
            indexes: flow.drops.clone(),
            complete: flow.complete,
        };
        self.flows.iter().enumerate().map(report).collect()
    }

    pub(super) fn unlisted(&self) -> u64 {
        self.unlisted.len() as u64
    }

    fn find_in_table(&mut self, tuple: &FlowTuple, loss: &LossProcess) -> FlowHandle {
        let tuple = &without_non_ip_headers(tuple);
        if let Some(&handle) = self.handles.get(tuple) {
            return handle;
        }
        if self.handles.len() >= MAX_FLOWS {
            return self.find_shared(tuple, loss);
        }
        let mut identity = FlowIdentity::without_ordinal(tuple);
        let ordinal = self.ordinals.entry(identity).or_insert(0);
        identity.ordinal = *ordinal;
        *ordinal += 1;
        let handle = self.admit(tuple, identity, identity.key(self.key), loss);
        self.handles.insert(*tuple, handle);
        handle
    }

    fn find_shared(&mut self, tuple: &FlowTuple, loss: &LossProcess) -> FlowHandle {
        if self.unlisted.len() < MAX_UNLISTED {
            self.unlisted.insert(KeyedHash(self.key).hash_one(tuple));
        }
        if let Some(handle) = self.shared {
            return handle;
        }
        let handle = self.admit(tuple, FlowIdentity::without_ordinal(tuple), self.key.with(SHARED), loss);
        self.shared = Some(handle);
        handle
    }

    fn admit(&mut self, tuple: &FlowTuple, identity: FlowIdentity, key: StreamKey, loss: &LossProcess) -> FlowHandle {
        // At most MAX_FLOWS + 1 are ever admitted.
        let handle = FlowHandle(self.flows.len() as u32);
        self.flows.push(Flow {
            key,
            packets: 0,
            loss: loss.start(key),
            tuple: *tuple,
            identity,
            drops: Vec::new(),
            complete: true,
        });
        handle
    }
}

impl FlowIdentity {
    /// The identity of the first flow with such headers.
    fn without_ordinal(tuple: &FlowTuple) -> Self {
        let (source_port, destination_port) = match tuple.ports {
            None => (None, None),
            Some((source, destination)) => match (is_ephemeral(source), is_ephemeral(destination)) {
                (true, _) => (None, Some(destination)),
                (false, true) => (Some(source), None),
                (false, false) => (Some(source), Some(destination)),
            },
        };
        FlowIdentity {
            protocol: tuple.protocol,
            source: tuple.source,
            destination: tuple.destination,
            source_port,
            destination_port,
            ordinal: 0,
        }
    }

    /// The flow's random sequences in a direction.
    fn key(&self, direction: StreamKey) -> StreamKey {
        let key = direction.with(self.protocol.map_or(NOT_IP, u64::from));
        let key = with_address(with_address(key, self.source), self.destination);
        with_port(with_port(key, self.source_port), self.destination_port).with(self.ordinal)
    }
}

/// Flows that a direction tells apart.
pub(super) const MAX_FLOWS: usize = 65_536;
/// Distinct flows past the table that are counted; the count stays there.
const MAX_UNLISTED: usize = 1 << 20;
/// Planned drops written down for a flow.
pub(super) const MAX_DROPS_OF_FLOW: usize = 100_000;
/// Planned drops written down for all flows of a direction.
pub(super) const MAX_DROPS: usize = 1_000_000;

// In a flow's key, in the place of an IP protocol's number.
const NOT_IP: u64 = 256;
const SHARED: u64 = 257;

/// Linux's default `net.ipv4.ip_local_port_range` (Documentation/networking/ip-sysctl.rst).
fn is_ephemeral(port: u16) -> bool {
    (32_768..=60_999).contains(&port)
}

/// All that is not IP is one flow, whatever the caller takes for its addresses.
fn without_non_ip_headers(tuple: &FlowTuple) -> FlowTuple {
    const UNSPECIFIED: IpAddr = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
    match tuple.protocol {
        Some(_) => *tuple,
        None => FlowTuple {
            protocol: None,
            source: UNSPECIFIED,
            destination: UNSPECIFIED,
            ports: None,
        },
    }
}

fn with_address(key: StreamKey, address: IpAddr) -> StreamKey {
    match address {
        IpAddr::V4(address) => key.with(4).with(u64::from(address.to_bits())),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            key.with(6).with((bits >> 64) as u64).with(bits as u64)
        }
    }
}

fn with_port(key: StreamKey, port: Option<u16>) -> StreamKey {
    key.with(port.map_or(1 << 16, u64::from))
}

/// A hash for the tables that nobody can foresee who does not know the seed, cheaper than the standard one.
#[derive(Clone, Copy, Debug)]
struct KeyedHash(StreamKey);

impl BuildHasher for KeyedHash {
    type Hasher = KeyedHash;

    fn build_hasher(&self) -> KeyedHash {
        *self
    }
}

impl Hasher for KeyedHash {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = self.0.with(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0.bits()
    }
}
