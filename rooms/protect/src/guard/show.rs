//! How things stand.

use std::sync::Arc;

use super::{Guard, Now};
use crate::model::{Board, Caps, Counts, Group, Speaking};

impl Guard {
    /// What people are shown; `counts`: what others have counted.
    pub fn board(&self, groups: Vec<Group>, speaker: Option<Speaking>, counts: Counts, now: Now) -> Board {
        let (settings, used, own) = (&self.settings, &self.used, self.counts.clone());
        let mut evicted = counts.evicted;
        evicted.insert("attacks", self.unheard);
        Board {
            time: now.wall,
            mode: settings.mode,
            stopped: self.stopped.clone(),
            groups,
            attacks: self.lives.values().rev().map(|life| Arc::clone(&life.attack)).collect(),
            history: self.history.iter().cloned().collect(),
            speaker,
            short: self.short.keys().copied().collect(),
            caps: Caps {
                routes: used.routes(),
                max_routes: settings.caps.routes as usize,
                prefixes: used.prefixes(),
                max_prefixes: settings.caps.prefixes as usize,
                share: used.share(),
                max_share: settings.caps.share.fraction(),
                max_harm: settings.caps.harm.fraction(),
            },
            counts: Counts {
                evicted,
                attacks: own.attacks,
                doubted: own.doubted,
                refused: own.refused,
                announced: own.announced,
                withdrawn: own.withdrawn,
                ..counts
            },
        }
    }
}
