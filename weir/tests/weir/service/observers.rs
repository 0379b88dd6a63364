//! Whoever scrapes, probes or reads the log sees the same account, and cannot hurt.

use std::fs::File;
use std::io::{PipeWriter, Write, pipe};
use std::net::TcpStream;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::network::await_that;

use super::{ADMIN, LISTEN, Machine, SINK, Service, address, pass, weir};

const TEE: [&str; 7] = ["tee", "--listen", LISTEN, "--to", SINK, "--admin", ADMIN];

#[test]
fn metrics_and_ledger_tell_what_passed() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let mut tee = Service::start(&machine, weir(&TEE));
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
    assert!(tee.end().success());
}

#[test]
fn an_admin_address_that_is_taken_is_a_line() {
    let Some(machine) = Machine::new() else { return };
    let _held = machine.run(|| std::net::TcpListener::bind(ADMIN).unwrap());
    let output = machine.run(|| weir(&TEE).output().unwrap());
    let expected = format!("weir: bind admin address {ADMIN}: address in use (another service? choose another port)\n");
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(1), expected));
}

#[test]
fn connections_that_say_nothing_hurt_nobody() {
    let Some(machine) = Machine::new() else { return };
    let mut tee = Service::start(&machine, weir(&TEE));
    let silent: Vec<TcpStream> = machine.run(|| (0..500).map(|_| TcpStream::connect(ADMIN).unwrap()).collect());
    assert!(machine.get("/healthz").0.contains(" 200 "));
    // Far fewer than came are held.
    assert!(machine.metric("process_open_fds ") < 150.0);
    assert!(tee.end().success());
    drop(silent);
}

#[test]
fn a_full_disk_for_the_log_hurts_nobody() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let mut command = weir(&TEE);
    command.arg("-vv").stderr(File::options().write(true).open("/dev/full").unwrap());
    let mut tee = Service::start(&machine, command);
    pass(&source, address(LISTEN), &sink, &[b"one", b"two"]);
    // The log has a thread of its own.
    await_that("a line to be lost", || machine.metric("weir_log_lost_lines_total ") >= 1.0);
    assert!(machine.get("/healthz").0.contains(" 200 "));
    assert!(tee.end().success());
}

/// A pipe that takes nothing more.
fn fill(writer: &mut PipeWriter) {
    let flags = OFlag::from_bits_retain(fcntl(&*writer, FcntlArg::F_GETFL).unwrap());
    fcntl(&*writer, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl(&*writer, FcntlArg::F_SETFL(flags)).unwrap();
}

#[test]
fn a_log_that_nobody_reads_hurts_nobody() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let (reader, mut writer) = pipe().unwrap();
    fill(&mut writer);
    let mut command = weir(&TEE);
    command.args(["-vv", "--json"]).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut tee = Service::start(&machine, command);
    pass(&source, address(LISTEN), &sink, &[b"one", b"two"]);
    assert!(machine.get("/healthz").0.contains(" 200 "));
    // Its end is not held up either, though it has a ledger to tell, twice. That it could not is a failure.
    tee.signal(Signal::SIGUSR1);
    tee.signal(Signal::SIGTERM);
    await_that("its end", || tee.child.try_wait().unwrap().is_some());
    assert_eq!(tee.child.wait().unwrap().code(), Some(1));
    drop(reader);
}

#[test]
fn a_log_that_was_closed_hurts_nobody() {
    let Some(machine) = Machine::new() else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let (reader, writer) = pipe().unwrap();
    let mut command = weir(&TEE);
    command.arg("-vv").stderr(writer);
    drop(reader);
    let mut tee = Service::start(&machine, command);
    pass(&source, address(LISTEN), &sink, &[b"one"]);
    assert!(tee.end().success());
}
