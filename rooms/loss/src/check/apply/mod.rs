//! Changing settings one by one, each recorded before, measured behind, and taken back if it did not help; and taking
//! all of them back.

use std::fmt;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use super::findings::Finding;
use super::journal::{self, Closed, Intent, Journal, Namespace, Open, Storage};
use super::setting::{Change, Setting, WantedBuffer};
use super::trial::Outcome;

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

/// What was lost on a trial.
pub(super) type Measure<'a> = dyn FnMut(&WantedBuffer) -> Result<Outcome> + 'a;

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
    /// What a trial lost before; null: no trial can show it.
    pub before: Option<Outcome>,
    /// And after.
    pub after: Option<Outcome>,
    /// What follows from it.
    pub verdict: Verdict,
    /// Why it is so, where it is no matter of course.
    pub detail: Option<String>,
}

/// Whether a change is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Less is lost where it was to help.
    Helped,
    /// In force, but nothing was lost there before either, or a trial cannot show it.
    NotShown,
    /// As much is lost there as before: taken back.
    RolledBack,
    /// The kernel took it and did something else, or nothing: taken back.
    NotTaken,
    /// The kernel refused it, or what was to be changed has gone.
    Failed,
    /// It has its value already.
    Unneeded,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Helped => "helped",
            Verdict::NotShown => "kept, not shown",
            Verdict::RolledBack => "did not help, rolled back",
            Verdict::NotTaken => "not taken, rolled back",
            Verdict::Failed => "failed",
            Verdict::Unneeded => "in force already",
        })
    }
}

/// Makes every change that the findings name, in their order.
///
/// # Errors
/// If the journal cannot be written: then nothing more is changed. What is in force then, and how to take it back, is in
/// the error.
pub(super) fn apply<F: Storage>(
    findings: &[Finding],
    netns: Option<&Namespace>,
    machine: &mut dyn Machine,
    journal: &mut Journal<F>,
    measure: &mut Measure<'_>,
) -> Result<Vec<Applied>> {
    let mut applied = Vec::new();
    for finding in findings {
        for change in &finding.changes {
            match make(finding, change, netns, machine, journal, measure) {
                Ok(made) => applied.push(made),
                Err(error) => return Err(in_force(&error, journal)),
            }
        }
    }
    Ok(applied)
}

/// What stays changed although it ended so, and how to take it back.
fn in_force<F: Storage>(error: &anyhow::Error, journal: &Journal<F>) -> anyhow::Error {
    let changes = journal.open_changes().iter();
    let changes: Vec<String> =
        changes.map(|Open { intent, .. }| format!("{} (was {})", intent.setting, intent.old)).collect();
    if changes.is_empty() {
        return anyhow!("{error:#} (nothing is changed)");
    }
    anyhow!(
        "{error:#}; changed: {}: `weir loss check --undo --journal {}` puts it back",
        changes.join(", "),
        journal.path().display()
    )
}

fn make<F: Storage>(
    finding: &Finding,
    change: &Change,
    netns: Option<&Namespace>,
    machine: &mut dyn Machine,
    journal: &mut Journal<F>,
    measure: &mut Measure<'_>,
) -> Result<Applied> {
    let Change { setting, value, shown_by } = change;
    let mut applied = Applied {
        finding: finding.name,
        setting: setting.clone(),
        old: String::new(),
        new: value.clone(),
        now: String::new(),
        before: None,
        after: None,
        verdict: Verdict::Failed,
        detail: None,
    };
    let home = machine.home(netns, setting)?;
    match machine.read(&home, setting) {
        Ok(Some(old)) => applied.old = old,
        Ok(None) => return Ok(Applied { detail: Some("it is no more".to_owned()), ..applied }),
        Err(error) => return Ok(Applied { detail: Some(format!("{error:#}")), ..applied }),
    }
    applied.now.clone_from(&applied.old);
    if applied.old == *value {
        return Ok(Applied { verdict: Verdict::Unneeded, ..applied });
    }
    if let Some(asks) = shown_by {
        applied.before = Some(measure(asks)?);
    }
    let number = journal.intend(Intent {
        number: 0,
        at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        boot: journal::boot(),
        netns: home.clone(),
        setting: setting.clone(),
        old: applied.old.clone(),
        new: value.clone(),
    })?;
    if let Err(error) = machine.write(&home, setting, value) {
        applied.detail = Some(format!("{error:#}"));
        take_back(number, &mut applied, &home, machine, journal)?;
        return Ok(applied);
    }
    applied.now = machine.read(&home, setting)?.unwrap_or_default();
    journal.made(number, &applied.now)?;
    if applied.now != *value && (applied.now == applied.old || !setting.rounds()) {
        applied.verdict = Verdict::NotTaken;
        applied.detail = Some(format!("asked for {value}, it reads {}", applied.now));
        take_back(number, &mut applied, &home, machine, journal)?;
        return Ok(applied);
    }
    if let Some(asks) = shown_by {
        applied.after = Some(measure(asks)?);
    }
    let (verdict, detail) = judge(finding, applied.before.as_ref(), applied.after.as_ref());
    (applied.verdict, applied.detail) = (verdict, detail);
    if verdict == Verdict::RolledBack {
        take_back(number, &mut applied, &home, machine, journal)?;
    }
    Ok(applied)
}

