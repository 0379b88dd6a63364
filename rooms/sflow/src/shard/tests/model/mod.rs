//! A model of agents whose truth is known.
//!
//! ```text
//! Traffic: a Poisson process of packets in classes, of which only the sampled ones are drawn one by one
//!    |  one an interface
//!    v
//! Agent:   samples and counters in datagrams, when an agent would send them
//!    |
//!    v
//! Fleet:   many of them, datagram by datagram, in the order of time
//!
//! Truth:   the same traffic again, from the same seed: what really passed an interface up to a sample, or to a time;
//! Smoothed: as a rate, smoothed as those of flows are
//! ```
//!
//! Nothing is measured and nothing is sent. All of it follows from a [`Plan`] by arithmetic, so that truth needs no room in
//! memory and no way to those who send. The analyser never sees it.

mod agent;
mod encoding;
mod fleet;
mod smoothed;
mod traffic;
mod truth;

pub(crate) use agent::{Agent, Due};
pub(crate) use fleet::Fleet;
pub(crate) use smoothed::Smoothed;
pub(crate) use traffic::{CLASSES, Class, Sampled, Totals, Traffic};
pub(crate) use truth::Truth;

use std::net::Ipv4Addr;
use std::time::Duration;

/// Agents that are alike, each with traffic of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Agents, with addresses from [`Plan::address`].
    pub(crate) agents: u32,
    /// Interfaces of each, with `ifIndex` from 1.
    pub(crate) interfaces: u32,
    /// Packets a second that an interface receives, on average.
    pub(crate) packets_per_second: f64,
    /// One packet of so many is sampled, on average.
    pub(crate) sampling_rate: u32,
    /// Which ones.
    pub(crate) selection: Selection,
    /// What their sample pool says.
    pub(crate) pool: Pool,
    /// Between two counter samples of an interface.
    pub(crate) polling: Duration,
    /// Bytes of a datagram, at most.
    pub(crate) longest: usize,
    /// What all of it follows from.
    pub(crate) seed: u64,
}

/// How packets are selected (sFlow version 5, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Behind as many others as a skip count says, which is even from 1 to twice the sampling rate less 1.
    #[default]
    Skip,
    /// Each with the same chance, whatever became of the others.
    Chance,
    /// Each that is a multiple of the sampling rate.
    EveryNth,
}

/// What `sample_pool` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pool {
    /// The packets that could have been selected.
    #[default]
    Counted,
    /// The number of samples times the sampling rate, as Open vSwitch has it.
    MadeUp,
    /// Always the same.
    Still,
}

impl Plan {
    /// The address of an agent, from 0: 10.128.0.1 and on.
    pub(crate) fn address(agent: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 128, 0, 1)).wrapping_add(agent))
    }

    /// Which agent has an address; `None`: none of this plan.
    pub(crate) fn agent_of(&self, address: Ipv4Addr) -> Option<u32> {
        let agent = u32::from(address).wrapping_sub(u32::from(Self::address(0)));
        (agent < self.agents).then_some(agent)
    }

    /// The traffic of an interface, by agent and `ifIndex`.
    pub(crate) fn traffic(&self, agent: u32, interface: u32) -> Traffic {
        let stream = u64::from(agent) << 32 | u64::from(interface);
        Traffic::new(self.packets_per_second, self.sampling_rate, self.selection, self.seed, stream)
    }

    /// When an interface's counters are read, in seconds since the start: their number from 1, as a counter sample has it.
    /// Those of all interfaces are spread over the interval, and each is late by up to a tenth of it: agents have other things
    /// to do.
    pub(crate) fn polled_at(&self, agent: u32, interface: u32, number: u32) -> f64 {
        let place = f64::from(agent * self.interfaces + interface - 1) / f64::from(self.agents * self.interfaces);
        let port = u64::from(agent) << 32 | u64::from(interface);
        let late = traffic::share(self.seed, [port, u64::from(number)]) / 10.0;
        (f64::from(number) - 1.0 + place + late) * self.polling.as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
