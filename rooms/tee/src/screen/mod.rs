//! The live screen of `weir tee --watch`, or plain lines where standard output is no terminal.

mod rates;
mod view;

use std::io;
use std::time::Duration;

use ratatui::Frame;
use weir_program::stop::Stop;
use weir_service::screen::{self, Picture};

use weir_forward::ledger::Ledger;

pub(crate) use weir_service::screen::Ended;

/// Shows how `ledger` changes, twice a second, as [`screen::run`] does.
///
/// # Errors
/// If standard output fails. Moving datagrams is not affected: go on without a screen.
pub(crate) fn run(ledger: impl Fn() -> Ledger, stop: &Stop) -> io::Result<Ended> {
    let before = ledger();
    let now = before.clone();
    screen::run(&mut Live { ledger, before, now }, FRAMES_APART, stop)
}

struct Live<F> {
    ledger: F,
    before: Ledger,
    now: Ledger,
}

impl<F: Fn() -> Ledger> Picture for Live<F> {
    fn advance(&mut self) {
        self.before = std::mem::replace(&mut self.now, (self.ledger)());
    }

    fn draw(&self, frame: &mut Frame<'_>, notes: &[String]) {
        view::draw(frame, &self.before, &self.now, notes);
    }

    fn line(&self) -> String {
        view::line(&self.before, &self.now)
    }
}

/// From one picture to the next.
const FRAMES_APART: Duration = Duration::from_millis(500);
