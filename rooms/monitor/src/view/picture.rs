//! The picture: a table of all signals, and the curves of those that are chosen.

use std::cell::Cell as Shared;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crossterm::event::KeyCode;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row};
use weir_service::screen::Picture;
use weir_service::screen::cells::{self, alarm, right, shorten};
use weir_units::format::{self, printable, significant};
use weir_wire::signal::Values;

use super::curve::Curve;
use super::trace::{Column, Trace};
use crate::api::{Alarm, Shown, State};
use weir_signal::history::{Cursor, Listed, Readers};

/// How it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// What is shown of curves, seconds.
    pub span_s: f64,
    /// Signals whose curves are shown: by name, or by a part of `station/stream/name`; empty: the first ones.
    pub signals: Vec<String>,
    /// What is listened to, as the first line says it.
    pub source: String,
}

/// All that is on the screen.
pub(super) struct Signals {
    shown: Arc<dyn Shown>,
    look: Look,
    rows: Vec<Signal>,
    /// The row that keys are for.
    cursor: usize,
    /// Keys of channels whose curves are shown, in the order in which they were chosen.
    chosen: Vec<u32>,
    /// Whether somebody has chosen: till then the first signals are shown.
    has_chosen: bool,
    traces: Vec<Trace>,
    /// Columns of dots that curves had in the last picture.
    width: Shared<u16>,
    paused: bool,
    readers: Readers<Signal>,
}

/// A row of the table.
#[derive(Clone)]
struct Signal {
    listed: Arc<Listed>,
    /// Up to where it is read.
    cursor: Cursor,
    last: Option<f64>,
    state: State,
    /// Samples that are missing since we look.
    missing: u64,
}

impl Signal {
    fn value(&self) -> Option<f64> {
        let channel = &self.listed.channel;
        self.last.map(|value| value * channel.scale + channel.offset)
    }

    fn is_derived(&self) -> bool {
        self.listed.channel.derived
    }

    /// Of those that are missing, what counts: what is derived lacks what its inputs lack.
    fn lost(&self) -> u64 {
        if self.is_derived() { 0 } else { self.missing }
    }
}

impl Signals {
    pub(super) fn new(shown: Arc<dyn Shown>, look: Look) -> Self {
        let mut signals = Self {
            shown,
            look,
            rows: Vec::new(),
            cursor: 0,
            chosen: Vec::new(),
            has_chosen: false,
            traces: Vec::new(),
            width: Shared::new(0),
            paused: false,
            readers: Readers::default(),
        };
        signals.advance();
        signals
    }

    /// ns of a column of dots.
    fn column(&self) -> i64 {
        let dots = f64::from(self.width.get().max(1)) * 2.0;
        ((self.look.span_s * 1e9 / dots) as i64).max(1)
    }

    fn read_rows(&mut self) {
        let states: HashMap<u32, State> = self.shown.states().into_iter().map(|state| (state.key, state)).collect();
        let history = self.shown.history();
        let begin = |listed: &Arc<Listed>, before: Option<(_, Signal)>| Signal {
            listed: listed.clone(),
            cursor: history.cursor(listed.id(), i64::MIN),
            last: None,
            state: State::default(),
            missing: before.map_or(0, |(_, before)| before.missing),
        };
        let row = |(listed, signal): &mut (Arc<Listed>, Signal)| {
            let Signal { cursor, last, missing, .. } = signal;
            while history.read(cursor, |block| {
                *last = block.last();
                if let Values::Gap(gap) = block.values {
                    *missing += gap.samples;
                }
            }) {}
            signal.listed.clone_from(listed);
            signal.state = states.get(&listed.key).cloned().unwrap_or_default();
            signal.clone()
        };
        self.rows = self.readers.follow(history, begin).iter_mut().map(row).collect();
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
    }

