//! The scenes.

mod latency;
mod receive;
mod send;
mod thin;

use std::time::Duration;

use anyhow::Result;
use bench_measure::Scene;

use crate::programs::Programs;

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Interleaved rounds.
    pub(crate) rounds: usize,
    /// A look.
    pub(crate) look: Duration,
}

impl bench_measure::Scale for Scale {
    const FULL: Scale = Scale { rounds: 5, look: Duration::from_secs(2) };

    const QUICK: Scale = Scale { rounds: 1, look: Duration::from_millis(500) };

    const OPTIONS: &'static str = "";

    fn rounds(&mut self) -> &mut usize {
        &mut self.rounds
    }

    fn option(&mut self, _: &str, _: &mut dyn Iterator<Item = String>) -> Result<bool> {
        Ok(false)
    }
}

/// All, by name, in the order in which they run.
pub(crate) const SCENES: [(&str, Scene<Programs, Scale>); 4] =
    [("thin", thin::run), ("send", send::run), ("receive", receive::run), ("latency", latency::run)];
