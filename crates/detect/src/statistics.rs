//! What tables hold, and what they gave up.

use super::Detector;
use super::watches::Unit;
use crate::model::Threshold;

/// What the tables hold and gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
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
    /// Samples of more views than there is room for.
    pub refused_views: u64,
    /// Floods that go on.
    pub floods: usize,
    /// Those that were refused, since there were too many.
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

    /// What the tables hold and gave up.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            targets: (self.table.used, self.table.len()),
            evicted_targets: self.table.evicted,
            dossiers: (self.dossiers.len(), self.settings.limits.dossiers),
            evicted_dossiers: self.dossiers.evicted,
            evicted_profiles: self.profiles.evicted,
            alive: self.alive.values().filter(|heard| heard[1] + HEARD >= self.now).count(),
            refused_views: self.views.refused,
            floods: self.floods.all.len(),
            refused_floods: self.floods.refused,
        }
    }
}
