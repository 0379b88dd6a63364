//! Which tests there are, and what their thresholds are at this hour.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::classes::{self, Classes};
use super::groups::{Groups, LEVELS};
use super::learn::Learnt;
use super::sequential::Bar;
use super::settings::{Group, Threshold};
use crate::model::{Class, Rate};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Packets,
    Bits,
}

impl Unit {
    /// The one of a rate of packets and of one of bits.
    pub(super) fn of(self, (packets, bits): (Rate, Rate)) -> Rate {
        if self == Self::Packets { packets } else { bits }
    }
}

/// A test that each host of a group has, and each prefix.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) class: Class,
    pub(super) bit: Classes,
    pub(super) unit: Unit,
    pub(super) min_sources: usize,
    pub(super) learn: bool,
    /// Whether anything has been learnt. Before that all counts, also of those that exceed what is given: else they never were usual.
    pub(super) taught: bool,
    fixed: Option<f64>,
    ratio: f64,
    spread: f64,
    /// By level.
    pub(super) learnt: Vec<Learnt>,
}

/// All tests.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// By group.
    pub(super) groups: Vec<Vec<Watch>>,
    /// By network, level, and number of the test in its group.
    pub(super) bars: Vec<Vec<Vec<Bar>>>,
}

/// What was learnt, by group and by test (`udp_flood packets`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    groups: BTreeMap<String, BTreeMap<String, Vec<Learnt>>>,
}

/// Where nothing is known and nothing is given: more than there is.
const BOUNDLESS: f64 = 1e15;

impl Watches {
    pub(super) fn new(groups: &[Group]) -> Self {
        let watches = |group: &Group| group.thresholds.iter().flat_map(Watch::of).collect();
        Self { groups: groups.iter().map(watches).collect(), bars: Vec::new() }
    }

    /// Sets thresholds to those of an hour of the week.
    pub(super) fn set(&mut self, groups: &Groups, hour: usize) {
        self.bars.clear();
        for watch in self.groups.iter_mut().flatten() {
            watch.taught = watch.learnt.first().is_some_and(|learnt| learnt.usual(hour) > 0.0);
        }
        for network in &groups.networks {
            let watches = &self.groups[usize::from(network.group)];
            let of_level = |(level, &ln_hosts): (usize, &f64)| {
                watches.iter().map(|watch| watch.bar(level, ln_hosts, hour)).collect()
            };
            self.bars.push(network.ln_hosts.iter().enumerate().map(of_level).collect());
        }
    }

    /// The thresholds of a network's level.
    #[inline]
    pub(super) fn bars(&self, network: u32, level: u8) -> &[Bar] {
        &self.bars[network as usize][usize::from(level)]
    }

    /// Most tests of a group.
    pub(super) fn most(&self) -> usize {
        self.groups.iter().map(Vec::len).max().unwrap_or(0).max(1)
    }

    /// Goes through all that is learnt.
    pub(super) fn learnt(&mut self) -> impl Iterator<Item = &mut Learnt> {
        self.groups.iter_mut().flatten().filter(|watch| watch.learn).flat_map(|watch| watch.learnt.iter_mut())
    }

    pub(super) fn save(&self, names: &[String]) -> Saved {
        let of = |watches: &Vec<Watch>| {
            let learning = watches.iter().filter(|watch| watch.learn);
            learning.map(|watch| (watch.name(), watch.learnt.clone())).collect()
        };
        Saved { groups: names.iter().cloned().zip(self.groups.iter().map(of)).collect() }
    }

    /// Takes over what fits, and is no nonsense.
    pub(super) fn restore(&mut self, names: &[String], mut saved: Saved) {
        for (name, watches) in names.iter().zip(&mut self.groups) {
            let Some(mut group) = saved.groups.remove(name) else { continue };
            for watch in watches.iter_mut().filter(|watch| watch.learn) {
                let Some(learnt) = group.remove(&watch.name()) else { continue };
                if learnt.len() == LEVELS && learnt.iter().all(Learnt::is_sound) {
                    watch.learnt = learnt;
                }
            }
        }
    }
}

impl Watch {
    fn of(threshold: &Threshold) -> Vec<Self> {
        let &Threshold { class, packets, bits, learn, ratio, min_sources, spread } = threshold;
        let watch = |unit, fixed| Self {
            class,
            bit: classes::bit(class),
            unit,
            min_sources,
            learn,
            taught: false,
            fixed,
            ratio,
            spread,
            learnt: if learn { vec![Learnt::default(); LEVELS] } else { Vec::new() },
        };
        let mut watches = Vec::new();
        // What is learnt without anything given is packets.
        if packets.is_some() || bits.is_none() && learn {
            watches.push(watch(Unit::Packets, packets));
        }
        if bits.is_some() {
            watches.push(watch(Unit::Bits, bits));
        }
        watches
    }

    fn bar(&self, level: usize, ln_hosts: f64, hour: usize) -> Bar {
        let usual = |level: usize| self.learnt.get(level).map_or(0.0, |learnt| self.ratio * learnt.usual(hour));
        let fixed = self.fixed.unwrap_or(0.0);
        let factor = (self.spread * ln_hosts).exp();
        let given = fixed * factor;
        let rate = (fixed.max(usual(0)) * factor).max(usual(level));
        if rate <= 0.0 {
            return Bar::new(BOUNDLESS);
        }
        Bar { is_learnt: rate > given, ..Bar::new(rate) }
    }

    fn name(&self) -> String {
        let unit = match self.unit {
            Unit::Packets => "packets",
            Unit::Bits => "bits",
        };
        format!("{} {unit}", self.class.name())
    }
}
