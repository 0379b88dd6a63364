//! What a check found and did, for people and as JSON.

use std::fmt::{self, Write};

use serde::Serialize;
use weir_units::format::{self, shown};

use super::apply::{Applied, Settled, Undone, Verdict};
use super::facts::{Facts, Receiver, Truesize};
use super::findings::Finding;
use super::load::{Load, Need};
use crate::places::Place;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Of this layout.
    pub version: u32,
    /// As stated.
    pub load: Load,
    /// What it takes.
    pub need: Need,
    /// What a datagram weighs.
    pub truesize: Truesize,
    /// What is wrong, at first.
    pub findings: Vec<Finding>,
    /// What was changed; null: nothing was asked for.
    pub applied: Option<Vec<Applied>>,
    /// What is still wrong; null: nothing was changed.
    pub remaining: Option<Vec<Finding>>,
    /// The receivers as they were before; null: nothing was changed.
    pub receivers_before: Option<Vec<Receiver>>,
    /// The file of the changes; null: none is in force.
    pub changes: Option<String>,
    /// Everything that was seen of the machine, at last.
    pub facts: Facts,
}

impl Report {
    /// Whether something is wrong still.
    pub fn is_unmet(&self) -> bool {
        !self.remaining.as_ref().unwrap_or(&self.findings).is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { rate, payload, stall } = self.load;
        let (need, truesize) = (&self.need, &self.truesize);
        if let Some(seen) = &self.facts.seen {
            let who = seen.process.as_ref().map_or_else(String::new, |process| format!(" ({})", shown(process)));
            writeln!(
                f,
                "the load is what came to {}{who} in {} s: {} datagrams, {} of them lost",
                seen.address,
                format::short(seen.took_s),
                format::count(seen.datagrams.cast_signed()),
                format::count(seen.lost.cast_signed())
            )?;
        }
        if self.findings.is_empty() {
            let buffer = format::count(need.buffer.cast_signed());
            write!(
                f,
                "nothing is wrong for {rate} of {payload} and stalls of up to {stall}, which need {buffer} B of \
                       receive buffer"
            )?;
            // One line, where there is nothing else to say.
            let unseen = shown(&self.facts.unseen.join("; ")).into_owned();
            writeln!(f, "{}{unseen}", if unseen.is_empty() { "" } else { "; not seen: " })?;
        } else {
            writeln!(
                f,
                "{rate} of {payload}, stalls of up to {stall}: {} datagrams wait, {} B each ({}); {} B of receive buffer \
                 are needed",
                format::count(need.waiting.cast_signed()),
                format::count(need.truesize.cast_signed()),
                truesize.source,
                format::count(need.buffer.cast_signed())
            )?;
        }
        // Of whom a finding tells, it tells how many: of the look that it is made of.
        let has_finding = |receiver: &&Receiver| self.findings.iter().any(|one| one.what.contains(&receiver.who()));
        let before = |receiver: &&Receiver| receiver.drops.recent == 0 && receiver.drops.total > 0;
        let known = self.facts.receivers.iter().chain(&self.facts.losing);
        for receiver in known.filter(before).filter(|receiver| !has_finding(receiver)) {
            writeln!(
                f,
                "{} has lost {} datagrams since it was opened, none in the {} s that we looked",
                shown(&receiver.who()),
                format::count(receiver.drops.total.cast_signed()),
                format::short(self.facts.watched_s)
            )?;
        }
        for lost in self.facts.losses.iter().filter(|lost| lost.stray) {
            let datagrams = format::counted(lost.datagrams as usize, "datagram");
            let (ports, title) =
                (lost.ports_in_words().unwrap_or_else(|| "other ports".to_owned()), lost.place.row().title);
            write!(f, "nothing that was asked for: {datagrams} ")?;
            if lost.place == Place::PortClosed {
                writeln!(f, "came to {ports}, where nobody receives")?;
            } else {
                writeln!(f, "to {ports}: {title}")?;
            }
        }
        for (index, finding) in self.findings.iter().enumerate() {
            write!(f, "\n{}. ", index + 1)?;
            describe(finding, f)?;
        }
        if let Some(applied) = self.applied.as_ref().filter(|applied| !applied.is_empty()) {
            writeln!(f, "\nchanged")?;
            applied.iter().try_for_each(|change| change_line(change, f))?;
        }
        for before in self.receivers_before.iter().flatten() {
            let same = |receiver: &&Receiver| receiver.cookie == before.cookie;
            if let Some(after) = self.facts.receivers.iter().find(same) {
                let [before, now] = [before, after].map(|of| format::count(of.drops.recent.cast_signed()));
                row(f, "", &format!("{} dropped {before} in a second before, {now} after", after.who()))?;
            }
        }
        if let Some(remaining) =
            self.remaining.as_ref().filter(|remaining| !(self.findings.is_empty() && remaining.is_empty()))
        {
            let names: Vec<&str> = remaining.iter().map(|finding| finding.name).collect();
            let left = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            writeln!(f, "\nstill wrong: {left}")?;
        }
        if let Some(changes) = &self.changes {
            writeln!(
                f,
                "until the next boot (for good: /etc/sysctl.d/); `weir loss check --undo` puts everything back ({})",
                shown(changes)
            )?;
        }
        if !self.facts.unseen.is_empty() && !self.findings.is_empty() {
            writeln!(f, "\nnot seen: {}", shown(&self.facts.unseen.join("; ")))?;
        }
        Ok(())
    }
}

