//! The account of a station as metrics.

use weir_service::metrics::{Family, Kind, Samples, Value};

use super::ledger::{Ledger, SourceCount, StreamCount};

/// Adds every family of [`families`].
pub(super) fn metrics(samples: &mut Samples<'_>, ledger: &Ledger) {
    for (family, value) in OF_ALL {
        samples.single(family, value(ledger));
    }
    for (family, value) in OF_STREAMS {
        samples.family(family, ledger.streams.iter().map(|stream| ([stream.name.clone()], value(stream))));
    }
    let gaps = ledger.streams.iter().flat_map(|stream| {
        stream.samples.gaps.iter().map(|(cause, count)| ([stream.name.clone(), (*cause).to_owned()], *count))
    });
    samples.family(&GAPS, gaps);
    let outlets = || {
        let of = |stream: &'_ StreamCount| {
            stream.outlets.iter().map(|outlet| (stream.name.clone(), outlet.clone())).collect::<Vec<_>>()
        };
        ledger.streams.iter().flat_map(of)
    };
    samples.family(&SENT, outlets().map(|(stream, outlet)| ([stream, outlet.to], outlet.sent)));
    samples.family(&SENT_BYTES, outlets().map(|(stream, outlet)| ([stream, outlet.to], outlet.bytes)));
    let dropped = outlets().flat_map(|(stream, outlet)| {
        let of =
            move |(reason, count): (&'static str, u64)| ([stream.clone(), outlet.to.clone(), reason.to_owned()], count);
        outlet.dropped.into_iter().map(of)
    });
    samples.family(&DROPPED, dropped);
    for (family, value) in OF_SOURCES {
        samples.family(family, ledger.sources.iter().map(|source| ([source.name.clone()], value(source))));
    }
    let fates = |source: &SourceCount| {
        let SourceCount { refused, crowded, late, misplaced, .. } = *source;
        [("refused", refused), ("crowded", crowded), ("late", late), ("misplaced", misplaced)]
    };
    let lost = ledger
        .sources
        .iter()
        .flat_map(|source| fates(source).map(|(reason, count)| ([source.name.clone(), reason.to_owned()], count)));
    samples.family(&LOST, lost);
    let requests = &ledger.requests;
    let fates = [
        ("metadata", requests.metadata),
        ("granted", requests.granted),
        ("refused", requests.refused),
        ("malformed", requests.malformed),
        ("unsealed", requests.unsealed),
    ];
    samples.family(&REQUESTS, fates.map(|(fate, count)| ([fate.to_owned()], count)));
}

/// Every family of this module, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    let all = OF_ALL.iter().map(|(family, _)| *family);
    let streams = OF_STREAMS.iter().map(|(family, _)| *family);
    let sources = OF_SOURCES.iter().map(|(family, _)| *family);
    let outlets = [&GAPS, &SENT, &SENT_BYTES, &DROPPED];
    all.chain(streams).chain(outlets).chain(sources).chain([&LOST, &REQUESTS]).copied().collect()
}

/// A family, and what it is of a thing.
type Read<C> = (&'static Family, fn(&C) -> Value);

const OF_ALL: &[Read<Ledger>] = &[
    (
        &Family::new("weir_station_ledger_closed", None, Kind::Gauge, "1: nothing is unexplained; 0: a fault in weir."),
        |ledger| ledger.closed.into(),
    ),
    (&Family::new("weir_station_channels", None, Kind::Gauge, "Channels."), |ledger| ledger.channels.into()),
    (
        &counter("weir_station_refused", "channels", "Channels that there was no room for, as often as they came."),
        |ledger| ledger.channels_refused.into(),
    ),
    (
        &Family::new("weir_station_clock_steps", None, Kind::Counter, "How often the day's clock was stepped."),
        |ledger| ledger.clock_steps.into(),
    ),
];

const OF_STREAMS: &[Read<StreamCount>] = &[
    (
        &counter("weir_station_due", "samples", "Samples that the sources had, or should have had.").by(&["stream"]),
        |stream| stream.samples.due.into(),
    ),
    (
        &counter("weir_station_sent", "samples", "Samples in datagrams, themselves or in buckets.").by(&["stream"]),
        |stream| stream.samples.sent.into(),
    ),
    (
        &counter(
            "weir_station_overrun",
            "samples",
            "Of the gaps of cause `station`, samples given up since more came than was sent.",
        )
        .by(&["stream"]),
        |stream| stream.samples.overrun.into(),
    ),
    (
        &counter("weir_station_data", "datagrams", "Datagrams of data that at least one outlet took.").by(&["stream"]),
        |stream| stream.data.into(),
    ),
];

const GAPS: Family =
    counter("weir_station_gap", "samples", "Samples that were told to be missing, by cause.").by(&["stream", "cause"]);
const SENT: Family =
    counter("weir_station_sent", "datagrams", "Datagrams given to the network.").by(&["stream", "outlet"]);
const SENT_BYTES: Family =
    counter("weir_station_sent", "bytes", "Payload bytes given to the network.").by(&["stream", "outlet"]);
const DROPPED: Family = counter(
    "weir_station_dropped",
    "datagrams",
    "Datagrams that the kernel did not take, by reason: docs/monitor-station.md explains each.",
)
.by(&["stream", "outlet", "reason"]);

const OF_SOURCES: &[Read<SourceCount>] = &[
    (
        &Family::new("weir_station_source_over", None, Kind::Gauge, "1: the source has ended or failed.")
            .by(&["source"]),
        |source| source.over.into(),
    ),
    (&counter("weir_station_read", "points", "Values read.").by(&["source"]), |source| source.points.into()),
    (
        &counter("weir_station_unreadable", "lines", "Lines or datagrams that could not be read, or not wholly.")
            .by(&["source"]),
        |source| source.unreadable.into(),
    ),
    (
        &counter("weir_station_source_dropped", "datagrams", "Datagrams that the socket of a source had no room for.")
            .by(&["source"]),
        |source| source.dropped.into(),
    ),
    (
        &counter("weir_station_missed", "samples", "Samples that a source should have had, and had not.")
            .by(&["source"]),
        |source| source.missed.into(),
    ),
];

const LOST: Family =
    counter("weir_station_lost", "points", "Values read that became no sample, by reason.").by(&["source", "reason"]);
const REQUESTS: Family =
    Family::new("weir_station_requests", None, Kind::Counter, "What others asked, by fate.").by(&["fate"]);

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::new(name, Some(unit), Kind::Counter, help)
}
