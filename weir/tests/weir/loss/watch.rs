//! `weir loss watch`: lines, metrics, the screen, what it says without privilege.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use weir_kernel::capabilities::Capability::{
    self, CAP_BPF, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYSLOG,
};
use weir_kernel::namespaces::NetNs;
use weir_testbed::standstills::Standstills;
use weir_testbed::turn;

use crate::network::await_that;
use crate::service::screen::Terminal;
use crate::service::{ADMIN, Machine, Service, WEIR, weir};

/// A socket that takes few of many datagrams; how many it was sent, and how many it read.
struct Full {
    socket: UdpSocket,
    sent: u64,
    read: u64,
}

impl Full {
    fn fill(machine: &Machine) -> Full {
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
    fn overflow(machine: &Machine) {
        let source = machine.udp("127.0.0.1:0");
        for _ in 0..2000 {
            source.send_to(&[7; 1000], FULL).unwrap();
        }
    }

    fn lost(&self) -> u64 {
        self.sent - self.read
    }
}

/// The snapshots of `--json`.
struct Lines(BufReader<ChildStdout>);

impl Lines {
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        (self.0.read_line(&mut line).unwrap() > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// The first in which eBPF is attached, or refused.
    fn decided(&mut self) -> Value {
        loop {
            let snapshot = self.next().unwrap();
            if snapshot["sources"]["trace"] != "starting" {
                return snapshot;
            }
        }
    }

    fn last(&mut self) -> Value {
        let mut last = None;
        while let Some(snapshot) = self.next() {
            last = Some(snapshot);
        }
        last.unwrap()
    }
}

fn watch(machine: &Machine, command: Command) -> (Service, Lines) {
    let mut service = Service::start(machine, command);
    let lines = Lines(BufReader::new(service.child.stdout.take().unwrap()));
    (service, lines)
}

fn only(rows: &Value, is_it: impl Fn(&Value) -> bool) -> &Value {
    let found: Vec<&Value> = rows.as_array().unwrap().iter().filter(|row| is_it(row)).collect();
    assert_eq!(found.len(), 1, "{rows:#}");
    found[0]
}

const LINES: [&str; 7] = ["loss", "watch", "--json", "--interval", "100ms", "--port", "5517"];

#[test]
fn lines_count_the_drops_of_a_full_socket_exactly() {
    let _turn = turn();
    let Some(machine) = Machine::new() else { return };
    let (mut service, mut lines) = watch(&machine, weir(&LINES));
    assert_eq!(lines.decided()["sources"]["trace"], "queues");
    let full = Full::fill(&machine);
    service.signal(Signal::SIGTERM);
    let last = lines.last();
    assert!(service.child.wait().unwrap().success());

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
    let _turn = turn();
    let Some(machine) = Machine::new() else { return };
    let mut service = Service::start(&machine, weir(&LINES));
    let stdout = service.child.stdout.take().unwrap();
    fcntl(&stdout, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let tasks = format!("/proc/{}/task", service.child.id());
    await_that("a thread to wait for the pipe", || {
        let mut tasks = fs::read_dir(&tasks).unwrap().filter_map(Result::ok);
        // write(1, ...)
        tasks.any(|task| fs::read_to_string(task.path().join("syscall")).is_ok_and(|call| call.starts_with("1 0x1 ")))
    });
    // Asked once.
    service.signal(Signal::SIGTERM);
    let mut status = None;
    await_that("the end", || {
        status = service.child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(1));
    drop(stdout);
}

/// As a DNS client makes them, and as one who looks for open ports sends: a day of it must not hide what comes later.
#[test]
fn short_lived_sockets_and_a_scan_of_ports_hide_nothing_behind_them() {
    let _turn = turn();
    let Some(machine) = Machine::new() else { return };
    let flags = ["loss", "watch", "--json", "--interval", "100ms"];
    let (mut service, mut lines) = watch(&machine, weir(&flags));
    assert_eq!(lines.decided()["sources"]["trace"], "queues");
    machine.run(|| {
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..25_000 {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            source.send_to(b"answer", socket.local_addr().unwrap()).unwrap();
            socket.recv(&mut [0; 16]).unwrap();
        }
        for port in 1..=u16::MAX {
            if port != source.local_addr().unwrap().port() {
                source.send_to(b"?", ("127.0.0.1", port)).unwrap();
            }
        }
    });
    let full = Full::fill(&machine);
    // Later than the scan has been put aside.
    for _ in 0..5 {
        lines.next().unwrap();
    }
    let late = machine.udp("127.0.0.1:5519");
    let source = machine.udp("127.0.0.1:0");
    for _ in 0..500 {
        source.send_to(b"late", "127.0.0.1:5519").unwrap();
        late.recv(&mut [0; 16]).unwrap();
    }
    service.signal(Signal::SIGTERM);
    let last = lines.last();
    assert!(service.child.wait().unwrap().success());
    let socket = |port: u16| only(&last["sockets"], |socket| socket["port"] == port);
    assert_eq!((&socket(5519)["received"]["total"], &socket(5519)["lower_bound"]), (&500.into(), &false.into()));
    let kept = |socket: &Value| socket["received"]["total"].as_u64();
    assert_eq!(kept(socket(5517)), Some(full.read), "{:#}", socket(5517));
    let lost = only(&last["drops"], |row| row["port"] == 5517 && row["reason"] == "SOCKET_RCVBUFF");
    assert_eq!(lost["datagrams"]["total"], full.lost());
    let closed = last["drops"].as_array().unwrap().iter().filter(|row| row["reason"] == "NO_SOCKET");
    let closed: u64 = closed.map(|row| row["datagrams"]["total"].as_u64().unwrap()).sum();
    assert_eq!((closed, &last["sources"]["trace_missed"]), (u64::from(u16::MAX) - 1, &0.into()));
}

#[test]
fn metrics_tell_drops_by_port_and_reason() {
    let _turn = turn();
    let Some(machine) = Machine::new() else { return };
    let mut service = Service::start(&machine, weir(&["loss", "watch", "--interval", "100ms", "--admin", ADMIN]));
    let deadline = Instant::now() + PATIENCE;
    while !machine.get("/readyz").0.contains(" 200 ") {
        assert!(Instant::now() < deadline, "{}", machine.get("/readyz").1);
    }
    assert_eq!(machine.metric("weir_loss_trace_level "), 2.0);
    let full = Full::fill(&machine);
    let source = machine.udp("127.0.0.1:0");
    for _ in 0..7 {
        source.send_to(b"nobody", "127.0.0.1:5518").unwrap();
    }

    let inode = machine.run(|| NetNs::current().unwrap().inode().unwrap());
    let exposed = |begins: &str, value: u64| {
        let text = loop {
            let text = machine.get("/metrics").1;
            let sample = text.lines().find_map(|line| line.strip_prefix(begins)?.strip_prefix(' ')?.parse().ok());
            if sample == Some(value) || Instant::now() > deadline {
                break text;
            }
        };
        assert!(text.contains(&format!("\n{begins} {value}\n")), "{begins} {value}:\n{text}");
    };
    let drops = |port, place, reason| {
        format!(
            "weir_loss_drops_datagrams_total{{namespace=\"{inode}\",port=\"{port}\",place=\"{place}\",reason=\"{reason}\"}}"
        )
    };
    exposed(&drops(5517, "receive_buffer", "SOCKET_RCVBUFF"), full.lost());
    exposed(&drops(5518, "port_closed", "NO_SOCKET"), 7);
    let of_socket = |metric: &str| {
        let text = machine.get("/metrics").1;
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

    assert!(machine.get("/healthz").0.contains(" 200 "));
    let (_, snapshot) = machine.get("/ledger");
    assert_eq!(serde_json::from_str::<Value>(&snapshot).unwrap()["version"], 1);
    service.signal(Signal::SIGTERM);
    assert!(service.hear().starts_with("STOPPING=1\n"));
    assert!(service.child.wait().unwrap().success());
}

#[test]
fn without_privilege_it_counts_what_it_may_and_says_what_it_may_not() {
    let _turn = turn();
    let Some(machine) = Machine::new() else { return };
    // Root without any capability: util-linux is on every Debian.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all", WEIR]).args(LINES);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut service, mut lines) = watch(&machine, command);
    let sources = lines.decided()["sources"].clone();
    assert_eq!(sources["trace"], "off");
    assert!(sources["trace_refused"].as_str().unwrap().contains("CAP_BPF"), "{sources:#}");
    let full = Full::fill(&machine);
    service.signal(Signal::SIGTERM);
    let last = lines.last();
    assert!(service.child.wait().unwrap().success());
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
fn the_first_screen_comes_within_a_second_and_fits_a_small_terminal() {
    let _turn = turn();
    let Some(machine) = Machine::new() else { return };
    let standstills = Standstills::watch();
    let mut fastest = Duration::MAX;
    for key in [b"q", b"\x03", b"q"] {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let stdio = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", WEIR, "loss", "watch"]);
        command.env("TERM", "xterm").stdin(stdio()).stdout(stdio()).stderr(stdio());
        let full = Full::fill(&machine);
        let start = Instant::now();
        let mut service = Service::start(&machine, command);
        drop(pty.slave);
        let mut terminal = Terminal::new(pty.master, &size);
        terminal.await_text("q: end");
        fastest = fastest.min(standstills.running(start, Instant::now()));
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
        assert!(service.child.wait().unwrap().success());
    }
    // Of three starts: the machine may be busy with something else.
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

/// Whatever else root may do, nobody who speaks to the admin address can have it do.
#[test]
fn it_keeps_the_capabilities_that_readings_need_and_no_other() {
    let _turn = turn();
    let Some(machine) = Machine::new() else { return };
    let always = bits(&[CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE]);
    let tracing = bits(&[CAP_SYSLOG, CAP_PERFMON, CAP_BPF]);
    for (flags, kept) in [
        (&["--trace", "off"][..], always),
        (&["--trace", "off", "--user", "65534"], always),
        (&[], always | tracing),
        (&["--netns", "all"], always | tracing | bits(&[CAP_SYS_ADMIN])),
    ] {
        let mut service = Service::start(&machine, weir(&[&["loss", "watch", "--admin", ADMIN], flags].concat()));
        for set in ["CapEff", "CapPrm"] {
            let had = capabilities(std::process::id(), set);
            assert_eq!(capabilities(service.child.id(), set), had & kept, "{set} of {flags:?}");
        }
        assert!(service.end().success(), "{flags:?}");
    }
}

/// What comes when capabilities have been given up: another user's program, another namespace, a function that drops.
#[test]
fn with_those_it_keeps_it_names_what_comes_later() {
    let _turn = turn();
    let (Some(machine), Some(other)) = (Machine::new(), Machine::new()) else { return };
    for user in ["0", "65534"] {
        let flags = ["--netns", "all", "--user", user];
        let (mut service, mut lines) = watch(&machine, weir(&[&LINES[..], &flags].concat()));
        assert_eq!(lines.decided()["sources"]["trace"], "queues");
        let held = OwnedFd::from(other.udp(FULL));
        let mut holder = other.run(|| Command::new("sleep").arg("1000").uid(1234).stdin(held).spawn().unwrap());
        Full::overflow(&other);
        let deadline = Instant::now() + PATIENCE;
        let (mut process, mut function) = (Value::Null, Value::Null);
        while process != "sleep" || function.as_str().is_none_or(str::is_empty) {
            let snapshot = lines.next().unwrap();
            assert!(Instant::now() < deadline, "{process} {function} {snapshot:#}");
            process = snapshot["sockets"][0]["process"].clone();
            function = snapshot["drops"][0]["function"].clone();
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        service.signal(Signal::SIGTERM);
        lines.last();
        assert!(service.child.wait().unwrap().success());
    }
}

fn bits(capabilities: &[Capability]) -> u64 {
    capabilities.iter().map(Capability::bitmask).sum()
}

/// A set of a process (proc_pid_status(5)).
fn capabilities(pid: u32, set: &str) -> u64 {
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

const FULL: &str = "127.0.0.1:5517";

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);
