//! Changing settings one by one, each recorded before, and putting all of them back.

use std::fmt;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use super::changes::{self, Changes, Made, Namespace, Storage};
use super::findings::Finding;
use super::setting::{Change, Setting};

/// What can be read and written.
pub(super) trait Machine {
    /// The namespace in which a setting is to be read and written: that which is audited (`None`: ours), or for what the
    /// whole machine shares ours.
    ///
    /// # Errors
    /// If the kernel does not tell which it is.
    fn home(&mut self, netns: Option<&Namespace>, setting: &Setting) -> Result<Namespace>;

    /// The value of a setting there; `None`: what has it is no more.
    ///
    /// # Errors
    /// If it cannot be read, or the namespace is not to be found from here.
    fn read(&mut self, home: &Namespace, setting: &Setting) -> Result<Option<String>>;

    /// Writes it.
    ///
    /// # Errors
    /// If the kernel refuses it.
    fn write(&mut self, home: &Namespace, setting: &Setting, value: &str) -> Result<()>;
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Applied {
    /// The finding it belongs to.
    pub finding: &'static str,
    /// What was changed.
    pub setting: Setting,
    /// The value before.
    pub old: String,
    /// The value asked for.
    pub new: String,
    /// The value after everything.
    pub now: String,
    /// What follows from it.
    pub verdict: Verdict,
    /// Why it is so, where it is no matter of course.
    pub detail: Option<String>,
}

/// Whether a change is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is, as near as the kernel can do it.
    Changed,
    /// The kernel took it and did something else, or nothing: put back.
    NotTaken,
    /// The kernel refused it, or what was to be changed has gone.
    Failed,
    /// It has its value already.
    Unneeded,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Changed => "changed",
            Verdict::NotTaken => "not taken, put back",
            Verdict::Failed => "failed",
            Verdict::Unneeded => "in force already",
        })
    }
}

/// Makes every change that the findings name, in their order.
///
/// # Errors
/// If a change cannot be recorded: then nothing more is changed. What is in force then, and how to put it back, is in the
/// error.
pub(super) fn apply<S: Storage>(
    findings: &[Finding],
    netns: Option<&Namespace>,
    machine: &mut dyn Machine,
    changes: &mut Changes<S>,
) -> Result<Vec<Applied>> {
    let wanted = findings.iter().flat_map(|finding| finding.changes.iter().map(|change| (finding.name, change)));
    wanted
        .map(|(finding, change)| {
            make(finding, change, netns, machine, changes).map_err(|error| in_force(&error, changes))
        })
        .collect()
}

/// What stays changed although it ended so, and how to put it back.
fn in_force<S: Storage>(error: &anyhow::Error, changes: &Changes<S>) -> anyhow::Error {
    let made: Vec<String> = changes.made().iter().map(|made| format!("{} (was {})", made.setting, made.old)).collect();
    if made.is_empty() {
        return anyhow!("{error:#} (nothing is changed)");
    }
    let (made, path) = (made.join(", "), changes.path().display());
    anyhow!("{error:#}; changed: {made}: `weir loss check --undo --changes {path}` puts it back")
}

