//! A service manager starts, watches, reloads and stops a tee, and passes it sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, RawFd};
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use weir_testbed::{Ended, PATIENCE, Started};

use super::{ADMIN, LISTEN, Machine, SINK, address, pass};
use crate::{WEIR, weir};

#[test]
fn it_is_told_of_start_reload_and_end() {
    let Some(machine) = Machine::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tee.toml");
    let config = format!("[[listener]]\naddress = \"{LISTEN}\"\n[[destination]]\nto = \"{SINK}\"\n");
    fs::write(&file, &config).unwrap();
    let mut tee = machine.start(weir(&["tee", "-c", file.to_str().unwrap()]));

    for text in [config.replace("5515", "5516"), "listen = 1".into()] {
        fs::write(&file, text).unwrap();
        tee.signal(Signal::SIGHUP);
        let told = tee.notified();
        let micros = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().trim_end();
        assert!(micros.parse::<u64>().unwrap() > 0);
        // Whether the file was good or not, the reload is over and the service goes on.
        assert!(tee.notified().starts_with("READY=1\n"));
    }
    tee.signal(Signal::SIGTERM);
    assert!(tee.notified().starts_with("STOPPING=1\n"));
    assert_eq!(tee.wait().status, Some(0));
}

#[test]
fn it_hears_of_progress() {
    let Some(machine) = Machine::new() else { return };
    let mut command = weir(&["tee", "--listen", LISTEN, "--to", SINK]);
    command.env("WATCHDOG_USEC", "2000000").env_remove("WATCHDOG_PID");
    let mut tee = machine.start(command);
    for _ in 0..3 {
        while tee.notified() != "WATCHDOG=1\n" {}
    }
    assert_eq!(tee.end().status, Some(0));
}

/// A descriptor by its number, closed when dropped.
struct Copy(RawFd);

impl Drop for Copy {
    fn drop(&mut self) {
        nix::unistd::close(self.0).unwrap();
    }
}

/// A command to which these sockets are passed under these names.
fn passing(arguments: &[&str], sockets: &[&dyn AsFd], names: &str) -> (Command, Vec<Copy>) {
    // Copies that the shell inherits, above the numbers that it gives them.
    let copies: Vec<Copy> =
        sockets.iter().map(|socket| Copy(fcntl(socket.as_fd(), FcntlArg::F_DUPFD(20)).unwrap())).collect();
    let moves =
        copies.iter().enumerate().map(|(index, copy)| format!("{}<&{number} {number}<&-", index + 3, number = copy.0));
    // The shell's process is the program's, too.
    let script = format!(
        "export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={names}; exec \"$0\" \"$@\" {}",
        sockets.len(),
        moves.collect::<Vec<_>>().join(" ")
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, &WEIR]).args(arguments).stdin(Stdio::null());
    (command, copies)
}

#[test]
fn passed_sockets_keep_what_came_before_the_start() {
    let Some(machine) = Machine::new() else { return };
    let (by_address, by_name) = (machine.udp(LISTEN), machine.udp("127.0.0.1:5600"));
    let sink = machine.udp(SINK);
    let source = machine.udp("127.0.0.1:0");
    source.send_to(b"early", LISTEN).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tee.toml");
    let config = format!(
        "[[listener]]\naddress = \"{LISTEN}\"\n[[listener]]\nname = \"flows\"\naddress = \"127.0.0.1:5600\"\n\
         [[destination]]\nto = \"{SINK}\"\n"
    );
    fs::write(&file, config).unwrap();
    for round in 0..2 {
        // The manager holds the sockets: what comes while the service is away waits in them.
        let arguments = ["tee", "-c", file.to_str().unwrap()];
        let (command, copies) = passing(&arguments, &[&by_address, &by_name], ":flows");
        let mut tee = machine.start(command);
        drop(copies);
        let mut bytes = [0; 100];
        let length = sink.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"early", "round {round}");
        pass(&source, address("127.0.0.1:5600"), &sink, &[b"one", b"", b"three"]);
        pass(&source, address(LISTEN), &sink, &[b"four"]);
        assert_eq!(tee.end().status, Some(0));
        source.send_to(b"early", LISTEN).unwrap();
    }
}