    fn choose(&mut self) {
        if self.has_chosen {
            return;
        }
        let wanted = |row: &&Signal| {
            let name = long_name(&row.listed);
            self.look.signals.iter().any(|part| row.listed.channel.name == *part || name.contains(part.as_str()))
        };
        let all = self.look.signals.is_empty();
        let keys = self.rows.iter().filter(|row| all || wanted(row)).map(|row| row.listed.key);
        self.chosen = keys.take(if all { FIRST_CURVES } else { MOST_CURVES }).collect();
    }

    fn follow_traces(&mut self) {
        let (width, most) = (self.column(), usize::from(self.width.get()) * 2);
        self.traces.retain(|trace| self.chosen.contains(&trace.key()) && trace.is_of(width, most));
        for &key in &self.chosen {
            if !self.traces.iter().any(|trace| trace.key() == key) {
                self.traces.push(Trace::new(key, width, most));
            }
        }
        for trace in &mut self.traces {
            let Some(row) = self.rows.iter().find(|row| row.listed.key == trace.key()) else { continue };
            trace.follow(self.shown.history(), &row.listed);
        }
    }

    /// Why there are no signals.
    fn nothing(&self) -> String {
        let silent = || format!("nothing is heard on {} (weir monitor check tells why)", self.look.source);
        self.refused().unwrap_or_else(silent)
    }

    /// What is heard and not taken, by the reason that most have.
    fn refused(&self) -> Option<String> {
        let ledger = self.shown.ledger();
        let refused = ledger["received"]["refused"].as_object()?;
        let (count, reason) = refused.iter().filter_map(|(reason, count)| Some((count.as_u64()?, reason))).max()?;
        let remedy = match reason.as_str() {
            "no_key" => "they are encrypted: name the file of the group's key, --key",
            "no_sender" => "they are signed: name the files of the senders' public keys, --sender",
            _ => "docs/monitor.md has each reason",
        };
        (count > 0).then(|| format!("{} not taken: {reason} ({remedy})", format::counted(count as usize, "datagram")))
    }

    fn draw_table(&self, frame: &mut Frame<'_>, area: Rect) {
        let room = usize::from(area.height.saturating_sub(2));
        let first = self.cursor.saturating_sub(room.saturating_sub(1));
        let name_width = usize::from(area.width.saturating_sub(4 + 14 + 10 + 12 + 20));
        let rows = self.rows.iter().enumerate().skip(first).take(room).map(|(at, row)| {
            let listed = &row.listed;
            let mark = match (at == self.cursor, self.chosen.contains(&listed.key)) {
                (true, true) => ">*",
                (true, false) => "> ",
                (false, true) => " *",
                (false, false) => "  ",
            };
            let (state, bad) = in_words(&row.state);
            let missing = if row.missing == 0 {
                "0".to_owned()
            } else {
                let share = row.missing as f64 / row.cursor.at.max(1) as f64;
                format!("{} ({})", short_count(row.missing), format::percent(significant_share(share)))
            };
            let cells = [
                mark.to_owned().into(),
                shorten(&printable(&long_name(listed)), name_width).into(),
                right(row.value().map_or_else(|| "–".into(), |value| significant(value, 6))),
                printable(&listed.channel.unit).into(),
                ratatui::widgets::Cell::new(state).style(alarm(bad)),
                right(missing).style(alarm(row.lost() > 0)),
            ];
            let row = Row::new(cells);
            if at == self.cursor { row.style(Style::new().bold()) } else { row }
        });
        let widths = [
            Constraint::Length(2),
            Constraint::Fill(1),
            Constraint::Length(13),
            Constraint::Length(8),
            Constraint::Length(11),
            Constraint::Length(18),
        ];
        let head = ["", "signal", "value", "unit", "state", "missing"];
        frame.render_widget(cells::table(&head, |title| ["value", "missing"].contains(&title), rows, &widths), area);
    }

