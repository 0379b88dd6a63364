//! `weir loss account`.

use anyhow::{Result, bail};
use clap::Args;

use super::super::Outcome;

/// `weir loss account`.
#[derive(Debug, Args)]
pub(super) struct Account {}

impl Account {
    pub(super) fn run(self) -> Result<Outcome> {
        bail!("to be built")
    }
}
