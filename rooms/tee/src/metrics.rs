//! The account of a tee as metrics.

use weir_service::metrics::{Family, Kind, Samples, Value};

use weir_forward::ledger::{DestinationCount, Ledger, ListenerCount, ReplyCount, RuleCount};

/// Adds every family of [`families`]; `workers`: the threads that move datagrams. Of more addresses of destinations than
/// [`MOST`] the rest is one, unless the scrape asks for destinations: 10,000 would be 20 MB, whoever is interested.
pub fn metrics(samples: &mut Samples<'_>, ledger: &Ledger, workers: usize) {
    samples.single(&WORKERS, workers);
    samples.single(&CLOSED, ledger.closed);
    let (destinations, rest) =
        if samples.are_asked_by("destination") { (&ledger.destinations[..], None) } else { some(&ledger.destinations) };
    let destinations = || destinations.iter().chain(&rest);
    for (family, value) in OF_LISTENERS {
        let of = |count: &ListenerCount| Some(([count.name.clone(), count.address.clone()], value(count)?));
        samples.family(family, ledger.listeners.iter().filter_map(of));
    }
    for (family, value) in OF_RULES {
        samples.family(family, ledger.rules.iter().map(|count| ([count.name.clone()], value(count))));
    }
    for (family, value) in OF_DESTINATIONS {
        let of = |count: &DestinationCount| Some((labels(count), value(count)?));
        samples.family(family, destinations().filter_map(of));
    }
    let dropped = |count: &DestinationCount| {
        let [name, address] = labels(count);
        count.drops.by_reason().map(|(reason, drops)| ([name.clone(), address.clone(), reason.to_owned()], drops))
    };
    samples.family(&DROPPED, destinations().flat_map(dropped));
    for (family, value) in OF_REPLIES {
        let of = |count: &DestinationCount| (count.replies.opened > 0).then(|| (labels(count), value(&count.replies)));
        samples.family(family, destinations().filter_map(of));
    }
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let listeners = OF_LISTENERS.iter().map(|(family, _)| *family);
    let rules = OF_RULES.iter().map(|(family, _)| *family);
    let destinations = OF_DESTINATIONS.iter().map(|(family, _)| *family);
    let of_parts = listeners.chain(rules).chain(destinations);
    let first = [&WORKERS, &CLOSED].into_iter();
    let replies = OF_REPLIES.iter().map(|(family, _)| *family);
    first.chain(of_parts).chain([&DROPPED]).chain(replies).copied().collect()
}

/// The first [`MOST`], and the sum of the others, if there are any.
fn some(all: &[DestinationCount]) -> (&[DestinationCount], Option<DestinationCount>) {
    let Some((some, rest)) = all.split_at_checked(MOST) else { return (all, None) };
    let Some(first) = rest.first() else { return (all, None) };
    let mut sum = DestinationCount { name: OTHERS.to_owned(), address: None, ..first.clone() };
    for other in &rest[1..] {
        sum.absorb(other);
        sum.healthy = sum.healthy.into_iter().chain(other.healthy).reduce(|all, healthy| all && healthy);
        sum.queue_limit = sum.queue_limit.into_iter().chain(other.queue_limit).reduce(|all, limit| all + limit);
        sum.unexplained += other.unexplained;
    }
    (some, Some(sum))
}

fn labels(count: &DestinationCount) -> [String; 2] {
    [count.name.clone(), count.address.map(|address| address.to_string()).unwrap_or_default()]
}

