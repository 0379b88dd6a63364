//! The machine against a stated load.
//!
//! ```text
//! load --> need: the receive buffer that the longest stall takes (truesize: what a datagram takes of it)
//! facts --> findings: what is wrong, the evidence, what mends it, what that costs
//!              |
//!              v
//!           apply: record, change, read back <-- undo
//! ```

mod apply;
pub(crate) mod changes;
pub mod facts;
mod findings;
pub mod load;
mod machine;
mod report;
pub mod seen;
mod setting;
mod truesize;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use weir_kernel::namespaces::{self, NetNs};
use weir_trace::{Detail, Filter, Tracer};
use weir_units::Size;

use changes::{Changes, Namespace};
use facts::{Facts, Look, Scope};
use load::{Need, Stated};
use machine::Linux;
use report::{Report, UndoReport};

/// What to check, and what to do about it.
#[derive(Clone, Debug)]
pub struct Check {
    /// The load, as far as it is stated.
    pub load: Stated,
    /// What a program is to ask for (SO_RCVBUF), in place of what the load needs.
    pub receive_buffer: Option<Size>,
    /// What is looked at.
    pub scope: Scope,
    /// The network namespace; `None`: ours.
    pub netns: Option<String>,
    /// Where to record changes; `None`: nothing is changed.
    pub changes: Option<PathBuf>,
}

impl Check {
    /// Looks, changes, and looks again.
    ///
    /// # Errors
    /// If what was asked for is not there, the kernel does not answer, or changes cannot be recorded.
    pub fn run(&self) -> Result<Report> {
        if self.changes.is_some() && !machine::is_root() {
            bail!(
                "--apply: only root of the machine may change its settings (in a user namespace nobody may): use sudo"
            );
        }
        let (ns, netns) = self.namespace()?;
        // Locked before anything is read: another may be changing it.
        let changes = self.changes.as_deref().map(Changes::open).transpose()?;
        let mut scope = self.scope.clone();
        let traced = Filter { ports: Vec::new(), namespaces: vec![ns.inode()?] };
        let mut tracer = Tracer::start(Detail::Everything, &traced);
        let is_seen = self.load.load().is_none() && self.receive_buffer.is_none();
        let seen = if is_seen {
            let tracer = tracer
                .as_mut()
                .map_err(|error| anyhow!("see the load (or state it: --rate, --payload, --stall): {error}"))?;
            seen::look(&ns, tracer, &scope, &self.load)?
        } else {
            None
        };
        if let Some(seen) = seen.as_ref().filter(|_| !scope.is_followed()) {
            scope.ports.push(seen.address.port());
        }
        let nothing_came = is_seen && seen.is_none();
        let load = self.load.load().or(seen.as_ref().map(|seen| seen.load));
        let load = load.unwrap_or_else(|| seen::nothing(&self.load));
        let truesize = truesize::measure(load.payload.bytes)?;
        let mut look = || -> Result<Facts> {
            let tracer = tracer.as_mut().map_err(|error| error.to_string());
            let look =
                Look { ns: &ns, own: netns.is_none(), scope: &scope, asked_for: self.scope.is_followed(), tracer };
            let mut facts = facts::collect(look, truesize.clone())?;
            if nothing_came {
                facts.unseen.push("what a reader does: no datagram came to a socket while it was looked".to_owned());
            }
            facts.payload_is_mean = self.load.payload.is_none();
            Ok(Facts { seen: seen.clone(), ..facts })
        };
        let facts = look()?;
        if nothing_came && facts.losses.iter().all(|lost| lost.stray) && facts.losing.is_empty() {
            bail!("no datagram came while it was looked: state the load (--rate, --payload, --stall)");
        }
        let computed = load.need(facts.truesize.bytes);
        let need = self.receive_buffer.map_or(computed, |size| Need::stated(size.bytes, computed));
        let mut report = Report {
            version: 1,
            load,
            need,
            truesize: facts.truesize.clone(),
            findings: findings::audit(&facts, &load, need),
            applied: None,
            remaining: None,
            receivers_before: None,
            changes: None,
            facts,
        };
        if let Some(mut changes) = changes {
            let applied = apply::apply(&report.findings, netns.as_ref(), &mut Linux::default(), &mut changes)?;
            let before = std::mem::replace(&mut report.facts, look()?);
            report.receivers_before = Some(before.receivers);
            report.remaining = Some(findings::audit(&report.facts, &load, need));
            report.changes = (!changes.made().is_empty()).then(|| changes.path().display().to_string());
            report.applied = Some(applied);
        }
        Ok(report)
    }

    fn namespace(&self) -> Result<(NetNs, Option<Namespace>)> {
        let here = NetNs::current()?;
        let Some(name) = &self.netns else { return Ok((here, None)) };
        let ns = namespaces::find(name)?;
        let inode = ns.inode()?;
        let other = if inode == here.inode()? { None } else { Some(Namespace::of(&ns, name.clone())?) };
        Ok((ns, other))
    }
}

/// Puts back every change that is in force.
///
/// # Errors
/// If the list of changes cannot be read or written.
pub fn undo(path: &Path) -> Result<UndoReport> {
    if !machine::is_root() {
        bail!("--undo: only root of the machine may change its settings (in a user namespace nobody may): use sudo");
    }
    let undone = apply::undo(&mut Linux::default(), &mut Changes::open(path)?, &changes::boot())?;
    Ok(UndoReport { version: 1, changes: path.display().to_string(), undone })
}
