//! The scenes.

mod averages;
mod detect;
mod neighbour;
mod react;
mod routes;

use anyhow::Result;
use bench_measure::Scene;

use crate::programs::Programs;

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Interleaved rounds.
    pub(crate) rounds: usize,
    /// Floods of each size.
    pub(crate) floods: u32,
}

impl bench_measure::Scale for Scale {
    const FULL: Scale = Scale { rounds: 15, floods: 1_000 };

    const QUICK: Scale = Scale { rounds: 3, floods: 100 };

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
pub(crate) const SCENES: [(&str, Scene<Programs, Scale>); 3] =
    [("detect", detect::run), ("react", react::run), ("routes", routes::run)];
