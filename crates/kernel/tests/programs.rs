//! Programs on emulated hosts: they see their own machine, report their end, and never outlive their owner.
//!
//! This binary plays the owner, too, so it has its own `main`.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, process};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{geteuid, getpgrp, tcgetpgrp};
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::{Program, init_if_asked};
use weir_kernel::namespaces::user::{self, Privilege, obtain_network_privilege};
use weir_testbed::user_namespaces;

fn main() {
    init_if_asked();
    let role = env::var(ROLE).unwrap_or_default();
    match role.as_str() {
        "owner" => own_a_program(),
        "ordinary user" => be_an_ordinary_user(),
        "shell" => run_a_shell(),
        _ => {}
    }
    if !geteuid().is_root() {
        // As an ordinary user everything happens inside a user namespace.
        assert_eq!(obtain_network_privilege(), Ok(Privilege::UserNamespace));
    }
    let filter = env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&filter)) {
        test();
        println!("test {name} ... ok");
    }
}

const TESTS: &[(&str, fn())] = &[
    ("exit_statuses_are_those_of_a_shell", exit_statuses_are_those_of_a_shell),
    ("a_program_sees_its_own_machine", a_program_sees_its_own_machine),
    ("what_a_program_leaves_behind_ends_with_it", what_a_program_leaves_behind_ends_with_it),
    ("waiting_can_time_out", waiting_can_time_out),
    ("dropping_kills", dropping_kills),
    ("kill_9_of_the_owner_leaves_nothing", kill_9_of_the_owner_leaves_nothing),
    ("an_ordinary_user_needs_no_root", an_ordinary_user_needs_no_root),
    ("a_shell_has_job_control", a_shell_has_job_control),
];

/// Tells this binary what to be.
const ROLE: &str = "WEIR_TEST_ROLE";

fn shell<'a>(ns: &'a NetNs, script: &str) -> Program<'a> {
    Program::new(ns, "h1", "sh").args(["-c", script])
}

fn output(ns: &NetNs, script: &str) -> String {
    let program = shell(ns, script).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (status, stdout, stderr) = program.spawn().unwrap().output().unwrap();
    assert_eq!((status, String::from_utf8(stderr).unwrap().as_str()), (0, ""));
    String::from_utf8(stdout).unwrap()
}

fn exit_statuses_are_those_of_a_shell() {
    let ns = NetNs::create().unwrap();
    let status = |script| shell(&ns, script).run(&[], Duration::ZERO).unwrap();
    assert_eq!(status("exit 0"), 0);
    assert_eq!(status("exit 7"), 7);
    assert_eq!(status("kill -KILL $$"), 137);
    assert_eq!(status("kill -TERM $$"), 143);

    let missing = Program::new(&ns, "h1", "no-such-program").spawn().unwrap_err();
    assert_eq!(missing.to_string(), "run no-such-program: no such file or directory");
    let directory = Program::new(&ns, "h1", "/").spawn().unwrap_err();
    assert_eq!(directory.errno(), Some(Errno::EACCES));

    // From the moment `spawn` returns, a signal reaches the program, and it may have an answer.
    for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGKILL, 137)] {
        let mut sleep = Program::new(&ns, "h1", "sleep").args(["1000"]).spawn().unwrap();
        sleep.signal(signal).unwrap();
        assert_eq!(sleep.wait().unwrap(), status);
        sleep.signal(signal).unwrap();
    }
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let mut polite = shell(&ns, script).stdout(Stdio::piped()).spawn().unwrap();
    polite.take_stdout().unwrap().read_exact(&mut [0; 6]).unwrap();
    polite.signal(Signal::SIGTERM).unwrap();
    assert_eq!(polite.wait().unwrap(), 9);
}

