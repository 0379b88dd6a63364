//! The account of an agent as metrics.

use weir_service::metrics::{Family, Kind, Samples, Value};

use crate::ledger::{CollectorCount, DropsCount, Ledger, SamplingCount};

/// Adds every family of [`families`]. What is not sampled or traced has no samples.
pub(crate) fn metrics(samples: &mut Samples<'_>, ledger: &Ledger) {
    for (family, value) in OF_ALL {
        samples.single(family, value(ledger));
    }
    let sampling = ledger.sampling.iter();
    samples.family(&POOL, sampling.clone().map(|count| ([], count.pool)));
    let fates = |count: &SamplingCount| [("sent", count.sent), ("shed", count.shed), ("lost", count.lost)];
    samples.family(&FLOW, sampling.flat_map(fates).map(|(fate, count)| ([fate.to_owned()], count)));
    let reasons = ledger.drops.iter().flat_map(|drops: &DropsCount| &drops.by_reason);
    samples.family(&DISCARDED, reasons.clone().map(|(reason, count)| ([reason.clone()], count.packets)));
    samples.family(&DISCARDED_SENT, reasons.map(|(reason, count)| ([reason.clone()], count.sent)));
    for (family, value) in OF_COLLECTORS {
        samples.family(family, ledger.collectors.iter().map(|count| ([count.name.clone()], value(count))));
    }
    let dropped = ledger.collectors.iter().flat_map(|count| {
        count.dropped.iter().map(|(reason, dropped)| ([count.name.clone(), (*reason).to_owned()], *dropped))
    });
    samples.family(&DROPPED, dropped);
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let all = OF_ALL.iter().map(|(family, _)| *family);
    let collectors = OF_COLLECTORS.iter().map(|(family, _)| *family);
    all.chain([&POOL, &FLOW, &DISCARDED, &DISCARDED_SENT]).chain(collectors).chain([&DROPPED]).copied().collect()
}

/// A family, and what it is of a thing.
type Read<C> = (&'static Family, fn(&C) -> Value);

const OF_ALL: &[Read<Ledger>] = &[
    (
        &Family::new("weir_agent_ledger_closed", None, Kind::Gauge, "1: nothing is unexplained; 0: a fault in weir."),
        |ledger| ledger.closed.into(),
    ),
    (&Family::new("weir_agent_interfaces", None, Kind::Gauge, "Interfaces that are counted."), |ledger| {
        ledger.interfaces.into()
    }),
    (
        &Family::new("weir_agent_sampled_interfaces", None, Kind::Gauge, "Of those, interfaces that are sampled."),
        |ledger| ledger.sampled_interfaces.into(),
    ),
    (&counter("weir_agent_counter", "samples", "Counter samples in datagrams."), |ledger| {
        ledger.counter_samples.into()
    }),
];

const POOL: Family =
    counter("weir_agent_pool", "packets", "Packets that could have been sampled; absent where none is sampled.");
const FLOW: Family = counter(
    "weir_agent_flow",
    "samples",
    "Flow samples due at the configured rates, by fate: `sent`, `shed` in a flood, `lost` for want of room.",
)
.by(&["fate"]);
const DISCARDED: Family = counter(
    "weir_agent_discarded",
    "packets",
    "Packets that the kernel dropped, by Linux's reason; absent where not traced.",
)
.by(&["reason"]);
const DISCARDED_SENT: Family =
    counter("weir_agent_discarded", "samples", "Samples of such packets in datagrams.").by(&["reason"]);

const OF_COLLECTORS: &[Read<CollectorCount>] = &[
    (&counter("weir_agent_sent", "datagrams", "Datagrams given to the network.").by(&["collector"]), |count| {
        count.sent.into()
    }),
    (&counter("weir_agent_sent", "bytes", "Payload bytes given to the network.").by(&["collector"]), |count| {
        count.bytes.into()
    }),
];
const DROPPED: Family = counter(
    "weir_agent_dropped",
    "datagrams",
    "Datagrams that were not sent, or refused by the collector's machine, by reason: docs/sflow.md explains each.",
)
.by(&["collector", "reason"]);

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::new(name, Some(unit), Kind::Counter, help)
}
