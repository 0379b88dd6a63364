//! `--watch` on a terminal and without one.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};

use weir_testbed::{PATIENCE, Started};

use super::{LISTEN, Machine, SINK, address, pass};
use crate::{WEIR, weir};

/// The far side of a terminal, and what its user sees.
pub(crate) struct Terminal {
    pub(crate) master: File,
    emulator: vt100::Parser,
}

impl Terminal {
    pub(crate) fn new(master: OwnedFd, size: &Winsize) -> Terminal {
        let [rows, columns] = [size.ws_row, size.ws_col].map(|length| NonZero::new(length).unwrap());
        Terminal { master: File::from(master), emulator: vt100::Parser::new(rows, columns, 0) }
    }

    /// Until the screen is so. Draws come for ever: it ends after a while.
    pub(crate) fn await_that(&mut self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self.emulator.screen()) {
            assert!(self.draw() && Instant::now() < deadline, "waiting for {what}:\n{}", self.contents());
        }
    }

    pub(crate) fn await_text(&mut self, text: &str) {
        self.await_that(text, |screen| screen.contents().contains(text));
    }

    /// Takes in what is written next; `false`: nothing for long.
    pub(crate) fn draw(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let mut events = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut events, PollTimeout::from(20_000_u16)).unwrap() == 0 {
            return false;
        }
        // EIO: nobody has the terminal open any more.
        let length = self.master.read(&mut bytes).unwrap_or(0);
        self.emulator.process(&bytes[..length]);
        length > 0
    }

    pub(crate) fn contents(&self) -> String {
        self.emulator.screen().contents()
    }
}

#[test]
fn the_screen_shows_what_passes_until_somebody_presses_q() {
    let Some(machine) = Machine::new() else { return };
    for key in [b"q", b"\x03"] {
        let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        // A session of its own, whose terminal this is.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "sh", "-c", "exec \"$0\" \"$@\" >&0 2>&0", &WEIR]);
        command.args(["tee", "--listen", LISTEN, "--to", SINK, "--watch"]).env("TERM", "xterm").stdin(pty.slave);
        let mut tee = machine.run(|| Started::quiet(command));
        let mut terminal = Terminal::new(pty.master, &size);
        terminal.await_that("the alternate screen", vt100::Screen::alternate_screen);
        terminal.await_text(LISTEN);
        terminal.await_text("in 0/s");
        // A rate is on the screen for one picture: there are as many datagrams as it takes to see one.
        let deadline = Instant::now() + PATIENCE;
        while terminal.contents().contains("in 0/s") {
            pass(&source, address(LISTEN), &sink, &[b"one"]);
            assert!(terminal.draw() && Instant::now() < deadline, "a rate:\n{}", terminal.contents());
        }
        assert!(terminal.contents().contains("ledger closes"));
        terminal.master.write_all(key).unwrap();
        terminal.await_that("the terminal as it was", |screen| !screen.alternate_screen());
        terminal.await_text("the ledger closes");
        assert_eq!(tee.wait().status, Some(0));
    }
}

#[test]
fn without_a_terminal_there_are_lines() {
    let Some(machine) = Machine::new() else { return };
    let command = weir(&["tee", "--listen", LISTEN, "--to", SINK, "--watch"]);
    let mut tee = machine.run(|| Started::quiet(command));
    let line = tee.next_line().unwrap();
    assert!(line.starts_with("0:00:0") && line.contains(" in 0/s 0 kbit/s, out 0/s 0 kbit/s, dropped 0/s"), "{line}");
    assert_eq!(tee.end().status, Some(0));
}
