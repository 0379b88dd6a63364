//! `weir lab list`, `show`, `init`, `check`: scenarios without running them.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use weir_lab::scenario::Scenario;
use weir_lab::sweep::Sweep;
use weir_program::output::{print, say};

use crate::{Outcome, usage};

/// `weir lab init`.
#[derive(Debug, Args)]
pub(super) struct Init {
    /// Name of a built-in scenario (`weir lab list`).
    name: String,
    /// New file to write [default: NAME.toml].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Init {
    pub(super) fn run(self) -> Result<Outcome> {
        let text = usage(Scenario::of_name(&self.name))?;
        let path = self.out.unwrap_or_else(|| format!("{}.toml", self.name).into());
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return usage(Err(anyhow!("{}: already exists. Choose another file with --out.", path.display())));
            }
            opened => opened.with_context(|| format!("create {}", path.display()))?,
        };
        file.write_all(text.as_bytes()).with_context(|| format!("write {}", path.display()))?;
        say!("{}: edit it, then run `weir lab run {}`", path.display(), as_a_file(&path));
        Ok(Outcome::Done)
    }
}

/// A path that no command mistakes for the name of a built-in scenario.
fn as_a_file(path: &Path) -> String {
    let is_bare = path.extension().is_none() && path.components().count() == 1;
    format!("{}{}", if is_bare { "./" } else { "" }, path.display())
}

/// `weir lab list`.
pub(super) fn list() -> Result<Outcome> {
    for (name, text) in Scenario::shipped() {
        let sweep = Sweep::new(name, text, &[])?;
        let title = sweep.cells.first().map_or("", |cell| cell.scenario.title.as_str());
        say!("{name:<16}{title} ({} cells)", sweep.cells.len());
    }
    Ok(Outcome::Done)
}

/// `weir lab show`.
pub(super) fn show(name: &str) -> Result<Outcome> {
    print(format_args!("{}", usage(Scenario::of_name(name))?));
    Ok(Outcome::Done)
}

/// `weir lab check`: reports the errors of `run`, and prints what it would run.
pub(super) fn check(sweep: Result<Sweep>) -> Result<Outcome> {
    let sweep = usage(sweep)?;
    usage(sweep.check())?;
    let cells = sweep.cells.len();
    let what = if sweep.axes.is_empty() { "" } else { ", one per combination of [axes]" };
    let cells = if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells{what}") };
    say!("# {cells}, all defaults shown.\n{}", sweep.to_toml()?.trim_end());
    Ok(Outcome::Done)
}
