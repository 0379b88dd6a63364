//! What came, and what became of it.

use super::Detector;
use super::watches::Unit;
use crate::model::Threshold;

/// What came, and what the tables hold and gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Samples that came, and where they went.
    pub totals: Totals,
    /// Hosts and prefixes with a place, of how many.
    pub targets: (usize, usize),
    /// Those that lost evidence with it.
    pub evicted_targets: u64,
    /// Dossiers, of how many.
    pub dossiers: (usize, usize),
    /// Those given up for others or refused.
    pub evicted_dossiers: u64,
    /// Hosts whose usual traffic was forgotten for others'.
    pub evicted_profiles: u64,
    /// Listed agents that are heard.
    pub alive: usize,
    /// Floods that go on.
    pub floods: usize,
}

/// Samples, by what became of them. `samples == outside + allowed + elsewhere + unweighed + first +
/// refused + tested`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All.
    pub samples: u64,
    /// To addresses that are not protected.
    pub outside: u64,
    /// From sources that are not counted.
    pub allowed: u64,
    /// Of listed agents, but not at the edge, where one is configured.
    pub elsewhere: u64,
    /// That stand for no packets.
    pub unweighed: u64,
    /// Of the first burst of a stream: nobody knows how long it took to come together.
    pub first: u64,
    /// Of more agents than there is room for.
    pub refused: u64,
    /// That were tested.
    pub tested: u64,
    /// Floods that were refused, since there were too many.
    pub refused_floods: u64,
}

/// For how long after it was heard an agent is taken to be alive, ns.
const HEARD: u64 = 10_000_000_000;

impl Detector {
    /// Of a group how many hosts are known, and what each may get at this hour; `None`: there is no such group.
    pub fn in_force(&self, group: &str) -> Option<(usize, Vec<Threshold>)> {
        let number = self.groups.names.iter().position(|name| name == group)?;
        let network = self.groups.networks.iter().position(|network| usize::from(network.group) == number)?;
        let mut thresholds: Vec<Threshold> = Vec::new();
        for (at, watch) in self.watches.groups[number].iter().enumerate() {
            let class = watch.class.name();
            if thresholds.last().is_none_or(|last| last.class != class) {
                thresholds.push(Threshold { class, packets: None, bits: None, learnt: false });
            }
            let Some(threshold) = thresholds.last_mut() else { continue };
            let bar = self.watches.bars(network as u32, 0)[at];
            let rate = Some(f64::from(bar.rate));
            match watch.unit {
                Unit::Packets => threshold.packets = rate,
                Unit::Bits => threshold.bits = rate,
            }
            threshold.learnt |= bar.is_learnt;
        }
        Some((self.profiles.count(number), thresholds))
    }

    /// What came, and what the tables hold.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            totals: self.totals,
            targets: (self.table.used, self.table.len()),
            evicted_targets: self.table.evicted,
            dossiers: (self.dossiers.len(), self.settings.limits.dossiers),
            evicted_dossiers: self.dossiers.evicted,
            evicted_profiles: self.profiles.evicted,
            alive: self.alive.values().filter(|heard| heard[1] + HEARD >= self.now).count(),
            floods: self.floods.len(),
        }
    }
}
