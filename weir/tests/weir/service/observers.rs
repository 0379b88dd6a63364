//! Whoever scrapes, probes or reads the log sees the same account, and cannot hurt.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use weir_testbed::{Ended, Started, await_that};

use super::{ADMIN, LISTEN, Machine, SINK, address, pass};
use crate::{WEIR, weir};

const TEE: [&str; 7] = ["tee", "--listen", LISTEN, "--to", SINK, "--admin", ADMIN];

#[test]
fn metrics_and_ledger_tell_what_passed() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let mut tee = machine.start(weir(&TEE));
    pass(&source, address(LISTEN), &sink, &[b"12345", b"", b"123"]);
    let of_listener = format!("{{listener=\"{LISTEN}\",address=\"{LISTEN}\"}}");
    let of_destination = format!("{{destination=\"{SINK}\",address=\"{SINK}\"}}");
    for (metric, labels, value) in [
        ("weir_tee_received_datagrams_total", &of_listener, 3.0),
        ("weir_tee_received_bytes_total", &of_listener, 8.0),
        ("weir_tee_kernel_dropped_datagrams_total", &of_listener, 0.0),
        ("weir_tee_asked_copies_total", &of_destination, 3.0),
        ("weir_tee_sent_datagrams_total", &of_destination, 3.0),
        ("weir_tee_sent_bytes_total", &of_destination, 8.0),
        ("weir_tee_queued_datagrams", &of_destination, 0.0),
        ("weir_tee_destination_healthy", &of_destination, 1.0),
        ("weir_tee_ledger_closed", &String::new(), 1.0),
    ] {
        assert_eq!(machine.metric(&format!("{metric}{labels} ")), value, "{metric}");
    }
    assert!(machine.metric(&format!("weir_tee_receive_buffer_bytes{of_listener} ")) > 0.0);

    let (_, ledger) = machine.get("/ledger");
    let ledger: Value = serde_json::from_str(&ledger).unwrap();
    assert_eq!(ledger["destinations"][0]["sent"], serde_json::json!({ "datagrams": 3, "bytes": 8 }));
    assert!(machine.get("/healthz").0.contains(" 200 ") && machine.get("/readyz").0.contains(" 200 "));
    assert_eq!(tee.end().status, Some(0));
}

#[test]
fn an_admin_address_that_is_taken_is_a_line() {
    let Some(machine) = Machine::new() else { return };
    let _held = machine.run(|| std::net::TcpListener::bind(ADMIN).unwrap());
    let ended = machine.run(|| Ended::of(&mut weir(&TEE)));
    let expected = format!("weir: bind admin address {ADMIN}: address in use (another service? choose another port)\n");
    assert_eq!((ended.status, ended.stderr), (Some(1), expected));
}

#[test]
fn connections_that_say_nothing_hurt_nobody() {
    let Some(machine) = Machine::new() else { return };
    let mut tee = machine.start(weir(&TEE));
    let silent: Vec<TcpStream> = machine.run(|| (0..500).map(|_| TcpStream::connect(ADMIN).unwrap()).collect());
    assert!(machine.get("/healthz").0.contains(" 200 "));
    // Far fewer than came are held.
    assert!(machine.metric("process_open_fds ") < 150.0);
    assert_eq!(tee.end().status, Some(0));
    drop(silent);
}

/// A tee whose output the shell leads elsewhere, ready. `$LOG` is a pipe with a name.
fn leading(machine: &Machine, script: &str, flags: &[&str], log: &str) -> Started {
    let mut command = Command::new("sh");
    command.args(["-c", script, &WEIR]).args(TEE).args(flags).env("LOG", log).stdin(Stdio::null());
    machine.run(|| Started::quiet(command))
}

#[test]
fn a_full_disk_for_the_log_hurts_nobody() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let mut tee = leading(&machine, "exec \"$0\" \"$@\" 2>/dev/full", &["-vv"], "");
    pass(&source, address(LISTEN), &sink, &[b"one", b"two"]);
    // The log has a thread of its own.
    await_that("a line to be lost", || machine.metric("weir_log_lost_lines_total ") >= 1.0);
    assert!(machine.get("/healthz").0.contains(" 200 "));
    assert_eq!(tee.end().status, Some(0));
}

#[test]
fn a_log_that_nobody_reads_hurts_nobody() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    mkfifo(&log, Mode::S_IRWXU).unwrap();
    let mut full: File =
        OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&log).unwrap();
    while full.write(&[b'x'; 4096]).is_ok() {}
    let flags = ["-vv", "--json"];
    let mut tee = leading(&machine, "exec \"$0\" \"$@\" >\"$LOG\" 2>&1", &flags, log.to_str().unwrap());
    pass(&source, address(LISTEN), &sink, &[b"one", b"two"]);
    assert!(machine.get("/healthz").0.contains(" 200 "));
    // Its end is not held up either, though it has a ledger to tell, twice. That it could not is a failure.
    tee.signal(Signal::SIGUSR1);
    assert_eq!(tee.end().status, Some(1));
}

#[test]
fn a_log_that_was_closed_hurts_nobody() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    mkfifo(&log, Mode::S_IRWXU).unwrap();
    let script = "exec 3<>\"$LOG\" 2>\"$LOG\" 3<&-; exec \"$0\" \"$@\"";
    let mut tee = leading(&machine, script, &["-vv"], log.to_str().unwrap());
    pass(&source, address(LISTEN), &sink, &[b"one"]);
    assert_eq!(tee.end().status, Some(0));
}