fn a_program_sees_its_own_machine() {
    let ns = NetNs::create().unwrap();
    assert_eq!(output(&ns, "uname -n"), "h1\n");
    assert_eq!(output(&ns, "echo $$"), "2\n");
    assert_eq!(output(&ns, "ls /sys/class/net"), "lo\n");
    assert_eq!(output(&ns, "cd /proc; echo [0-9]*"), "1 2\n");
    assert_eq!(output(&ns, "grep -c . /proc/net/dev"), "3\n");
    let inode = ns.run(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino()).unwrap();
    assert_eq!(output(&ns, "readlink /proc/self/ns/net"), format!("net:[{inode}]\n"));
    // No descriptor of ours leaks, nothing stays blocked or ignored: all as in a program started without us.
    let inherited = "ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let plain =
        Command::new("sh").args(["-c", inherited]).stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output(&ns, inherited), String::from_utf8(plain.stdout).unwrap());
    let greeting = Program::new(&ns, "h1", "env").env("GREETING", "hello").current_dir("/").stdout(Stdio::piped());
    let (_, stdout, _) = greeting.spawn().unwrap().output().unwrap();
    assert!(String::from_utf8(stdout).unwrap().contains("GREETING=hello\n"));
}

fn what_a_program_leaves_behind_ends_with_it() {
    let ns = NetNs::create().unwrap();
    // The left-over holds the pipe: reading ends when it does.
    assert_eq!(output(&ns, "setsid sleep 1000 & echo started"), "started\n");
}

fn waiting_can_time_out() {
    let ns = NetNs::create().unwrap();
    let mut cat = Program::new(&ns, "h1", "cat").stdin(Stdio::piped()).spawn().unwrap();
    assert_eq!(cat.wait_timeout(Duration::ZERO).unwrap(), None);
    assert_eq!(cat.wait_timeout(Duration::from_millis(20)).unwrap(), None);
    drop(cat.take_stdin());
    assert_eq!(cat.wait_timeout(Duration::from_secs(20)).unwrap(), Some(0));
    assert_eq!(cat.wait().unwrap(), 0);
}

