//! Values with names and perhaps times, as lines and datagrams have them.

use weir_wire::signal::{Element, Rate};

use crate::station::board::{Board, Id, Opening, Placed};
use crate::station::ledger::SourceCount;
use crate::station::settings::Source as Settings;

/// Finds the channels of values, and counts what became of them.
#[derive(Debug)]
pub(super) struct Points {
    number: usize,
    prefix: String,
    rate: Rate,
    element: Element,
    name: String,
    /// Of rows that are samples: how many there were, and the channels that they have.
    rows: u64,
    channels: Vec<Id>,
    /// Time of the first row.
    begun: Option<i64>,
    pub(super) count: SourceCount,
}

impl Points {
    pub(super) fn new(number: usize, settings: &Settings) -> Self {
        let Settings { name, rate, element, .. } = settings;
        Self {
            number,
            prefix: name.clone(),
            rate: *rate,
            element: *element,
            name: String::new(),
            rows: 0,
            channels: Vec::new(),
            begun: None,
            count: SourceCount::default(),
        }
    }

    /// A value is placed by its time; without one, by that of its arrival.
    pub(super) fn place(&mut self, board: &mut Board, name: &str, time: Option<i64>, value: f64) {
        self.count.points += 1;
        let at = time.unwrap_or(board.now.utc);
        let Some(id) = self.channel(board, name, at, true) else {
            self.count.refused += 1;
            return;
        };
        match board.place(id, at, value) {
            Placed::Taken => {}
            Placed::Crowded => self.count.crowded += 1,
            Placed::Late => self.count.late += 1,
            Placed::Misplaced => self.count.misplaced += 1,
        }
    }

    /// A value is the sample of this row.
    pub(super) fn append(&mut self, board: &mut Board, name: &str, value: f64) {
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
    pub(super) fn end_row(&mut self, board: &mut Board) {
        self.rows += 1;
        for &id in &self.channels {
            if board.next(id) < self.rows {
                board.samples(id, &[f64::NAN]);
            }
        }
    }

    fn channel(&mut self, board: &mut Board, name: &str, origin: i64, own_times: bool) -> Option<Id> {
        self.name.clear();
        if !self.prefix.is_empty() {
            self.name.extend([self.prefix.as_str(), "."]);
        }
        // Names are shown by many: without what steers a terminal.
        self.name.extend(name.chars().map(|c| if c.is_control() { ' ' } else { c }));
        let Self { number, name, rate, element, .. } = self;
        let opening = Opening {
            source: *number,
            name,
            unit: "",
            description: "",
            rate: *rate,
            element: *element,
            origin,
            own_times,
        };
        board.channel(&opening)
    }
}
