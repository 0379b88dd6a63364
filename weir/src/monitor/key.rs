//! `weir monitor key`: keys, in new files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use weir_program::output::say;
use weir_signal::seal::{GroupKey, SigningKey};

use crate::Outcome;

/// `weir monitor key`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir monitor key --out magnetics.key           magnetics.key signs, magnetics.pub goes to servers
  weir monitor key --group --out monitor.key     stations and servers encrypt with the same key")]
pub(super) struct Key {
    /// The new file; of a key that signs, what others know it by is in a second one, with .pub at its end.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// A key to encrypt with, not one to sign with.
    #[arg(long)]
    group: bool,
}

impl Key {
    pub(super) fn run(self) -> Result<Outcome> {
        let out = self.out.display();
        if self.group {
            GroupKey::create(&self.out)?;
            say!("{out}: keep it secret; every station and server of the group needs a copy");
        } else {
            let public = self.out.with_extension("pub");
            SigningKey::create(&self.out, &public)?;
            say!("{out}: keep it secret, on the station; {}: servers know the station by it", public.display());
        }
        Ok(Outcome::Done)
    }
}