fn dropping_kills() {
    let ns = NetNs::create().unwrap();
    let mut sleep = Program::new(&ns, "h1", "sleep").args(["1000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = sleep.take_stdout().unwrap();
    drop(sleep);
    assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
}

/// Starts this binary in another role.
fn play(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE, role).stdin(Stdio::null());
    command
}

fn kill_9_of_the_owner_leaves_nothing() {
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = mounts();
    // Half of the owners die while they start, at points spread over that time; half when everything runs.
    for round in 0..20u32 {
        let mut owner: Child = play("owner").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
        let network: u64 = lines.next().unwrap().unwrap().parse().unwrap();
        if round % 2 == 0 {
            assert_eq!(lines.next().unwrap().unwrap(), "all run");
        } else {
            let nanoseconds = round * 500_000;
            std::thread::sleep(Duration::from_nanos(nanoseconds.into()));
        }
        owner.kill().unwrap();
        owner.wait().unwrap();
        // Every descendant holds the pipe, so its end is the end of them all, but for the last steps of the last: descriptors
        // are closed before the network is left (kernel/exit.c, do_exit).
        assert!(lines.all(|line| line.unwrap() == "all run"));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !processes_in(network).is_empty() {
            assert!(Instant::now() < deadline, "round {round}: {:?}", processes_in(network));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(mounts(), before, "round {round}");
    }
}

/// The owner: holds a network and runs a program with children that try to get away.
fn own_a_program() -> ! {
    let ns = NetNs::create().unwrap();
    let other = NetNs::create().unwrap();
    let end = |ns, name| VethEnd { ns, name, mac: MacAddress::local(1), mtu: 1500, queue_length: 100 };
    Netlink::open(&ns).unwrap().add_veth(&end(&ns, "eth0"), &end(&other, "eth0")).unwrap();
    println!("{}", File::from(ns.as_fd().try_clone_to_owned().unwrap()).metadata().unwrap().ino());
    let script = "trap '' HUP TERM INT; setsid sleep 1000 & (sleep 1000 &); echo all run; wait";
    let mut program = shell(&ns, script).spawn().unwrap();
    let status = program.wait().unwrap();
    panic!("the program ended by itself: {status}");
}

fn processes_in(network: u64) -> Vec<String> {
    let is_inside = |path: &std::path::Path| fs::metadata(path.join("ns/net")).is_ok_and(|ns| ns.ino() == network);
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(|path| is_inside(path)).map(|path| path.display().to_string()).collect()
}

fn an_ordinary_user_needs_no_root() {
    let mut command = play("ordinary user");
    // A directory in PATH that may not be searched would make a missing program a forbidden one.
    command.env("PATH", "/usr/bin:/bin");
    // Inside a user namespace with a single user this process is an ordinary one already.
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    if geteuid().is_root() && users.split_whitespace().nth(2) != Some("1") {
        if !user_namespaces(Some(65534)) {
            return;
        }
        command.uid(65534).gid(65534);
    }
    assert!(command.status().unwrap().success());
}

fn be_an_ordinary_user() -> ! {
    if user::current().is_ok() && !geteuid().is_root() {
        assert_eq!(obtain_network_privilege(), Ok(Privilege::UserNamespace));
    }
    assert!(geteuid().is_root());
    let ns = NetNs::create().unwrap();
    let other = NetNs::create().unwrap();
    let mut netlink = Netlink::open(&ns).unwrap();
    let end = |ns, name| VethEnd { ns, name, mac: MacAddress::local(1), mtu: 1500, queue_length: 100 };
    netlink.add_veth(&end(&ns, "eth0"), &end(&other, "eth0")).unwrap();
    netlink.set_loopback_up().unwrap();
    exit_statuses_are_those_of_a_shell();
    assert_eq!(
        output(&ns, "uname -n; id -u; cd /proc; echo [0-9]*; cd /sys/class/net; echo *"),
        "h1\n0\n1 2\neth0 lo\n"
    );
    process::exit(0);
}

fn a_shell_has_job_control() {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let stdio = || Stdio::from(terminal.slave.try_clone().unwrap());
    // `setsid` executes this binary by its name: /proc/self/exe would be itself.
    let myself = fs::read_link("/proc/self/exe").unwrap();
    let mut child = Command::new("setsid")
        .args(["--ctty", "--wait"])
        .arg(myself)
        .env(ROLE, "shell")
        .stdin(stdio())
        .stdout(stdio())
        .stderr(stdio())
        .spawn()
        .unwrap();
    drop(terminal.slave);
    let mut screen = Screen { master: File::from(terminal.master), seen: String::new() };
    screen.type_in("echo re''ady\n");
    screen.await_text("ready\r\n");
    screen.type_in("sh -c 'echo run''ning; exec sleep 1000'\n");
    screen.await_text("running\r\n");
    screen.type_in("\x03");
    screen.type_in("echo status=$?\n");
    screen.await_text("status=130\r\n");
    screen.type_in("sh -c 'echo aga''in; exec sleep 1000'\n");
    screen.await_text("again\r\n");
    screen.type_in("\x1a");
    screen.await_text("Stopped");
    screen.type_in("kill %1; fg; echo status=$?\n");
    screen.await_text("status=143\r\n");
    screen.type_in("exit 3\n");
    screen.await_text("shell ended: 3, terminal is ours: true\r\n");
    assert!(child.wait().unwrap().success());
}

fn run_a_shell() -> ! {
    let ns = NetNs::create().unwrap();
    let shell = Program::new(&ns, "h1", "bash").args(["--norc", "--noprofile", "--noediting", "-i"]);
    let status = shell.run(&[], Duration::ZERO).unwrap();
    let ours = tcgetpgrp(io::stdin()).unwrap() == getpgrp();
    println!("shell ended: {status}, terminal is ours: {ours}");
    process::exit(0);
}

/// The far side of a pseudo terminal.
struct Screen {
    master: File,
    seen: String,
}

impl Screen {
    fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    fn await_text(&mut self, text: &str) {
        let mut bytes = [0; 1024];
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let mut events = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut events, PollTimeout::from(20_000u16)).unwrap();
            assert_eq!(ready, 1, "waiting for {text:?} after {:?}", self.seen);
            let length = self.master.read(&mut bytes).unwrap_or_else(|error| panic!("{error} after {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    }
}
