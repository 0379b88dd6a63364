//! `weir loss watch`: lines, metrics, the screen, what it says without privilege.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;
use weir_kernel::capabilities::Capability::{
    self, CAP_BPF, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYSLOG,
};
use weir_kernel::namespaces::NetNs;
use weir_testbed::{Started, await_that, http};

use super::{WEIR, weir};
use crate::service::screen::Terminal;
use crate::service::{ADMIN, Machine};

/// A socket that takes few of many datagrams; how many it was sent, and how many it read.
pub(super) struct Full {
    socket: UdpSocket,
    sent: u64,
    pub(super) read: u64,
}

impl Full {
    pub(super) fn fill(machine: &Machine) -> Full {
        let socket = machine.udp(FULL);
        setsockopt(&socket, sockopt::RcvBuf, &4096).unwrap();
        let source = machine.udp("127.0.0.1:0");
        let sent = 100;
        for _ in 0..sent {
            source.send_to(&[7; 50], FULL).unwrap();
        }
        socket.set_nonblocking(true).unwrap();
        let mut read = 0;
        loop {
            match socket.recv(&mut [0; 100]) {
                Ok(_) => read += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!((1..sent).contains(&read));
        Full { socket, sent, read }
    }

    /// Sends more than a socket holds that nobody reads.
    pub(super) fn overflow(machine: &Machine) {
        let source = machine.udp("127.0.0.1:0");
        for _ in 0..2000 {
            source.send_to(&[7; 1000], FULL).unwrap();
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.sent - self.read
    }
}

/// The first snapshot of `--json` in which eBPF is attached, or refused.
#[track_caller]
pub(super) fn decided(watch: &mut Started) -> Value {
    loop {
        let snapshot = watch.json();
        if snapshot["sources"]["trace"] != "starting" {
            return snapshot;
        }
    }
}

/// `weir loss watch ...`, once it is ready.
#[track_caller]
pub(super) fn watch(machine: &Machine, command: Command) -> Started {
    let mut watch = machine.run(|| Started::spawn(command));
    while !watch.notified().starts_with("READY=1\n") {}
    watch
}

pub(super) fn only(rows: &Value, is_it: impl Fn(&Value) -> bool) -> &Value {
    let found: Vec<&Value> = rows.as_array().unwrap().iter().filter(|row| is_it(row)).collect();
    assert_eq!(found.len(), 1, "{rows:#}");
    found[0]
}

pub(super) const LINES: [&str; 7] = ["loss", "watch", "--json", "--interval", "100ms", "--port", "5517"];

#[test]
fn lines_count_the_drops_of_a_full_socket_exactly() {
    let Some(machine) = Machine::new() else { return };
    let mut service = watch(&machine, weir(&LINES));
    assert_eq!(decided(&mut service)["sources"]["trace"], "queues");
    let full = Full::fill(&machine);
    let last = service.stop();

    let socket = only(&last["sockets"], |_| true);
    assert_eq!(socket["address"], FULL);
    assert_eq!(socket["pid"], std::process::id());
    assert_eq!(socket["drops"]["total"], full.lost());
    assert_eq!(socket["received"]["total"], full.read);
    assert_eq!(socket["received_bytes"]["total"], full.read * 50);
    assert_eq!(socket["places"], serde_json::json!([{ "place": "receive_buffer", "datagrams": full.lost() }]));
    assert_eq!((&socket["queue_bytes"], &socket["buffer_bytes"]), (&0.into(), &8192.into()));
    assert!(socket["queue_max_bytes"].as_u64().unwrap() > 4096, "{socket:#}");
    let drops = only(&last["drops"], |_| true);
    assert_eq!((&drops["port"], &drops["place"]), (&5517.into(), &"receive_buffer".into()));
    assert_eq!((&drops["reason"], &drops["datagrams"]["total"]), (&"SOCKET_RCVBUFF".into(), &full.lost().into()));
    let counted = only(&last["counted"], |row| row["counter"] == "Udp.RcvbufErrors");
    assert_eq!(counted["datagrams"]["total"], full.lost());
    assert_eq!(last["sources"]["trace_missed"], 0);
    let processors = last["processors"].as_array().unwrap();
    assert!(!processors.is_empty() && processors.iter().all(|processor| processor["net_rx"].is_object()));
    drop(full.socket);
}

/// Whoever asks for the end waits for nobody who has left off reading.
#[test]
fn it_ends_though_nobody_reads() {
    let Some(machine) = Machine::new() else { return };
    let mut watch = machine.run(|| weir(&LINES).spawn().unwrap());
    let stdout = watch.stdout.take().unwrap();
    fcntl(&stdout, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let tasks = format!("/proc/{}/task", watch.id());
    await_that("a thread to wait for the pipe", || {
        let mut tasks = fs::read_dir(&tasks).unwrap().filter_map(Result::ok);
        // write(1, ...)
        tasks.any(|task| fs::read_to_string(task.path().join("syscall")).is_ok_and(|call| call.starts_with("1 0x1 ")))
    });
    // Asked once.
    kill(Pid::from_raw(watch.id().cast_signed()), Signal::SIGTERM).unwrap();
    await_that("the end", || watch.try_wait().unwrap().is_some());
    assert_eq!(watch.wait().unwrap().code(), Some(1));
    drop(stdout);
}

#[test]
fn metrics_tell_drops_by_port_and_reason() {
    let Some(machine) = Machine::new() else { return };
    let mut service = watch(&machine, weir(&["loss", "watch", "--interval", "100ms", "--admin", ADMIN]));
    let get = |path: &str| machine.run(|| http::get(ADMIN, path));
    await_that("it to be ready", || get("/readyz").status == 200);
    assert!(get("/metrics").body.contains("\nweir_loss_trace_level 2\n"));
    let full = Full::fill(&machine);
    let source = machine.udp("127.0.0.1:0");
    for _ in 0..7 {
        source.send_to(b"nobody", "127.0.0.1:5518").unwrap();
    }

    let inode = machine.run(|| NetNs::current().unwrap().inode().unwrap());
    let exposed = |begins: &str, value: u64| {
        let line = format!("\n{begins} {value}\n");
        await_that(&line, || get("/metrics").body.contains(&line));
    };
    let drops = |port, place, reason| {
        format!(
            "weir_loss_drops_datagrams_total{{namespace=\"{inode}\",port=\"{port}\",place=\"{place}\",reason=\"{reason}\"}}"
        )
    };
    exposed(&drops(5517, "receive_buffer", "SOCKET_RCVBUFF"), full.lost());
    exposed(&drops(5518, "port_closed", "NO_SOCKET"), 7);
    let of_socket = |metric: &str| {
        let text = get("/metrics").body;
        let begins = format!("{metric}{{namespace=\"{inode}\",port=\"5517\",process=");
        text.lines().find(|line| line.starts_with(&begins)).unwrap().rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(of_socket("weir_loss_socket_drops_datagrams_total"), full.lost().to_string());
    assert_eq!(of_socket("weir_loss_received_datagrams_total"), full.read.to_string());
    assert_eq!(of_socket("weir_loss_receive_buffer_bytes"), "8192.0");
    let counted = |counter: &str, place: &str| {
        format!("weir_loss_counted_datagrams_total{{namespace=\"{inode}\",counter=\"{counter}\",place=\"{place}\"}}")
    };
    exposed(&counted("Udp.NoPorts", "port_closed"), 7);

    assert_eq!(get("/healthz").status, 200);
    assert_eq!(get("/ledger").json()["version"], 1);
    service.signal(Signal::SIGTERM);
    assert!(service.notified().starts_with("STOPPING=1\n"));
    assert_eq!(service.wait().status, Some(0));
}

#[test]
fn without_privilege_it_counts_what_it_may_and_says_what_it_may_not() {
    let Some(machine) = Machine::new() else { return };
    // Root without any capability: util-linux is on every Debian.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", &WEIR]).args(LINES).stdin(Stdio::null());
    let mut service = watch(&machine, command);
    let sources = decided(&mut service)["sources"].clone();
    assert_eq!(sources["trace"], "off");
    assert!(sources["trace_refused"].as_str().unwrap().contains("CAP_BPF"), "{sources:#}");
    let full = Full::fill(&machine);
    let last = service.stop();
    let socket = only(&last["sockets"], |_| true);
    assert_eq!(socket["drops"]["total"], full.lost());
    for unknown in ["received", "received_bytes", "longest_stall_ms", "pid", "process"] {
        assert!(socket[unknown].is_null(), "{unknown} of {socket:#}");
    }
    assert_eq!(last["drops"], serde_json::json!([]));
    let counted = only(&last["counted"], |row| row["counter"] == "Udp.RcvbufErrors");
    assert_eq!(counted["datagrams"]["total"], full.lost());
}

#[test]
fn the_screen_fits_a_small_terminal() {
    let Some(machine) = Machine::new() else { return };
    for key in [b"q", b"\x03"] {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        // It ends with its terminal, whose far side is the test's alone.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let stdio = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", &WEIR, "loss", "watch"]);
        command.env("TERM", "xterm").stdin(stdio()).stdout(stdio()).stderr(stdio());
        let full = Full::fill(&machine);
        let mut watch = machine.run(|| command.spawn().unwrap());
        drop((command, pty.slave));
        let mut terminal = Terminal::new(pty.master, &size);
        terminal.await_text("q: end");
        terminal.await_text(FULL);
        // Attached meanwhile; what was lost before is not this watch's.
        terminal.await_that("rates", |screen| !screen.contents().contains("being attached"));
        drop(full);
        let _full = Full::fill(&machine);
        terminal.await_text("receive buffer full");
        terminal.await_text("weir loss check computes it");
        terminal.master.write_all(b"p").unwrap();
        terminal.master.write_all(key).unwrap();
        terminal.await_that("the terminal as it was", |screen| !screen.alternate_screen());
        terminal.await_text("1 socket in ");
        assert!(watch.wait().unwrap().success());
    }
}

/// Whatever else root may do, nobody who speaks to the admin address can have it do.
#[test]
fn it_keeps_the_capabilities_that_readings_need_and_no_other() {
    let Some(machine) = Machine::new() else { return };
    let always = bits(&[CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE]);
    let tracing = bits(&[CAP_SYSLOG, CAP_PERFMON, CAP_BPF]);
    for (flags, kept) in [
        (&["--trace", "off"][..], always),
        (&["--trace", "off", "--user", "65534"], always),
        (&[], always | tracing),
        (&["--netns", "all"], always | tracing | bits(&[CAP_SYS_ADMIN])),
    ] {
        let mut service = watch(&machine, weir(&[&["loss", "watch", "--admin", ADMIN], flags].concat()));
        for set in ["CapEff", "CapPrm"] {
            let had = capabilities(Pid::this(), set);
            assert_eq!(capabilities(service.pid(), set), had & kept, "{set} of {flags:?}");
        }
        assert_eq!(service.end().status, Some(0), "{flags:?}");
    }
}

fn bits(capabilities: &[Capability]) -> u64 {
    capabilities.iter().map(Capability::bitmask).sum()
}

/// A set of a process (proc_pid_status(5)).
fn capabilities(pid: Pid, set: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(':')).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[test]
fn help_shows_every_flag() {
    let output = weir(&["loss", "watch", "--help"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!("help_watch", String::from_utf8(output.stdout).unwrap());
}

#[test]
fn mistakes_are_told_in_one_line() {
    let Some(machine) = Machine::new() else { return };
    for (arguments, status, line) in [
        (&["--netns", "no-such"][..], 1, "weir: namespace no-such: no such file in /run/netns (see `ip netns list`)\n"),
        (&["--netns", "4000000000"], 1, "weir: process 4000000000: gone\n"),
        (&["--interval", "1ms"], 2, "weir: --interval 1ms: shorter than 100ms\n"),
        (&["--netns", "all", "--netns", "no-such"], 2, "weir: --netns all: with no other\n"),
    ] {
        let output = machine.run(|| weir(&["loss", "watch"]).args(arguments).output().unwrap());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(status), line), "{arguments:?}");
    }
    // What is not there may come: that is no reason to end.
    for (arguments, note) in [
        (["--port", "77"], "port 77: nobody has bound it"),
        (["--process", "no-such"], "process no-such: no UDP socket of it (has it ended? is it another user's?)"),
    ] {
        let command = || {
            let mut command = weir(&["loss", "watch", "--duration", "1ms", "--trace", "off"]);
            command.args(arguments).output().unwrap()
        };
        let output = machine.run(command);
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && stdout.trim_end().ends_with(note), "{stdout}");
    }
}

pub(super) const FULL: &str = "127.0.0.1:5517";
