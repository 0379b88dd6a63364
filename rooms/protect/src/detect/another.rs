//! Whether what goes on is what was decided: a class is chosen by the first samples of a flood, and one flood a target is followed. What is too
//! much later may be other packets, by which it would never be told, or would be told as less and less.

use super::deciding::HELD;
use super::dossiers::Dossier;
use super::floods::{Flood, Place};
use super::{Detector, report};

/// For how long something else must have been too much, and what was decided not, ns.
const SINCE: u64 = 1_500_000_000;

impl Detector {
    /// A flood of which the class is too little to be told, where all that its test counts is too much: it takes both, and it is told as that from
    /// now on. Whether it is.
    pub(super) fn widen_class(&mut self, place: &Place, flood: &mut Flood) -> bool {
        let group = usize::from(self.groups.networks[flood.network].group);
        let watch = &self.watches.groups[group][flood.watch];
        let (class, unit, now) = (watch.class, watch.unit, self.now);
        if flood.class == class {
            return false;
        }
        let bar = f64::from(self.watches.bars(flood.network as u32, flood.level as u8)[flood.watch].rate);
        let is_late = now >= flood.decided + HELD;
        let is_whole = |dossier: &Dossier| {
            let (narrow, whole) = (unit.of(dossier.told(flood.class, now)), unit.of(dossier.rates(class, now)));
            (is_late || narrow.high.is_some_and(|high| high < bar)) && narrow.value <= bar && whole.value > bar
        };
        if !self.seen(place, flood).any(is_whole) {
            return false;
        }
        for at in self.dossiers_of(place, flood) {
            self.dossiers.widen(at, class);
        }
        flood.class = class;
        true
    }

    /// Whether something else is too much now than what was decided, which is not: other packets that its test counts, by themselves, or what
    /// another test counts.
    pub(super) fn is_another(&self, place: &Place, flood: &Flood) -> bool {
        let group = usize::from(self.groups.networks[flood.network].group);
        let bars = self.watches.bars(flood.network as u32, flood.level as u8);
        let is_later = flood.others > flood.last + SINCE;
        self.seen(place, flood).any(|dossier| {
            self.watches.groups[group].iter().zip(bars).enumerate().any(|(number, (watch, bar))| {
                let rate = |class| watch.unit.of(dossier.rates(class, self.now));
                let others = match number == flood.watch {
                    true if watch.class != flood.class => rate(watch.class).low - rate(flood.class).value,
                    false if is_later => rate(watch.class).low,
                    _ => return false,
                };
                others > f64::from(bar.rate) && report::has_sources(dossier, watch, bar, self.now)
            })
        })
    }
}
