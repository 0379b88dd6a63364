//! The room as metrics: attacks, what is announced, the speaker, and what was counted.

use std::collections::BTreeMap;

use weir_program::ledger::{self, Family};

use crate::model::{Board, Caps, Counts, Evidence, Refusal};
use crate::people::hooks::Count;

weir_program::ledger! {
    /// All that is exposed.
    pub struct Figures {
        /// What was counted since the start.
        counts: Counts => each,
        /// Requests below /protect without a known token.
        unknown_requests: u64 => Counter "weir_protect_unknown_requests",
        /// What is announced.
        caps: Caps => each,
        /// 1: somebody stopped everything, and nothing is announced.
        stopped: bool => Gauge "weir_protect_stopped",
        /// Attacks that are not over, by phase: seen (observed or refused), pending, unreachable (routes are wanted, and no neighbour has them), active, fading.
        attacks: BTreeMap<&'static str, u64> => Gauge "weir_protect_attacks" {phase},
        /// Attacks that go on and that nothing is done about, by the limit that is against it.
        refused_attacks: BTreeMap<&'static str, u64> => Gauge "weir_protect_refused_attacks" {limit},
        /// What is protected.
        groups: Vec<Flooded> => each,
        /// Who announces.
        speaker: Option<Speaks> => each,
        /// Those that it speaks to.
        neighbours: Vec<Hears> => each,
        /// Who is notified.
        hooks: Vec<Count> => each,
    }

    /// A group under attack: what waits for a person, and what is only observed, is a flood all the same.
    pub struct Flooded by group {
        /// Its name.
        group: String,
        /// Packets a second of the attacks on a group.
        packets: f64 => Gauge "weir_protect_flood_packets" {group},
        /// Bits a second of the attacks on a group.
        bits: f64 => Gauge "weir_protect_flood_bits" {group},
    }

    /// The speaker.
    pub struct Speaks by speaker {
        /// Where it is.
        speaker: String,
        /// 1: the BGP speaker answers; absent: none is configured.
        connected: bool => Gauge "weir_protect_speaker_connected" {speaker},
    }

    /// A neighbour of the speaker.
    pub struct Hears by neighbour {
        /// Its address.
        neighbour: String,
        /// 1: the speaker's session with this neighbour is established.
        established: BTreeMap<u32, u64> => Gauge "weir_protect_neighbour_established" {neighbour, asn},
    }
}

impl Figures {
    /// Of a board, and what is counted elsewhere.
    pub fn new(board: &Board, unknown_requests: u64, hooks: Vec<Count>) -> Self {
        let refused = |limit: &str| {
            let refusals = board.attacks.iter().filter_map(|attack| attack.refusal.as_ref());
            refusals.filter(|Refusal { limit: of, .. }| *of == limit).count() as u64
        };
        let flooded = |group: &String| {
            let sum = |rate: fn(&Evidence) -> f64| {
                let attacks = board.attacks.iter().map(|attack| &attack.detection);
                let on_it = attacks.filter(|detection| detection.target.group == *group);
                // The sum of none is -0.
                on_it.map(|detection| rate(&detection.evidence)).sum::<f64>() + 0.0
            };
            let (packets, bits) = (sum(|evidence| evidence.packets.value), sum(|evidence| evidence.bits.value));
            Flooded { group: group.clone(), packets, bits }
        };
        let speaker = board.speaker.as_ref();
        let neighbours = speaker.iter().flat_map(|speaker| &speaker.neighbours).map(|neighbour| Hears {
            neighbour: neighbour.address.to_string(),
            established: [(neighbour.asn, neighbour.is_established().into())].into(),
        });
        Self {
            counts: board.counts.clone(),
            unknown_requests,
            caps: board.caps.clone(),
            stopped: board.stopped.is_some(),
            attacks: board.phases(),
            refused_attacks: board.counts.refused.keys().map(|&limit| (limit, refused(limit))).collect(),
            groups: board.groups.iter().map(|group| flooded(&group.name)).collect(),
            speaker: speaker.map(|of| Speaks { speaker: of.address.clone(), connected: of.connected }),
            neighbours: neighbours.collect(),
            hooks,
        }
    }
}

/// Every family, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    ledger::families::<Figures>()
}

#[cfg(test)]
mod tests {
    use weir_service::metrics::{Format, expose};

    use super::*;
    use crate::people::fixture;

    #[test]
    fn what_is_on_the_board_is_exposed() {
        let text = expose(Format::Text, |samples| {
            let syslog = Count { receiver: "syslog", ..Count::default() };
            syslog.dropped.add(2);
            samples.ledger(&Figures::new(&fixture::board(), 7, vec![syslog]));
        });
        for line in [
            "weir_protect_attacks{phase=\"pending\"} 1",
            "weir_protect_attacks{phase=\"seen\"} 1",
            "weir_protect_attacks{phase=\"active\"} 0",
            "weir_protect_flood_packets{group=\"web\"} 1624000",
            "weir_protect_speaker_connected{speaker=\"127.0.0.1:50051\"} 1",
            "weir_protect_neighbour_established{neighbour=\"192.0.2.254\",asn=\"65002\"} 1",
            "weir_protect_hook_events_total{receiver=\"syslog\",outcome=\"dropped\"} 2",
            "weir_protect_doubted_total{doubt=\"uncounted\"} 1",
            "weir_protect_unknown_requests_total 7",
            "weir_protect_stopped 0",
        ] {
            assert!(text.lines().any(|told| told == line || told == format!("{line}.0")), "{line}:\n{text}");
        }
        for family in families() {
            assert!(text.contains(&format!("# HELP {} ", family.full_name())), "{}:\n{text}", family.full_name());
        }
    }
}
