//! What happens: who is flooded, from when to when. All of it follows from numbers, so that truth needs no measurement.

use std::net::Ipv4Addr;

use crate::scenario::{Attack, Protect};

/// Who is flooded, and what agents there are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schedule {
    pub(super) settings: Protect,
    /// Seconds that are sent.
    pub(super) duration: f64,
    /// Bytes of a datagram, at most.
    pub(super) longest: usize,
    /// What all that is random follows from.
    pub(super) seed: u64,
}

/// A flood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flood {
    /// Against whom.
    pub(super) target: Ipv4Addr,
    /// At which agent it comes in, from 0.
    pub(super) agent: u32,
    /// When it begins, in seconds since the start.
    pub(super) start: f64,
    /// When it is over.
    pub(super) end: f64,
}

impl Schedule {
    /// Packets a second that a host may get.
    pub(super) fn threshold(&self) -> f64 {
        self.settings.threshold.micro_hertz as f64 / 1e6
    }

    /// Packets a second of a flood.
    pub(super) fn rate(&self) -> f64 {
        self.settings.size * self.threshold()
    }

    /// The floods in order, forged ones too: each against a host of its own, the only one of its /24.
    pub(super) fn floods(&self) -> Vec<Flood> {
        if self.settings.attack == Attack::None {
            return Vec::new();
        }
        let (length, apart) = (self.settings.length(), self.settings.apart.duration().as_secs_f64());
        let number = ((self.duration - LEAD - length) / apart).max(0.0).floor() as u32;
        let flood = |number: u32| {
            let start = LEAD + f64::from(number) * apart;
            let agent = self.agent_of(number);
            Flood { target: target(number), agent, start, end: start + length }
        };
        (0..number).map(flood).collect()
    }

    /// Which of all agents, forgers included, tells of a flood.
    fn agent_of(&self, number: u32) -> u32 {
        match self.settings.attack {
            Attack::Forged => self.settings.agents + number % FORGERS,
            Attack::Flood | Attack::None => number % self.settings.agents.max(1),
        }
    }

    /// How many agents there are, forgers included.
    pub(super) fn agents(&self) -> u32 {
        self.settings.agents + if self.settings.attack == Attack::Forged { FORGERS } else { 0 }
    }

    /// What an agent calls itself: 10.128.0.1 and on. The first forger is nobody's, the second one says that it is the first agent.
    pub(super) fn address(&self, agent: u32) -> Ipv4Addr {
        let number = match agent.checked_sub(self.settings.agents) {
            None => agent,
            Some(0) => STRANGER,
            Some(_) => 0,
        };
        Ipv4Addr::from(u32::from(AGENTS) + 1 + number)
    }

    /// The number behind which an agent's datagrams are counted: a forger's are told from those of the agent whose name it takes.
    pub(super) fn first_sequence(&self, agent: u32) -> u32 {
        if agent > self.settings.agents { FORGED } else { 0 }
    }

    /// Whose a datagram is.
    pub(super) fn agent(&self, address: Ipv4Addr, sequence: u32) -> Option<u32> {
        (0..self.agents()).find(|&agent| {
            let forged = self.first_sequence(agent) == FORGED;
            self.address(agent) == address && forged == (sequence > FORGED)
        })
    }
}

/// A host that is flooded.
fn target(number: u32) -> Ipv4Addr {
    let [high, low] = [number / 256, number % 256];
    Ipv4Addr::new(10, 64, low as u8, 10 + (high % 200) as u8)
}

/// A host with benign traffic, by its number among all.
pub(super) fn benign(number: u32) -> Ipv4Addr {
    let [high, low] = [number / 256, number % 256];
    Ipv4Addr::new(10, 65, low as u8, 10 + (high % 200) as u8)
}

/// Where hosts with benign traffic are.
pub(super) const BENIGN: &str = "10.65.0.0/16";

/// Agents that are believed; the stranger is none of them.
pub(super) const LISTED: &str = "10.128.0.0/24";

const AGENTS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);

/// Agents at most, all of them within [`LISTED`].
pub(super) const MOST_AGENTS: u32 = 200;

/// The number of the address that is not listed: 10.128.1.1.
const STRANGER: u32 = 256;

const FORGERS: u32 = 2;

/// Before the first flood: agents are known by then, and their counters have come.
pub(super) const LEAD: f64 = 6.0;

/// Behind what no agent counts to.
const FORGED: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flood_is_within_the_window_and_of_its_own() {
        for size in [1.5, 2.0, 5.0, 20.0] {
            let settings = Protect { size, ..Protect::default() };
            let schedule = Schedule { settings, duration: 110.0, longest: 1400, seed: 1 };
            let floods = schedule.floods();
            assert!(floods.len() >= 300, "{size}: {}", floods.len());
            assert!(floods.iter().all(|flood| flood.start >= LEAD && flood.end <= 110.0));
            // What is above the threshold is the same of all: 10 s of it.
            let excess = (floods[0].end - floods[0].start) * (schedule.rate() - schedule.threshold());
            assert!((excess / (10.0 * 50e3) - 1.0).abs() < 1e-6, "{excess}");
            let mut targets: Vec<_> = floods.iter().map(|flood| flood.target).collect();
            targets.sort_unstable();
            targets.dedup();
            assert_eq!(targets.len(), floods.len());
        }
    }

    #[test]
    fn agents_are_known_by_address_and_number() {
        let settings = Protect { attack: Attack::Forged, ..Protect::default() };
        let schedule = Schedule { settings, duration: 60.0, longest: 1400, seed: 1 };
        for agent in 0..schedule.agents() {
            let number = schedule.first_sequence(agent) + 7;
            assert_eq!(schedule.agent(schedule.address(agent), number), Some(agent));
        }
        assert!(schedule.floods().iter().all(|flood| flood.agent >= 4), "forgers tell of them");
        assert_eq!(schedule.address(5), schedule.address(0), "one takes an agent's name");
    }
}
