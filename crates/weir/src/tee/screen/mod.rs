//! The live screen of `weir tee --watch`, or plain lines where standard output is no terminal.

mod rates;
mod view;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ledger::Ledger;
use crate::service::log;
use crate::service::stop::Stop;

/// Why the screen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The person pressed `q` or Ctrl-C: the tee is to end.
    Asked,
    /// The stop was set.
    Stopped,
}

/// Shows how `ledger` changes, twice a second, until somebody asks for the end or `stop` is set. Meanwhile the log is
/// held back and its last lines are shown. On anything but a terminal it prints a line every [`LINES_APART`].
///
/// # Errors
/// If standard output fails. Moving datagrams is not affected: go on without a screen.
pub fn run(ledger: impl Fn() -> Ledger, stop: &Stop) -> io::Result<Ended> {
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        live(&ledger, stop)
    } else {
        plain(&ledger, stop, &mut io::stdout().lock())
    }
}

fn live(ledger: &impl Fn() -> Ledger, stop: &Stop) -> io::Result<Ended> {
    // Leaves the terminal as it was, however this ends; a panic restores it by the hook that `try_init` installs.
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = ratatui::try_restore();
        }
    }
    let hold = log::hold();
    let _restore = Restore;
    let mut terminal = ratatui::try_init()?;
    let mut before = ledger();
    let mut now = before.clone();
    loop {
        terminal.draw(|frame| view::draw(frame, &before, &now, &hold.last(view::MOST_NOTES)))?;
        if let Some(ended) = pause(FRAMES_APART, stop, true)? {
            return Ok(ended);
        }
        before = std::mem::replace(&mut now, ledger());
    }
}

fn plain(ledger: &impl Fn() -> Ledger, stop: &Stop, output: &mut impl Write) -> io::Result<Ended> {
    let mut before = ledger();
    while pause(LINES_APART, stop, false)?.is_none() {
        let now = ledger();
        writeln!(output, "{}", view::line(&before, &now))?;
        output.flush()?;
        before = now;
    }
    Ok(Ended::Stopped)
}

/// Waits for so long, for a key that ends, or for the stop.
fn pause(span: Duration, stop: &Stop, keys: bool) -> io::Result<Option<Ended>> {
    let deadline = Instant::now() + span;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let stdin = io::stdin();
        let mut events = [PollFd::new(stop.as_fd(), PollFlags::POLLIN), PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        // Rounded up, so that no time is left when it runs out.
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut events[..1 + usize::from(keys)], timeout) {
            Err(Errno::EINTR) => continue,
            result => result?,
        };
        if stop.is_set() {
            return Ok(Some(Ended::Stopped));
        }
        let typed = events[1].revents().unwrap_or(PollFlags::empty());
        if keys && typed.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            return Err(io::Error::other("the terminal has gone"));
        }
        while keys && event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if ends(key) => return Ok(Some(Ended::Asked)),
                // To be drawn anew at once.
                Event::Resize(..) => return Ok(None),
                _ => {}
            }
        }
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// In raw mode Ctrl-C is a key, not a signal.
fn ends(key: KeyEvent) -> bool {
    let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (ctrl_c || matches!(key.code, KeyCode::Char('q' | 'Q')))
}

/// From one picture to the next.
const FRAMES_APART: Duration = Duration::from_millis(500);

/// From one line to the next.
pub const LINES_APART: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn q_and_ctrl_c_end() {
        let key = |code, modifiers| KeyEvent::new(code, modifiers);
        assert!(ends(key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(ends(key(KeyCode::Char('Q'), KeyModifiers::SHIFT)));
        assert!(ends(key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!ends(key(KeyCode::Char('c'), KeyModifiers::NONE)));
        assert!(!ends(key(KeyCode::Enter, KeyModifiers::CONTROL)));
    }

    #[test]
    fn lines_end_with_the_stop_and_with_the_output() {
        let stop = Stop::new().unwrap();
        stop.set();
        assert_eq!(plain(&fixture::busy, &stop, &mut Vec::new()).unwrap(), Ended::Stopped);
    }
}
