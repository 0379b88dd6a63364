//! Pictures, without a terminal.

use std::sync::Arc;

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use weir_service::screen::Picture;
use weir_wire::signal::{Block, Cause, Channel, Element, Gap, Limits, Rate, Values};

use super::Look;
use super::picture::Signals;
use crate::api::{Alarm, Event, Shown, State};
use weir_signal::history::{Bounds, History};

struct Kept(History);

impl Shown for Kept {
    fn history(&self) -> &History {
        &self.0
    }

    fn states(&self) -> Vec<State> {
        vec![State { key: 1, alarm: Alarm::High, ..State::default() }]
    }

    fn events_since(&self, _id: u64) -> Vec<Event> {
        Vec::new()
    }

    fn ledger(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn peers(&self) -> Vec<String> {
        Vec::new()
    }
}

fn block(first: u64, values: Values<'_>) -> Block<'_> {
    let time = 1_700_000_000_000_000_000 + first as i64 * 1_000_000;
    Block { channel: 0, first, time, rate: Rate::hertz(1000), values }
}

/// A ramp from -1 to 1 in 1 s, of which a fifth in the middle is missing, and a constant in alarm with a hostile name.
fn kept() -> Arc<Kept> {
    let history = History::new(Bounds::default());
    let mut writing = history.write();
    let limits = Limits { display_low: Some(-1.0), display_high: Some(1.0), ..Limits::default() };
    let ramp = Channel { name: "ramp".into(), unit: "T".into(), limits, ..Channel::default() };
    let ramp = writing.channel("mag", "full", &ramp).unwrap();
    let hostile = Channel { name: "a\u{1b}[2J".into(), ..Channel::default() };
    let hostile = writing.channel("mag", "full", &hostile).unwrap();
    let values = |from: u16, to: u16| -> Vec<u8> {
        (from..to).flat_map(|at| (f32::from(at) / 500.0 - 1.0).to_le_bytes()).collect()
    };
    writing.append(ramp, &block(0, Values::Samples(Element::F32, &values(0, 400))));
    writing.append(ramp, &block(400, Values::Gap(Gap { samples: 200, cause: Cause::Socket })));
    writing.append(ramp, &block(600, Values::Samples(Element::F32, &values(600, 1000))));
    writing.append(hostile, &block(0, Values::Samples(Element::F32, &7_f32.to_le_bytes())));
    drop(writing);
    Arc::new(Kept(history))
}

/// Who hears nothing but sealed datagrams.
struct Sealed(History);

impl Shown for Sealed {
    fn history(&self) -> &History {
        &self.0
    }

    fn states(&self) -> Vec<State> {
        Vec::new()
    }

    fn events_since(&self, _id: u64) -> Vec<Event> {
        Vec::new()
    }

    fn ledger(&self) -> serde_json::Value {
        serde_json::json!({"received": {"refused": {"foreign": 0, "no_key": 7}}})
    }

    fn peers(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn what_is_sealed_is_said_to_be() {
    let signals = Signals::new(Arc::new(Sealed(History::new(Bounds::default()))), look());
    let words = "0 signals, 0 samples missing; 7 datagrams not taken: no_key (they are encrypted: name the file of the group's key, --key)";
    assert_eq!(signals.line(), words);
}

fn look() -> Look {
    Look { span_s: 1.0, signals: Vec::new(), source: "239.192.77.2:5110".into() }
}

fn draw(signals: &mut Signals, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    // The first picture tells how wide curves are.
    for _ in 0..2 {
        terminal.draw(|frame| signals.draw(frame, &[])).unwrap();
        signals.advance();
    }
    terminal.draw(|frame| signals.draw(frame, &[])).unwrap().buffer.clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..area.height).map(line).collect()
}

#[test]
fn the_table_tells_values_states_and_what_is_missing() {
    let mut signals = Signals::new(kept(), look());
    let lines = lines(&draw(&mut signals, 100, 30));
    assert!(lines[0].starts_with("weir monitor 2 signals   1 in alarm   0 stale   1 s shown"), "{}", lines[0]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&lines[3]), [">*", "mag/full/ramp", "0.998", "T", "ok", "200", "(20", "%)"]);
    assert_eq!(words(&lines[4]), ["*", "mag/full/a", "[2J", "7", "high", "0"]);
    let line = signals.line();
    assert_eq!(line, "2 signals, 200 samples missing; mag/full/ramp 0.998 T; mag/full/a [2J 7  high");
}

/// A server has told of its input's gap: that counts once.
#[test]
fn what_is_derived_lacks_what_its_inputs_lack() {
    let kept = kept();
    let mut writing = kept.0.write();
    let made = Channel { name: "power".into(), derived: true, ..Channel::default() };
    let made = writing.channel("derived", "derived", &made).unwrap();
    writing.append(made, &block(400, Values::Gap(Gap { samples: 200, cause: Cause::Network })));
    drop(writing);
    let mut signals = Signals::new(kept, look());
    assert!(signals.line().starts_with("3 signals, 200 samples missing; "), "{}", signals.line());
    let lines = lines(&draw(&mut signals, 100, 30));
    assert!(lines[5].contains("derived/derived/power") && lines[5].contains("200 (100"), "{}", lines[5]);
}

/// Neither the curve nor the value of what was measured in T is shown in mT.
#[test]
fn what_is_measured_otherwise_begins_anew() {
    let kept = kept();
    let mut signals = Signals::new(kept.clone(), look());
    let braille = |buffer: &Buffer| {
        let is_drawn = |symbol: &str| symbol.starts_with(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
        buffer.content.iter().filter(|cell| is_drawn(cell.symbol())).count()
    };
    // The ramp alone.
    signals.press(KeyCode::Down);
    signals.press(KeyCode::Char(' '));
    assert!(braille(&draw(&mut signals, 100, 30)) > 50);
    let limits = Limits { display_low: Some(-1e3), display_high: Some(1e3), ..Limits::default() };
    let ramp = Channel { name: "ramp".into(), unit: "mT".into(), scale: 1e3, limits, ..Channel::default() };
    assert_eq!(kept.0.write().channel("mag", "full", &ramp).unwrap().key, 0);
    assert_eq!(braille(&draw(&mut signals, 100, 30)), 0);
    assert!(signals.line().starts_with("2 signals, 200 samples missing; mag/full/ramp – mT"), "{}", signals.line());
}

#[test]
fn a_curve_is_broken_and_shaded_where_samples_are_missing() {
    let mut signals = Signals::new(kept(), look());
    signals.press(KeyCode::Down);
    // The other curve is not shown any more: one has all the room.
    signals.press(KeyCode::Char(' '));
    let buffer = draw(&mut signals, 110, 30);
    let text = lines(&buffer);
    let top = text.iter().position(|line| line.contains("samples missing here")).unwrap() as u16;
    assert!(text[usize::from(top)].starts_with("mag/full/ramp [T]   200 samples missing here"), "{text:#?}");
    let plot = || (top + 1..29).flat_map(|y| (10..110).map(move |x| (x, y)));
    let braille = |x, y| buffer[(x, y)].symbol().starts_with(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
    let drawn = |column: u16| plot().filter(|&(x, y)| x == column && braille(x, y)).count();
    let shaded = |column: u16| plot().any(|(x, y)| x == column && buffer[(x, y)].bg == Color::DarkGray);
    // A second in a hundred cells: samples 400 to 599 are in cells 40 to 59, give or take where the first column begins.
    let gap: Vec<u16> = (10..110).filter(|&x| shaded(x)).collect();
    assert!((19..=22).contains(&gap.len()), "{gap:?}");
    assert!(gap.windows(2).all(|pair| pair[1] == pair[0] + 1), "{gap:?}");
    assert!((48..=52).contains(&gap[0]), "{gap:?}");
    // Nothing is drawn within it, a curve in every cell beside it.
    assert!(gap[1..gap.len() - 1].iter().all(|&x| drawn(x) == 0), "{text:#?}");
    assert!((12..gap[0]).chain(gap[gap.len() - 1] + 1..109).all(|x| drawn(x) > 0), "{text:#?}");
    // It rises.
    let height = |column: u16| plot().filter(|&(x, y)| x == column && braille(x, y)).map(|(_, y)| y).min().unwrap();
    assert!(height(15) > height(45) && height(45) > height(75) && height(75) > height(105));
}

#[test]
fn where_nothing_is_heard_it_says_so() {
    let mut signals = Signals::new(Arc::new(Kept(History::new(Bounds::default()))), look());
    let text = lines(&draw(&mut signals, 100, 10));
    assert_eq!(text[1], "nothing is heard on 239.192.77.2:5110 (weir monitor check tells why)");
    // Keys that have nothing to act on.
    for key in [KeyCode::Up, KeyCode::Down, KeyCode::Char(' '), KeyCode::Char('+'), KeyCode::Char('p')] {
        signals.press(key);
    }
    draw(&mut signals, 1, 1);
}
