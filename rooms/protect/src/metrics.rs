//! The room as metrics: attacks, what is announced, the speaker, and what was counted.

use weir_service::metrics::{Family, Kind, Samples, Value};

use crate::model::{Board, Phase};
use crate::people::hooks::Count;

/// What is exposed.
#[derive(Clone, Debug)]
pub struct Figures<'a> {
    /// How things stand.
    pub board: &'a Board,
    /// Requests without a known token.
    pub unknown: u64,
    /// What became of events, by receiver.
    pub hooks: &'a [Count],
}

/// Adds every family of [`families`].
pub fn metrics(samples: &mut Samples<'_>, figures: &Figures<'_>) {
    for (family, value) in OF_ALL {
        samples.single(family, value(figures));
    }
    let board = figures.board;
    let in_phase = |phase: Phase| board.attacks.iter().filter(|attack| attack.phase == phase).count();
    samples.family(&ATTACKS, PHASES.map(|(phase, name)| ([name.to_owned()], in_phase(phase))));
    for (family, rate) in OF_GROUPS {
        // What waits for a person, and what is only observed, is a flood all the same.
        let of = |group: &str| {
            let attacks = board.attacks.iter().filter(|attack| attack.detection.target.group == group);
            // The sum of none is -0.
            attacks.map(|attack| rate(&attack.detection.evidence)).sum::<f64>() + 0.0
        };
        samples.family(family, board.groups.iter().map(|group| ([group.name.clone()], of(&group.name))));
    }
    for (family, counts) in
        [(&EVICTED, &board.counts.evicted), (&DOUBTED, &board.counts.doubted), (&REFUSED, &board.counts.refused)]
    {
        samples.family(family, counts.iter().map(|(name, count)| ([(*name).to_owned()], *count)));
    }
    let is_refused = |limit: &str| {
        let refused = |attack: &&std::sync::Arc<crate::model::Attack>| {
            attack.refusal.as_ref().is_some_and(|refusal| refusal.limit == limit)
        };
        board.attacks.iter().filter(refused).count()
    };
    samples
        .family(&UNANSWERED, board.counts.refused.iter().map(|(limit, _)| ([(*limit).to_owned()], is_refused(limit))));
    let speaker = board.speaker.as_ref();
    samples.family(&CONNECTED, speaker.map(|speaker| ([speaker.address.clone()], speaker.connected)));
    let neighbours = speaker.iter().flat_map(|speaker| &speaker.neighbours);
    let of = |neighbour: &crate::model::Neighbour| {
        ([neighbour.address.to_string(), neighbour.asn.to_string()], neighbour.is_established())
    };
    samples.family(&NEIGHBOURS, neighbours.map(of));
    let outcomes = figures.hooks.iter().flat_map(|count| {
        let of = |outcome: &str, events: u64| ([count.receiver.to_owned(), outcome.to_owned()], events);
        [of("told", count.told), of("failed", count.failed), of("dropped", count.dropped)]
    });
    samples.family(&HOOKS, outcomes);
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let all = OF_ALL.iter().map(|(family, _)| *family);
    let groups = OF_GROUPS.iter().map(|(family, _)| *family);
    let counts = [&EVICTED, &DOUBTED, &REFUSED, &UNANSWERED, &CONNECTED, &NEIGHBOURS, &HOOKS];
    all.chain([&ATTACKS]).chain(groups).chain(counts).copied().collect()
}

const PHASES: [(Phase, &str); 5] = [
    (Phase::Seen, "seen"),
    (Phase::Pending, "pending"),
    (Phase::Unreachable, "unreachable"),
    (Phase::Active, "active"),
    (Phase::Fading, "fading"),
];

type Read = (&'static Family, fn(&Figures<'_>) -> Value);

