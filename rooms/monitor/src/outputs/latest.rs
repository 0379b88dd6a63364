//! The latest values, for Prometheus: one sample a channel, absent as soon as it is stale.

use weir_service::metrics::{Family, Kind, Samples};
use weir_wire::signal::{Block, Values};

use crate::api::State;
use crate::history::History;

/// Adds every family of [`families`], as of now. `states`: of all channels, in the order of their keys.
pub fn metrics(history: &History, states: &[State], samples: &mut Samples<'_>) {
    let catalog = history.catalog();
    let is_stale = |key| states.binary_search_by_key(&key, |state| state.key).is_ok_and(|at| states[at].stale);
    let of = |key| if is_stale(key) { None } else { latest(history, key) };
    let values = catalog.iter().take(MOST_CHANNELS).filter_map(|listed| {
        let labels = [&listed.station, &listed.stream, &listed.channel.name, &listed.channel.unit].map(Clone::clone);
        let value = of(listed.key)? * listed.channel.scale + listed.channel.offset;
        value.is_finite().then_some((labels, value))
    });
    samples.family(&VALUE, values);
    samples.single(&BEYOND, catalog.len().saturating_sub(MOST_CHANNELS));
}

/// The last value of a channel; `None`: there is none yet, or a gap.
fn latest(history: &History, key: u32) -> Option<f64> {
    let extent = history.extent(key)?;
    let mut last = None;
    history.read(key, extent.end.checked_sub(1)?, 64, |block: Block<'_>| {
        last = match block.values {
            Values::Samples(..) => block.each().last(),
            Values::Buckets(..) => block.buckets().last().map(|bucket| bucket.last),
            Values::Gap(_) => None,
        };
    });
    last
}

/// Every family of latest values, in the order in which it is exposed.
pub fn families() -> Vec<Family> {
    vec![VALUE, BEYOND]
}

const VALUE: Family = Family::new(
    "weir_monitor_channel_value",
    None,
    Kind::Gauge,
    "The latest sample of a channel, scaled; absent in a gap, and when it is stale.",
)
.by(&["station", "stream", "channel", "unit"]);
const BEYOND: Family = Family::new(
    "weir_monitor_channel_value_beyond",
    Some("channels"),
    Kind::Gauge,
    "Channels beyond the limit, whose values are not told.",
);

/// Channels that are told, the first that came.
const MOST_CHANNELS: usize = 1000;
