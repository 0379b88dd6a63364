//! Started as root, each service becomes somebody else, and does all that it did.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use weir_testbed::{Ended, Started, await_that};

use super::{LISTEN, Machine, SINK, address, pass};
use crate::weir;

/// A folder that everybody may read, with a configuration and a folder for what the service writes.
struct Home {
    dir: TempDir,
}

impl Home {
    /// `None` where this test is not root of the whole machine, and there is nobody else to become.
    fn new(text: &str) -> Option<Self> {
        let users = fs::read_to_string("/proc/self/uid_map").unwrap();
        if !nix::unistd::geteuid().is_root() || users.split_whitespace().nth(2) == Some("1") {
            weir_testbed::skip("root, and another user to become");
            return None;
        }
        let home = Self { dir: tempfile::tempdir().unwrap() };
        fs::set_permissions(home.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(home.kept()).unwrap();
        home.write(text);
        Some(home)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("weir.toml")
    }

    /// Where the service writes.
    fn kept(&self) -> PathBuf {
        self.dir.path().join("kept")
    }

    /// `KEPT` stands for that folder.
    fn write(&self, text: &str) {
        fs::write(self.file(), text.replace("KEPT", self.kept().to_str().unwrap())).unwrap();
    }

    fn give(&self, user: u32) {
        chown(self.kept(), Some(user), Some(user)).unwrap();
    }

    fn start(&self, machine: &Machine, command: &[&str]) -> Run {
        Run(machine.start(weir(&[command, &["-c", self.file().to_str().unwrap()]].concat())))
    }
}

/// A service that runs.
struct Run(Started);

impl Run {
    /// Each thread is this user, has these capabilities and no way to more.
    #[track_caller]
    fn is_only(&self, user: &str, capabilities: u64) {
        let process = PathBuf::from(format!("/proc/{}/task", self.0.pid()));
        for thread in fs::read_dir(process).unwrap() {
            // It may end meanwhile.
            let Ok(text) = fs::read_to_string(thread.unwrap().path().join("status")) else { continue };
            let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(":\t")).collect();
            let (ids, capabilities) = ([user; 4].join("\t"), format!("{capabilities:016x}"));
            for (field, expected) in [
                ("Uid", &ids[..]),
                ("Gid", &ids[..]),
                ("CapEff", &capabilities[..]),
                ("CapPrm", &capabilities[..]),
                ("NoNewPrivs", "1"),
            ] {
                assert_eq!(fields[field], expected, "{field} of {text}");
            }
            assert!(user == "0" || fields["Groups"].trim().is_empty(), "{text}");
        }
    }

    /// Has it read its configuration again, which is right.
    fn reload(&mut self) {
        self.0.signal(Signal::SIGHUP);
        assert!(self.0.notified().starts_with("RELOADING=1\n"));
        assert!(self.0.notified().starts_with("READY=1\n"));
    }

    /// Ends it; what it has said on standard error.
    fn said(mut self) -> String {
        let ended = self.0.end();
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        ended.stderr
    }
}

const TEE: &str = "[[listener]]\naddress = \"127.0.0.1:5514\"\n[[destination]]\nto = \"127.0.0.1:5515\"\n";

/// A reload opens what it needs, with the privilege for low ports and raw sockets where there is one in use.
#[test]
fn a_tee_is_nobody() {
    let (Some(machine), Some(home)) = (Machine::new(), Home::new(TEE)) else { return };
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let mut tee = home.start(&machine, &["tee"]);
    tee.is_only(NOBODY, 0);
    pass(&source, address(LISTEN), &sink, &[b"one"]);
    home.write(&TEE.replace("5514", "5614"));
    tee.reload();
    pass(&source, address("127.0.0.1:5614"), &sink, &[b"two"]);
    assert!(!tee.said().contains("may not"));

    home.write(&(TEE.replace("5514", "514") + "source = \"kept\"\n"));
    let mut tee = home.start(&machine, &["tee"]);
    tee.is_only(NOBODY, 1 << 10 | 1 << 13);
    home.write(&(TEE.replace("5514", "515") + "source = \"kept\"\n"));
    tee.reload();
    source.send_to(b"three", "127.0.0.1:515").unwrap();
    let (mut bytes, own) = ([0; 100], source.local_addr().unwrap());
    assert_eq!(sink.recv_from(&mut bytes).unwrap(), (5, own));
    tee.said();
}

/// What a reload needs is root's alone.
#[test]
fn a_file_that_its_user_may_not_read_is_named_at_the_start() {
    let (Some(machine), Some(home)) = (Machine::new(), Home::new(TEE)) else { return };
    fs::set_permissions(home.file(), fs::Permissions::from_mode(0o600)).unwrap();
    let (sink, source) = (machine.udp(SINK), machine.udp("127.0.0.1:0"));
    let mut tee = home.start(&machine, &["tee"]);
    tee.is_only(NOBODY, 0);
    tee.reload();
    pass(&source, address(LISTEN), &sink, &[b"as before"]);
    let said = tee.said();
    let line = format!("user 65534:65534 may not open {}, which is needed while it runs", home.file().display());
    assert!(said.lines().filter(|said| said.contains(&line)).count() == 1, "{said}");
    assert!(said.contains("ermission denied") && said.contains("nothing has changed"), "{said}");

    home.write(&format!("user = \"0\"\n{TEE}"));
    let mut tee = home.start(&machine, &["tee"]);
    tee.is_only("0", 0);
    tee.reload();
    assert!(!tee.said().contains("may not"));
}

