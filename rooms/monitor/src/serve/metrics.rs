//! The account of a server as metrics.

use weir_service::metrics::{Family, Kind, Samples, Value};

use super::ledger::Ledger;
use crate::outputs;

/// Adds every family of [`families`].
pub(super) fn metrics(samples: &mut Samples<'_>, ledger: &Ledger) {
    for (family, value) in OF_ALL {
        samples.single(family, value(ledger));
    }
    let received = &ledger.received;
    let by_name = |counts: &std::collections::BTreeMap<&'static str, u64>| -> Vec<([String; 1], u64)> {
        counts.iter().map(|(name, count)| ([(*name).to_owned()], *count)).collect()
    };
    samples.family(&DATAGRAMS, by_name(&received.by_kind));
    samples.family(&REFUSED, by_name(&received.refused));
    let fates = [
        ("in_order", received.in_order),
        ("copy", received.copies),
        ("late", received.late),
        ("forgotten", received.forgotten),
        ("lost", received.lost),
    ];
    samples.family(&DATA, fates.map(|(fate, count)| ([fate.to_owned()], count)));
    samples.family(&MISSING, by_name(&received.missing));
    let published = &ledger.published;
    samples.family(&PUBLISHED, published.iter().map(|sent| (NO_LABELS, sent.datagrams)));
    samples.family(&PUBLISHED_BYTES, published.iter().map(|sent| (NO_LABELS, sent.bytes)));
    samples.family(&NOT_TAKEN, published.iter().map(|sent| (NO_LABELS, sent.not_taken)));
    outputs::metrics(&ledger.outputs, samples);
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let all = OF_ALL.iter().map(|(family, _)| *family);
    let own = [&DATAGRAMS, &REFUSED, &DATA, &MISSING, &PUBLISHED, &PUBLISHED_BYTES, &NOT_TAKEN];
    all.chain(own).copied().chain(outputs::families()).chain(outputs::latest::families()).collect()
}

/// A family, and what it is of a ledger.
type Read = (&'static Family, fn(&Ledger) -> Value);

const OF_ALL: &[Read] = &[
    (
        &Family::new("weir_monitor_ledger_closed", None, Kind::Gauge, "1: nothing is unexplained; 0: a fault in weir."),
        |ledger| ledger.closed.into(),
    ),
    (&Family::new("weir_monitor_channels", None, Kind::Gauge, "Channels that are kept."), |ledger| {
        ledger.channels.into()
    }),
    (
        &Family::new(
            "weir_monitor_stale_channels",
            None,
            Kind::Gauge,
            "Of those, channels without samples for too long.",
        ),
        |ledger| ledger.stale.into(),
    ),
    (
        &Family::new("weir_monitor_alarmed_channels", None, Kind::Gauge, "Of those, channels beyond a limit."),
        |ledger| ledger.in_alarm.into(),
    ),
    (
        &Family::new(
            "weir_monitor_unacknowledged_channels",
            None,
            Kind::Gauge,
            "Of those, channels with an alarm that nobody has acknowledged, be it over or not.",
        ),
        |ledger| ledger.unacknowledged.into(),
    ),
    (&Family::new("weir_monitor_sessions", None, Kind::Gauge, "Sessions of senders that are known."), |ledger| {
        ledger.received.sessions.into()
    }),
    (&counter("weir_monitor_events", None, "Events so far."), |ledger| ledger.events.into()),
    (&counter("weir_monitor_received", Some("bytes"), "Payload bytes received."), |ledger| {
        ledger.received.bytes.into()
    }),
    (
        &counter("weir_monitor", Some("samples"), "Samples received in order; a bucket is as many as it stands for."),
        |ledger| ledger.received.samples.into(),
    ),
    (
        &counter(
            "weir_monitor_socket_dropped",
            Some("datagrams"),
            "Datagrams dropped by full receive buffers of this server.",
        ),
        |ledger| ledger.received.socket_drops.into(),
    ),
    (&counter("weir_monitor_evicted", Some("sessions"), "Sessions forgotten to make room for others."), |ledger| {
        ledger.received.evicted.into()
    }),
];

const DATAGRAMS: Family =
    counter("weir_monitor_received", Some("datagrams"), "Datagrams received, by kind.").by(&["kind"]);
const REFUSED: Family = counter(
    "weir_monitor_refused",
    Some("datagrams"),
    "Datagrams that were not taken, by reason: docs/monitor.md explains each.",
)
.by(&["reason"]);
const DATA: Family = counter(
    "weir_monitor_data",
    Some("datagrams"),
    "Datagrams of data by fate: `in_order`, a `copy` of one that was here, `late` behind its gap, `forgotten` with its session, `lost`.",
)
.by(&["fate"]);
const MISSING: Family =
    counter("weir_monitor_missing", Some("samples"), "Samples that are missing, by cause.").by(&["cause"]);

const PUBLISHED: Family = counter(
    "weir_monitor_published",
    Some("datagrams"),
    "Datagrams sent on to viewers, each once whatever number of groups it went to; absent without `[publish]`.",
);
const PUBLISHED_BYTES: Family =
    counter("weir_monitor_published", Some("bytes"), "Their payload bytes; absent without `[publish]`.");
const NOT_TAKEN: Family = counter(
    "weir_monitor_published_refused",
    Some("datagrams"),
    "Datagrams for viewers that the kernel did not take for one of the groups; absent without `[publish]`.",
);

const NO_LABELS: [String; 0] = [];

const fn counter(name: &'static str, unit: Option<&'static str>, help: &'static str) -> Family {
    Family::new(name, unit, Kind::Counter, help)
}
