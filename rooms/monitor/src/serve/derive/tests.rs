//! Channels made of others, against arithmetic.

use std::time::Duration;

use super::*;

const FAST: Rate = Rate { per_second: 1000, per_sample: 1 };
const SLOW: Rate = Rate { per_second: 100, per_sample: 1 };

fn derive(expression: &str, window: Option<Window>) -> Derive {
    of_rate(expression, window, FAST)
}

/// Whose result has this rate.
fn of_rate(expression: &str, window: Option<Window>, rate: Rate) -> Derive {
    let settings = settings::Derive { name: "x".into(), unit: "V".into(), expression: expression.into(), window };
    let mut derive = Derive::new(&[settings]);
    let mut made = Vec::new();
    for (key, name, rate, scale) in [(1, "a", FAST, 2.0), (2, "b", SLOW, 1.0)] {
        let channel = Channel { name: name.into(), rate, scale, ..Channel::default() };
        derive.follow("s", id(key), &channel, |channel, _| {
            made.push((channel.name.clone(), channel.rate));
            Some(id(9))
        });
    }
    assert_eq!(made, [("x".into(), rate)]);
    derive
}

fn id(key: u32) -> ChannelId {
    ChannelId { key, generation: 0 }
}

fn feed(derive: &mut Derive, key: u32, rate: Rate, millis: i64, values: &[f64]) -> Vec<Result<f64, (u64, Cause)>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let values = Values::Samples(Element::F64, &bytes);
    take(derive, key, Block { channel: 0, first: 0, time: millis * 1_000_000, rate, values })
}

fn gap(derive: &mut Derive, key: u32, rate: Rate, millis: i64, samples: u64) -> Vec<Result<f64, (u64, Cause)>> {
    let values = Values::Gap(Gap { samples, cause: Cause::Socket });
    take(derive, key, Block { channel: 0, first: 0, time: millis * 1_000_000, rate, values })
}

fn take(derive: &mut Derive, key: u32, block: Block<'_>) -> Vec<Result<f64, (u64, Cause)>> {
    let mut out = Vec::new();
    for result in derive.take(id(key), &block) {
        let block = result.block.block();
        out.extend(block.each().map(Ok));
        if let Values::Gap(gap) = block.values {
            out.push(Err((gap.samples, gap.cause)));
        }
    }
    out
}

#[test]
fn samples_meet_by_time_and_wait_for_one_another() {
    let mut derive = derive("{s/a} + 10 * {s/b}", None);
    assert_eq!(feed(&mut derive, 1, FAST, 0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), []);
    // Until half of its period has passed, at 5 ms, the slow one is 1.
    assert_eq!(feed(&mut derive, 2, SLOW, 0, &[1.0]), [10.0, 12.0, 14.0, 16.0, 18.0].map(Ok));
    assert_eq!(gap(&mut derive, 2, SLOW, 10, 1), [Err((2, Cause::Socket))]);
    assert_eq!(feed(&mut derive, 2, SLOW, 20, &[3.0]), []);
    assert_eq!(feed(&mut derive, 1, FAST, 7, &[7.0; 9]), [Err((8, Cause::Socket)), Ok(44.0)]);
    assert_eq!(gap(&mut derive, 1, FAST, 16, 4), [Err((4, Cause::Socket))]);
}

#[test]
fn windows_are_filled_before_they_tell() {
    let window = Some(Window::Moving(Statistic::Mean, Duration::from_millis(3)));
    let mut derive = derive("{s/a} + 0 * {s/b}", window);
    feed(&mut derive, 2, SLOW, 0, &[1.0; 100]);
    let first = feed(&mut derive, 1, FAST, 0, &[1.0, 2.0, 3.0, 7.0]);
    assert_eq!(first, [Err((2, Cause::Unselected)), Ok(4.0), Ok(8.0)]);
    assert_eq!(gap(&mut derive, 1, FAST, 4, 5), [Err((5, Cause::Socket))]);
    // What the gap has emptied is missing by its cause.
    assert_eq!(feed(&mut derive, 1, FAST, 9, &[1.0, 2.0, 3.0]), [Err((2, Cause::Socket)), Ok(4.0)]);
}

