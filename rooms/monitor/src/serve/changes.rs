//! What changes under a channel: its station's clock, which is set, and what it is measured in.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use weir_units::format::{plain, printable};
use weir_wire::signal::{Block, Cause, Gap, Values};

use super::events::Draft;
use super::open::Open;
use crate::api::Severity;
use crate::history::{Extent, Listed, Renewed};
use crate::receive::Stream;

/// What was said of it, each once in a while.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// When a station's clock was said to step.
    stepped: HashMap<String, Duration>,
    /// When a channel was said to begin anew.
    renewed: HashMap<u32, Duration>,
}

impl Changes {
    /// A station's clock has stepped, as a block of that time says that came now.
    pub(super) fn stepped(&mut self, stream: &Stream, (time, now): (i64, Duration), step: i64, told: &mut Vec<Draft>) {
        if is_due(&mut self.stepped, &stream.station, now) {
            told.push(told_step(stream, time, step));
        }
    }

    /// Channels are measured otherwise than before.
    pub(super) fn renewed(&mut self, all: Vec<Renewed>, open: &Open, told: &mut Vec<Draft>) {
        for (before, listed) in all {
            if is_due(&mut self.renewed, &listed.key, open.now()) {
                told.push(told_renewed(&before, &listed, open.wall()));
            }
        }
    }
}

/// Whether something is to be said of one again.
fn is_due<K: Clone + Eq + Hash>(said: &mut HashMap<K, Duration>, key: &K, now: Duration) -> bool {
    if said.get(key).is_some_and(|then| now < *then + APART) {
        return false;
    }
    if said.len() >= MOST {
        said.clear();
    }
    said.insert(key.clone(), now);
    true
}

/// What a station would have sent since the channel was heard last, in an earlier session of it: by its times, and where its clock was set
/// meanwhile by this machine's. `silence`: since samples came last. Returns by how much the clock was set, ns, too.
pub(super) fn due_meanwhile(
    block: &Block<'_>,
    extent: Extent,
    silence: Duration,
) -> (Option<Block<'static>>, Option<i64>) {
    if extent.begin == extent.end {
        return (None, None);
    }
    let by_times = i128::from(block.time) - i128::from(extent.end_time);
    // The block itself came within the silence, too.
    let silence = i128::try_from(silence.as_nanos()).unwrap_or(i128::MAX);
    let here = (silence - block.rate.nanos(block.samples())).max(0);
    // Less than that is not seen: what comes first may be as old, or late.
    let was_set = by_times < -SET || by_times > silence.saturating_add(SET);
    let passed = if was_set { here } else { by_times };
    let step = i64::try_from(by_times - passed).unwrap_or(if by_times < 0 { i64::MIN } else { i64::MAX });
    // To the nearest sample.
    let samples = block.rate.samples(passed + block.rate.nanos(1) / 2);
    let gap = Gap { samples, cause: Cause::Restart };
    let (channel, rate) = (block.channel, block.rate);
    let gap = Block { channel, first: extent.end, time: extent.end_time, rate, values: Values::Gap(gap) };
    ((samples > 0).then_some(gap), was_set.then_some(step))
}

/// By how much a clock has stepped between two blocks, ns.
pub(super) fn step(block: &Block<'_>, extent: Extent) -> Option<i64> {
    let step = block.time.saturating_sub(extent.end_time);
    let half = i64::try_from(block.rate.nanos(1) / 2).unwrap_or(i64::MAX);
    (extent.begin < extent.end && step.unsigned_abs() > half.max(LEAST_STEP).unsigned_abs()).then_some(step)
}

fn told_step(stream: &Stream, time_ns: i64, step: i64) -> Draft {
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
fn told_renewed(before: &Listed, listed: &Listed, time_ns: i64) -> Draft {
    let (old, new) = (&before.channel, &listed.channel);
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
        station: listed.station.clone(),
        channel: new.name.clone(),
        kind: "scale",
        text: format!("it is measured otherwise from now on, and its curve begins anew: {}", changes.join(", ")),
        remedy: None,
    }
}

/// Clocks that are kept right move by less between two blocks.
const LEAST_STEP: i64 = 5_000_000;

/// By so much what a station's clock says of the time between two of its sessions may differ from what passed here, ns: what comes of it
/// may be late, and this machine may stand still.
const SET: i128 = 10_000_000_000;

/// From one event of a station, or of a channel, to the next.
const APART: Duration = Duration::from_secs(10);

/// Of whom it is known when something was said of them.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use weir_wire::signal::{Element, Rate};

    use super::*;

    const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };

    #[test]
    fn what_was_due_meanwhile_is_not_by_a_clock_that_was_set() {
        const HOUR: i64 = 3_600_000_000_000;
        let extent = Extent { begin: 0, end: 500, begin_time: 0, end_time: HOUR };
        let due = |passed: i64, silence: Duration| {
            let values = Values::Samples(Element::F32, &[0; 400]);
            let block = Block { channel: 3, first: 0, time: HOUR + passed, rate: RATE, values };
            let (gap, step) = due_meanwhile(&block, extent, silence);
            assert!(gap.is_none_or(|gap| (gap.first, gap.time) == (500, HOUR)));
            (gap.map_or(0, |gap| gap.samples()), step)
        };
        let second = Duration::from_secs(1);
        // As it was, 100 samples came within that time; and a second late.
        assert_eq!(due(5_000_000_000, second * 5 + second / 10), (5000, None));
        assert_eq!(due(6_000_000_000, second * 5), (6000, None));
        assert_eq!(due(0, second), (0, None));
        assert_eq!(due(-1_000_000_000, second), (0, None));
        // On and back by an hour.
        let silence = second * 5 + second / 10;
        assert_eq!(due(HOUR + 5_000_000_000, silence), (5000, Some(HOUR)));
        assert_eq!(due(5_000_000_000 - HOUR, silence), (5000, Some(-HOUR)));
        let nothing = Extent::default();
        let values = Values::Samples(Element::F32, &[0; 4]);
        let block = Block { channel: 3, first: 0, time: HOUR, rate: RATE, values };
        assert_eq!(due_meanwhile(&block, nothing, second), (None, None));
    }
}
