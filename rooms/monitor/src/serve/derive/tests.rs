//! Channels made of others, against arithmetic.

use std::time::Duration;

use super::*;
use weir_signal::history::Bounds;

const FAST: Rate = Rate { per_second: 1000, per_sample: 1 };
const SLOW: Rate = Rate { per_second: 100, per_sample: 1 };

/// A derived channel `x` of `s/a` and `s/b`, in a history.
struct Derived {
    history: History,
    derive: Derive,
    watching: Arc<Watching>,
    inputs: [ChannelId; 2],
    /// Of `x`.
    made: Cursor,
}

fn derive(expression: &str, window: Option<Window>) -> Derived {
    of_rate(expression, window, FAST)
}

fn named(name: &str, expression: &str, window: Option<Window>) -> settings::Derive {
    settings::Derive { name: name.into(), unit: "V".into(), expression: expression.into(), window }
}

fn watching(derive: &[settings::Derive]) -> Arc<Watching> {
    Arc::new(Watching { derive: derive.to_vec(), ..Watching::default() })
}

fn of_rate(expression: &str, window: Option<Window>, rate: Rate) -> Derived {
    let history = History::new(Bounds::default());
    let list = |name: &str, rate, scale| {
        let channel = Channel { name: name.into(), rate, scale, ..Channel::default() };
        history.write().channel("s", "full", &channel).unwrap()
    };
    let inputs = [list("a", FAST, 2.0), list("b", SLOW, 1.0)];
    let (mut derive, watching) = (Derive::default(), watching(&[named("x", expression, window)]));
    derive.look(&history, &watching);
    let made = history.catalog()[2].clone();
    assert_eq!((made.channel.name.as_str(), made.channel.rate), ("x", rate));
    Derived { derive, watching, inputs, made: Cursor { id: made.id(), at: 0 }, history }
}

type Seen = Vec<Result<f64, (u64, Cause)>>;

fn feed(derived: &mut Derived, input: usize, rate: Rate, millis: i64, values: &[f64]) -> Seen {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    take(derived, input, rate, millis, Values::Samples(Element::F64, &bytes))
}

fn gap(derived: &mut Derived, input: usize, rate: Rate, millis: i64, samples: u64) -> Seen {
    take(derived, input, rate, millis, Values::Gap(Gap { samples, cause: Cause::Socket }))
}

fn take(derived: &mut Derived, input: usize, rate: Rate, millis: i64, values: Values<'_>) -> Seen {
    let block = Block { channel: 0, first: 0, time: millis * 1_000_000, rate, values };
    derived.history.write().append(derived.inputs[input - 1], &block);
    look(derived)
}

fn look(derived: &mut Derived) -> Seen {
    let Derived { history, derive, watching, made, .. } = derived;
    derive.look(history, watching);
    let mut seen = Vec::new();
    history.read(made, |block| {
        seen.extend(block.each().map(Ok));
        if let Values::Gap(gap) = block.values {
            seen.push(Err((gap.samples, gap.cause)));
        }
    });
    seen
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
    assert_eq!(gap(&mut derive, 1, FAST, 310, 40), [Err((1, Cause::Socket))]);
    let made = derive.history.catalog()[2].clone();
    let extent = derive.history.extent(made.key).unwrap();
    assert_eq!((extent.end_time, made.channel.rate), (350_000_000, half));
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
    let window = Some(Window::Moving(Statistic::Mean, Duration::from_millis(3)));
    let of = |name: &str, expression: &str| named(name, expression, window);
    let mut derived = derive("{s/a}", window);
    derived.watching = watching(&[of("x", "{s/a}"), of("gone", "{s/a} * 2")]);
    assert_eq!(feed(&mut derived, 1, FAST, 0, &[1.0, 1.0]), [Err((2, Cause::Unselected))]);
    derived.watching = watching(&[of("new", "{s/a} * 3"), of("x", "{s/a}")]);
    // The window of the one goes on, that of the other begins.
    assert_eq!(feed(&mut derived, 1, FAST, 2, &[1.0]), [Ok(2.0)]);
    let extents = [3, 4].map(|key| derived.history.extent(key).unwrap());
    assert_eq!(extents.map(|extent| (extent.end, extent.has_ended)), [(2, true), (3, false)]);
}

#[test]
fn what_cannot_be_computed_any_more_is_a_gap() {
    let mut derive = derive("{s/a} + 10 * {s/b}", None);
    assert_eq!(feed(&mut derive, 2, SLOW, 0, &[1.0]), []);
    let first = feed(&mut derive, 1, FAST, 0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(first, [10.0, 12.0, 14.0, 16.0, 18.0].map(Ok));
    let mut end = |input: usize| {
        let mut writing = derive.history.write();
        writing.end(derive.inputs[input - 1]);
        drop(writing);
        let seen = look(&mut derive);
        (seen, derive.history.extent(2).unwrap().has_ended)
    };
    assert_eq!((end(1), end(2)), ((vec![], true), (vec![Err((2, Cause::Source))], true)));
    // It goes on once both are there again.
    assert_eq!(feed(&mut derive, 1, FAST, 100, &[1.0]), [Err((1, Cause::Source))]);
    assert_eq!(feed(&mut derive, 2, SLOW, 110, &[2.0]), []);
    assert_eq!(feed(&mut derive, 1, FAST, 110, &[1.0]), [Ok(22.0)]);
}