    fn draw_curves(&self, frame: &mut Frame<'_>, area: Rect) {
        self.width.set(area.width.saturating_sub(SCALE_WIDTH));
        let shown: Vec<(&Trace, &Signal)> = self
            .chosen
            .iter()
            .filter_map(|key| {
                let trace = self.traces.iter().find(|trace| trace.key() == *key)?;
                Some((trace, self.rows.iter().find(|row| row.listed.key == *key)?))
            })
            .collect();
        if shown.is_empty() {
            return;
        }
        // All end at the same time: that of the newest of them.
        let newest = shown.iter().filter_map(|(trace, _)| trace.columns().last()).map(|column| column.number).max();
        let Some(newest) = newest else { return };
        let areas = Layout::vertical(shown.iter().map(|_| Constraint::Fill(1))).split(area);
        for (((trace, row), area), colour) in shown.into_iter().zip(areas.iter()).zip(COLOURS.iter().cycle()) {
            self.draw_curve(frame, *area, trace, row, (newest, *colour));
        }
    }

    fn draw_curve(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        trace: &Trace,
        row: &Signal,
        (newest, colour): (i64, Color),
    ) {
        let [title, plot] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        let [scale, plot] = Layout::horizontal([Constraint::Length(SCALE_WIDTH), Constraint::Fill(1)]).areas(plot);
        let columns: Vec<Column> = trace.columns().copied().collect();
        let begin = newest - i64::from(plot.width) * 2;
        let missing: u64 = columns.iter().filter(|column| column.number > begin).map(|column| column.missing).sum();
        let mut words = vec![Span::styled(printable(&long_name(&row.listed)), Style::new().fg(colour).bold())];
        let unit = &trace.listed().unwrap_or(&row.listed).channel.unit;
        if !unit.is_empty() {
            words.push(format!(" [{}]", printable(unit)).into());
        }
        if missing > 0 {
            let text = format!("   {} samples missing here", short_count(missing));
            words.push(if row.is_derived() { text.into() } else { text.red() });
        }
        frame.render_widget(Line::from(words), title);
        let (low, high) = scale_of(row, &columns);
        let ends = [significant(high, 4), significant(low, 4)];
        let mut lines = vec![Line::from(ends[0].clone()).right_aligned()];
        lines.resize(usize::from(scale.height.saturating_sub(1)).max(1), Line::default());
        lines.push(Line::from(ends[1].clone()).right_aligned());
        let [numbers, _] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(1)]).areas(scale);
        frame.render_widget(Paragraph::new(lines), numbers);
        Curve { columns: &columns, newest, low, high, colour }.draw(plot, frame.buffer_mut());
    }
}

