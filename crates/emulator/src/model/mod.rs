//! What happens to a packet on one direction of a link: pure state machines on a virtual clock.
//!
//! A packet passes, in this order: planned loss, duplication, changes, the queue and the rate shaper, the delay with
//! its variation, reordering. Lost packets therefore never take up rate or queue.
//!
//! Every random choice is a function of (seed, link, direction, flow, packet index), the index counting the IP packets
//! of one flow in one direction. Time plays no part in it, so the same traffic meets the same losses again. Only a
//! [`Plan`] whose impairments change at set times makes it matter when a packet arrives.

mod bucket;
mod change;
mod delay;
mod direction;
mod flows;
mod identity;
mod loss;
mod opportunities;
mod plan;
mod random;
mod shaper;
#[cfg(test)]
mod tests;
mod timetable;
mod trace;
mod validate;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use change::{Change, Changes};
pub use direction::Direction;
pub use flows::FlowHandle;
pub use identity::FlowIdentity;
pub use plan::{Plan, Step};
pub use shaper::Waiting;
pub use trace::{Trace, TraceError};
pub use validate::InvalidImpairment;

/// Nanoseconds on the virtual clock (in the data path: CLOCK_MONOTONIC).
pub type Nanos = u64;

/// A share between 0 and 1.
pub type Probability = f64;

/// What one direction of a link does to its packets. The default does nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Planned loss.
    pub loss: Loss,
    /// One-way delay added to every packet.
    pub delay: Duration,
    /// Random addition to the delay.
    pub variation: Option<Variation>,
    /// Shaper; `None` is unlimited.
    pub rate: Option<Rate>,
    /// Recorded capacity, in place of a rate. It begins at time 0 of the [`Plan`]; every packet waits for an
    /// opportunity later than its arrival, and is released at that which delivers its last byte.
    pub trace: Option<Arc<Trace>>,
    /// What may wait for the shaper, be it a rate or a trace; without either it never fills.
    pub queue: QueueLimit,
    /// Share of packets that are delivered twice. The copy takes its place in queue and rate right behind the original,
    /// and has a delay variation and reordering of its own; it is not made if the queue has no room for it.
    pub duplicate: Probability,
    /// Share of packets that are changed in each way.
    pub changes: Changes<Probability>,
    /// Share of packets that are held back so that later ones overtake them.
    pub reorder: Option<Reorder>,
}

/// A planned-loss process. Gilbert-Elliott as in Elliott (1963): two states, good and bad.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet is lost independently.
    Bernoulli(Probability),
    /// Losses come in bursts. The chain steps once a packet, before the packet's fate is drawn, starting in the
    /// stationary distribution.
    GilbertElliott {
        /// Probability to go from good to bad.
        to_bad: Probability,
        /// Probability to go from bad to good.
        to_good: Probability,
        /// Loss probability in the good state (often 0).
        good: Probability,
        /// Loss probability in the bad state (often 1).
        bad: Probability,
    },
    /// Exactly these packets of every flow, by index from 0.
    List(Vec<u64>),
}

impl Loss {
    /// Share of packets lost in the long run. An explicit list is finite: 0.
    pub fn mean(&self) -> Probability {
        match *self {
            Loss::None | Loss::List(_) => 0.0,
            Loss::Bernoulli(loss) => loss,
            Loss::GilbertElliott { to_bad, to_good, good, bad } if to_bad + to_good > 0.0 => {
                (to_good * good + to_bad * bad) / (to_bad + to_good)
            }
            Loss::GilbertElliott { good, .. } => good,
        }
    }
}

/// Random addition to the delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// Shape of the addition.
    pub distribution: Distribution,
    /// Whether packets may overtake one another because of it.
    pub order: Order,
}

/// Distribution of an added delay; never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Evenly between 0 and this.
    Uniform(Duration),
    /// Mean and standard deviation, cut off at 0.
    Normal(Duration, Duration),
    /// With this mean.
    Exponential(Duration),
}

/// Whether a direction keeps the order of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// A packet never leaves before one that arrived earlier.
    #[default]
    Keep,
    /// A packet leaves when its own delay is over.
    Reorder,
}

/// Hold a share of the packets back for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Share of packets held back.
    pub probability: Probability,
    /// How much longer than the others they take.
    pub by: Duration,
}

/// Token bucket: `bits_per_second` on the long run, up to `burst_bytes` at once. Bytes count from the IP header on.
/// A packet leaves when it starts to be sent: only those behind it wait for its time on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Long-run rate.
    pub bits_per_second: u64,
    /// Depth of the bucket; a packet larger than it still passes, by going into debt. 0 spaces packets evenly.
    pub burst_bytes: u64,
}

/// Drop-tail limit of what waits for the shaper, the packet being sent not included.
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

/// Which of the world's random sequences a direction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The run's seed.
    pub seed: u64,
    /// The link's index in its network.
    pub link: u32,
    /// Which way.
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

/// The packets of one conversation in one direction, as far as their headers tell.
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
    /// By what the flow is known in every run.
    pub identity: FlowIdentity,
    /// Whether all flows past the flow table's bound are this one; `flow` and `identity` are the first one's.
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
    /// It goes no further.
    Drop(Cause),
    /// It leaves.
    Pass {
        /// When.
        release: Nanos,
        /// What is changed in it.
        changes: Changes<Option<u64>>,
        /// When its copy leaves, if it has one. Only such a copy counts as duplicated.
        copy: Option<Nanos>,
    },
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The loss process said so.
    Loss,
    /// The queue was full.
    Queue,
}
