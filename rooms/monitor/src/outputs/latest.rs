//! The latest values, for Prometheus: one sample a channel, absent as soon as it is stale.

use std::sync::Arc;

use weir_service::metrics::{Family, Kind, Samples};

use crate::api::State;
use weir_signal::history::{Cursor, History, Listed};

/// Adds every family of [`families`], as of now. `states`: of all channels, in the order of their keys.
pub fn metrics(history: &History, states: &[State], samples: &mut Samples<'_>) {
    let catalog = history.catalog();
    let is_stale = |key: u32| states.binary_search_by_key(&key, |state| state.key).is_ok_and(|at| states[at].stale);
    let of = |listed: &Arc<Listed>| if is_stale(listed.key) { None } else { latest(history, listed) };
    let values = catalog.iter().take(MOST_CHANNELS).filter_map(|listed| {
        let labels = [&listed.station, &listed.stream, &listed.channel.name, &listed.channel.unit].map(Clone::clone);
        let value = of(listed)? * listed.channel.scale + listed.channel.offset;
        value.is_finite().then_some((labels, value))
    });
    samples.family(&VALUE, values);
    samples.single(&BEYOND, catalog.len().saturating_sub(MOST_CHANNELS));
}

/// The last value of a channel; `None`: there is none yet, or a gap.
fn latest(history: &History, listed: &Arc<Listed>) -> Option<f64> {
    let extent = history.extent(listed.key)?;
    let (mut cursor, mut last) = (Cursor { id: listed.id(), at: extent.end.checked_sub(1)? }, None);
    history.read(&mut cursor, |block| last = block.last());
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
