//! Whoever is asked to end twice in a row, as `timeout` asks (its child, then the child's group), still reports.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Signals a process, and once more as soon as the first has been taken: signals that are pending are one.
pub(super) fn signal_twice(process: &Child, signal: Signal) {
    let id = Pid::from_raw(process.id() as i32);
    kill(id, signal).unwrap();
    while pending(process.id(), signal) {
        thread::yield_now();
    }
    // It may have ended; it has not been waited for, so the number is still its own.
    kill(id, signal).unwrap();
}

/// ShdPnd of proc_pid_status(5): bit n - 1 for signal n.
fn pending(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal as i32 - 1) & 1 == 1
}

const SIGNALS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// A command that goes on.
struct Going {
    child: Child,
    /// The last line that was read of what it says on standard error.
    line: String,
    stderr: BufReader<ChildStderr>,
}

impl Going {
    fn spawn(command: &mut Command) -> Going {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Going { child, line: String::new(), stderr }
    }

    /// One that has said a line that begins so.
    fn start(program: &[&str], says: &str) -> Going {
        let mut going = Going::spawn(Command::new(program[0]).args(&program[1..]));
        while going.line.is_empty() || !going.line.starts_with(says) {
            going.line.clear();
            assert!(going.stderr.read_line(&mut going.line).unwrap() > 0, "{program:?} never said {says:?}");
        }
        going
    }

    /// Status, standard output, and what else it said.
    fn end(mut self) -> (ExitStatus, String, String) {
        let (mut stdout, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), stdout, said)
    }

    #[track_caller]
    fn json(self) -> Value {
        let (status, stdout, said) = self.end();
        assert!(status.success(), "{status}: {said}");
        serde_json::from_str(&stdout).unwrap()
    }
}

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

#[test]
fn a_receiver_tells_what_it_received() {
    for signal in SIGNALS {
        let receiver = Going::start(&[WEIR, "recv", "--listen", "127.0.0.1:0", "--json"], "listening");
        signal_twice(&receiver.child, signal);
        assert_eq!(receiver.json()["sessions"], Value::Array(Vec::new()), "{signal}");
    }
}

#[test]
fn a_sender_tells_what_it_sent() {
    for signal in SIGNALS {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap().to_string();
        let mut command = Command::new(WEIR);
        command.args(["send", "--to", &to, "--duration", "1h", "--interval", "1h", "--json"]);
        let sender = Going::spawn(&mut command);
        receiver.recv(&mut [0; 2000]).unwrap();
        signal_twice(&sender.child, signal);
        let sent = sender.json();
        assert_eq!((&sent["sent"], &sent["stopped"]), (&1.into(), &true.into()), "{signal}");
    }
}

#[test]
fn an_account_is_closed() {
    for signal in SIGNALS {
        let account = Going::start(&[WEIR, "loss", "account", "--port", "9", "--trace", "off", "--json"], "following");
        signal_twice(&account.child, signal);
        assert!(account.json()["ledgers"].is_array(), "{signal}");
    }
}

#[test]
fn a_watch_ends_with_a_last_line() {
    for signal in SIGNALS {
        let watch = Going::start(&[WEIR, "loss", "watch", "--trace", "off", "--interval", "1h", "-v"], "");
        signal_twice(&watch.child, signal);
        let (status, stdout, said) = watch.end();
        assert!(status.success() && stdout.contains(" socket"), "{signal}, {status}: {stdout}{said}");
    }
}

#[test]
fn a_watch_that_prints_lines_prints_its_ledger_when_asked() {
    let mut watch = Going::spawn(Command::new(WEIR).args(["loss", "watch", "--trace", "off", "-v"]));
    let mut stdout = BufReader::new(watch.child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains(" socket"), "{line}");
    let id = Pid::from_raw(watch.child.id() as i32);
    kill(id, Signal::SIGUSR1).unwrap();
    while !line.starts_with('{') {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended without");
    }
    assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
    kill(id, Signal::SIGTERM).unwrap();
    stdout.read_to_string(&mut line).unwrap();
    assert!(watch.child.wait().unwrap().success());
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
    let program = format!("trap '' HUP; exec {WEIR} recv --listen 127.0.0.1:0 --json");
    let receiver = Going::start(&["sh", "-c", &program], "listening");
    signal_twice(&receiver.child, Signal::SIGHUP);
    // A hangup that counted would be the first request to end, and this one the same: it is the first.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.line.rsplit(' ').next().unwrap().trim();
    // Message 0 of session 3, 16 bytes, as the documented layout has it.
    socket.send_to(&[0xa7, 0x20, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], to).unwrap();
    kill(Pid::from_raw(receiver.child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(receiver.json()["sessions"][0]["received"], 1);
}
