//! Which files the process may write from now on, whoever it is: Landlock (landlock(7), Linux 5.13).
//!
//! What is open stays so; sockets, pipes and what others ask of this process by signals are not touched. A process that is
//! confined may not look into others (/proc/PID/fd, ptrace(2)), nor start any program.

use std::path::{Path, PathBuf};

use landlock::{ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules};

use crate::Error;

/// How much of it this kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforced {
    /// All of it.
    Whole,
    /// Not what came with later kernels: cutting files short (6.2), moving them to another folder (5.19).
    Part,
    /// It has no Landlock, or has it switched off.
    Nothing,
}

/// Confines the calling thread, and those that it starts from now on, for good: files are written, made, renamed and removed below
/// these folders alone. Nothing is executed any more.
///
/// # Errors
/// The kernel has Landlock and refuses; then nothing has changed.
pub fn confine(folders: &[PathBuf]) -> Result<Enforced, Error> {
    let refused = |error: landlock::RulesetError| Error::answer("confine to files (Landlock)", error.to_string());
    let write = AccessFs::from_write(RIGHTS);
    let handled = write | AccessFs::Execute;
    let mut rules = Ruleset::default().handle_access(handled).and_then(Ruleset::create).map_err(refused)?;
    rules = rules.add_rules(path_beneath_rules(folders, write)).map_err(refused)?;
    rules = rules.add_rules(path_beneath_rules(SINKS.map(Path::new), AccessFs::WriteFile)).map_err(refused)?;
    let status = rules.restrict_self().map_err(refused)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Whole,
        RulesetStatus::PartiallyEnforced => Enforced::Part,
        RulesetStatus::NotEnforced => Enforced::Nothing,
    })
}

/// The rights of Linux 6.2. Later ones are about devices and sockets, which terminals need.
const RIGHTS: ABI = ABI::V3;

/// Devices that take whatever is written, and the terminal.
const SINKS: [&str; 2] = ["/dev/null", "/dev/tty"];
