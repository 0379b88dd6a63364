//! `--watch` on a terminal and without one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};

use super::{LISTEN, Machine, PATIENCE, SINK, Service, WEIR, address, pass, weir};

/// The far side of a terminal.
struct Terminal {
    master: File,
    seen: String,
}

impl Terminal {
    fn await_text(&mut self, text: &str) {
        self.await_that(text, |seen| seen.contains(text));
    }

    /// Only what changes is written: words come whole, what is between them may not come at all.
    fn await_that(&mut self, what: &str, is_there: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = [0; 4096];
        while !is_there(&self.seen) {
            // Something comes with each picture, whether it is what is waited for or not.
            let left = deadline.saturating_duration_since(Instant::now());
            let mut events = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut events, PollTimeout::try_from(left).unwrap()).unwrap();
            assert_eq!(ready, 1, "waiting for {what} after {:?}", self.seen);
            let length = self.master.read(&mut bytes).unwrap_or_else(|error| panic!("{error} after {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    }
}

#[test]
fn the_screen_shows_what_passes_until_somebody_presses_q() {
    let Some(machine) = Machine::new() else { return };
    for key in [b"q", b"\x03"] {
        let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let stdio = || Stdio::from(pty.slave.try_clone().unwrap());
        // A session of its own, whose terminal this is.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", WEIR, "tee", "--listen", LISTEN, "--to", SINK, "--watch"]);
        command.env("TERM", "xterm").stdin(stdio()).stdout(stdio()).stderr(stdio());
        let mut tee = Service::start(&machine, command);
        drop(pty.slave);
        let mut terminal = Terminal { master: File::from(pty.master), seen: String::new() };
        // The alternate screen, and the log held back for it.
        terminal.await_text("\x1b[?1049h");
        terminal.await_text(LISTEN);
        terminal.await_text("ready:");
        // The first picture is whole, its last line too: what passes now is new to the second.
        terminal.await_text("end the tee");
        pass(&source, address(LISTEN), &sink, &[b"one"]);
        terminal.await_that("one in about half a second", |seen| {
            let numbers = seen.split(|character: char| !character.is_ascii_digit() && character != '.');
            let rates = numbers.filter(|number| number.contains('.')).filter_map(|number| number.parse::<f64>().ok());
            rates.into_iter().any(|rate| (0.1..=2.1).contains(&rate))
        });
        terminal.master.write_all(key).unwrap();
        // The terminal as it was, then the account.
        terminal.await_text("\x1b[?1049l");
        terminal.await_text("the ledger closes");
        assert!(tee.child.wait().unwrap().success());
    }
}

#[test]
fn without_a_terminal_there_are_lines() {
    let Some(machine) = Machine::new() else { return };
    let mut tee = Service::start(&machine, weir(&["tee", "--listen", LISTEN, "--to", SINK, "--watch"]));
    let mut stdout = tee.child.stdout.take().unwrap();
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && stdout.read(&mut byte).unwrap() == 1 {
        line.push(byte[0]);
    }
    let line = String::from_utf8(line).unwrap();
    assert!(line.starts_with("0:00:0") && line.contains(" in 0/s 0 kbit/s, out 0/s 0 kbit/s, dropped 0/s"), "{line}");
    assert!(tee.end().success());
}
