//! The fate of a packet on one direction of a link: pure state machines on a virtual clock.
//!
//! A packet passes, in this order: planned loss, duplication, alteration, the queue and the rate shaper, the delay with
//! its variation, reordering. Lost packets therefore use neither rate nor queue.
//!
//! Every random choice is a function of (seed, link, direction, flow, packet index), the index counting the IP packets
//! of one flow in one direction. It does not depend on time, so the same traffic has the same losses again. The arrival
//! time of a packet matters only in a [`Plan`] whose impairments change at set times.

mod alteration;
mod bucket;
mod delay;
mod direction;
mod flows;
mod identity;
mod impairments;
mod loss;
mod opportunities;
mod plan;
mod random;
mod shaper;
#[cfg(test)]
mod tests;
mod timetable;
mod trace;

use std::net::IpAddr;

pub use alteration::{Alteration, Alterations};
pub use delay::{Distribution, Order, Reorder, Variation};
pub use direction::Direction;
pub use flows::FlowHandle;
pub use identity::FlowIdentity;
pub use impairments::{Impairments, InvalidImpairment};
pub use loss::Loss;
pub use plan::{Plan, Step};
pub use shaper::Waiting;
pub use trace::{Trace, TraceError};

/// Nanoseconds on the virtual clock (in the data path: CLOCK_MONOTONIC).
pub type Nanos = u64;

/// A share between 0 and 1.
pub type Probability = f64;

/// Token bucket: `bits_per_second` in the long run, up to `burst_bytes` at once. Bytes count from the IP header on. A
/// packet leaves when its sending starts: only later ones wait for its time on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Long-run rate.
    pub bits_per_second: u64,
    /// Size of the bucket; a larger packet still passes, by going into debt. 0 spaces packets evenly.
    pub burst_bytes: u64,
}

/// Drop-tail limit of the shaper's queue, without the packet being sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// No limit.
    #[default]
    Unlimited,
    /// Bytes, counted from the IP header on.
    Bytes(u64),
    /// IP packets.
    Packets(u64),
}

/// The random sequences of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The run's seed.
    pub seed: u64,
    /// The link's index in its network.
    pub link: u32,
    /// The direction.
    pub direction: Way,
}

/// The two directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From end a to end b.
    Forward,
    /// From end b to end a.
    Backward,
}

/// The packets of one conversation in one direction, by their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowTuple {
    /// IP protocol number; `None`: not an IP packet.
    pub protocol: Option<u8>,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source and destination port; `None` for fragments and protocols without ports.
    pub ports: Option<(u16, u16)>,
}

/// The planned drops of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowDrops {
    /// The flow's headers.
    pub flow: FlowTuple,
    /// The identity of the flow in every run.
    pub identity: FlowIdentity,
    /// Whether this is the flow shared by all beyond the table's limit; `flow` and `identity` are the first one's.
    pub shared: bool,
    /// Packets of this flow seen so far.
    pub packets: u64,
    /// Planned drops so far, all of them.
    pub lost: u64,
    /// Packets that found the queue full.
    pub queue_dropped: u64,
    /// Indexes of dropped packets, ascending; the list ends early where `complete` is false.
    pub indexes: Vec<u64>,
    /// Whether `indexes` has all of them.
    pub complete: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is dropped.
    Drop(Cause),
    /// It leaves.
    Pass {
        /// Its release.
        release: Nanos,
        /// Its alterations.
        alterations: Alterations<Option<u64>>,
        /// Release of its copy, if it has one. Only such a copy counts as duplicated.
        copy: Option<Nanos>,
    },
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The loss process dropped it.
    Loss,
    /// The queue was full.
    Queue,
}
