//! Whether what samples tell is believed: sFlow is unauthenticated UDP, and whoever can send a datagram can tell of a flood.
//!
//! ```text
//! agents     listed, from its address, of a stream that was there before others in its name, and that nobody else takes part in
//! counters   what samples tell of an interface is not more than its counters do, once they have told; nor than it can carry
//! witnesses  other agents that usually see the target's traffic see the flood
//! ```
//!
//! Who sends samples alone has no counters for them. Who sends counters too speaks as an agent that is heard itself: another stream under
//! one name, which does not continue the first. What it tells is hearsay: it is told all the same, with its doubts and apart from what is
//! believed; nothing is done about it, nor is anything left undone.

mod agents;
mod counters;
mod readings;
mod speakers;

use std::time::Duration;

use ipnet::IpNet;

pub use agents::{Heard, Sign, Trouble};
pub use counters::Counts;
pub use speakers::Speakers;

pub(crate) use agents::Agents;
pub(crate) use counters::{Place, Ports};

/// Whose evidence holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Agents that are believed.
    pub agents: Vec<Exporter>,
    /// Agents that must see a flood, as far as so many usually see the target's traffic. More than 1 is for agents behind one another on
    /// every path: of two that share traffic out between them, one may not see what the other does.
    pub witnesses: usize,
    /// How old an interface's counters may be that speak for what is sampled there.
    pub counters_age: Duration,
    /// How old counters may be when they are sent: agents read them from a copy that is renewed every few seconds.
    pub lag: Duration,
    /// How long counters of an interface must have come and agreed if it is new beside an agent that is known: another agent that sees the same
    /// makes that unnecessary. And how long a sub-agent must have been heard that is new beside another, and an address that is new in a network of `agents`.
    pub probation: Duration,
    /// How long a conflict is remembered.
    pub memory: Duration,
}

/// An agent that is believed, or a network of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter {
    /// Its address as its datagrams tell it.
    pub agent: IpNet,
    /// Where its datagrams come from; `None`: from that same address.
    pub from: Option<IpNet>,
    /// Its sub-agents, each believed at once and no other; `None`: the one that is heard first, and others after their probation.
    pub sub_agents: Option<Vec<u32>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            agents: Vec::new(),
            witnesses: 1,
            counters_age: Duration::from_secs(120),
            lag: Duration::from_secs(5),
            probation: Duration::from_secs(600),
            memory: Duration::from_secs(60),
        }
    }
}
