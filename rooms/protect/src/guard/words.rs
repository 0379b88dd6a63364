//! What is said of attacks, a line each.

use weir_program::escape::escaped;

use super::life::Life;
use crate::model::{Detection, Doubt, Rate, Refusal};

/// What was found, in a line.
pub(super) fn found(detection: &Detection) -> String {
    let evidence = &detection.evidence;
    let rate = |rate: &Rate, unit: &str| format!("{:.0} {unit} ({:.0} to {:.0})", rate.value, rate.low, rate.high);
    let (packets, bits) = (rate(&evidence.packets, "packets/s"), rate(&evidence.bits, "bit/s"));
    format!("{}: {packets}, {bits}, {} sources, {} samples", evidence.rule, evidence.sources, evidence.samples)
}

/// The same, of what is told for the first time.
pub(super) fn found_first(detection: &Detection) -> String {
    format!("{}: a first estimate", found(detection))
}

pub(super) fn reason(life: &Life) -> String {
    match (&life.attack.by, life.approved) {
        (Some(by), true) => format!("{} approved it", escaped(by)),
        _ => found(&life.attack.detection),
    }
}

/// All limits that something may be refused for: they are counted from the start, so that the first one of each is seen as one more.
pub(super) const LIMITS: [&str; 12] = [
    "doubt",
    "harm",
    "level",
    "max_prefixes",
    "max_routes",
    "max_share",
    "next_hop",
    "observe",
    "protected",
    "rule",
    "stopped",
    "withdrawn",
];

/// All names that [`name_of`] gives.
pub(super) const DOUBTS: [&str; 6] = ["alone", "counters", "sequence", "speed", "stranger", "uncounted"];

pub(super) fn nothing() -> Refusal {
    Refusal { limit: "rule", why: "nothing tells its packets from others".into() }
}

pub(super) fn name_of(doubt: &Doubt) -> &'static str {
    match doubt {
        Doubt::Stranger { .. } => "stranger",
        Doubt::Sequence { .. } => "sequence",
        Doubt::Counters { .. } => "counters",
        Doubt::Speed { .. } => "speed",
        Doubt::Uncounted { .. } => "uncounted",
        Doubt::Alone { .. } => "alone",
    }
}

/// Why it is not believed, in a line.
pub(super) fn doubted(doubt: &Doubt) -> String {
    match doubt {
        Doubt::Stranger { agent, from } => {
            format!("agent {agent}, heard from {from}, is none whose samples may lead to an action (protect.agents)")
        }
        Doubt::Sequence { agent, what } => {
            format!("what agent {agent} sends does not continue one another: {}", escaped(what))
        }
        Doubt::Counters { point, samples, counters } => format!(
            "samples of {}, interface {}, tell {:.0} packets/s, its counters {:.0}",
            point.agent, point.index, samples.value, counters.value
        ),
        Doubt::Speed { point, bits, speed } => format!(
            "samples of {}, interface {}, tell {bits:.0} bit/s, and it carries {speed:.0}",
            point.agent, point.index
        ),
        Doubt::Uncounted { point } => {
            let (agent, index) = (point.agent, point.index);
            format!("no counters of {agent}, interface {index}, are known for long enough that could speak for it")
        }
        Doubt::Alone { agent, other } => format!("agent {agent} sees it, and agent {other} on the path does not"),
    }
}
