//! What packets add to flows, gathered until all of it is looked up together.
//!
//! Where a flow is, only memory knows, and memory is slow: a tenth of a microsecond for each line that is in no cache. So flows
//! are not looked up one by one. When a packet is gathered, the slots of its flows are asked for; when the batch is settled, first
//! the places of all, and only then they are read, one after the other, when most of them have come.

use super::table::Key;

/// Packets that have been gathered, and what each adds to which flow.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// When they came, in seconds.
    pub(super) now: f64,
    packets: Vec<Gathered>,
    pub(super) pending: Vec<Pending>,
    /// Long keys, one behind the other.
    pub(super) long: Vec<u8>,
    /// Further values, likewise.
    pub(super) further: Vec<f64>,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    /// Its data source, by its place in the shard.
    pub(super) source: u32,
    /// How whoever gathered it calls it.
    pub(super) number: usize,
}

/// What a packet adds to a definition's flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) key: Key,
    /// Where its bytes begin, if it is long.
    pub(super) long: u32,
    pub(super) amount: f64,
    pub(super) hash: u64,
    /// Which packet of the batch.
    pub(super) packet: u32,
    pub(super) definition: u32,
    /// Where its further values begin.
    pub(super) further: u32,
    /// Where it may be, in its table.
    pub(super) guess: u32,
}

impl Batch {
    /// Adds a packet that comes now; the next pending ones are its own.
    #[inline]
    pub(super) fn begin(&mut self, now: f64, packet: Gathered) {
        self.now = now;
        self.packets.push(packet);
    }

    /// The number of the packet that was added last.
    #[inline]
    pub(super) fn last(&self) -> u32 {
        (self.packets.len() - 1) as u32
    }

    pub(super) fn packet(&self, pending: &Pending) -> Gathered {
        self.packets[pending.packet as usize]
    }

    /// The bytes of a long key, and the further values.
    #[inline]
    pub(super) fn rest(&self, number: usize) -> (&[u8], &[f64]) {
        let (one, next) = (&self.pending[number], self.pending.get(number + 1));
        let long = one.long as usize..next.map_or(self.long.len(), |next| next.long as usize);
        let further = one.further as usize..next.map_or(self.further.len(), |next| next.further as usize);
        (&self.long[long], &self.further[further])
    }

    /// Whether it has so much that it is time to settle it.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= FULL
    }

    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.pending.clear();
        self.long.clear();
        self.further.clear();
    }
}

/// More than a datagram of eight samples adds to forty definitions; what it asks for fits the processor's second cache.
const FULL: usize = 320;
