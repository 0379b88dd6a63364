//! What a check found and did, for people and as JSON.

use std::fmt::{self, Write};

use serde::Serialize;
use weir_units::format::{self, shown};

use super::apply::{Applied, Undone, Verdict};
use super::facts::{Facts, Receiver, Truesize};
use super::findings::Finding;
use super::journal::Closed;
use super::load::{Load, Need};
use super::setting::WantedBuffer;
use super::trial::Outcome;
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
    /// What a trial showed at first, by receiver.
    pub trials: Vec<Trial>,
    /// What was changed; null: nothing was asked for.
    pub applied: Option<Vec<Applied>>,
    /// What is still wrong; null: nothing was changed.
    pub remaining: Option<Vec<Finding>>,
    /// The journal of the changes; null: nothing was changed.
    pub journal: Option<String>,
    /// Everything that was seen of the machine, at last.
    pub facts: Facts,
}

/// A trial before any change and behind all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// In words.
    pub receiver: String,
    /// What it is.
    #[serde(skip)]
    pub asks: WantedBuffer,
    /// Before.
    pub before: Outcome,
    /// Behind all changes; null: there were none.
    pub after: Option<Outcome>,
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
            let mean = seen.mean_per_s.filter(|mean| mean * 1.05 < self.load.per_second());
            let mean = mean.map_or_else(String::new, |mean| {
                format!("; {}/s on average, {rate} while datagrams waited", format::short(mean.round()))
            });
            writeln!(
                f,
                "the load is what came to {}{who} in {} s: {} datagrams, {} of them lost{mean}",
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
            let ports = lost.ports_in_words();
            write!(f, "nothing that was asked for: {datagrams} ")?;
            if lost.somewhere {
                let ports = ports.unwrap_or_else(|| "unknown ports".to_owned());
                writeln!(f, "to {ports}, {}, in some namespace of this machine", lost.place.row().title)?;
            } else if lost.place == Place::PortClosed {
                let ports = ports
                    .unwrap_or_else(|| "ports that there was no room to tell (those asked for were open)".to_owned());
                writeln!(f, "came to {ports}, where nobody receives")?;
            } else {
                writeln!(f, "to {}: {}", ports.unwrap_or_default(), lost.place.row().title)?;
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
        if !self.trials.is_empty() {
            writeln!(f, "\ntrial")?;
            self.trials.iter().try_for_each(|trial| trial_lines(trial, &self.load, f))?;
        }
        if let Some(remaining) =
            self.remaining.as_ref().filter(|remaining| !(self.findings.is_empty() && remaining.is_empty()))
        {
            let names: Vec<&str> = remaining.iter().map(|finding| finding.name).collect();
            let left = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            writeln!(f, "\nstill wrong: {left}")?;
        }
        if let Some(journal) = &self.journal {
            writeln!(
                f,
                "until the next boot (for good: /etc/sysctl.d/); `weir loss check --undo` puts everything back ({})",
                shown(journal)
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
        Verdict::RolledBack | Verdict::NotTaken => format!("{setting} {old} -> {}: {verdict}", change.new),
        Verdict::Helped | Verdict::NotShown => format!("{setting} {old} -> {now}: {verdict}"),
    };
    if let Some(detail) = &change.detail {
        write!(line, " ({detail})")?;
    }
    row(f, "", &line)
}

fn trial_lines(trial: &Trial, load: &Load, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    row(f, "", &trial.receiver)?;
    let outcomes = [("now", Some(&trial.before)), ("after", trial.after.as_ref())];
    let both = trial.after.is_some();
    for (label, outcome) in outcomes {
        let Some(outcome) = outcome else { continue };
        let label = if both && label == "now" { "before" } else { label };
        row(f, "", &format!("  {label:<6} {}", outcome_words(outcome, load)))?;
    }
    Ok(())
}

/// A stall is longer than stated from here on: what the buffer has to spare bridges less.
const HELD_UP: f64 = 1.2;

fn outcome_words(outcome: &Outcome, load: &Load) -> String {
    let count = |value: u64| format::count(value.cast_signed());
    let mut text = format!(
        "{} of {} lost ({} %) at {}/s, buffer {} B, longest stall {} ms",
        count(outcome.lost()),
        count(outcome.sent),
        format::short(outcome.lost() as f64 / outcome.sent.max(1) as f64 * 100.0),
        format::short(outcome.rate),
        count(outcome.buffer),
        format::short(outcome.longest_stall_ms)
    );
    for lost in &outcome.places {
        let _ = write!(text, "; {}: {}", lost.place.row().title, count(lost.datagrams));
    }
    if outcome.rate < load.per_second() * 0.95 {
        let _ = write!(text, "; the machine was too busy to send {}", load.rate);
    }
    let stated = load.stall.duration().as_secs_f64() * 1000.0;
    if outcome.lost() > 0 && outcome.longest_stall_ms > stated * HELD_UP {
        let _ = write!(text, "; the machine held the reader up for longer than stated: try a longer --stall");
    }
    if let Some(ms) = outcome.held_up_ms {
        let _ = write!(text, "; held up for {} ms, the least of {} trials", format::short(ms), outcome.tries);
    }
    if outcome.unexplained != 0 {
        let _ = write!(text, "; unexplained: {}", outcome.unexplained);
    }
    text
}

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UndoReport {
    /// Of this layout.
    pub version: u32,
    /// The journal.
    pub journal: String,
    /// What became of each change, the last first.
    pub undone: Vec<Undone>,
}

impl UndoReport {
    /// Whether something was left as it is, because somebody else has changed it.
    pub fn is_unmet(&self) -> bool {
        self.undone.iter().any(|change| change.how == Some(Closed::Left))
    }

    /// Whether something could not be put back.
    pub fn failed(&self) -> usize {
        self.undone.iter().filter(|change| change.how.is_none()).count()
    }
}

impl fmt::Display for UndoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.undone.is_empty() {
            return writeln!(f, "nothing to undo in {}", shown(&self.journal));
        }
        for change in &self.undone {
            let Undone { setting, old, new, .. } = change;
            let found = change.found.as_deref().unwrap_or("unknown");
            let inside = change.netns.as_ref().map_or_else(String::new, |netns| format!(" in namespace {netns}"));
            let what = match (change.how, &change.error) {
                (Some(Closed::Undone | Closed::RolledBack), _) => format!("{found} -> {old}"),
                (Some(Closed::WasOld), _) => format!("is {old} already"),
                (Some(Closed::Left), _) => {
                    format!("left at {found}: somebody has changed it since we set {new} (it was {old})")
                }
                (Some(Closed::Gone), _) => "is no more".to_owned(),
                (Some(Closed::Rebooted), _) => "set before the last boot: nothing is left of it".to_owned(),
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
    use crate::check::trial::Lost;

    fn report() -> Report {
        let load =
            Load { rate: "50k/s".parse().unwrap(), payload: "200B".parse().unwrap(), stall: "40ms".parse().unwrap() };
        Report {
            version: 1,
            load,
            need: load.need(1280),
            truesize: Truesize { bytes: 1280, source: "measured over veth".into() },
            findings: Vec::new(),
            trials: Vec::new(),
            applied: None,
            remaining: None,
            journal: None,
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
            "nothing that was asked for: 1 datagram came to ports that there was no room to tell (those asked for were open), \
             where nobody receives",
        ];
        assert_eq!(report.to_string().lines().skip(1).collect::<Vec<_>>(), told);
    }

    #[test]
    fn of_whom_a_finding_tells_nothing_else_is_told() {
        let mut report = report();
        report.facts.receivers = vec![Receiver {
            address: "127.0.0.1:5000".parse().unwrap(),
            cookie: 7,
            pid: None,
            process: None,
            buffer: 4096,
            level: 0,
            drops: facts::Counted { total: 20, recent: 0 },
            hangs: false,
            cut: 0,
            joins: None,
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
    fn a_trial_tells_where_and_how_fast() {
        let outcome = Outcome {
            sent: 1000,
            received: 900,
            places: vec![Lost { place: Place::ReceiveBuffer, datagrams: 99 }],
            unexplained: 1,
            rate: 40_000.0,
            buffer: 212_992,
            longest_stall_ms: 40.04,
            held_up_ms: Some(312.0),
            tries: 3,
        };
        assert_eq!(
            outcome_words(&outcome, &report().load).replace('\u{2009}', "_"),
            "100 of 1000 lost (10 %) at 40_000/s, buffer 212_992 B, longest stall 40 ms; receive buffer full: 99; the \
             machine was too busy to send 50k/s; held up for 312 ms, the least of 3 trials; unexplained: 1"
        );
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
            journal: "j".into(),
            undone: vec![
                undone(Some(Closed::Undone), Some("2"), None),
                undone(Some(Closed::Left), Some("3"), None),
                undone(Some(Closed::Gone), None, None),
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