fn make<S: Storage>(
    finding: &'static str,
    change: &Change,
    netns: Option<&Namespace>,
    machine: &mut dyn Machine,
    changes: &mut Changes<S>,
) -> Result<Applied> {
    let Change { setting, value } = change;
    let home = machine.home(netns, setting)?;
    let read = machine.read(&home, setting);
    let old = read.as_ref().ok().cloned().flatten().unwrap_or_default();
    let mut applied = Applied {
        finding,
        setting: setting.clone(),
        old: old.clone(),
        new: value.clone(),
        now: old.clone(),
        verdict: Verdict::Failed,
        detail: None,
    };
    match read {
        Ok(Some(old)) if old == *value => return Ok(Applied { verdict: Verdict::Unneeded, ..applied }),
        Ok(Some(_)) => {}
        Ok(None) => return Ok(Applied { detail: Some("it is no more".to_owned()), ..applied }),
        Err(error) => return Ok(Applied { detail: Some(format!("{error:#}")), ..applied }),
    }
    let boot = changes::boot();
    let made = Made { setting: setting.clone(), netns: home.clone(), boot, old, new: value.clone(), read_back: None };
    changes.add(made.clone())?;
    let refused = machine.write(&home, setting, value);
    applied.now = machine.read(&home, setting)?.unwrap_or_default();
    changes.read_back(&applied.now)?;
    (applied.verdict, applied.detail) = match refused {
        Err(error) => (Verdict::Failed, Some(format!("{error:#}"))),
        Ok(()) if applied.now == *value || applied.now != applied.old && setting.rounds() => {
            return Ok(Applied { verdict: Verdict::Changed, ..applied });
        }
        Ok(()) => (Verdict::NotTaken, Some(format!("asked for {value}, it reads {}", applied.now))),
    };
    let made = Made { read_back: Some(applied.now.clone()), ..made };
    put_back(machine, &made, &made.boot)?;
    changes.remove(&made)?;
    applied.now = machine.read(&home, setting)?.unwrap_or_default();
    Ok(applied)
}

/// What became of a change that was to be put back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Undone {
    /// What was changed.
    pub setting: Setting,
    /// In which namespace, its name or its inode number; null: in ours.
    pub netns: Option<String>,
    /// The value before the change.
    pub old: String,
    /// What the change had made of it.
    pub new: String,
    /// What it was now; null: it is no more, or could not be read.
    pub found: Option<String>,
    /// How it was settled; null: it could not be, and is tried again next time.
    pub how: Option<Settled>,
    /// Why not.
    pub error: Option<String>,
}

/// How a change was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// It was put back.
    Undone,
    /// The old value was in force already: the change was never made, or somebody put it back.
    WasOld,
    /// Somebody else has changed it since: left as it is.
    Left,
    /// The socket, interface or namespace is no more.
    Gone,
    /// The machine has booted since.
    Rebooted,
}

/// Puts back what is in force, the last first. What somebody else has changed since is left alone.
///
/// # Errors
/// If the list cannot be written. What the kernel refuses is told in the result, and stays in it.
pub(super) fn undo<S: Storage>(machine: &mut dyn Machine, changes: &mut Changes<S>, boot: &str) -> Result<Vec<Undone>> {
    let mut all = Vec::new();
    for made in changes.made().to_vec().into_iter().rev() {
        let is_ours = machine.home(None, &made.setting)?.inode == made.netns.inode;
        let (found, how, error) = match put_back(machine, &made, boot) {
            Ok((found, how)) => {
                changes.remove(&made)?;
                (found, Some(how), None)
            }
            Err(error) => (None, None, Some(format!("{error:#}"))),
        };
        all.push(Undone {
            netns: (!is_ours).then(|| made.netns.to_string()),
            setting: made.setting,
            old: made.old,
            new: made.read_back.unwrap_or(made.new),
            found,
            how,
            error,
        });
    }
    Ok(all)
}

fn put_back(machine: &mut dyn Machine, made: &Made, boot: &str) -> Result<(Option<String>, Settled)> {
    let Made { setting, old, new, netns, read_back, .. } = made;
    if made.boot != boot {
        return Ok((None, Settled::Rebooted));
    }
    let Some(found) = machine.read(netns, setting)? else { return Ok((None, Settled::Gone)) };
    if found == *old {
        return Ok((Some(found), Settled::WasOld));
    }
    // Where we ended between the change and its record, the kernel may have rounded what we wrote.
    let is_ours = found == *new || read_back.as_ref().map_or(setting.rounds(), |read_back| found == *read_back);
    if !is_ours {
        return Ok((Some(found), Settled::Left));
    }
    machine.write(netns, setting, old).with_context(|| format!("put {setting} back to {old}"))?;
    Ok((Some(found), Settled::Undone))
}

#[cfg(test)]
mod tests;
