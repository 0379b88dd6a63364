//! Frames of a format become samples of channels.

use weir_program::clock::Nanos;
use weir_units::format::printable;

use super::clocked::{Clocked, Due};
use crate::station::board::{Board, Id, Opening, Placed};
use crate::station::ledger::SourceCount;
use crate::station::readers::{Format, Raw};
use crate::station::settings::{Feed, Source as Settings, Time};

/// Finds the channels of values, and counts what became of them.
#[derive(Debug)]
pub(super) struct Points {
    number: usize,
    settings: Settings,
    pub(super) time: Time,
    /// One step a sample: of rows that are paced, and of states.
    clocked: Option<Clocked>,
    name: String,
    /// Of rows that are samples: how many there were, and the channels that they have.
    rows: u64,
    channels: Vec<Id>,
    /// Time of the first row.
    begun: Option<i64>,
    /// Until then nothing is remarked.
    quiet: Nanos,
    pub(super) count: SourceCount,
}

impl Points {
    pub(super) fn new(number: usize, settings: &Settings, feed: &Feed) -> Self {
        Self {
            number,
            settings: settings.clone(),
            time: feed.time,
            clocked: None,
            name: String::new(),
            rows: 0,
            channels: Vec::new(),
            begun: None,
            quiet: 0,
            count: SourceCount::default(),
        }
    }

    /// Samples of a channel that are due since this was asked last, and when the next is.
    pub(super) fn due(&mut self, now: Nanos) -> (u64, Nanos) {
        let clocked = self.clocked.get_or_insert_with(|| Clocked::new(self.settings.rate, now));
        let Due { samples, .. } = clocked.take(now);
        (samples, clocked.due())
    }

    /// Shows states that have changed, once for each sample. When it is to be asked again; `None`: after the next frame.
    pub(super) fn show_states(&mut self, format: &mut Format, board: &mut Board) -> Option<Nanos> {
        let Format::Statsd(statsd) = format else { return None };
        if statsd.has_news {
            let (samples, next) = self.due(board.now.elapsed);
            if samples == 0 {
                return Some(next);
            }
            statsd.flush(&mut |name, time, value| self.place(board, name, time, value));
        }
        None
    }

    /// Reads frames of these bytes, at most so many; returns the bytes that they took. `all`: nothing follows these bytes.
    pub(super) fn read(
        &mut self,
        format: &mut Format,
        bytes: &[u8],
        all: bool,
        most: &mut u64,
        board: &mut Board,
    ) -> usize {
        let mut taken = 0;
        while *most > 0
            && let Some(length) = format.frame(&bytes[taken..], all)
        {
            let frame = &bytes[taken..taken + length];
            taken += match format {
                Format::Raw(raw) => self.columns(raw, frame, most, board),
                _ => {
                    *most -= 1;
                    self.row(format, frame, board);
                    length
                }
            };
        }
        taken
    }

    fn row(&mut self, format: &mut Format, frame: &[u8], board: &mut Board) {
        let before = self.count.points;
        let read = format.read(frame, &mut |name, time, value| match self.time {
            Time::Rows => self.append(board, name, value),
            _ => self.place(board, name, time, value),
        });
        self.count.unreadable += u64::from(read.is_err());
        if self.time == Time::Rows && self.count.points > before {
            self.end_row(board);
        }
    }

    /// Whole frames, at most so many: each is the next sample of its channels.
    fn columns(&mut self, raw: &Raw, frames: &[u8], most: &mut u64, board: &mut Board) -> usize {
        let rows = (frames.len() / raw.size()).min(usize::try_from(*most).unwrap_or(usize::MAX));
        let frames = &frames[..rows * raw.size()];
        let origin = *self.begun.get_or_insert(board.now.utc);
        for (column, name) in raw.names.iter().enumerate() {
            self.count.points += rows as u64;
            let values: Vec<f64> = raw.column(column, frames).collect();
            match self.channel(board, name, origin, false) {
                Some(id) => board.samples(id, &values),
                None => self.count.refused += rows as u64,
            }
        }
        *most -= rows as u64;
        frames.len()
    }

    /// A value is placed by its time; without one, by that of its arrival.
    fn place(&mut self, board: &mut Board, name: &str, time: Option<i64>, value: f64) {
        self.count.points += 1;
        let time = time.filter(|_| self.time != Time::Arrival);
        let is_since_start = self.time == Time::Start && time.is_some();
        let at = time.unwrap_or(board.now.utc);
        let origin = if is_since_start { board.now.utc } else { at };
        let Some(id) = self.channel(board, name, origin, true) else {
            self.count.refused += 1;
            return;
        };
        if at < YEAR_2000 && !is_since_start {
            self.count.early += 1;
            let cure = "set `precision` to their unit, or `time = \"start\"` if they count from a start";
            self.remark(board, &format!("times before 2000: {cure}"));
        }
        match board.place(id, at, is_since_start, value) {
            Placed::Taken => {}
            Placed::Stepped => {
                self.count.time_steps += 1;
                let name = printable(name);
                self.remark(
                    board,
                    &format!("the clock of {name} was set, or begins again: times follow it, without a gap"),
                );
            }
            Placed::Crowded => self.count.crowded += 1,
            Placed::Late => self.count.late += 1,
            Placed::Misplaced => self.count.misplaced += 1,
        }
    }

    /// For the log, at most once in a while.
    fn remark(&mut self, board: &mut Board, text: &str) {
        if board.now.elapsed >= self.quiet {
            self.quiet = board.now.elapsed + REMARKS_APART;
            board.remarks.push(format!("{}: {text}", super::name(&self.settings)));
        }
    }

    /// A value is the sample of this row.
    fn append(&mut self, board: &mut Board, name: &str, value: f64) {
        self.count.points += 1;
        let origin = *self.begun.get_or_insert(board.now.utc);
        let Some(id) = self.channel(board, name, origin, false) else {
            self.count.refused += 1;
            return;
        };
        match self.rows.checked_sub(board.next(id)) {
            None => self.count.crowded += 1,
            Some(missed) => {
                if missed > 0 {
                    board.skip(id, missed);
                }
                board.samples(id, &[value]);
                if !self.channels.contains(&id) {
                    self.channels.push(id);
                }
            }
        }
    }

    /// A row is over: channels that it did not have were not measured.
    fn end_row(&mut self, board: &mut Board) {
        self.rows += 1;
        for &id in &self.channels {
            if board.next(id) < self.rows {
                board.samples(id, &[f64::NAN]);
            }
        }
    }

    fn channel(&mut self, board: &mut Board, name: &str, origin: i64, own_times: bool) -> Option<Id> {
        self.name.clear();
        if !self.settings.name.is_empty() {
            self.name.extend([self.settings.name.as_str(), "."]);
        }
        // Names are shown by many: without what steers a terminal.
        self.name.extend(name.chars().map(|c| if c.is_control() { ' ' } else { c }));
        let opening = Opening::of(self.number, &self.settings, &self.name, origin);
        board.channel(&Opening { own_times, ..opening })
    }
}

/// 1 January 2000, ns since 1970 UTC: nobody measured with this before.
const YEAR_2000: i64 = 946_684_800_000_000_000;

/// As lines about losses.
const REMARKS_APART: Nanos = 10_000_000_000;