fn describe(finding: &Finding, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", shown(&finding.what))?;
    row(f, "loses at", finding.title)?;
    for (index, evidence) in finding.evidence.iter().enumerate() {
        let label = if index == 0 { "evidence" } else { "" };
        row(f, label, &format!("{}: {}", evidence.source, evidence.value))?;
    }
    row(f, "need", &finding.need)?;
    row(f, "mend", &finding.command)?;
    row(f, "cost", &finding.cost)?;
    row(f, "--apply", if finding.changes.is_empty() { "cannot do it" } else { "does it" })
}

fn row(f: &mut fmt::Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    writeln!(f, "   {label:<9} {}", shown(text))
}

fn change_line(change: &Applied, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Applied { setting, old, now, verdict, .. } = change;
    let mut line = match verdict {
        Verdict::Failed => format!("{setting}: failed"),
        Verdict::Unneeded => format!("{setting} {old}: {verdict}"),
        Verdict::NotTaken => format!("{setting} {old} -> {}: {verdict}", change.new),
        Verdict::Changed => format!("{setting} {old} -> {now}: {verdict}"),
    };
    if let Some(detail) = &change.detail {
        write!(line, " ({detail})")?;
    }
    row(f, "", &line)
}

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UndoReport {
    /// Of this layout.
    pub version: u32,
    /// The file of the changes.
    pub changes: String,
    /// What became of each change, the last first.
    pub undone: Vec<Undone>,
}

impl UndoReport {
    /// Whether something was left as it is, because somebody else has changed it.
    pub fn is_unmet(&self) -> bool {
        self.undone.iter().any(|change| change.how == Some(Settled::Left))
    }

    /// Whether something could not be put back.
    pub fn failed(&self) -> usize {
        self.undone.iter().filter(|change| change.how.is_none()).count()
    }
}