#[test]
fn a_passed_admin_socket_answers_whoever_came_before_the_start() {
    let Some(machine) = Machine::new() else { return };
    let admin = machine.run(|| TcpListener::bind(ADMIN).unwrap());
    for name in ["", "admin"] {
        let mut early = machine.run(|| TcpStream::connect(ADMIN).unwrap());
        early.set_read_timeout(Some(PATIENCE)).unwrap();
        early.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").unwrap();
        let arguments = ["tee", "--listen", LISTEN, "--to", SINK, "--admin", ADMIN];
        let (command, copies) = passing(&arguments, &[&admin], name);
        let mut tee = machine.start(command);
        drop(copies);
        let mut answer = String::new();
        early.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
        assert!(machine.get("/readyz").0.contains(" 200 "));
        assert_eq!(tee.end().status, Some(0));
    }
}

/// What holds for a tee holds for whatever is run as a service.
#[test]
fn a_watch_is_a_service_as_well() {
    let Some(machine) = Machine::new() else { return };
    let admin = machine.run(|| TcpListener::bind(ADMIN).unwrap());
    let arguments = ["loss", "watch", "--json", "--trace", "off", "--interval", "1h", "--admin", ADMIN];
    let (command, copies) = passing(&arguments, &[&admin], "admin");
    let mut watch = machine.run(|| Started::quiet(command));
    drop(copies);
    assert!(machine.get("/readyz").0.contains(" 200 "));
    let first = watch.next_line().unwrap();
    watch.signal(Signal::SIGUSR1);
    // Of two signals that wait the lower number is heard first.
    watch.signal(Signal::SIGTERM);
    assert_eq!(watch.notified(), "STOPPING=1\nSTATUS=reading the last counters\n");
    let ended = watch.wait();
    assert_eq!(ended.status, Some(0));
    // The ledger on demand is the same snapshot once more, the last one is new.
    let rest: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_eq!(rest[0], first);
    assert_ne!(rest[1], first);
}

#[test]
fn a_socket_that_cannot_be_taken_is_a_line() {
    let Some(machine) = Machine::new() else { return };
    let stray = machine.udp("127.0.0.1:5700");
    let [admin, elsewhere] = ["127.0.0.1:5701", ADMIN].map(|at| machine.run(|| TcpListener::bind(at).unwrap()));
    let connection = machine.run(|| TcpStream::connect(ADMIN).unwrap());
    let (accepted, _) = elsewhere.accept().unwrap();
    let cases: [(&[&dyn AsFd], &str, &str); 5] = [
        (&[&stray], "stray", "nothing listens on udp 127.0.0.1:5700 (stray) ("),
        (&[&stray], "admin", "nothing listens on udp 127.0.0.1:5700 (admin) ("),
        (&[&admin], "admin", "admin is passed 127.0.0.1:5701, and its address is 127.0.0.1:9514 ("),
        (&[&elsewhere, &elsewhere], "admin:admin", "admin is passed 127.0.0.1:9514 more than once ("),
        (&[&accepted], "admin", "admin is passed a connection ("),
    ];
    for (sockets, names, expected) in cases {
        let arguments = ["tee", "--listen", LISTEN, "--to", SINK, "--admin", ADMIN];
        let (mut command, _copies) = passing(&arguments, sockets, names);
        let Ended { status, stderr, .. } = machine.run(|| Ended::of(&mut command));
        assert_eq!(status, Some(1), "{stderr}");
        let expected = format!("weir: socket activation: {expected}");
        assert!(stderr.starts_with(&expected) && stderr.lines().count() == 1, "{stderr}");
    }
    drop(connection);
}
