//! What whoever started the watch sees: a live screen, plain lines, or a JSON object a snapshot.

mod view;

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use ratatui::Frame;
use weir_program::stop::Stop;
use weir_service::screen::{self, Ended, Picture};
use weir_units::format::shown_in_json;

use super::snapshot::{Snapshot, Sort};
use super::state::State;
use view::Look;

pub(super) use view::line;

/// On the screen or in lines, until the stop is set.
pub(super) fn show(state: &State, stop: &Stop) -> io::Result<Ended> {
    let now = state.latest();
    let mut live = Live { state, before: now.clone(), now, look: Look::default() };
    screen::run(&mut live, FRAMES_APART, stop)
}

/// A line a snapshot, until there are no more or nobody reads them.
pub(super) fn print_json(state: &State) -> io::Result<Ended> {
    let mut number = 0;
    while let Some((next, snapshot)) = state.next(number) {
        number = next;
        let line = serde_json::to_string(&*snapshot).map_err(io::Error::from)?;
        let mut output = io::stdout().lock();
        match writeln!(output, "{}", shown_in_json(&line)).and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Ended::Asked),
            result => result?,
        }
    }
    Ok(Ended::Stopped)
}

/// What is on the screen.
struct Live<'a> {
    state: &'a State,
    /// Of the line before.
    before: Arc<Snapshot>,
    now: Arc<Snapshot>,
    look: Look,
}

impl Picture for Live<'_> {
    fn advance(&mut self) {
        self.before = std::mem::replace(&mut self.now, self.state.latest());
    }

    fn draw(&self, frame: &mut Frame<'_>, notes: &[String]) {
        view::draw(frame, &self.now, self.look, notes);
    }

    /// Over all the time since the line before.
    fn line(&self) -> String {
        let mut now = Snapshot::clone(&self.now);
        now.pace(&self.before);
        line(&now)
    }

    fn press(&mut self, key: KeyCode) {
        let most = self.now.sockets.len();
        match key {
            KeyCode::Char('d') => self.look.sort = Sort::Drops,
            KeyCode::Char('r') => self.look.sort = Sort::Rate,
            KeyCode::Char('b') => self.look.sort = Sort::Buffer,
            KeyCode::Char('s') => self.look.sort = Sort::Stall,
            KeyCode::Char('p') => self.look.sort = Sort::Port,
            KeyCode::Down => self.look.skipped = (self.look.skipped + 1).min(most),
            KeyCode::Up => self.look.skipped = self.look.skipped.saturating_sub(1),
            KeyCode::PageDown => self.look.skipped = (self.look.skipped + 10).min(most),
            KeyCode::PageUp => self.look.skipped = self.look.skipped.saturating_sub(10),
            KeyCode::Home => self.look.skipped = 0,
            _ => {}
        }
    }
}

/// From one look for a new snapshot to the next.
const FRAMES_APART: Duration = Duration::from_millis(100);
