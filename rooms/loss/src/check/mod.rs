//! The machine against a stated load.
//!
//! ```text
//! load --> need: the receive buffer that the longest stall takes (trial: what a datagram weighs)
//! facts --> findings: what is wrong, the evidence, what mends it, what that costs
//!              |
//!              v
//!           apply: trial, journal, change, trial again; what does not help is rolled back <-- undo
//! ```

mod apply;
pub mod facts;
mod findings;
pub mod journal;
pub mod load;
mod machine;
mod report;
pub mod seen;
mod setting;
mod trial;

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use weir_kernel::namespaces::{self, NetNs};
use weir_kernel::trace::{Detail, Filter, Tracer};

use apply::Machine;
use facts::{Facts, Look, Scope};
use findings::Finding;
use journal::{Journal, Namespace};
use load::{Load, Stated};
use machine::Linux;
use report::{Report, Trial, UndoReport};
use setting::{Setting, WantedBuffer};
use trial::{Buffer, Link, Outcome};

/// What to check, and what to do about it.
#[derive(Clone, Debug)]
pub struct Check {
    /// The load, as far as it is stated.
    pub load: Stated,
    /// What is looked at.
    pub scope: Scope,
    /// The network namespace; `None`: ours.
    pub netns: Option<String>,
    /// Datagrams of a trial, `Some(None)`: as many as are usual; `None`: no trial, unless something is changed.
    pub trial: Option<Option<u64>>,
    /// Where to record changes; `None`: nothing is changed.
    pub journal: Option<PathBuf>,
}

