//! What is written is read, each sample once, whatever is dropped meanwhile.

use proptest::prelude::*;
use weir_wire::signal::{Cause, Element, Gap, Rate, Values};

use super::*;

const RATE: Rate = Rate { per_second: 1000, per_sample: 1 };

fn values(from: u64, count: u64) -> Vec<u8> {
    (from..from + count).flat_map(|index| (index as i32).to_le_bytes()).collect()
}

fn block(first: u64, values: Values<'_>) -> Block<'_> {
    Block { channel: 0, first, time: first as i64 * 1_000_000, rate: RATE, values }
}

fn history(bytes: usize) -> (History, ChannelId) {
    let history = History::new(Bounds { bytes, ..Bounds::default() });
    let channel = Channel { name: "I".into(), rate: RATE, ..Channel::default() };
    let id = history.write().channel("coil", "display", &channel).expect("room");
    (history, id)
}

#[test]
fn channels_are_found_by_name_and_bounded() {
    let history = History::new(Bounds { channels: 2, ..Bounds::default() });
    let mut writing = history.write();
    let named = |name: &str, description: &str| {
        let (name, description) = (name.into(), description.into());
        Channel { name, description, ..Channel::default() }
    };
    let keys = ["a", "b", "a", "c"].map(|name| writing.channel("s", "display", &named(name, "")));
    assert_eq!(keys.map(|placed| placed.map(|placed| placed.key)), [Some(0), Some(1), Some(0), None]);
    assert_eq!(writing.channel("s", "display", &named("a", "A")).map(|placed| placed.generation), Some(0));
    drop(writing);
    assert_eq!(history.catalog()[0].channel.description, "A");
}

#[test]
fn channels_that_are_quiet_make_room_for_the_next() {
    let quiet = Duration::from_millis(20);
    let history = History::new(Bounds { channels: 2, quiet, ..Bounds::default() });
    let named = |name: &str| Channel { name: name.into(), rate: RATE, ..Channel::default() };
    let bytes = values(0, 10);
    let [dead, alive] = ["dead", "alive"].map(|name| {
        let mut writing = history.write();
        let id = writing.channel("s", "display", &named(name)).expect("room");
        writing.append(id, &block(0, Values::Samples(Element::I32, &bytes)));
        id
    });
    std::thread::sleep(quiet);
    history.write().append(alive, &block(10, Values::Samples(Element::I32, &bytes)));
    let mut writing = history.write();
    let new = writing.channel("s", "display", &named("new")).expect("room");
    assert_eq!(new, ChannelId { generation: 1, ..dead });
    // Readers' indices go on: nothing of the other is read for it, and nothing is written to the other.
    assert_eq!(writing.extent(new).map(|extent| (extent.begin, extent.end)), Some((10, 10)));
    assert!(!writing.append(dead, &block(10, Values::Samples(Element::I32, &bytes))));
    drop(writing);
    assert!(!history.read(&mut Cursor { id: dead, at: 3 }, |_| panic!("of another")));
    let catalog = history.catalog();
    let names: Vec<&str> = catalog.iter().map(|listed| listed.channel.name.as_str()).collect();
    assert_eq!(names, ["new", "alive"]);
    // One that has ended need not have been quiet.
    let mut writing = history.write();
    writing.append(alive, &block(20, Values::Samples(Element::I32, &bytes)));
    writing.append(new, &block(10, Values::Samples(Element::I32, &bytes)));
    writing.end(alive);
    assert_eq!(writing.channel("s", "display", &named("next")), Some(ChannelId { generation: 1, ..alive }));
}

#[test]
fn limits_are_told_to_who_knew_the_others() {
    let (history, id) = history(1 << 20);
    let before = history.catalog();
    let limits = Limits { high: Some(3.0), ..Limits::default() };
    history.write().set_limits(id.key, limits);
    let after = history.catalog();
    assert_eq!((after[0].limits, before[0].limits), (limits, Limits::default()));
    // What stays the same is no news.
    history.write().set_limits(id.key, limits);
    assert!(Arc::ptr_eq(&after[0], &history.catalog()[0]));
}

#[test]
fn a_clock_that_steps_begins_a_run_with_its_own_time() {
    let (history, id) = history(1 << 20);
    let bytes = values(0, 10);
    let mut writing = history.write();
    writing.append(id, &block(0, Values::Samples(Element::I32, &bytes)));
    writing.append(id, &Block { time: 5_000_000_000, ..block(10, Values::Samples(Element::I32, &bytes)) });
    drop(writing);
    let mut seen = Vec::new();
    assert!(history.read(&mut Cursor { id, at: 0 }, |block| seen.push((block.first, block.time))));
    assert_eq!(seen, [(0, 0), (10, 5_000_000_000)]);
    let times = [i64::MIN, 3_500_000, 5_001_000_000, i64::MAX];
    assert_eq!(times.map(|time| history.cursor(id, time).at), [0, 4, 11, 20]);
}

proptest! {
    #[test]
    fn readers_get_each_sample_once_or_a_gap_for_it(
        steps in proptest::collection::vec((0..3_u8, 1..2000_u64), 1..60),
        from in 0..3000_u64,
        bytes in 1_000..200_000_usize,
    ) {
        let (history, id) = history(bytes);
        let mut end = 0;
        let mut missing = std::collections::HashSet::new();
        for (kind, count) in steps {
            let samples = values(end, count);
            let values = match kind {
                0 => Values::Gap(Gap { samples: count, cause: Cause::Network }),
                _ => Values::Samples(Element::I32, &samples),
            };
            if kind == 0 {
                missing.extend(end..end + count);
            }
            history.write().append(id, &block(end, values));
            end += count;
        }
        let extent = history.extent(id.key).expect("a channel");
        prop_assert_eq!(extent.end, end);
        let (mut cursor, mut expected) = (Cursor { id, at: from }, from);
        while history.read(&mut cursor, |block| {
                assert_eq!(block.first, expected);
                assert_eq!(block.time, expected as i64 * 1_000_000);
                for (offset, value) in block.each().enumerate() {
                    assert_eq!(value as u64, expected + offset as u64);
                }
                if let Values::Gap(gap) = block.values {
                    let lost = expected..expected + gap.samples;
                    let late = gap.cause == Cause::Viewer && lost.end == extent.begin;
                    assert!(late || gap.cause == Cause::Network && lost.clone().all(|index| missing.contains(&index)));
                }
                expected = block.end();
        }) {}
        prop_assert_eq!((cursor.at, expected), (end.max(from), end.max(from)));
    }
}

#[test]
fn other_limits_are_told_to_who_reads_the_catalog() {
    let history = History::new(Bounds::default());
    let mut writing = history.write();
    writing.channel("s", "display", &Channel { name: "a".into(), rate: RATE, ..Channel::default() });
    let before = { writing.kept.catalog[0].clone() };
    writing.set_limits(0, Default::default());
    writing.set_limits(7, Default::default());
    assert!(Arc::ptr_eq(&before, &writing.kept.catalog[0]), "nothing is new");
    let limits = Limits { high: Some(2.0), ..Default::default() };
    writing.set_limits(0, limits);
    drop(writing);
    assert_eq!((history.catalog()[0].limits, history.catalog()[0].key), (limits, 0));
}

/// What was measured in A is never shown in kA, whoever looks by whatever it knew.
#[test]
fn what_is_measured_otherwise_begins_anew() {
    let (history, id) = history(1 << 20);
    let bytes = values(0, 10);
    let samples = |first| block(first, Values::Samples(Element::I32, &bytes));
    history.write().append(id, &samples(0));
    let before = history.catalog()[0].clone();
    let told = |description: &str, scale, unit: &str| {
        let (description, unit) = (description.into(), unit.into());
        let channel = Channel { description, unit, scale, ..before.channel.clone() };
        history.write().channel("coil", "display", &channel).expect("room")
    };
    // What only says more of it changes nothing.
    let same = told("of the coil", 1.0, "");
    assert_eq!(same, id);
    assert_eq!(history.extent(id.key).map(|extent| (extent.begin, extent.end)), Some((0, 10)));
    let other = told("of the coil", 0.001, "kA");
    assert_eq!(other, ChannelId { generation: 1, ..id });
    assert_eq!(history.extent(id.key).map(|extent| (extent.begin, extent.end)), Some((10, 10)));
    history.write().append(other, &samples(10));
    let seen = |id: ChannelId| {
        let mut seen = Vec::new();
        history.read(&mut Cursor { id, at: 7 }, |block| {
            let cause = if let Values::Gap(gap) = block.values { Some(gap.cause) } else { None };
            seen.push((block.first, block.samples(), cause));
        });
        seen
    };
    assert_eq!(seen(id), []);
    assert_eq!(seen(other), [(7, 3, Some(Cause::Server)), (10, 10, None)]);
}
