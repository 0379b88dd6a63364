//! Whoever is asked to end twice in a row, as `timeout` asks (its child, then the child's group), still reports.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weir_testbed::Started;

use crate::{WEIR, weir};

/// Signals a process, and once more as soon as the first has been taken: signals that are pending are one.
pub(super) fn ask_twice(process: Pid, signal: Signal) {
    kill(process, signal).unwrap();
    while pending(process, signal) {
        thread::yield_now();
    }
    // It may have ended; it has not been waited for, so the number is still its own.
    kill(process, signal).unwrap();
}

/// ShdPnd of proc_pid_status(5): bit n - 1 for signal n.
fn pending(process: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal as i32 - 1) & 1 == 1
}

const SIGNALS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

#[test]
fn a_receiver_tells_what_it_received() {
    for signal in SIGNALS {
        let mut receiver = Started::saying("listening", weir(&["recv", "--listen", "127.0.0.1:0", "--json"]));
        ask_twice(receiver.pid(), signal);
        assert_eq!(receiver.wait().json()["sessions"], Value::Array(Vec::new()), "{signal}");
    }
}

#[test]
fn a_sender_tells_what_it_sent() {
    for signal in SIGNALS {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap().to_string();
        let mut sender = Started::spawn(weir(&["send", "--to", &to, "--duration", "1h", "--interval", "1h", "--json"]));
        receiver.recv(&mut [0; 2000]).unwrap();
        ask_twice(sender.pid(), signal);
        let sent = sender.wait().json();
        assert_eq!((&sent["sent"], &sent["stopped"]), (&1.into(), &true.into()), "{signal}");
    }
}

#[test]
fn an_account_is_closed() {
    for signal in SIGNALS {
        let account = ["loss", "account", "--port", "9", "--trace", "off", "--json"];
        let mut account = Started::saying("following", weir(&account));
        ask_twice(account.pid(), signal);
        assert!(account.wait().json()["ledgers"].is_array(), "{signal}");
    }
}

#[test]
fn a_watch_ends_with_a_last_line() {
    for signal in SIGNALS {
        let watch = ["loss", "watch", "--trace", "off", "--interval", "1h", "-v"];
        let mut watch = Started::saying("", weir(&watch));
        ask_twice(watch.pid(), signal);
        let ended = watch.wait();
        assert!(ended.status == Some(0) && ended.stdout.contains(" socket"), "{signal}: {ended:?}");
    }
}

#[test]
fn a_watch_that_prints_lines_prints_its_ledger_when_asked() {
    let mut watch = Started::saying("ready", weir(&["loss", "watch", "--trace", "off", "-v"]));
    watch.signal(Signal::SIGUSR1);
    let ledger = std::iter::from_fn(|| watch.next_line()).find(|line| line.starts_with('{')).unwrap();
    assert!(serde_json::from_str::<Value>(&ledger).is_ok(), "{ledger}");
    assert_eq!(watch.end().status, Some(0));
}

/// Whoever runs the tests may ignore signals (`nohup`, a shell's `&`), which what they start inherits: not here, see
/// crates/testbed/src/sys.rs. The one who ignores them is this test in another process.
#[test]
fn what_a_test_starts_ignores_no_signal() {
    const NAME: &str = "endings::what_a_test_starts_ignores_no_signal";
    if std::env::var_os("WEIR_TEST_ROLE").is_some() {
        let status = Command::new("cat").arg("/proc/self/status").output().unwrap().stdout;
        let status = String::from_utf8(status).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        for signal in SIGNALS.into_iter().chain([Signal::SIGQUIT]) {
            assert_eq!(ignored >> (signal as i32 - 1) & 1, 0, "{signal} is ignored");
        }
        return;
    }
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP INT QUIT TERM; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", NAME]).env("WEIR_TEST_ROLE", "ignoring").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn nohup_outlives_its_terminal() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" recv --listen 127.0.0.1:0 --json", &WEIR]).stdin(Stdio::null());
    let mut receiver = Started::saying("listening", command);
    ask_twice(receiver.pid(), Signal::SIGHUP);
    // A hangup that counted would be the first request to end, and this one the same: it is the first.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let line = receiver.line("listening");
    let to = line.rsplit(' ').next().unwrap();
    // Message 0 of session 3, 16 bytes, as the documented layout has it.
    socket.send_to(&[0xa7, 0x20, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], to).unwrap();
    assert_eq!(receiver.end().json()["sessions"][0]["received"], 1);
}