impl Check {
    /// Looks, tries, changes, and looks again.
    ///
    /// # Errors
    /// If what was asked for is not there, the kernel does not answer, or the journal cannot be written.
    pub fn run(&self) -> Result<Report> {
        if self.journal.is_some() && !machine::is_root() {
            bail!(
                "--apply: only root of the machine may change its settings (in a user namespace nobody may): use sudo"
            );
        }
        let (ns, netns) = self.namespace()?;
        // Locked before anything is measured: another that changes things would disturb it.
        let journal = self.journal.as_deref().map(Journal::open).transpose()?;
        let mut scope = self.scope.clone();
        let traced = Filter { ports: Vec::new(), namespaces: vec![ns.inode()?] };
        let mut tracer = Tracer::start(Detail::Everything, &traced);
        let mut came = None;
        let seen = if self.load.load().is_none() {
            let tracer = tracer
                .as_mut()
                .map_err(|error| anyhow!("see the load (or state it: --rate, --payload, --stall): {error}"))?;
            let seen = seen::look(&ns, tracer, &scope, &self.load)?;
            came = if seen.is_none() { Some(seen::arrived(&ns, tracer, &scope, &self.load)?) } else { None };
            seen
        } else {
            None
        };
        if let Some(seen) = seen.as_ref().filter(|_| !scope.is_followed()) {
            scope.ports.push(seen.address.port());
        }
        let load = self.load.load().or(seen.as_ref().map(|seen| seen.load)).or(came).unwrap_or(seen::NOTHING);
        let link = Link::make(MTU)?;
        let truesize = trial::truesize(&link, load.payload.bytes)?;
        let mut look = || -> Result<Facts> {
            let tracer = tracer.as_mut().map_err(|error| error.to_string());
            let look =
                Look { ns: &ns, own: netns.is_none(), scope: &scope, asked_for: self.scope.is_followed(), tracer };
            let mut facts = facts::collect(look, truesize.clone())?;
            if came.is_some() {
                facts.unseen.push("what a reader does: no datagram came to a socket while it was looked".to_owned());
            }
            facts.payload_is_mean = self.load.payload.is_none();
            facts.unseen.extend(findings::larger_than_the_mean(&facts, &load));
            Ok(Facts { seen: seen.clone(), ..facts })
        };
        let facts = look()?;
        if came == Some(seen::NOTHING) && facts.losses.iter().all(|lost| lost.stray) && facts.losing.is_empty() {
            bail!("no datagram came while it was looked: state the load (--rate, --payload, --stall)");
        }
        let findings = findings::audit(&facts, &load);
        let mut report = Report {
            version: 1,
            load,
            need: load.need(facts.truesize.bytes),
            truesize: facts.truesize.clone(),
            findings,
            trials: Vec::new(),
            applied: None,
            remaining: None,
            journal: None,
            facts,
        };
        let mut machine = Linux::default();
        let writes = machine.writes();
        // A trial holds until the next change.
        let mut known: HashMap<WantedBuffer, (u64, Outcome)> = HashMap::new();
        let mut measure = |asks: &WantedBuffer| -> Result<Outcome> {
            match known.get(asks) {
                Some((at, outcome)) if *at == writes.get() => Ok(outcome.clone()),
                _ => {
                    let outcome = self.measure(&link, &load, &report.need, netns.as_ref(), asks)?;
                    known.insert(asks.clone(), (writes.get(), outcome.clone()));
                    Ok(outcome)
                }
            }
        };
        let shown = if journal.is_some() { shown(&report.findings) } else { Vec::new() };
        let played = if self.trial.is_some() { played(&report.facts, &report.findings) } else { shown };
        for asks in played {
            let before = measure(&asks)?;
            report.trials.push(Trial { receiver: asks.to_string(), asks, before, after: None });
        }
        if let Some(mut journal) = journal {
            let applied = apply::apply(&report.findings, netns.as_ref(), &mut machine, &mut journal, &mut measure)?;
            for trial in &mut report.trials {
                trial.after = Some(measure(&trial.asks)?);
            }
            report.facts = look()?;
            report.remaining = Some(findings::audit(&report.facts, &load));
            report.journal = (!journal.open_changes().is_empty()).then(|| journal.path().display().to_string());
            report.applied = Some(applied);
            journal.clear_if_settled()?;
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

    fn measure(
        &self,
        link: &Link,
        load: &Load,
        need: &load::Need,
        netns: Option<&Namespace>,
        asks: &WantedBuffer,
    ) -> Result<Outcome> {
        let buffer = match asks {
            WantedBuffer::Nothing => Buffer::Default,
            WantedBuffer::Enough => Buffer::Asked(need.asked()),
            WantedBuffer::Like(setting) => {
                let mut machine = Linux::default();
                let home = machine.home(netns, setting)?;
                match machine.read(&home, setting)?.and_then(|bytes| bytes.parse().ok()) {
                    Some(bytes) => Buffer::Exactly(bytes),
                    None => bail!("{setting}: the socket has been closed meanwhile"),
                }
            }
        };
        let trial = self.trial.flatten().unwrap_or_else(|| load.usual());
        trial::run(link, load, buffer, trial)
    }
}

/// The receivers that show whether changes help.
fn shown(findings: &[Finding]) -> Vec<WantedBuffer> {
    let mut all: Vec<WantedBuffer> = Vec::new();
    for asks in findings.iter().flat_map(|finding| &finding.changes).filter_map(|change| change.shown_by.as_ref()) {
        if !all.contains(asks) {
            all.push(asks.clone());
        }
    }
    all
}

/// The receivers that a trial plays: those that are followed, and those that show what was found.
fn played(facts: &Facts, findings: &[Finding]) -> Vec<WantedBuffer> {
    let like = facts.receivers.iter().map(|receiver| {
        WantedBuffer::Like(Setting::SocketBuffer { cookie: receiver.cookie, address: receiver.address.to_string() })
    });
    let mut all: Vec<WantedBuffer> = like.collect();
    all.extend(shown(findings).into_iter().filter(|asks| !matches!(asks, WantedBuffer::Like(_))));
    if all.is_empty() { vec![WantedBuffer::Nothing] } else { all }
}

/// Takes back what the journal has open.
///
/// # Errors
/// If the journal cannot be read or written.
pub fn undo(path: &std::path::Path) -> Result<UndoReport> {
    if !machine::is_root() {
        bail!("--undo: only root of the machine may change its settings (in a user namespace nobody may): use sudo");
    }
    let journal = path.display().to_string();
    if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(UndoReport { version: 1, journal, undone: Vec::new() });
    }
    let mut opened = Journal::open(path)?;
    let undone = apply::undo(&mut Linux::default(), &mut opened, &journal::boot())?;
    opened.clear_if_settled()?;
    Ok(UndoReport { version: 1, journal, undone })
}

/// An Ethernet's.
const MTU: u32 = 1500;
