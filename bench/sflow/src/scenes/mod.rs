//! The scenes.

mod agent;
mod agents;
mod analyse;
mod decode;
mod event;
mod overload;
mod rest;

use std::time::Duration;

use anyhow::Result;
use bench_measure::Scene;

use crate::programs::Programs;

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Interleaved rounds.
    pub(crate) rounds: usize,
    /// A look at the cost.
    pub(crate) cost: Duration,
    /// Crossings of a threshold.
    pub(crate) crossings: u32,
    /// Questions over REST.
    pub(crate) questions: u32,
}

impl bench_measure::Scale for Scale {
    const FULL: Scale = Scale { rounds: 5, cost: Duration::from_secs(2), crossings: 300, questions: 500 };

    const QUICK: Scale = Scale { rounds: 1, cost: Duration::from_millis(500), crossings: 30, questions: 50 };

    const OPTIONS: &'static str = "";

    fn rounds(&mut self) -> &mut usize {
        &mut self.rounds
    }

    fn option(&mut self, _: &str, _: &mut dyn Iterator<Item = String>) -> Result<bool> {
        Ok(false)
    }
}

/// All, by name, in the order in which they run.
pub(crate) const SCENES: [(&str, Scene<Programs, Scale>); 7] = [
    ("decode", decode::run),
    ("analyse", analyse::run),
    ("agents", agents::run),
    ("event", event::run),
    ("rest", rest::run),
    ("overload", overload::run),
    ("agent", agent::run),
];

/// The value below which this share of ascending ones lies.
fn quantile(ascending: &[f64], share: f64) -> f64 {
    let rank = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
