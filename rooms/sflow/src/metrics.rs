//! The account of an analyser as metrics of its own health; what agents measure is `api`'s.

use weir_service::metrics::{Family, Kind, Samples, Value};

use crate::fate::Fate;
use crate::ledger::{Ledger, ListenerCount};
use crate::shard::{Statistics, Table};

/// Adds every family of [`families`].
pub fn metrics(samples: &mut Samples<'_>, ledger: &Ledger, statistics: &Statistics) {
    for (family, value) in OF_ALL {
        samples.single(family, value(ledger));
    }
    let rejected = |fate: &Fate| {
        let count = ledger.rejected.get(fate.name()).copied().unwrap_or_default();
        ([fate.name().to_owned()], count)
    };
    samples.family(&REJECTED, Fate::ALL[1..].iter().map(rejected));
    samples.family(&SAMPLES, ledger.samples.by_kind().map(|(kind, count)| ([kind.to_owned()], count)));
    samples.family(&ABSENT, statistics.absent.iter().map(|(reason, count)| ([(*reason).to_owned()], *count)));
    for (family, value) in OF_TABLES {
        samples.family(family, statistics.tables.iter().map(|table| ([table.name.to_owned()], value(table))));
    }
    for (family, value) in OF_LISTENERS {
        let of = |count: &ListenerCount| Some(([count.name.clone(), count.address.clone()], value(count)?));
        samples.family(family, ledger.listeners.iter().filter_map(of));
    }
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let all = OF_ALL.iter().map(|(family, _)| *family);
    let listeners = OF_LISTENERS.iter().map(|(family, _)| *family);
    let tables = OF_TABLES.iter().map(|(family, _)| *family);
    all.chain([&REJECTED, &SAMPLES, &ABSENT]).chain(tables).chain(listeners).copied().collect()
}

/// A family, and what it is of a thing.
type Read<C, V> = (&'static Family, fn(&C) -> V);

const OF_ALL: &[Read<Ledger, Value>] = &[
    (&gauge("weir_sflow_ledger_closed", None, "1: nothing is unexplained; 0: a fault in weir."), |ledger| {
        ledger.closed.into()
    }),
    (
        &counter("weir_sflow_received", DATAGRAMS, "Datagrams taken from sockets: analysed + rejected + truncated."),
        |ledger| ledger.received.datagrams.into(),
    ),
    (&counter("weir_sflow_received", "bytes", "Payload bytes taken from sockets."), |ledger| {
        ledger.received.bytes.into()
    }),
    (&counter("weir_sflow_analysed", DATAGRAMS, "Datagrams that were taken into account."), |ledger| {
        ledger.analysed.into()
    }),
    (&counter("weir_sflow_truncated", DATAGRAMS, "Datagrams longer than the buffer."), |ledger| {
        ledger.truncated.into()
    }),
    (&gauge("weir_sflow_unexplained", Some(DATAGRAMS), "Received less its parts; not 0: a fault in weir."), |ledger| {
        Value::Real(ledger.unexplained as f64)
    }),
    (
        &counter(
            "weir_sflow_misdirected",
            DATAGRAMS,
            "Datagrams that came to another worker's socket than their agent's: right all the same, and dearer.",
        ),
        |ledger| ledger.misdirected.into(),
    ),
    (
        &counter(
            "weir_sflow_missing",
            DATAGRAMS,
            "Datagrams that agents sent and that never came, by their sequence numbers.",
        ),
        |ledger| ledger.lost_before.into(),
    ),
];

const OF_LISTENERS: &[Read<ListenerCount, Option<Value>>] = &[
    (
        &of_listener(
            "weir_sflow_kernel_dropped",
            DATAGRAMS,
            Kind::Counter,
            "Datagrams dropped by the kernel at this socket before weir saw them; absent: the kernel does not tell.",
        ),
        |count| count.kernel_drops.map(Value::from),
    ),
    (
        &of_listener(
            "weir_sflow_receive_buffer",
            "bytes",
            Kind::Gauge,
            "Receive buffer in force, as the kernel accounts it.",
        ),
        |count| Some(count.receive_buffer.into()),
    ),
    (
        &of_listener(
            "weir_sflow_receive_queue",
            "bytes",
            Kind::Gauge,
            "What waits in the receive buffer, of several sockets in the fullest; absent: the kernel does not tell.",
        ),
        |count| count.receive_queue.map(Value::from),
    ),
];

const OF_TABLES: &[Read<Table, u64>] = &[
    (&of_table("weir_sflow_table", Kind::Gauge, "What is remembered, by table."), |table| table.entries),
    (&of_table("weir_sflow_table_limit", Kind::Gauge, "How much may be remembered, over all workers."), |table| {
        table.limit
    }),
    (
        &of_table(
            "weir_sflow_evicted",
            Kind::Counter,
            "What was refused or forgotten before its time, since a table was full.",
        ),
        |table| table.evicted,
    ),
];

const REJECTED: Family = labelled(
    "weir_sflow_rejected",
    Some(DATAGRAMS),
    Kind::Counter,
    "Datagrams that were not taken into account, by reason: docs/sflow.md explains each.",
    &["reason"],
);
const SAMPLES: Family = labelled(
    "weir_sflow",
    Some("samples"),
    Kind::Counter,
    "Samples in the datagrams that were analysed, by kind; `malformed`, `refused` and `repeated` were not taken into account; \
     `contradicted` are those of `flow` whose frame length was replaced by what the headers say.",
    &["kind"],
);
const ABSENT: Family = labelled(
    "weir_sflow_absent",
    Some("rates"),
    Kind::Counter,
    "Totals that got no rate (`first` to `unknown`), counter records and samples that were not taken, by reason: docs/sflow.md.",
    &["reason"],
);

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, unit: Some(unit), kind: Kind::Counter, help, labels: &[] }
}

const fn gauge(name: &'static str, unit: Option<&'static str>, help: &'static str) -> Family {
    Family { name, unit, kind: Kind::Gauge, help, labels: &[] }
}

const fn of_listener(name: &'static str, unit: &'static str, kind: Kind, help: &'static str) -> Family {
    Family { name, unit: Some(unit), kind, help, labels: &["listener", "address"] }
}

const fn of_table(name: &'static str, kind: Kind, help: &'static str) -> Family {
    labelled(name, Some("entries"), kind, help, &["table"])
}

const fn labelled(
    name: &'static str,
    unit: Option<&'static str>,
    kind: Kind,
    help: &'static str,
    labels: &'static [&'static str],
) -> Family {
    Family { name, unit, kind, help, labels }
}

const DATAGRAMS: &str = "datagrams";