impl Picture for Signals {
    fn advance(&mut self) {
        self.read_rows();
        self.choose();
        if !self.paused {
            self.follow_traces();
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, notes: &[String]) {
        let note_height = if notes.is_empty() { 0 } else { notes.len() as u16 + 1 };
        let table_height = (self.rows.len() as u16).saturating_add(2).min(frame.area().height / 2).max(3);
        let [title, table, curves, log, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(table_height),
            Constraint::Fill(1),
            Constraint::Length(note_height),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let alarms = self.rows.iter().filter(|row| row.state.alarm != Alarm::None && !row.state.stale).count();
        let stale = self.rows.iter().filter(|row| row.state.stale).count();
        let words = |count: usize, what: &str| {
            let text = format!("{count} {what}   ");
            if count > 0 { text.red() } else { text.into() }
        };
        let line = Line::from(vec![
            "weir monitor ".bold(),
            format!("{}   ", format::counted(self.rows.len(), "signal")).into(),
            words(alarms, "in alarm"),
            words(stale, "stale"),
            format!("{} s shown   ", significant(self.look.span_s, 3)).into(),
            if self.paused { "PAUSED".yellow().bold() } else { clock().into() },
        ]);
        frame.render_widget(line, title);
        if self.rows.is_empty() {
            frame.render_widget(Paragraph::new(self.nothing()), table);
        } else {
            self.draw_table(frame, table);
            self.draw_curves(frame, curves);
        }
        frame.render_widget(cells::notes(notes), log);
        frame.render_widget("↑ ↓ signal   space: its curve   + -: shorter, longer   p: pause   q: end".dim(), keys);
    }

    /// The state of all in one line, and what is wrong.
    fn line(&self) -> String {
        let missing: u64 = self.rows.iter().map(Signal::lost).sum();
        let mut line =
            format!("{}, {} samples missing", format::counted(self.rows.len(), "signal"), short_count(missing));
        match self.refused() {
            Some(refused) => line += &format!("; {refused}"),
            None if self.rows.is_empty() => line += &format!("; {}", self.nothing()),
            None => {}
        }
        for row in self.rows.iter().take(MOST_CURVES) {
            let unit = printable(&row.listed.channel.unit);
            let value = row.value().map_or_else(|| "–".into(), |value| significant(value, 6));
            let (state, bad) = in_words(&row.state);
            let state = if bad { format!(" {state}") } else { String::new() };
            line += &format!("; {} {value} {unit}{state}", printable(&long_name(&row.listed)));
        }
        line
    }

    fn press(&mut self, key: KeyCode) {
        match key {
            KeyCode::Up => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Down => self.cursor = (self.cursor + 1).min(self.rows.len().saturating_sub(1)),
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(10),
            KeyCode::PageDown => self.cursor = (self.cursor + 10).min(self.rows.len().saturating_sub(1)),
            KeyCode::Char(' ') | KeyCode::Enter => {
                let Some(key) = self.rows.get(self.cursor).map(|row| row.listed.key) else { return };
                self.has_chosen = true;
                match self.chosen.iter().position(|chosen| *chosen == key) {
                    Some(at) => drop(self.chosen.remove(at)),
                    None if self.chosen.len() < MOST_CURVES => self.chosen.push(key),
                    None => {}
                }
            }
            KeyCode::Char('+' | '=') => self.look.span_s = (self.look.span_s / 2.0).max(SHORTEST_S),
            KeyCode::Char('-') => self.look.span_s = (self.look.span_s * 2.0).min(LONGEST_S),
            KeyCode::Char('p') => self.paused = !self.paused,
            _ => {}
        }
        self.choose();
        if !self.paused {
            self.follow_traces();
        }
    }
}

fn long_name(listed: &Listed) -> String {
    format!("{}/{}/{}", listed.station, listed.stream, listed.channel.name)
}

/// The state, and whether it is bad.
fn in_words(state: &State) -> (&'static str, bool) {
    match (state.stale, state.alarm) {
        (true, _) => ("stale", true),
        (_, Alarm::None) => ("ok", false),
        (_, Alarm::VeryLow) => ("VERY LOW", true),
        (_, Alarm::Low) => ("low", true),
        (_, Alarm::High) => ("high", true),
        (_, Alarm::VeryHigh) => ("VERY HIGH", true),
    }
}

/// From where to where a curve is drawn: as its metadata says, else what there is of it.
fn scale_of(row: &Signal, columns: &[Column]) -> (f64, f64) {
    let limits = &row.listed.limits;
    let (least, greatest) = columns.iter().fold((f64::NAN, f64::NAN), |(least, greatest), column| {
        (least.min(column.least), greatest.max(column.greatest))
    });
    let (low, high) = (limits.display_low.unwrap_or(least), limits.display_high.unwrap_or(greatest));
    match (low.is_finite() && high.is_finite(), high > low) {
        (true, true) => (low, high),
        (true, false) => (low - 1.0, low + 1.0),
        (false, _) => (-1.0, 1.0),
    }
}

fn short_count(count: u64) -> String {
    format::count(i64::try_from(count).unwrap_or(i64::MAX))
}

/// What is not nothing is not shown as nothing.
fn significant_share(share: f64) -> f64 {
    significant(share, 2).parse().unwrap_or(share)
}

fn clock() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02} UTC", since / 3600, since / 60 % 60, since % 60)
}

/// Curves at the start, and at most.
const FIRST_CURVES: usize = 2;
const MOST_CURVES: usize = 8;

const SHORTEST_S: f64 = 0.01;
const LONGEST_S: f64 = 600.0;

/// Of the numbers at the left of a curve.
const SCALE_WIDTH: u16 = 10;

const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::LightBlue, Color::LightRed];