impl fmt::Display for UndoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.undone.is_empty() {
            return writeln!(f, "nothing to undo in {}", shown(&self.changes));
        }
        for change in &self.undone {
            let Undone { setting, old, new, .. } = change;
            let found = change.found.as_deref().unwrap_or("unknown");
            let inside = change.netns.as_ref().map_or_else(String::new, |netns| format!(" in namespace {netns}"));
            let what = match (change.how, &change.error) {
                (Some(Settled::Undone), _) => format!("{found} -> {old}"),
                (Some(Settled::WasOld), _) => format!("is {old} already"),
                (Some(Settled::Left), _) => {
                    format!("left at {found}: somebody has changed it since we set {new} (it was {old})")
                }
                (Some(Settled::Gone), _) => "is no more".to_owned(),
                (Some(Settled::Rebooted), _) => "set before the last boot: nothing is left of it".to_owned(),
                (None, error) => format!("not put back to {old}: {}", error.as_deref().unwrap_or("unknown")),
            };
            writeln!(f, "{}", shown(&format!("{setting}{inside}: {what}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts;
    use crate::check::setting::Setting;

    fn report() -> Report {
        let load =
            Load { rate: "50k/s".parse().unwrap(), payload: "200B".parse().unwrap(), stall: "40ms".parse().unwrap() };
        Report {
            version: 1,
            load,
            need: load.need(1280),
            truesize: Truesize { bytes: 1280, source: "measured over veth".into() },
            findings: Vec::new(),
            applied: None,
            remaining: None,
            receivers_before: None,
            changes: None,
            facts: Facts::default(),
        }
    }

    #[test]
    fn nothing_wrong_is_one_line() {
        let mut report = report();
        report.facts.unseen = vec!["the ring of eth0".into()];
        let line = "nothing is wrong for 50k/s of 200B and stalls of up to 40ms, which need 3_416_064 B of receive \
                    buffer; not seen: the ring of eth0\n";
        assert_eq!((&*report.to_string().replace('\u{2009}', "_"), report.is_unmet()), (line, false));
        // What came up while changes were made is told all the same.
        report.remaining = Some(vec![]);
        assert_eq!(report.to_string().lines().count(), 1);
        let stray = |place| facts::Lost { place, datagrams: 1, ports: vec![9], stray: true, ..facts::Lost::default() };
        let somewhere = facts::Lost { ports: Vec::new(), ..stray(Place::PortClosed) };
        report.facts.losses = vec![stray(Place::PortClosed), stray(Place::Firewall), somewhere];
        let told = [
            "nothing that was asked for: 1 datagram came to port 9, where nobody receives",
            "nothing that was asked for: 1 datagram to port 9: firewall, receiving",
            "nothing that was asked for: 1 datagram came to other ports, where nobody receives",
        ];
        assert_eq!(report.to_string().lines().skip(1).collect::<Vec<_>>(), told);
    }

    #[test]
    fn of_whom_a_finding_tells_nothing_else_is_told() {
        let mut report = report();
        report.facts.receivers = vec![Receiver {
            address: "127.0.0.1:5000".parse().unwrap(),
            cookie: 7,
            inode: 0,
            pid: None,
            process: None,
            buffer: 4096,
            level: 0,
            drops: facts::Counted { total: 20, recent: 0 },
            hangs: false,
        }];
        assert!(report.to_string().contains("127.0.0.1:5000 has lost 20 datagrams"), "{report}");
        report.findings = vec![Finding {
            name: "losing",
            place: Place::ReceiveBuffer,
            title: Place::ReceiveBuffer.row().title,
            what: "127.0.0.1:5000 is losing datagrams now".into(),
            evidence: Vec::new(),
            need: String::new(),
            command: String::new(),
            cost: String::new(),
            changes: Vec::new(),
        }];
        assert!(!report.to_string().contains("has lost"), "{report}");
    }

    #[test]
    fn an_undo_in_words() {
        let undone = |how, found: Option<&str>, error: Option<&str>| Undone {
            setting: Setting::sysctl("net/a"),
            netns: None,
            old: "1".into(),
            new: "2".into(),
            found: found.map(str::to_owned),
            how,
            error: error.map(str::to_owned),
        };
        let report = UndoReport {
            version: 1,
            changes: "j".into(),
            undone: vec![
                undone(Some(Settled::Undone), Some("2"), None),
                undone(Some(Settled::Left), Some("3"), None),
                undone(Some(Settled::Gone), None, None),
                undone(None, None, Some("read-only file system")),
            ],
        };
        assert_eq!((report.is_unmet(), report.failed()), (true, 1));
        assert_eq!(
            report.to_string(),
            "net.a: 2 -> 1\n\
             net.a: left at 3: somebody has changed it since we set 2 (it was 1)\n\
             net.a: is no more\n\
             net.a: not put back to 1: read-only file system\n"
        );
    }
}