/// Less lost where it was to help, or nothing to be seen there.
fn judge(finding: &Finding, before: Option<&Outcome>, after: Option<&Outcome>) -> (Verdict, Option<String>) {
    let (Some(before), Some(after)) = (before, after) else {
        return (Verdict::NotShown, Some("no virtual link can show it: watch the machine's own counters".to_owned()));
    };
    let share = |outcome: &Outcome| outcome.lost_at(finding.place) as f64 / outcome.sent.max(1) as f64;
    match (share(before), share(after)) {
        (before, after) if after < before => (Verdict::Helped, None),
        (before, after) if before == 0.0 && after == 0.0 => {
            (Verdict::NotShown, Some("nothing was lost there before either".to_owned()))
        }
        _ if before.held_up_ms.is_some() || after.held_up_ms.is_some() => {
            (Verdict::NotShown, Some("the machine stood still in each trial: `--undo`, and try again".to_owned()))
        }
        _ => (Verdict::RolledBack, None),
    }
}

/// Puts the old value back at once.
fn take_back<F: Storage>(
    number: u64,
    applied: &mut Applied,
    home: &Namespace,
    machine: &mut dyn Machine,
    journal: &mut Journal<F>,
) -> Result<()> {
    let now = machine.read(home, &applied.setting)?;
    if let Some(now) = &now
        && *now != applied.old
    {
        let describe = || format!("put {} back to {} (`--undo` tries again)", applied.setting, applied.old);
        machine.write(home, &applied.setting, &applied.old).with_context(describe)?;
    }
    applied.now = machine.read(home, &applied.setting)?.unwrap_or_default();
    journal.close(number, Closed::RolledBack)
}

/// What became of a change that was to be taken back.
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
    pub how: Option<Closed>,
    /// Why not.
    pub error: Option<String>,
}

/// Takes back what the journal has open, the last first. What somebody else has changed since is left alone.
///
/// # Errors
/// If the journal cannot be written. What the kernel refuses is told in the result, and stays open.
pub(super) fn undo<F: Storage>(machine: &mut dyn Machine, journal: &mut Journal<F>, boot: &str) -> Result<Vec<Undone>> {
    let mut open = journal.open_changes().to_vec();
    open.reverse();
    let mut all = Vec::new();
    for change in open {
        let mut undone = Undone {
            setting: change.intent.setting.clone(),
            netns: (machine.home(None, &change.intent.setting)?.inode != change.intent.netns.inode)
                .then(|| change.intent.netns.to_string()),
            old: change.intent.old.clone(),
            new: change.made.clone().unwrap_or_else(|| change.intent.new.clone()),
            found: None,
            how: None,
            error: None,
        };
        match put_back(machine, &change, boot) {
            Ok((found, how)) => {
                journal.close(change.intent.number, how)?;
                (undone.found, undone.how) = (found, Some(how));
            }
            Err(error) => undone.error = Some(format!("{error:#}")),
        }
        all.push(undone);
    }
    Ok(all)
}

fn put_back(machine: &mut dyn Machine, change: &Open, boot: &str) -> Result<(Option<String>, Closed)> {
    let Intent { setting, old, new, netns, .. } = &change.intent;
    if change.intent.boot != boot {
        return Ok((None, Closed::Rebooted));
    }
    let Some(found) = machine.read(netns, setting)? else { return Ok((None, Closed::Gone)) };
    if found == *old {
        return Ok((Some(found), Closed::WasOld));
    }
    // Where we ended between the change and its record, the kernel may have rounded what we wrote.
    let ours = match &change.made {
        Some(made) => found == *made,
        None => found == *new || setting.rounds(),
    };
    if !ours {
        return Ok((Some(found), Closed::Left));
    }
    machine.write(netns, setting, old).with_context(|| format!("put {setting} back to {old}"))?;
    Ok((Some(found), Closed::Undone))
}

#[cfg(test)]
mod tests;