const OF_ALL: &[Read] = &[
    (&counter("weir_protect_sightings", None, "Packets to protected hosts that were looked at."), |figures| {
        figures.board.counts.sightings.into()
    }),
    (
        &counter(
            "weir_protect_dropped_sightings",
            None,
            "Packets that were not looked at, since a queue was full or filling up.",
        ),
        |figures| figures.board.counts.dropped.into(),
    ),
    (&counter("weir_protect_unlisted_sightings", None, "Packets of agents that `agents` does not name."), |figures| {
        figures.board.counts.unlisted.into()
    }),
    (
        &counter("weir_protect_rival_sightings", None, "Packets in streams beside a settled one of the same agent."),
        |figures| figures.board.counts.rivals.into(),
    ),
    (&counter("weir_protect_detected_attacks", None, "Attacks that began, doubted ones too."), |figures| {
        figures.board.counts.attacks.into()
    }),
    (&counter("weir_protect_announced", Some("routes"), "Routes that were announced."), |figures| {
        figures.board.counts.announced.into()
    }),
    (&counter("weir_protect_withdrawn", Some("routes"), "Routes that were withdrawn."), |figures| {
        figures.board.counts.withdrawn.into()
    }),
    (&gauge("weir_protect_alive_agents", "Listed agents that are heard."), |figures| figures.board.counts.alive.into()),
    (&gauge("weir_protect_routes", "Routes that are wanted."), |figures| figures.board.caps.routes.into()),
    (&gauge("weir_protect_routes_limit", "How many may be."), |figures| figures.board.caps.max_routes.into()),
    (&gauge("weir_protect_prefixes", "Prefixes that routes are for."), |figures| figures.board.caps.prefixes.into()),
    (&gauge("weir_protect_prefixes_limit", "How many there may be."), |figures| figures.board.caps.max_prefixes.into()),
    (
        &gauge("weir_protect_space_ratio", "The share of the protected space that is taken from the network."),
        |figures| figures.board.caps.share.into(),
    ),
    (&gauge("weir_protect_space_ratio_limit", "How much it may be."), |figures| figures.board.caps.max_share.into()),
    (&gauge("weir_protect_stopped", "1: somebody stopped everything, and nothing is announced."), |figures| {
        figures.board.stopped.is_some().into()
    }),
    (&counter("weir_protect_journal_errors", None, "Lines that could not be written to the journal."), |figures| {
        figures.board.counts.unwritten.into()
    }),
    (
        &gauge(
            "weir_protect_stop_unwritten",
            "1: the last stop or resume is not in the journal yet; it is tried again.",
        ),
        |figures| figures.board.counts.switch_unwritten.into(),
    ),
    (&counter("weir_protect_unknown_requests", None, "Requests below /protect without a known token."), |figures| {
        figures.unknown.into()
    }),
];

type OfGroup = (&'static Family, fn(&crate::model::Evidence) -> f64);

const OF_GROUPS: &[OfGroup] = &[
    (
        &of("weir_protect_flood_packets", Kind::Gauge, "Packets a second of the attacks on a group.", &["group"]),
        |evidence| evidence.packets.value,
    ),
    (&of("weir_protect_flood_bits", Kind::Gauge, "Bits a second of the attacks on a group.", &["group"]), |evidence| {
        evidence.bits.value
    }),
];

const ATTACKS: Family = of(
    "weir_protect_attacks",
    Kind::Gauge,
    "Attacks that are not over, by phase: seen (observed or refused), pending, unreachable (routes are wanted, and no neighbour has them), active, fading.",
    &["phase"],
);
const EVICTED: Family = of(
    "weir_protect_evicted",
    Kind::Counter,
    "What was refused or forgotten before its time, since a table was full.",
    &["table"],
);
const DOUBTED: Family = of(
    "weir_protect_doubted",
    Kind::Counter,
    "Attacks whose evidence was doubted, by doubt: docs/protect.md explains each.",
    &["doubt"],
);
const REFUSED: Family = of(
    "weir_protect_refused",
    Kind::Counter,
    "Actions that a limit was against, by limit: docs/protect.md explains each.",
    &["limit"],
);
const UNANSWERED: Family = of(
    "weir_protect_refused_attacks",
    Kind::Gauge,
    "Attacks that go on and that nothing is done about, by the limit that is against it.",
    &["limit"],
);
const CONNECTED: Family = of(
    "weir_protect_speaker_connected",
    Kind::Gauge,
    "1: the BGP speaker answers; absent: none is configured.",
    &["speaker"],
);
const NEIGHBOURS: Family = of(
    "weir_protect_neighbour_established",
    Kind::Gauge,
    "1: the speaker's session with this neighbour is established.",
    &["neighbour", "asn"],
);
const HOOKS: Family = of(
    "weir_protect_hook_events",
    Kind::Counter,
    "Events by receiver and outcome: told, failed, dropped (its queue was full).",
    &["receiver", "outcome"],
);

const fn counter(name: &'static str, unit: Option<&'static str>, help: &'static str) -> Family {
    Family::new(name, unit, Kind::Counter, help)
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family::new(name, None, Kind::Gauge, help)
}

const fn of(name: &'static str, kind: Kind, help: &'static str, labels: &'static [&'static str]) -> Family {
    Family::new(name, None, kind, help).by(labels)
}

#[cfg(test)]
mod tests {
    use weir_service::metrics::{Format, expose};

    use super::*;
    use crate::people::fixture;

    #[test]
    fn what_is_on_the_board_is_exposed() {
        let text = expose(Format::Text, |samples| {
            let hooks = [Count { receiver: "syslog", told: 1, failed: 0, dropped: 2 }];
            metrics(samples, &Figures { board: &fixture::board(), unknown: 7, hooks: &hooks });
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
