//! What became of the packets of a network of shells, and what was changed by hand, when.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_emulator::model::Way;
use weir_report::record::LedgerEntry;
use weir_units::format;

use crate::account;
use crate::network::LinkReading;
use crate::topology::Topology;

/// The account of a network that shells use, as far as it has come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ledger {
    /// The scenario's name.
    pub network: String,
    /// How long the network has been up, s.
    pub up_s: f64,
    /// When steps and traces began, s after it came up; `None`: not yet.
    pub steps_from_s: Option<f64>,
    /// What was set by hand, in order of time; of very many the last ones.
    pub changes: Vec<Change>,
    /// Changes that are not listed any more.
    pub forgotten_changes: u64,
    /// What else a reader must know, a sentence each.
    pub notes: Vec<String>,
    /// Each direction of each link.
    pub links: Vec<Direction>,
}

/// A key that was set by hand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    /// When, s after the network came up.
    pub at_s: f64,
    /// The scenario key.
    pub key: String,
    /// Its value from then on.
    pub value: String,
    /// Its value before; `None`: it had none.
    pub before: Option<String>,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Direction {
    /// The link, and which way: `uplink ->`.
    pub link: String,
    /// From and to which node.
    pub nodes: [String; 2],
    /// Its counters, in the order of a packet's way.
    pub counters: Vec<LedgerEntry>,
}

pub(super) fn direction(topology: &Topology, reading: &LinkReading, index: usize, way: Way) -> Direction {
    let link = &topology.links[index];
    let [from, to] = match way {
        Way::Forward => link.ends,
        Way::Backward => [link.ends[1], link.ends[0]],
    };
    Direction {
        link: format!("{} {}", link.name, account::arrow(way)),
        nodes: [from, to].map(|node| topology.nodes[node].name.clone()),
        counters: account::of_direction(topology, reading, index, way),
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = match self.steps_from_s {
            Some(from) => format!("steps and traces since {from:.3} s"),
            None => "steps and traces have not begun".into(),
        };
        write!(f, "{}: up for {:.3} s; {steps}", format::printable(&self.network), self.up_s)?;
        if self.forgotten_changes > 0 {
            write!(f, "\n  {} earlier changes by hand are not listed any more", self.forgotten_changes)?;
        }
        for Change { at_s, key, value, before } in &self.changes {
            let before = before.as_ref().map(|before| format!(", was {before}")).unwrap_or_default();
            write!(f, "\n  {at_s:.3} s  set by hand: {}", format::printable(&format!("{key} = {value}{before}")))?;
        }
        for note in &self.notes {
            write!(f, "\n  {}", format::printable(note))?;
        }
        for Direction { link, nodes: [from, to], counters } in &self.links {
            write!(f, "\n{}", format::printable(&format!("{link} ({from} to {to})")))?;
            let told = |counter: &&LedgerEntry| counter.count != 0 || ALWAYS.contains(&&*counter.name);
            for counter in counters.iter().filter(told) {
                write!(f, "\n  {:>12} {:<8} {}", counter.count, counter.unit, counter.name)?;
            }
        }
        Ok(())
    }
}

/// Counters that are told even where they are 0.
const ALWAYS: [&str; 5] = ["received", "planned loss", "queue full", "delivered", "unexplained"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_tells_changes_with_their_times_and_no_escape_sequences() {
        let counter = |name: &str, count| {
            let [place, name, unit, source] = ["", name, "packets", ""].map(String::from);
            LedgerEntry { place, name, unit, count, source }
        };
        let change = |before: Option<&str>| Change {
            at_s: 1.5,
            key: "links.wire.forward.loss".into(),
            value: "30%".into(),
            before: before.map(str::to_owned),
        };
        let ledger = Ledger {
            network: "mine\u{1b}[31m".into(),
            up_s: 2.0,
            steps_from_s: Some(0.25),
            changes: vec![change(None), change(Some("5%"))],
            forgotten_changes: 3,
            notes: Vec::new(),
            links: vec![Direction {
                link: "wire ->".into(),
                nodes: ["a".into(), "b".into()],
                counters: vec![counter("received", 7), counter("queue full", 0), counter("malformed", 0)],
            }],
        };
        let text = ledger.to_string();
        assert!(!text.contains('\u{1b}'), "{text}");
        let (_, told) = text.split_once('\n').unwrap();
        assert_eq!(
            told,
            "  3 earlier changes by hand are not listed any more\n  \
             1.500 s  set by hand: links.wire.forward.loss = 30%\n  \
             1.500 s  set by hand: links.wire.forward.loss = 30%, was 5%\n\
             wire -> (a to b)\n             7 packets  received\n             0 packets  queue full"
        );
    }
}
