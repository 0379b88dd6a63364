//! A live screen on the terminal, or plain lines where standard output is no terminal.

pub mod cells;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::Frame;

use crate::log;
use weir_program::stop::Stop;

/// What a screen shows.
pub trait Picture {
    /// Reads anew what is to be shown.
    fn advance(&mut self);

    /// Draws it, above or below the last lines of the log.
    fn draw(&self, frame: &mut Frame<'_>, notes: &[String]);

    /// The same in one line, where there is no screen.
    fn line(&self) -> String;

    /// A key that does not end the screen.
    fn press(&mut self, _key: KeyCode) {}
}

/// Why the screen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The person pressed `q` or Ctrl-C: the program is to end.
    Asked,
    /// The stop was set.
    Stopped,
}

/// Shows `picture`, read anew at every `frames`, until somebody asks for the end or `stop` is set. Meanwhile the log is
/// held back and its last lines are shown. On anything but a terminal it prints a line every [`LINES_APART`].
///
/// # Errors
/// If standard output fails. Nothing else is affected: go on without a screen.
pub fn run(picture: &mut impl Picture, frames: Duration, stop: &Stop) -> io::Result<Ended> {
    if is_terminal() { live(picture, frames, stop) } else { plain(picture, stop, &mut io::stdout()) }
}

/// Whether there is a terminal to draw on and to read keys from.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

fn live(picture: &mut impl Picture, frames: Duration, stop: &Stop) -> io::Result<Ended> {
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
    loop {
        let due = Instant::now() + frames;
        loop {
            terminal.draw(|frame| picture.draw(frame, &hold.last(MOST_NOTES)))?;
            match pause(due, stop, true)? {
                Pause::Over => break,
                Pause::Ended(ended) => return Ok(ended),
                // To be drawn anew at once.
                Pause::Resized => {}
                Pause::Pressed(key) => picture.press(key),
            }
        }
        picture.advance();
    }
}

fn plain(picture: &mut impl Picture, stop: &Stop, output: &mut impl Write) -> io::Result<Ended> {
    loop {
        let paused = pause(Instant::now() + LINES_APART, stop, false)?;
        // The last line tells what came until the end, however soon that is.
        picture.advance();
        writeln!(output, "{}", picture.line())?;
        output.flush()?;
        if let Pause::Ended(ended) = paused {
            return Ok(ended);
        }
    }
}

/// How a pause ended.
enum Pause {
    Over,
    Ended(Ended),
    Resized,
    Pressed(KeyCode),
}

/// Waits until the deadline, for a key, or for the stop.
fn pause(deadline: Instant, stop: &Stop, keys: bool) -> io::Result<Pause> {
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
            return Ok(Pause::Ended(Ended::Stopped));
        }
        let typed = events[1].revents().unwrap_or(PollFlags::empty());
        if keys && typed.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            return Err(io::Error::other("the terminal has gone"));
        }
        while keys && event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if ends(key) => return Ok(Pause::Ended(Ended::Asked)),
                Event::Key(key) if key.kind != KeyEventKind::Release => return Ok(Pause::Pressed(key.code)),
                Event::Resize(..) => return Ok(Pause::Resized),
                _ => {}
            }
        }
        if left.is_zero() {
            return Ok(Pause::Over);
        }
    }
}

/// In raw mode Ctrl-C is a key, not a signal.
fn ends(key: KeyEvent) -> bool {
    let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (ctrl_c || matches!(key.code, KeyCode::Char('q' | 'Q')))
}

/// Lines of the log that a picture is given.
pub const MOST_NOTES: usize = 5;

/// From one line to the next.
pub const LINES_APART: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Picture for Nothing {
        fn advance(&mut self) {}

        fn draw(&self, _frame: &mut Frame<'_>, _notes: &[String]) {}

        fn line(&self) -> String {
            String::new()
        }
    }

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
    fn lines_end_with_the_stop() {
        let stop = Stop::new().unwrap();
        stop.set();
        assert_eq!(plain(&mut Nothing, &stop, &mut Vec::new()).unwrap(), Ended::Stopped);
    }
}
