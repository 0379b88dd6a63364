//! `weir monitor view` on a terminal, of a station that is alive.

use std::cell::Cell;
use std::io::Write;
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};
use weir_testbed::{Ended, Started, program};

use crate::service::Machine;
use crate::service::screen::Terminal;
use crate::{WEIR, weir};

#[test]
fn the_screen_shows_signals_until_somebody_presses_q() {
    let Some(setsid) = program("setsid") else { return };
    let Some(machine) = Machine::new() else { return };
    let mut command = weir(&["monitor", "station", "--name", "test", "--to", LISTEN, "--display", "100/s"]);
    command.args([
        "--source",
        "sine,name=coil,rate=1k/s,frequency=2/s,amplitude=1.5",
        "--source",
        "counter,name=count,rate=100/s",
    ]);
    let station = machine.run(|| Started::ready(command));

    let size = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let script = format!("exec {} monitor view coil --listen {LISTEN} --span 2s >/dev/tty 2>/dev/tty", *WEIR);
    let mut command = Command::new(setsid);
    command.args(["--ctty", "--wait", "sh", "-c", &script]).env("TERM", "xterm").stdin(Stdio::from(pty.slave));
    let mut view = machine.run(|| Started::spawn(command));
    let mut terminal = Terminal::new(pty.master, &size);
    terminal.await_that("the alternate screen", vt100::Screen::alternate_screen);
    terminal.await_text("2 signals");
    let row = |screen: &vt100::Screen, name: &str| {
        let lines = screen.contents();
        lines.lines().find(|line| line.contains(name) && line.contains("ok")).map(str::to_owned)
    };
    terminal.await_that("both are well", |screen| {
        row(screen, "test/display/coil").is_some() && row(screen, "test/display/count").is_some()
    });
    // A counter of 100 a second counts.
    let count = |screen: &vt100::Screen| -> Option<f64> {
        row(screen, "test/display/count")?.split_whitespace().find_map(|word| word.parse().ok())
    };
    let seen = Cell::new(None);
    terminal.await_that("a count", |screen| {
        seen.set(count(screen));
        seen.get().is_some()
    });
    terminal.await_that("a greater one", |screen| count(screen) > seen.get());
    // The curve of a sine goes all over its ground, whose scale is the amplitude.
    terminal.await_that("a curve", |screen| {
        let braille = screen.contents().chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
        braille > 100 && screen.contents().contains("1.5")
    });
    terminal.master.write_all(b"p").unwrap();
    terminal.await_text("PAUSED");
    terminal.master.write_all(b"p+").unwrap();
    terminal.await_text("1 s shown");
    // Killed: nothing says that it ends.
    drop(station);
    terminal.await_text("2 stale");
    terminal.master.write_all(b"q").unwrap();
    terminal.await_that("the terminal as it was", |screen| !screen.alternate_screen());
    assert_eq!(view.wait().status, Some(0));
}

#[test]
fn without_a_terminal_there_are_lines() {
    let Some(machine) = Machine::new() else { return };
    let command =
        weir(&["monitor", "station", "--name", "test", "--to", LISTEN, "--source", "counter,name=count,rate=10/s"]);
    let _station = machine.run(|| Started::ready(command));
    // It ends before a line is due, and long after the station, which may be slow to start, has said again who it is.
    let mut command = weir(&["monitor", "view", "--listen", LISTEN, "--duration", "4s"]);
    let Ended { status, stdout: text, .. } = machine.run(|| Ended::of(&mut command));
    assert_eq!(status, Some(0));
    assert!(text.contains("1 signal, 0 samples missing; test/display/count "), "{text}");
}

const LISTEN: &str = "127.0.0.1:5110";
