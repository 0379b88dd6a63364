//! What is wrong with a machine for a load: pure functions of facts.

mod buffers;
mod links;
mod losses;
mod packets;
mod processors;

use serde::Serialize;
use weir_units::format;

use super::facts::{Counted, Facts};
use super::load::{Load, Need};
use super::setting::{Change, Setting};
use crate::places::Place;

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// In JSON: `receive_buffer`.
    pub name: &'static str,
    /// Where datagrams are lost for it.
    pub place: Place,
    /// What that is called.
    #[serde(skip)]
    pub title: &'static str,
    /// What is wrong, in a line.
    pub what: String,
    /// What shows it: where it was read, and what.
    pub evidence: Vec<Evidence>,
    /// What the load needs, with the sum that gives it.
    pub need: String,
    /// The command that mends it.
    pub command: String,
    /// What that costs, and whom else it affects.
    pub cost: String,
    /// What `--apply` would change; empty: it cannot.
    pub changes: Vec<Change>,
}

/// A number and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// A file, or a call.
    pub source: String,
    /// What it says.
    pub value: String,
}

/// Everything that is wrong, in the order in which a datagram passes it.
pub(super) fn audit(facts: &Facts, load: &Load, need: Need) -> Vec<Finding> {
    let case = Case { facts, load, need };
    let mut findings = Vec::new();
    findings.extend(links::audit(&case));
    findings.extend(processors::audit(&case));
    findings.extend(packets::audit(&case));
    findings.extend(buffers::audit(&case));
    findings.extend(losses::audit(&case, &findings));
    findings.sort_by_key(|finding| finding.place);
    findings
}

/// What a finding is made of.
struct Case<'a> {
    facts: &'a Facts,
    load: &'a Load,
    need: Need,
}

impl Finding {
    /// A finding that one or several changes mend; the command is theirs.
    fn mended(name: &'static str, place: Place, what: String, changes: Vec<Change>) -> Finding {
        let commands: Vec<String> = changes.iter().map(|change| change.setting.command(&change.value)).collect();
        Finding { changes, ..Finding::advised(name, place, what, commands.join(" && ")) }
    }

    /// A finding that only a person can mend.
    fn advised(name: &'static str, place: Place, what: String, command: String) -> Finding {
        Finding {
            name,
            place,
            title: place.row().title,
            what,
            evidence: Vec::new(),
            need: String::new(),
            command,
            cost: String::new(),
            changes: Vec::new(),
        }
    }

    fn with(mut self, source: impl Into<String>, value: impl Into<String>) -> Finding {
        self.evidence.push(Evidence { source: source.into(), value: value.into() });
        self
    }

    /// Leaves a counter that has counted nothing out.
    fn counted(self, source: impl Into<String>, noun: &str, counted: Counted) -> Finding {
        match counted {
            Counted { total: 0, .. } => self,
            Counted { total, recent } => {
                self.with(source, format!("{} {noun}, {} of them while watched", number(total), number(recent)))
            }
        }
    }

    fn need(mut self, need: impl Into<String>) -> Finding {
        self.need = need.into();
        self
    }

    fn cost(mut self, cost: impl Into<String>) -> Finding {
        self.cost = cost.into();
        self
    }
}

fn change(setting: Setting, value: u64) -> Change {
    Change { setting, value: value.to_string() }
}

/// A count or bytes, exact.
fn number(value: u64) -> String {
    i64::try_from(value).map_or_else(|_| value.to_string(), format::count)
}

#[cfg(test)]
mod tests;
