//! `weir loss watch`.

use anyhow::{Result, bail};
use clap::Args;

use super::super::Outcome;

/// `weir loss watch`.
#[derive(Debug, Args)]
pub(super) struct Watch {}

impl Watch {
    pub(super) fn run(self) -> Result<Outcome> {
        bail!("to be built")
    }
}
