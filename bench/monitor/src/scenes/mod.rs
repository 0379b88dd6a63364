//! The scenes.

mod archive;
mod latency;
mod pixel;
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

/// The value that a share of some is not above.
fn quantile(ascending: &[f64], share: f64) -> f64 {
    let rank = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// All, by name, in the order in which they run.
pub(crate) const SCENES: [(&str, Scene<Programs, Scale>); 6] = [
    ("thin", thin::run),
    ("send", send::run),
    ("receive", receive::run),
    ("latency", latency::run),
    ("pixel", pixel::run),
    ("archive", archive::run),
];
