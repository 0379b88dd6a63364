//! What is said of attacks, a line each.

use weir_program::escape::escaped;

use super::life::Life;
use crate::model::{Detection, Rate, Refusal};

/// What was found, in a line.
pub(super) fn found(detection: &Detection) -> String {
    let evidence = &detection.evidence;
    let rate = |rate: &Rate, unit: &str| match rate.high {
        Some(high) => format!("{:.0} {unit} ({:.0} to {high:.0})", rate.value, rate.low),
        None => format!("at least {:.0} {unit}", rate.low),
    };
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
pub(super) const LIMITS: [&str; 11] = [
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

pub(super) fn nothing() -> Refusal {
    Refusal { limit: "rule", why: "nothing tells its packets from others".into() }
}