#[test]
fn spectra_have_a_sample_each_half_window() {
    let half = Rate { per_sample: 50, ..FAST };
    let window = Some(Window::PeakFrequency(Duration::from_millis(100)));
    let mut derive = of_rate("{s/a} + 0 * {s/b}", window, half);
    feed(&mut derive, 2, SLOW, 0, &[1.0; 100]);
    let sine: Vec<f64> = (0..140).map(|at| (std::f64::consts::TAU * f64::from(at) / 20.0).sin()).collect();
    let found = feed(&mut derive, 1, FAST, 0, &sine);
    assert_eq!(found[0], Err((1, Cause::Unselected)));
    assert!((found[1].unwrap() - 50.0).abs() < 1e-6 && found.len() == 2, "{found:?}");
    // 40 samples of the third half have come: of 170 that are missing the first ten end it.
    assert_eq!(gap(&mut derive, 1, FAST, 140, 170), [Err((4, Cause::Socket))]);
    let values = Values::Gap(Gap { samples: 40, cause: Cause::Socket });
    let block = Block { channel: 0, first: 0, time: 310_000_000, rate: FAST, values };
    let last = derive.take(id(1), &block);
    let made = last[0].block.block();
    assert_eq!((made.time, made.rate, last.len()), (300_000_000, half, 1));
}

#[test]
fn one_that_stands_still_is_not_waited_for_for_ever() {
    let mut derive = derive("{s/a} * {s/b}", None);
    assert_eq!(feed(&mut derive, 1, FAST, 0, &[1.0]), []);
    assert_eq!(feed(&mut derive, 1, FAST, 2500, &[1.0]), [Err((1, Cause::Source))]);
}

#[test]
fn names_of_an_expression_are_channels() {
    assert_eq!(read("sqrt({s/b}^2 + {s/a}^2) - {s/b}").unwrap().names(), ["s/b", "s/a"]);
    for (wrong, at, what) in
        [("1 + 2", 0, "no channel in it"), ("{s/a} + a", 8, "`a` is no channel"), ("s/a}", 0, "`s` is no")]
    {
        let mistake = read(wrong).unwrap_err();
        assert!(mistake.at == at && mistake.message.contains(what), "{wrong}: {mistake:?}");
    }
}

#[test]
fn a_reload_keeps_what_is_the_same_and_tells_what_is_gone() {
    let of = |name: &str, expression: &str| {
        let window = Some(Window::Moving(Statistic::Mean, Duration::from_millis(3)));
        settings::Derive { name: name.into(), unit: String::new(), expression: expression.into(), window }
    };
    let mut derive = Derive::default();
    let channel = Channel { name: "a".into(), rate: FAST, ..Channel::default() };
    let follow = |derive: &mut Derive, first: u32| {
        let mut next = first;
        derive.follow("s", id(1), &channel, |_, window| {
            assert_eq!(window, Duration::from_millis(3));
            next += 1;
            Some(id(next))
        });
    };
    assert_eq!(derive.change(&[of("same", "{s/a}"), of("gone", "{s/a} * 2")]), []);
    follow(&mut derive, 10);
    feed(&mut derive, 1, FAST, 0, &[1.0, 1.0]);
    assert_eq!(derive.change(&[of("new", "{s/a} * 3"), of("same", "{s/a}")]), [id(12)]);
    follow(&mut derive, 20);
    // The window of the one goes on, that of the other begins.
    let made: Vec<_> = derive.take(
        id(1),
        &Block {
            channel: 0,
            first: 2,
            time: 2_000_000,
            rate: FAST,
            values: Values::Samples(Element::F64, &1.0_f64.to_le_bytes()),
        },
    );
    let made: Vec<_> =
        made.iter().map(|made| (made.id.key, matches!(made.block.block().values, Values::Gap(_)))).collect();
    assert_eq!(made, [(21, true), (11, false)]);
}

/// The slow one tells nothing of what is behind half its period: where it has ended, nobody will.
#[test]
fn what_cannot_be_computed_any_more_is_a_gap() {
    let mut derive = derive("{s/a} + 10 * {s/b}", None);
    assert_eq!(feed(&mut derive, 2, SLOW, 0, &[1.0]), []);
    let first = feed(&mut derive, 1, FAST, 0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(first, [10.0, 12.0, 14.0, 16.0, 18.0].map(Ok));
    let mut end = |key| {
        let (keys, results) = derive.end(id(key));
        assert_eq!(keys, [id(9)]);
        let missing = |computed: &Computed| {
            let Block { time, values, .. } = computed.block.block();
            if let Values::Gap(gap) = values { (time, gap) } else { panic!("{computed:?}") }
        };
        results.iter().map(missing).collect::<Vec<_>>()
    };
    let gap = Gap { samples: 2, cause: Cause::Source };
    assert_eq!((end(1), end(2)), (vec![], vec![(5_000_000, gap)]));
    // It goes on once both are there again.
    assert_eq!(feed(&mut derive, 1, FAST, 100, &[1.0]), [Err((1, Cause::Source))]);
    assert_eq!(feed(&mut derive, 2, SLOW, 110, &[2.0]), []);
    assert_eq!(feed(&mut derive, 1, FAST, 110, &[1.0]), [Ok(22.0)]);
}
