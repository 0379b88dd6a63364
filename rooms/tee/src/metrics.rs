//! The account of a tee as metrics.

use weir_forward::ledger::{DestinationCount, Ledger, Place};
use weir_program::ledger;
use weir_service::metrics::{Family, Kind, Samples};

/// Adds every family of [`families`]; `workers`: the threads that move datagrams. Of more addresses of destinations than
/// [`MOST`] the rest is one, unless the scrape asks for destinations: 10,000 would be 20 MB, whoever is interested.
pub fn metrics(samples: &mut Samples<'_>, mut ledger: Ledger, workers: usize) {
    samples.single(&WORKERS, workers);
    if !samples.are_asked_by("destination") && ledger.destinations.len() > MOST {
        let rest = ledger.destinations.split_off(MOST);
        ledger.destinations.extend(rest.into_iter().reduce(|one, other| sum(one, &other)));
    }
    samples.ledger(&ledger);
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    [WORKERS].into_iter().chain(ledger::families::<Ledger>()).collect()
}

fn sum(mut sum: DestinationCount, other: &DestinationCount) -> DestinationCount {
    sum.absorb(other);
    (sum.name, sum.address) = (OTHERS.to_owned(), Place(None));
    sum.healthy = sum.healthy.into_iter().chain(other.healthy).reduce(|all, healthy| all && healthy);
    sum.queue_limit = sum.queue_limit.into_iter().chain(other.queue_limit).reduce(|all, limit| all + limit);
    sum.unexplained += other.unexplained;
    sum
}

static WORKERS: Family = Family::new("weir_tee_workers", None, Kind::Gauge, "Threads that move datagrams.");

/// Addresses of destinations that have samples of their own.
const MOST: usize = 1_000;

/// The sum of all others.
const OTHERS: &str = "(others)";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir_service::metrics::{Format, Wanted, expose, expose_wanted};

    use super::super::fixture;
    use super::*;

    fn exposed(format: Format) -> String {
        expose(format, move |samples| metrics(samples, fixture::busy(), 2))
    }

    #[test]
    fn a_ledger_as_metrics() {
        insta::assert_snapshot!(exposed(Format::Text));
    }

    #[test]
    fn of_many_destinations_some_and_the_sum_of_the_others_unless_they_are_asked_for() {
        let mut ledger = fixture::busy();
        let one = ledger.destinations[1].clone();
        ledger.destinations =
            (0..MOST + 3).map(|at| DestinationCount { name: at.to_string(), ..one.clone() }).collect();
        ledger.destinations[MOST + 1].healthy = Some(false);
        let exposed = |query: &str| {
            let ledger = ledger.clone();
            expose_wanted(Format::Text, Wanted::parse(query), move |samples| metrics(samples, ledger.clone(), 2))
        };
        let value = |text: &str, start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}"));
            line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
        };
        let all = exposed("");
        assert_eq!(all.lines().filter(|line| line.starts_with("weir_tee_sent_datagrams_total{")).count(), MOST + 1);
        let others = |name: &str| value(&all, &format!("{name}{{destination=\"(others)\""));
        assert_eq!(others("weir_tee_sent_datagrams_total"), 3 * one.sent.datagrams);
        assert_eq!(others("weir_tee_destination_healthy"), 0);
        let some = exposed(&format!("destination={}", MOST + 2));
        let sent = value(&some, &format!("weir_tee_sent_datagrams_total{{destination=\"{}\"", MOST + 2));
        assert_eq!((sent, some.matches("weir_tee_sent_datagrams_total{").count()), (one.sent.datagrams, 1));
        assert_eq!(exposed("destination=*").matches("weir_tee_sent_datagrams_total{").count(), MOST + 3);
    }

    #[test]
    fn every_family_is_exposed_once_and_named_by_the_grammar() {
        let text = exposed(Format::Text);
        let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let names: Vec<String> = families().iter().map(Family::full_name).collect();
        assert_eq!(types.iter().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(), names);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for family in families() {
            let name = family.full_name();
            assert!(name.starts_with("weir_tee_") && family.help.ends_with('.'), "{family:?}");
            assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
            assert!(family.kind != Kind::Counter || family.unit.is_some(), "{name}: a count of what?");
        }
    }

    #[test]
    fn drops_of_a_destination_add_up_in_the_exposition() {
        let text = exposed(Format::OpenMetrics);
        let of = |metric: &str| -> u64 {
            let samples = text.lines().filter(|line| line.starts_with(&format!("{metric}{{destination=\"siem\"")));
            samples.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
        };
        let parts = of("weir_tee_sent_datagrams_total")
            + of("weir_tee_dropped_datagrams_total")
            + of("weir_tee_queued_datagrams");
        assert_eq!(of("weir_tee_asked_copies_total"), parts);
        assert!(of("weir_tee_dropped_datagrams_total") > 0);
    }
}
