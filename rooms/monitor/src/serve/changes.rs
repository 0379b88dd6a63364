//! What changes under a channel: its station's clock, which is set, and what it is measured in.

use std::collections::HashMap;
use std::time::Duration;

use weir_units::format::{plain, printable};
use weir_wire::signal::{Block, Cause, Gap, Values};

use super::events::Draft;
use crate::api::Severity;
use weir_signal::history::{Extent, Listed};
use weir_signal::receive::Stream;

/// Whether something is to be said of a station again.
pub(super) fn is_due(said: &mut HashMap<String, Duration>, station: &String, now: Duration) -> bool {
    if said.get(station).is_some_and(|then| now < *then + APART) {
        return false;
    }
    if said.len() >= MOST {
        said.clear();
    }
    said.insert(station.clone(), now);
    true
}

/// What a station would have sent since the channel was heard last, in an earlier session of it, by its times: within the length of the
/// history. Beyond that nobody knows whether it ran.
pub(super) fn due_meanwhile(block: &Block<'_>, extent: Extent, span: Duration) -> Option<Block<'static>> {
    let passed = i128::from(block.time) - i128::from(extent.end_time);
    let is_known = extent.begin < extent.end && passed <= span.as_nanos().cast_signed();
    // To the nearest sample.
    let samples =
        Some(block.rate.samples(passed + block.rate.nanos(1) / 2)).filter(|samples| is_known && *samples > 0)?;
    let values = Values::Gap(Gap { samples, cause: Cause::Restart });
    let (channel, rate) = (block.channel, block.rate);
    Some(Block { channel, first: extent.end, time: extent.end_time, rate, values })
}

/// By how much a clock has stepped between two blocks, ns.
pub(super) fn step(block: &Block<'_>, extent: Extent) -> Option<i64> {
    let step = block.time.saturating_sub(extent.end_time);
    let half = i64::try_from(block.rate.nanos(1) / 2).unwrap_or(i64::MAX);
    (extent.begin < extent.end && step.unsigned_abs() > half.max(LEAST_STEP).unsigned_abs()).then_some(step)
}

pub(super) fn told_step(stream: &Stream, time_ns: i64, step: i64) -> Draft {
    let way = if step < 0 { "back" } else { "on" };
    let size = weir_units::format::duration(step.unsigned_abs() as f64 / 1e3);
    Draft {
        time_ns,
        severity: Severity::Minor,
        station: stream.station.clone(),
        channel: String::new(),
        kind: "time",
        text: format!("its clock has stepped {way} by {size}"),
        remedy: Some("let chrony or PTP slew the clock of that station, not step it".into()),
    }
}

/// What a channel was measured as, and is now.
pub(super) fn told_renewed(before: &Listed, now: &Listed, time_ns: i64) -> Draft {
    let (old, new) = (&before.channel, &now.channel);
    let number = |name: &str, old: f64, new: f64| {
        (old.to_bits() != new.to_bits()).then(|| format!("{name} {} (it was {})", plain(new), plain(old)))
    };
    let unit = (old.unit != new.unit)
        .then(|| format!("unit \"{}\" (it was \"{}\")", printable(&new.unit), printable(&old.unit)));
    let changes = [number("scale", old.scale, new.scale), number("offset", old.offset, new.offset), unit];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    Draft {
        time_ns,
        severity: Severity::Info,
        station: before.station.clone(),
        channel: new.name.clone(),
        kind: "scale",
        text: format!("it is measured otherwise from now on, and its curve begins anew: {}", changes.join(", ")),
        remedy: None,
    }
}

/// Clocks that are kept right move by less between two blocks.
const LEAST_STEP: i64 = 5_000_000;

/// From one event of a station, or of a channel, to the next.
pub(super) const APART: Duration = Duration::from_secs(10);

/// Of whom it is known when something was said of them.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Element, Rate};

    use super::*;

    const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };

    #[test]
    fn what_was_due_meanwhile_is_within_the_history() {
        const HOUR: i64 = 3_600_000_000_000;
        let extent = Extent { begin: 0, end: 500, begin_time: 0, end_time: HOUR, has_ended: false };
        let values = Values::Samples(Element::F32, &[0; 400]);
        let due = |passed: i64| {
            let block = Block { channel: 3, first: 0, time: HOUR + passed, rate: RATE, values };
            let gap = due_meanwhile(&block, extent, Duration::from_secs(600));
            assert!(gap.is_none_or(|gap| (gap.first, gap.time) == (500, HOUR)));
            gap.map_or(0, |gap| gap.samples())
        };
        let minutes = 60_000_000_000;
        assert_eq!([5 * minutes, 0, -minutes, 10 * minutes, 11 * minutes].map(due), [300_000, 0, 0, 600_000, 0]);
        let block = Block { channel: 3, first: 0, time: HOUR, rate: RATE, values };
        assert_eq!(due_meanwhile(&block, Extent::default(), Duration::MAX), None);
    }
}
