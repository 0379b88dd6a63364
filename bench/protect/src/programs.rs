//! Who is compared: rules of a few lines, which are here, and gobgp.

use std::path::PathBuf;

use anyhow::Result;
use bench_measure::{peer, say};

/// Where programs are.
pub(crate) struct Programs {
    /// The speaker; `None`: it is missing.
    pub(crate) gobgpd: Option<PathBuf>,
    /// What is typed to it; `None`: it is missing.
    pub(crate) gobgp: Option<PathBuf>,
    versions: Vec<String>,
}

impl bench_measure::Programs for Programs {
    fn build() -> Result<Programs> {
        let mut versions = Vec::new();
        let mut find = |name: &str| {
            let program = peer(name);
            let version = say(&program, "--version", "version");
            versions
                .push(version.clone().unwrap_or_else(|| format!("{name} is missing, left out (apt install gobgpd)")));
            version.map(|_| program)
        };
        Ok(Programs { gobgpd: find("gobgpd"), gobgp: find("gobgp"), versions })
    }

    fn versions(&self) -> Vec<String> {
        self.versions.clone()
    }
}
