//! The scenes.

mod cpu;
mod dead;
mod delay;
mod growth;
mod load;
mod rate;
mod reload;
mod single;

use std::time::Duration;

use anyhow::{Context, Result};
use bench_measure::Scene;

use crate::replicator::Programs;

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Comparisons of the cost to make: those whose names contain this.
    pub(crate) only: Option<&'static str>,
    /// Interleaved rounds.
    pub(crate) rounds: usize,
    /// A look at the cost.
    pub(crate) cost: Duration,
    /// A look at delays.
    pub(crate) delay: Duration,
    /// With dead destinations, over all rounds.
    pub(crate) dead: Duration,
    /// A step of the search for the highest rate.
    pub(crate) step: Duration,
    /// Under load.
    pub(crate) load: Duration,
    /// Reloads.
    pub(crate) reloads: u32,
}

impl bench_measure::Scale for Scale {
    const FULL: Scale = Scale {
        only: None,
        rounds: 3,
        cost: Duration::from_millis(200),
        delay: Duration::from_secs(2),
        dead: Duration::from_secs(60),
        step: Duration::from_secs(2),
        load: Duration::from_secs(10),
        reloads: 1000,
    };

    const QUICK: Scale = Scale {
        only: None,
        rounds: 1,
        cost: Duration::from_millis(150),
        delay: Duration::from_secs(1),
        dead: Duration::from_secs(3),
        step: Duration::from_millis(300),
        load: Duration::from_secs(1),
        reloads: 20,
    };

    const OPTIONS: &'static str = ", --only WORDS, --seconds S";

    fn rounds(&mut self) -> &mut usize {
        &mut self.rounds
    }

    fn option(&mut self, name: &str, words: &mut dyn Iterator<Item = String>) -> Result<bool> {
        match name {
            "--only" => self.only = Some(words.next().context("--only: what?")?.leak()),
            "--seconds" => {
                self.dead = Duration::from_secs_f64(words.next().context("--seconds: how many?")?.parse()?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// All, by name, in the order in which they run.
pub(crate) const SCENES: [(&str, Scene<Programs, Scale>); 8] = [
    ("cpu", cpu::run),
    ("delay", delay::run),
    ("dead", dead::run),
    ("rate", rate::run),
    ("load", load::run),
    ("reload", reload::run),
    ("single", single::run),
    ("growth", growth::run),
];
