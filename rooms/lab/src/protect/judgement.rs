//! What the room did, against the floods that there were.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_program::clock::Nanos;
use weir_protect::journal::What;
use weir_stats::Distribution;
use weir_traffic::Window;

use super::defence::Event;
use super::schedule::{Flood, Schedule};
use crate::scenario::Attack;

/// How well floods were met.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Datagrams that were due within the sending window, and were not sent.
    pub unsent: u64,
    /// Floods that there were; none of forged ones.
    pub floods: u64,
    /// Those for which a route was wanted at any time.
    pub found: u64,
    /// Those for which a route was wanted while they went on.
    pub stopped: u64,
    /// From a flood's first packet to when a route was wanted. Those for which none ever was count with the least that it can be.
    pub reactions: Distribution,
    /// From when the analyser had the first sample above the threshold to when a route was wanted; of those for which one was.
    pub decisions: Distribution,
    /// Attacks that were told of, doubted ones too.
    pub alarms: u64,
    /// Of these, those whose target was not flooded.
    pub false_alarms: u64,
    /// Attacks whose evidence was doubted.
    pub doubted: u64,
    /// Attacks for which routes were wanted, and not within the truth of any flood.
    pub false_routes: u64,
}

/// `finished`: when the analyser looked for the last time.
pub(super) fn judge(schedule: &Schedule, sending: &Window, events: &[Event], finished: Nanos) -> Judgement {
    let is_forged = schedule.settings.attack == Attack::Forged;
    let floods = if is_forged { Vec::new() } else { schedule.floods() };
    let at = |seconds: f64| sending.start + (seconds * 1e9) as Nanos;
    let of = |what: What| events.iter().filter(move |event| event.what == what);
    let targets = |what: What| of(what).map(|event| event.target).collect::<BTreeSet<IpNet>>();
    let is_true = |target: &IpNet| floods.iter().any(|flood| target.contains(&IpAddr::V4(flood.target)));
    let untrue = |what: What| targets(what).iter().filter(|target| !is_true(target)).count() as u64;
    let mut judgement = Judgement {
        alarms: targets(What::Detected).len() as u64,
        false_alarms: untrue(What::Detected),
        doubted: targets(What::Doubted).len() as u64,
        false_routes: untrue(What::Announced),
        ..Judgement::default()
    };
    for Flood { target, start, end, .. } in floods.iter().filter(|flood| at(flood.end) <= sending.end) {
        let (start, end) = (at(*start), at(*end));
        judgement.floods += 1;
        let first = of(What::Announced)
            .find(|event| event.at >= start && event.routes > 0 && event.target.contains(&IpAddr::V4(*target)));
        let Some(event) = first else {
            judgement.reactions.record(finished.saturating_sub(start));
            continue;
        };
        judgement.found += 1;
        judgement.stopped += u64::from(event.at <= end);
        judgement.reactions.record(event.at - start);
        judgement.decisions.record(event.at.saturating_sub(event.first_excess));
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Protect;

    const SECOND: u64 = 1_000_000_000;

    fn event(at: Nanos, what: What, target: &str) -> Event {
        Event {
            at,
            what,
            target: target.parse().unwrap(),
            first_excess: at - 7,
            routes: usize::from(what == What::Announced),
        }
    }

    /// Two floods of 2.5 s, the second one 10 s behind the first.
    fn judged(attack: Attack, events: &[Event]) -> Judgement {
        let settings = Protect { attack, apart: weir_units::Span::from_secs(10), ..Protect::default() };
        let schedule = Schedule { settings, duration: 29.0, longest: 1400, seed: 1 };
        assert_eq!(schedule.floods().len(), if attack == Attack::None { 0 } else { 2 });
        judge(&schedule, &Window { start: 100 * SECOND, end: 129 * SECOND }, events, 140 * SECOND)
    }

    #[test]
    fn what_was_never_stopped_counts_with_the_least_that_it_can_be() {
        let start = 106 * SECOND;
        let of_first = [
            event(start + 300_000_000, What::Detected, "10.64.0.10/32"),
            event(start + 300_000_000, What::Announced, "10.64.0.10/32"),
        ];
        let found = judged(Attack::Flood, &of_first);
        assert_eq!((found.floods, found.found, found.stopped, found.alarms, found.false_alarms), (2, 1, 1, 1, 0));
        assert_eq!(found.reactions.min_us(), Some(300_000.0));
        // The second one began 24 s before the end.
        assert_eq!(found.reactions.max_us(), Some(24e6));
        assert_eq!((found.decisions.n(), found.decisions.max_us()), (1, Some(0.007)));
    }

    #[test]
    fn whoever_is_not_flooded_is_a_false_alarm() {
        let at = 110 * SECOND;
        let events = [
            event(at, What::Detected, "10.65.3.10/32"),
            event(at, What::Announced, "10.65.3.10/32"),
            event(at, What::Detected, "10.64.0.10/32"),
            event(at, What::Doubted, "10.64.0.10/32"),
        ];
        for (attack, false_alarms) in [(Attack::None, 2), (Attack::Forged, 2), (Attack::Flood, 1)] {
            let found = judged(attack, &events);
            assert_eq!((found.false_alarms, found.false_routes, found.doubted), (false_alarms, 1, 1), "{attack:?}");
            assert_eq!(found.floods, if attack == Attack::Flood { 2 } else { 0 });
        }
    }
}
