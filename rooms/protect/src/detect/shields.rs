//! What is in force against wider attacks: only that hides the floods of what lies within them.

use ipnet::IpNet;

use super::dossiers::Dossier;
use super::floods::{Flood, Place};
use super::table::Key;
use super::{Detector, HOLDS, narrow};
use crate::model::{Class, Packet, Rule};

/// What is in force against the attack on a prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct Shield {
    /// What is attacked.
    pub prefix: IpNet,
    /// What is taken away.
    pub rules: Vec<Rule>,
    /// Targets within it against which more is done.
    pub except: Vec<IpNet>,
}

impl Shield {
    /// Whether it keeps away the flood of a target within it.
    fn keeps(&self, target: IpNet, packets: impl Iterator<Item = (f32, Packet)>) -> bool {
        if !self.prefix.contains(&target) || self.except.contains(&target) {
            return false;
        }
        if self.rules.iter().any(|rule| rule.is_bare() && rule.destination.contains(&target)) {
            return true;
        }
        let (mut kept, mut total) = (0.0, 0.0);
        for (weight, packet) in packets {
            total += f64::from(weight);
            if self.rules.iter().any(|rule| narrow::does_match(rule, &packet)) {
                kept += f64::from(weight);
            }
        }
        total > 0.0 && kept >= HOLDS * total
    }
}

impl Detector {
    /// Knows what is in force against wider attacks from now on. Floods within them are part of them as long as it is; before anything was
    /// told here, as long as they go on.
    pub fn shield(&mut self, shields: Vec<Shield>) {
        if self.shields.as_ref() == Some(&shields) {
            return;
        }
        self.shields = Some(shields);
        for place in self.floods.places() {
            self.fold_if_sure(place);
        }
    }

    /// Whether what is done about a wider attack keeps away what a target gets of a class, as it is seen here.
    pub(super) fn is_shielded(&self, (span, believed): Place, class: Class, dossier: &Dossier) -> bool {
        // Nothing is done about hearsay.
        let Some(shields) = self.shields.as_ref().filter(|_| believed) else { return true };
        let target = IpNet::from(span);
        shields
            .iter()
            .any(|shield| shield.keeps(target, dossier.packets(class).map(|noted| (noted.frames, noted.packet))))
    }

    /// The same of a flood, for all who see it.
    pub(super) fn is_flood_shielded(&self, place: Place, flood: &Flood) -> bool {
        if self.shields.is_none() || !place.1 {
            return true;
        }
        let ats = flood.views.iter().filter_map(|&view| self.table.find(&Key { span: place.0, view }));
        let mut seen = ats.filter_map(|at| self.dossiers.get(self.table.get(at).dossier)).peekable();
        seen.peek().is_some() && seen.all(|dossier| self.is_shielded((flood.target, place.1), flood.class, dossier))
    }
}
