//! The account of a tee as metrics.

use weir_service::metrics::{Family, Kind, Samples, Value};

use crate::ledger::{DestinationCount, Ledger, ListenerCount, RuleCount};

/// Adds every family of [`families`]; `workers`: the threads that move datagrams.
pub fn metrics(samples: &mut Samples<'_>, ledger: &Ledger, workers: usize) {
    samples.single(&WORKERS, workers);
    samples.single(&CLOSED, ledger.closed);
    for (family, value) in OF_LISTENERS {
        let of = |count: &ListenerCount| Some(([count.name.clone(), count.address.clone()], value(count)?));
        samples.family(family, ledger.listeners.iter().filter_map(of));
    }
    for (family, value) in OF_RULES {
        samples.family(family, ledger.rules.iter().map(|count| ([count.name.clone()], value(count))));
    }
    for (family, value) in OF_DESTINATIONS {
        let of = |count: &DestinationCount| Some((labels(count), value(count)?));
        samples.family(family, ledger.destinations.iter().filter_map(of));
    }
    let dropped = |count: &DestinationCount| {
        let [name, address] = labels(count);
        count.drops.by_reason().map(|(reason, drops)| ([name.clone(), address.clone(), reason.to_owned()], drops))
    };
    samples.family(&DROPPED, ledger.destinations.iter().flat_map(dropped));
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let listeners = OF_LISTENERS.iter().map(|(family, _)| *family);
    let rules = OF_RULES.iter().map(|(family, _)| *family);
    let destinations = OF_DESTINATIONS.iter().map(|(family, _)| *family);
    let of_parts = listeners.chain(rules).chain(destinations);
    [&WORKERS, &CLOSED].into_iter().chain(of_parts).chain([&DROPPED]).copied().collect()
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
            "1: the destination is thought to live; 0: not.",
        ),
        |count| Some(count.healthy.into()),
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
        &of_destination(
            "weir_tee_destination_unexplained",
            Some(DATAGRAMS),
            Kind::Gauge,
            "Copies less sent, dropped and queued; not 0: a fault in weir.",
        ),
        |count| Some(Value::Real(count.unexplained as f64)),
    ),
];

const WORKERS: Family = alone("weir_tee_workers", None, Kind::Gauge, "Threads that move datagrams.");
const CLOSED: Family = alone(
    "weir_tee_ledger_closed",
    None,
    Kind::Gauge,
    "1: every sum closes, nothing is unexplained; 0: a fault in weir.",
);
const DROPPED: Family = Family {
    name: "weir_tee_dropped",
    unit: Some(DATAGRAMS),
    kind: Kind::Counter,
    help: "Copies that were not sent, by reason.",
    labels: &["destination", "address", "reason"],
};

const fn alone(name: &'static str, unit: Option<&'static str>, kind: Kind, help: &'static str) -> Family {
    Family { name, unit, kind, help, labels: &[] }
}

const fn listener(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    of_listener(name, unit, Kind::Counter, help)
}

const fn of_listener(name: &'static str, unit: &'static str, kind: Kind, help: &'static str) -> Family {
    Family { name, unit: Some(unit), kind, help, labels: &["listener", "address"] }
}

const fn rule(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, unit: Some(unit), kind: Kind::Counter, help, labels: &["rule"] }
}

const fn destination(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    of_destination(name, Some(unit), Kind::Counter, help)
}

const fn of_destination(name: &'static str, unit: Option<&'static str>, kind: Kind, help: &'static str) -> Family {
    Family { name, unit, kind, help, labels: &["destination", "address"] }
}

const DATAGRAMS: &str = "datagrams";
const BYTES: &str = "bytes";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir_service::metrics::{Format, expose};

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