const SFLOW: &str = "http = \"127.0.0.1:8008\"\nstate = \"KEPT/state\"\n[[listener]]\naddress = \"127.0.0.1:6343\"\n";

/// Whom the folder belongs to is who writes there.
#[test]
fn an_analyser_is_whom_its_state_belongs_to() {
    let (Some(machine), Some(home)) = (Machine::new(), Home::new(SFLOW)) else { return };
    home.give(1234);
    for _ in 0..2 {
        let mut sflow = home.start(&machine, &["sflow", "serve"]);
        sflow.is_only("1234", 0);
        sflow.reload();
        let said = sflow.said();
        assert!(!said.contains("may not"), "{said}");
        let kept = fs::metadata(home.kept().join("state")).unwrap();
        assert_eq!((kept.uid(), kept.mode() & 0o777), (1234, 0o600));
    }
}

/// The folder is root's: so is the service, without any capability.
#[test]
fn an_analyser_whose_state_is_roots_stays_root() {
    let (Some(machine), Some(home)) = (Machine::new(), Home::new(SFLOW)) else { return };
    let mut sflow = home.start(&machine, &["sflow", "serve"]);
    sflow.is_only("0", 0);
    sflow.reload();
    let said = sflow.said();
    assert!(!said.contains("may not"), "{said}");
    assert_eq!(fs::metadata(home.kept().join("state")).unwrap().uid(), 0);
}

#[test]
fn an_agent_is_nobody() {
    let text = "drops = 0\npolling = \"1s\"\n[[collector]]\nto = \"127.0.0.1:6343\"\n";
    let (Some(machine), Some(home)) = (Machine::new(), Home::new(text)) else { return };
    let collector = machine.udp("127.0.0.1:6343");
    let mut agent = home.start(&machine, &["sflow", "agent"]);
    agent.is_only(NOBODY, 0);
    assert!(collector.recv(&mut [0; 2000]).unwrap() > 28);
    home.write(&text.replace("6343", "6344"));
    let moved = machine.udp("127.0.0.1:6344");
    agent.reload();
    assert!(moved.recv(&mut [0; 2000]).unwrap() > 28);
    agent.said();
}

const STATION: &str = "name = \"coil\"\nto = \"127.0.0.1:5110\"\n[[source]]\nkind = \"host\"\n";

/// From the station to the page and to the archive.
#[test]
fn what_is_monitored_is_nobodys() {
    let (Some(machine), Some(station)) = (Machine::new(), Home::new(STATION)) else { return };
    let serve = Home::new("http = \"127.0.0.1:5180\"\n[[listen]]\naddress = \"127.0.0.1:5110\"\n").unwrap();
    let record = "directory = \"KEPT\"\nleave = \"8MiB\"\n[[listen]]\naddress = \"127.0.0.1:5110\"\n";
    let record = Home::new(record).unwrap();
    record.give(65_534);

    let mut server = serve.start(&machine, &["monitor", "serve"]);
    server.is_only(NOBODY, 0);
    server.reload();
    server.said();

    let mut recorder = record.start(&machine, &["monitor", "record"]);
    recorder.is_only(NOBODY, 0);
    let mut sender = station.start(&machine, &["monitor", "station"]);
    sender.is_only(NOBODY, 0);
    let files = || fs::read_dir(record.kept()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    await_that("an archive", || !files().is_empty());
    sender.reload();
    recorder.reload();
    sender.said();
    recorder.said();
    let archives = files();
    assert_eq!(archives.len(), 1, "{archives:?}");
    assert_eq!(fs::metadata(&archives[0]).unwrap().uid(), 65_534);
    let table = Ended::of(weir(&["monitor", "export"]).arg(&archives[0]));
    assert!(table.status == Some(0) && table.stdout.len() > 200, "{table:?}");
}

/// A file that is followed is opened anew when another takes its place.
#[test]
fn a_station_says_that_it_may_not_follow_a_file_of_roots() {
    let text = "name = \"coil\"\nto = \"127.0.0.1:5110\"\n[[source]]\nkind = \"tail\"\npath = \"KEPT/lines\"\n";
    let (Some(machine), Some(home)) = (Machine::new(), Home::new(text)) else { return };
    let lines = home.kept().join("lines");
    fs::write(&lines, "").unwrap();
    for (mode, is_told) in [(0o600, true), (0o644, false)] {
        fs::set_permissions(&lines, fs::Permissions::from_mode(mode)).unwrap();
        let station = home.start(&machine, &["monitor", "station"]);
        station.is_only(NOBODY, 0);
        let said = station.said();
        assert_eq!(said.contains(&format!("may not open {}", lines.display())), is_told, "{said}");
    }
}

/// It looks into the processes of all users as long as it runs: what it keeps for that is all it keeps.
#[test]
fn a_watch_is_nobody_with_eyes() {
    let (Some(machine), Some(_)) = (Machine::new(), Home::new("")) else { return };
    let _held = machine.udp("127.0.0.1:5600");
    let watch = weir(&["loss", "watch", "--json", "--interval", "100ms", "--trace", "off"]);
    let mut watch = Run(machine.run(|| Started::quiet(watch)));
    // CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
    watch.is_only(NOBODY, 1 << 19 | 1 << 2);
    let own = format!("\"pid\":{}", std::process::id());
    while !watch.0.next_line().unwrap().contains(&own) {}
}

/// Debian's, everywhere the same.
const NOBODY: &str = "65534";
