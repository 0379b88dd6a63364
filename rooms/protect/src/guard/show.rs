//! How things stand.

use std::sync::Arc;

use super::{Guard, Now};
use crate::model::{Board, Caps, Counts, Group, Speaking};

impl Guard {
    /// What people are shown; `counts`: what others have counted.
    pub fn board(&self, groups: Vec<Group>, speaker: Option<Speaking>, counts: Counts, now: Now) -> Board {
        let (settings, used, tally) = (&self.settings, &self.used, &self.tally);
        let mut counts = counts;
        counts.evicted.extend([("attacks", tally.unheard), ("repeats", self.repeats.evicted())]);
        Board {
            time: now.wall,
            mode: settings.mode,
            stopped: self.stopped.clone(),
            groups,
            attacks: self.lives.values().rev().map(|life| Arc::clone(&life.attack)).collect(),
            history: self.history.iter().cloned().collect(),
            speaker,
            caps: Caps {
                routes: used.routes(),
                max_routes: settings.caps.routes,
                prefixes: used.prefixes(),
                max_prefixes: settings.caps.prefixes,
                share: used.share(),
                max_share: settings.caps.share,
                max_harm: settings.caps.harm,
            },
            counts: Counts {
                attacks: tally.attacks,
                doubted: tally.doubted.iter().map(|(name, count)| (*name, *count)).collect(),
                refused: tally.refused.iter().map(|(name, count)| (*name, *count)).collect(),
                announced: tally.announced,
                withdrawn: tally.withdrawn,
                ..counts
            },
        }
    }
}