type Read<C, V> = (&'static Family, fn(&C) -> V);

const OF_LISTENERS: &[Read<ListenerCount, Option<Value>>] = &[
    (&listener("weir_tee_received", DATAGRAMS, "Datagrams taken from the socket."), |count| {
        Some(count.received.datagrams.into())
    }),
    (&listener("weir_tee_received", BYTES, "Payload bytes taken from the socket."), |count| {
        Some(count.received.bytes.into())
    }),
    (&listener("weir_tee_matched", DATAGRAMS, "Datagrams taken by at least one rule."), |count| {
        Some(count.matched.into())
    }),
    (&listener("weir_tee_unmatched", DATAGRAMS, "Datagrams taken by no rule: they went nowhere."), |count| {
        Some(count.unmatched.into())
    }),
    (
        &listener("weir_tee_truncated", DATAGRAMS, "Datagrams longer than the buffer: they are not forwarded in part."),
        |count| Some(count.truncated.into()),
    ),
    (
        &listener(
            "weir_tee_kernel_dropped",
            DATAGRAMS,
            "Datagrams dropped by the kernel at this socket before weir saw them; absent: the kernel does not tell.",
        ),
        |count| count.kernel_drops.map(Value::from),
    ),
    (
        &of_listener(
            "weir_tee_receive_buffer",
            BYTES,
            Kind::Gauge,
            "Receive buffer in force, as the kernel accounts it.",
        ),
        |count| Some(count.receive_buffer.into()),
    ),
    (
        &of_listener(
            "weir_tee_receive_buffer_asked",
            BYTES,
            Kind::Gauge,
            "Receive buffer asked for, of which the kernel accounts twice; absent: its default.",
        ),
        |count| count.asked_buffer.map(Value::from),
    ),
    (
        &of_listener(
            "weir_tee_receive_queue",
            BYTES,
            Kind::Gauge,
            "What waits in the receive buffer, as the kernel accounts it, of several sockets in the fullest; absent: the kernel does not tell.",
        ),
        |count| count.receive_queue.map(Value::from),
    ),
    (
        &of_listener(
            "weir_tee_listener_unexplained",
            DATAGRAMS,
            Kind::Gauge,
            "Received less matched, unmatched and truncated; not 0: a fault in weir.",
        ),
        |count| Some(Value::Real(count.unexplained as f64)),
    ),
];

const OF_RULES: &[Read<RuleCount, Value>] = &[
    (&rule("weir_tee_rule_matched", DATAGRAMS, "Datagrams that the rule took."), |count| {
        count.matched.datagrams.into()
    }),
    (&rule("weir_tee_rule_matched", BYTES, "Payload bytes that the rule took."), |count| count.matched.bytes.into()),
    (
        &rule(
            "weir_tee_rule_discarded",
            DATAGRAMS,
            "Datagrams that the rule led nowhere: it has no destination, or its group no living member.",
        ),
        |count| count.discarded.into(),
    ),
    (&rule("weir_tee_rule_asked", "copies", "Copies that the rule asked for, over all destinations."), |count| {
        count.copies.into()
    }),
];

const OF_DESTINATIONS: &[Read<DestinationCount, Option<Value>>] = &[
    (&destination("weir_tee_asked", "copies", "Copies that rules asked for; sent + dropped + queued."), |count| {
        Some(count.copies.datagrams.into())
    }),
    (&destination("weir_tee_asked", BYTES, "Payload bytes of the copies that rules asked for."), |count| {
        Some(count.copies.bytes.into())
    }),
    (&destination("weir_tee_sent", DATAGRAMS, "Datagrams handed to the kernel."), |count| {
        Some(count.sent.datagrams.into())
    }),
    (&destination("weir_tee_sent", BYTES, "Payload bytes handed to the kernel."), |count| {
        Some(count.sent.bytes.into())
    }),
    (
        &destination(
            "weir_tee_sent_unresolved",
            DATAGRAMS,
            "Datagrams of those sent that the kernel took while the next hop was not known to answer.",
        ),
        |count| Some(count.sent_unresolved.into()),
    ),
    (&of_destination("weir_tee_queued", Some(DATAGRAMS), Kind::Gauge, "Datagrams that wait in weir."), |count| {
        Some(count.queued.into())
    }),
    (
        &of_destination(
            "weir_tee_queued",
            Some(BYTES),
            Kind::Gauge,
            "Bytes of memory that datagrams waiting in weir take.",
        ),
        |count| Some(count.queued_bytes.into()),
    ),
    (
        &of_destination(
            "weir_tee_queue_limit",
            Some(BYTES),
            Kind::Gauge,
            "Bytes of memory that they may take; absent: the destination is not in use any more.",
        ),
        |count| count.queue_limit.map(Value::from),
    ),
    (
        &of_destination(
            "weir_tee_destination_healthy",
            None,
            Kind::Gauge,
            "1: the destination is thought to live; 0: not; absent: it is not in use any more.",
        ),
        |count| count.healthy.map(Value::from),
    ),
    (
        &destination("weir_tee_send", "calls", "System calls that sent; datagrams sent over it is the batching."),
        |count| Some(count.calls.into()),
    ),
    (&destination("weir_tee_joined", DATAGRAMS, "Datagrams that left within a joined (GSO) send."), |count| {
        Some(count.joined.into())
    }),
    (&destination("weir_tee_icmp", "errors", "ICMP errors that came back."), |count| Some(count.icmp_errors.into())),
    (
        &destination(
            "weir_tee_icmp_unproven",
            "errors",
            "ICMP errors that quote nothing that was sent, as forged ones do: nobody believes them.",
        ),
        |count| Some(count.icmp_unproven.into()),
    ),
    (
        &of_destination(
            "weir_tee_destination_unexplained",
            Some(DATAGRAMS),
            Kind::Gauge,
            "Copies less sent, dropped and queued; not 0: a fault in weir.",
        ),
        |count| Some(Value::Real(count.unexplained as f64)),
    ),
];

const WORKERS: Family = Family::new("weir_tee_workers", None, Kind::Gauge, "Threads that move datagrams.");
const CLOSED: Family = Family::new(
    "weir_tee_ledger_closed",
    None,
    Kind::Gauge,
    "1: every sum closes, nothing is unexplained; 0: a fault in weir.",
);
/// Of destinations whose answers go back.
const OF_REPLIES: &[Read<ReplyCount, Value>] = &[
    (
        &destination(
            "weir_tee_replies_received",
            DATAGRAMS,
            "Answers that came from the destination's address and port.",
        ),
        |count| count.received.datagrams.into(),
    ),
    (
        &destination(
            "weir_tee_replies_returned",
            DATAGRAMS,
            "Answers handed to the kernel for the client that they are for.",
        ),
        |count| count.returned.datagrams.into(),
    ),
    (&destination("weir_tee_replies_returned", BYTES, "Payload bytes of answers handed to the kernel."), |count| {
        count.returned.bytes.into()
    }),
    (
        &destination(
            "weir_tee_replies_dropped",
            DATAGRAMS,
            "Answers that the kernel did not take, or whose listener is gone.",
        ),
        |count| count.dropped.into(),
    ),
    (
        &of_destination("weir_tee_sessions", None, Kind::Gauge, "Sessions, one a client whose answers go back."),
        |count| count.sessions.into(),
    ),
    (&destination("weir_tee_opened", SESSIONS, "Sessions that were opened."), |count| count.opened.into()),
    (&destination("weir_tee_aged", SESSIONS, "Sessions closed since they were silent for too long."), |count| {
        count.aged.into()
    }),
    (&destination("weir_tee_evicted", SESSIONS, "Sessions closed to make room for others."), |count| {
        count.evicted.into()
    }),
    (&destination("weir_tee_failed", SESSIONS, "Sessions that could not be opened."), |count| count.failed.into()),
];

const DROPPED: Family =
    Family::new("weir_tee_dropped", Some(DATAGRAMS), Kind::Counter, "Copies that were not sent, by reason.").by(&[
        "destination",
        "address",
        "reason",
    ]);

const fn listener(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    of_listener(name, unit, Kind::Counter, help)
}

const fn of_listener(name: &'static str, unit: &'static str, kind: Kind, help: &'static str) -> Family {
    Family::new(name, Some(unit), kind, help).by(&["listener", "address"])
}

const fn rule(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::new(name, Some(unit), Kind::Counter, help).by(&["rule"])
}

const fn destination(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    of_destination(name, Some(unit), Kind::Counter, help)
}

const fn of_destination(name: &'static str, unit: Option<&'static str>, kind: Kind, help: &'static str) -> Family {
    Family::new(name, unit, kind, help).by(&["destination", "address"])
}

/// Addresses of destinations that have samples of their own.
const MOST: usize = 1_000;

/// The sum of all others.
const OTHERS: &str = "(others)";

const DATAGRAMS: &str = "datagrams";
const BYTES: &str = "bytes";
const SESSIONS: &str = "sessions";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir_service::metrics::{Format, Wanted, expose, expose_wanted};

    use super::super::fixture;
    use super::*;

    fn exposed(format: Format) -> String {
        expose(format, move |samples| metrics(samples, &fixture::busy(), 2))
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
            expose_wanted(Format::Text, Wanted::parse(query), move |samples| metrics(samples, &ledger, 2))
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
