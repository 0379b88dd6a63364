//! The ledger of a network of shells, and the values that were set by hand.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_emulator::model::Way;
use weir_report::record::LedgerEntry;
use weir_units::format;

use crate::account;
use crate::network::LinkReading;
use crate::topology::Topology;

/// The current ledger of a network that shells use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ledger {
    /// The scenario's name.
    pub network: String,
    /// How long the network has been up, s.
    pub up_s: f64,
    /// When steps and traces started, s after it came up. `None`: not yet.
    pub steps_from_s: Option<f64>,
    /// Scenario keys that were set by hand, and their values, the latest last.
    pub set: Vec<(String, String)>,
    /// Further remarks, one sentence each.
    pub notes: Vec<String>,
    /// Each direction of each link.
    pub links: Vec<Direction>,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Direction {
    /// The link and its direction: `uplink ->`.
    pub link: String,
    /// The nodes from and to which it leads.
    pub nodes: [String; 2],
    /// Its counters, in the order of a packet's path.
    pub counters: Vec<LedgerEntry>,
}

pub(super) fn direction(topology: &Topology, reading: &LinkReading, index: usize, way: Way) -> Direction {
    let link = &topology.links[index];
    Direction {
        link: format!("{} {}", link.name, account::arrow(way)),
        nodes: [way as usize, 1 - way as usize].map(|end| topology.nodes[link.ends[end]].name.clone()),
        counters: account::of_direction(topology, reading, index, way),
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = match self.steps_from_s {
            Some(from) => format!("steps and traces since {from:.3} s"),
            None => "steps and traces have not started".into(),
        };
        write!(f, "{}: up for {:.3} s; {steps}", format::printable(&self.network), self.up_s)?;
        for (key, value) in &self.set {
            write!(f, "\n  set by hand: {}", format::printable(&format!("{key} = {value}")))?;
        }
        for note in &self.notes {
            write!(f, "\n  {}", format::printable(note))?;
        }
        for Direction { link, nodes: [from, to], counters } in &self.links {
            write!(f, "\n{}", format::printable(&format!("{link} ({from} to {to})")))?;
            let is_shown = |counter: &&LedgerEntry| counter.count != 0 || ALWAYS.contains(&&*counter.name);
            for counter in counters.iter().filter(is_shown) {
                write!(f, "\n  {:>12} {:<8} {}", counter.count, counter.unit, counter.name)?;
            }
        }
        Ok(())
    }
}

/// Counters that are shown even if they are 0.
const ALWAYS: [&str; 5] = ["received", "planned loss", "queue full", "delivered", "unexplained"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_has_what_holds_now_and_no_escape_sequences() {
        let counter = |name: &str, count| {
            let [place, name, unit, source] = ["", name, "packets", ""].map(String::from);
            LedgerEntry { place, name, unit, count, source }
        };
        let ledger = Ledger {
            network: "mine\u{1b}[31m".into(),
            up_s: 2.0,
            steps_from_s: Some(0.25),
            set: vec![("links.wire.forward.loss".into(), "30%".into())],
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
            "  set by hand: links.wire.forward.loss = 30%\n\
             wire -> (a to b)\n             7 packets  received\n             0 packets  queue full"
        );
    }
}
