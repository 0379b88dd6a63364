//! What a service gives up and takes over: capabilities, its user, sockets.
//!
//! All three belong to a process that has just started, so this binary plays the services, too, and has its own `main`.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{env, fs, io, process};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use weir_kernel::activation::inherited;
use weir_kernel::capabilities::{Capability, User, as_user, effective, has, keep_only};
use weir_kernel::confinement::{Enforced, confine};
use weir_kernel::namespaces::process::init_if_asked;
use weir_kernel::namespaces::user::{Privilege, obtain_network_privilege};

fn main() {
    init_if_asked();
    match env::var(ROLE).unwrap_or_default().as_str() {
        "keeper" => keep_one_capability(),
        "reducer" => become_another_user(),
        "listener" => take_over_sockets(),
        "visitor" => be_another_user_for_a_moment(),
        "confined" => open_files(),
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
    ("all_but_the_kept_capabilities_are_gone_for_good", all_but_the_kept_capabilities_are_gone_for_good),
    ("another_user_keeps_what_is_kept", another_user_keeps_what_is_kept),
    ("another_user_for_a_moment_may_what_that_one_may", another_user_for_a_moment_may_what_that_one_may),
    ("what_is_confined_writes_nothing_else", what_is_confined_writes_nothing_else),
    ("announced_sockets_are_taken_over_once", announced_sockets_are_taken_over_once),
];

/// Tells this binary what to be.
const ROLE: &str = "WEIR_TEST_ROLE";

/// Tells it where it may make files.
const DIRECTORY: &str = "WEIR_TEST_DIRECTORY";

/// Starts this binary in another role.
fn play(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// The lines that the role printed; it must have gone well.
fn said(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

fn status() -> HashMap<String, String> {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let field = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    text.lines().filter_map(field).collect()
}

/// CAP_NET_BIND_SERVICE is bit 10 (include/uapi/linux/capability.h).
const BIND_ONLY: &str = "0000000000000400";
const NONE: &str = "0000000000000000";

fn all_but_the_kept_capabilities_are_gone_for_good() {
    said(&play("keeper").output().unwrap());
}

fn keep_one_capability() -> ! {
    // A network of its own, in which ports below 1024 are privileged.
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    assert!(has(Capability::CAP_NET_RAW) && effective().unwrap().len() > 5);
    let kept = keep_only(&[Capability::CAP_NET_BIND_SERVICE], None).unwrap();
    assert_eq!(kept, [Capability::CAP_NET_BIND_SERVICE]);
    assert!(has(Capability::CAP_NET_BIND_SERVICE) && !has(Capability::CAP_NET_RAW));
    let now = status();
    for (set, expected) in
        [("CapEff", BIND_ONLY), ("CapPrm", BIND_ONLY), ("CapBnd", BIND_ONLY), ("CapInh", NONE), ("CapAmb", NONE)]
    {
        assert_eq!(now[set], expected, "{set}");
    }
    assert_eq!(now["NoNewPrivs"], "1");
    // Threads started from here on inherit it.
    std::thread::spawn(|| UdpSocket::bind("0.0.0.0:514").unwrap()).join().unwrap();
    assert_eq!(unshare(CloneFlags::CLONE_NEWNET).unwrap_err(), nix::errno::Errno::EPERM);

    assert_eq!(keep_only(&[], None).unwrap(), []);
    assert_eq!(UdpSocket::bind("0.0.0.0:515").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    // What was given up does not come back, nor do programs have more.
    assert_eq!(keep_only(&[Capability::CAP_NET_BIND_SERVICE], None).unwrap(), []);
    let program = Command::new("grep").args(["CapEff", "/proc/self/status"]).output().unwrap();
    assert!(String::from_utf8(program.stdout).unwrap().trim_end().ends_with(NONE));
    process::exit(0);
}

fn another_user_keeps_what_is_kept() {
    said(&play("reducer").output().unwrap());
}

fn become_another_user() -> ! {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    // Inside a user namespace with a single user there is no other to become.
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    let alone = users.split_whitespace().nth(2) == Some("1");
    let id = if alone { "0" } else { "65534" };
    let user = User::find(&format!("{id}:{id}")).unwrap();
    let kept = keep_only(&[Capability::CAP_NET_BIND_SERVICE, Capability::CAP_NET_ADMIN], Some(&user)).unwrap();
    assert_eq!(kept, [Capability::CAP_NET_BIND_SERVICE, Capability::CAP_NET_ADMIN]);
    let now = status();
    for ids in ["Uid", "Gid"] {
        assert_eq!(now[ids].split_whitespace().collect::<Vec<_>>(), [id; 4], "{ids}");
    }
    assert!(alone || now["Groups"].is_empty(), "{}", now["Groups"]);
    drop(UdpSocket::bind("0.0.0.0:514").unwrap());

    let back = keep_only(&[], Some(&User::find("1:1").unwrap())).unwrap_err().to_string();
    let refused = "become user 1:1: operation not permitted (needs CAP_SETUID and CAP_SETGID)";
    assert_eq!(back, refused);
    process::exit(0);
}

fn another_user_for_a_moment_may_what_that_one_may() {
    // Inside a user namespace with a single user there is no other.
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    if users.split_whitespace().nth(2) == Some("1") {
        return weir_testbed::skip("needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    said(&play("visitor").env(DIRECTORY, dir.path()).output().unwrap());
}

fn be_another_user_for_a_moment() -> ! {
    let before = status();
    let dir = PathBuf::from(env::var_os(DIRECTORY).unwrap());
    let (closed, open) = (dir.join("closed"), "/proc/self/status");
    fs::write(&closed, "secret").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let read = as_user(&User::nobody(), || {
        let of = |field: &str| {
            fs::read_to_string(open).unwrap().lines().find(|it| it.starts_with(field)).unwrap().to_owned()
        };
        (of("Uid"), of("CapEff"), fs::read_to_string(&closed).unwrap_err().kind())
    });
    let (uid, effective, error) = read.unwrap().unwrap();
    assert_eq!(uid.split_whitespace().nth(2), Some("65534"), "{uid}");
    assert!(effective.ends_with(NONE), "{effective}");
    assert_eq!(error, io::ErrorKind::PermissionDenied);
    let after = status();
    for field in ["Uid", "Gid", "Groups", "CapEff", "CapPrm"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(fs::read_to_string(&closed).unwrap(), "secret");
    let refused = std::thread::spawn(|| as_user(&User::nobody(), || ()).unwrap_err().to_string()).join().unwrap();
    assert!(refused.contains("threads already"), "{refused}");
    process::exit(0);
}

fn what_is_confined_writes_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    said(&play("confined").env(DIRECTORY, dir.path()).output().unwrap());
}

/// Written where that is permitted, made, renamed and executed elsewhere.
fn open_files() -> ! {
    let dir = PathBuf::from(env::var_os(DIRECTORY).unwrap());
    let (own, elsewhere) = (dir.join("own"), dir.join("file"));
    fs::create_dir(&own).unwrap();
    fs::write(&elsewhere, "before").unwrap();
    let held = fs::File::options().append(true).open(&elsewhere).unwrap();
    keep_only(&[], None).unwrap();
    if confine(std::slice::from_ref(&own)).unwrap() == Enforced::Nothing {
        weir_testbed::skip("the kernel has no Landlock");
        process::exit(0);
    }
    let denied = |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    denied(fs::write(&elsewhere, "after"));
    denied(fs::write(dir.join("new"), "new"));
    denied(fs::remove_file(&elsewhere));
    denied(Command::new("true").status().map(drop));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "before");
    fs::read_to_string("/proc/self/status").unwrap();
    // What was open stays so, and the own folder is as before.
    io::Write::write_all(&mut &held, b" and after").unwrap();
    let (new, kept) = (own.join("file.new"), own.join("file"));
    fs::write(&new, "new").unwrap();
    fs::rename(&new, &kept).unwrap();
    fs::hard_link(&kept, own.join("file.aside")).unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "new");
    std::thread::spawn(move || denied(fs::write(&elsewhere, "after"))).join().unwrap();
    fs::write("/dev/null", "gone").unwrap();
    process::exit(0);
}

/// Descriptors 3 and 4 are sockets, as a service manager passes them.
fn announced_sockets_are_taken_over_once() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    // Copies that the shell inherits, above the numbers that it gives them.
    let copy = |socket: BorrowedFd<'_>| {
        let number = fcntl(socket, FcntlArg::F_DUPFD(10)).unwrap();
        (number, Copy(number))
    };
    let listen = |names: &str, variables: &str| {
        let ((udp, _udp), (tcp, _tcp)) = (copy(udp.as_fd()), copy(tcp.as_fd()));
        // Its process is the program's, too.
        let script = format!(
            "export LISTEN_PID=$$ LISTEN_FDNAMES={names} {variables}; exec {} 3<&{udp} 4<&{tcp} {udp}<&- {tcp}<&-",
            env::current_exe().unwrap().display(),
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).env(ROLE, "listener").stdin(Stdio::null()).stderr(Stdio::inherit());
        said(&shell.output().unwrap())
    };
    let (udp_line, tcp_line) = (udp.local_addr().unwrap().to_string(), tcp.local_addr().unwrap().to_string());
    assert_eq!(
        listen("syslog:", "LISTEN_FDS=2"),
        [format!("Some(\"syslog\") {udp_line}"), format!("None {tcp_line}"), "again: 0".into()]
    );
    assert_eq!(listen("a:b", "LISTEN_FDS=1"), [format!("Some(\"a\") {udp_line}"), "again: 0".into()]);
    // Meant for another process.
    assert_eq!(listen("a:b", "LISTEN_FDS=2 LISTEN_PID=1"), ["again: 0"]);
    // More than there are.
    let failed = listen("a:b", "LISTEN_FDS=4000");
    assert!(failed[0].starts_with("take over descriptor ") && failed[0].contains("bad file"), "{failed:?}");
}

/// A descriptor by its number, closed when dropped.
struct Copy(RawFd);

impl Drop for Copy {
    fn drop(&mut self) {
        nix::unistd::close(self.0).unwrap();
    }
}

fn take_over_sockets() -> ! {
    match inherited() {
        Err(error) => println!("{error}"),
        Ok(all) => {
            for one in all {
                let flags = fcntl(&one.socket, FcntlArg::F_GETFD).unwrap();
                assert_eq!(flags, FdFlag::FD_CLOEXEC.bits());
                println!("{:?} {}", one.name, UdpSocket::from(one.socket).local_addr().unwrap());
            }
            println!("again: {}", inherited().unwrap().len());
        }
    }
    process::exit(0);
}
