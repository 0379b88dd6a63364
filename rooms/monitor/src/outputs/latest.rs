//! The latest values, for Prometheus: one sample a channel, absent as soon as it is stale.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_service::metrics::{Family, Kind, Samples};
use weir_wire::signal::{Block, Values};

use crate::history::History;

/// How many values are told, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At most so many channels, the first that came.
    pub channels: usize,
    /// A value that is older is told no longer.
    pub age: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { channels: 1000, age: Duration::from_secs(5) }
    }
}

/// Adds every family of [`families`], as of now.
pub fn metrics(history: &History, bounds: Bounds, samples: &mut Samples<'_>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let oldest = i64::try_from(now.saturating_sub(bounds.age).as_nanos()).unwrap_or(i64::MAX);
    let catalog = history.catalog();
    let of = |key| latest(history, key, oldest);
    let values = catalog.iter().take(bounds.channels).filter_map(|listed| {
        let labels = [&listed.station, &listed.stream, &listed.channel.name, &listed.channel.unit].map(Clone::clone);
        let value = of(listed.key)? * listed.channel.scale + listed.channel.offset;
        value.is_finite().then_some((labels, value))
    });
    samples.family(&VALUE, values);
    samples.single(&BEYOND, catalog.len().saturating_sub(bounds.channels));
}

/// The last value of a channel; `None`: there is a gap, or it is too old.
fn latest(history: &History, key: u32, oldest: i64) -> Option<f64> {
    let extent = history.extent(key).filter(|extent| extent.end_time >= oldest)?;
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
    "The latest sample of a channel, scaled; absent in a gap, and when it is older than some seconds.",
)
.by(&["station", "stream", "channel", "unit"]);
const BEYOND: Family = Family::new(
    "weir_monitor_channel_value_beyond",
    Some("channels"),
    Kind::Gauge,
    "Channels beyond the limit, whose values are not told.",
);
