//! `weir loss check`.

use anyhow::{Result, bail};
use clap::Args;

use super::super::Outcome;

/// `weir loss check`.
#[derive(Debug, Args)]
pub(super) struct Check {}

impl Check {
    pub(super) fn run(self) -> Result<Outcome> {
        bail!("to be built")
    }
}
