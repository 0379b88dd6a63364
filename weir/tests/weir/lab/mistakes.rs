//! What a user gets wrong is told in one line that says what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::unistd::geteuid;
use weir_testbed::{skip, user_namespaces};

use super::{Ended, Lab, WEIR, said, weir};

/// The one line of a command that must fail.
#[track_caller]
fn line(ended: &Ended, status: i32) -> &str {
    assert_eq!(ended.status, Some(status), "{ended:?}");
    let [line] = said(&ended.stderr)[..] else { panic!("{ended:?}") };
    line.strip_prefix("weir: ").unwrap_or_else(|| panic!("{ended:?}"))
}

#[test]
fn a_mistake_in_a_scenario_is_a_line_and_status_2() {
    let lab = Lab::new();
    let cases: [(&str, &str, &str); 13] = [
        (
            "[path]",
            "[hosts.\"a\\u001bb\"]\naddresses = [\"10.0.0.9/24\"]\n[links.odd]\nends = [\"a\\u001bb\", \"s1\"]\n[path]",
            "hosts.a\\u{1b}b: a name must not be empty or have slashes or control",
        ),
        (
            "y = \"delay_mean_us\"",
            "y = \"delay_meen_us\"",
            "mistake.toml:{line}: chart delay-mean: y: no column `delay_meen_us`, did you mean `delay_mean_us`?",
        ),
        ("[traffic]\nfrom", "[traffic]\nfrmo", "mistake.toml:{line}: unknown key `frmo`, did you mean `from`?"),
        ("loss = \"0%\"  ", "lose = \"0%\"  ", "unknown key `lose`, did you mean `loss`?"),
        (
            "[\"udp\", \"tcp\"]",
            "[]",
            "mistake.toml:{line}: axes: traffic.transport: it is empty. Give it a value, or remove it.",
        ),
        (
            "to = \"20%\", step = \"1%\"",
            "to = \"105%\", step = \"105%\"",
            "mistake.toml:{line}: path.loss: `105%`: a share is between \"0%\" and \"100%\"",
        ),
        (
            "to = \"receiver\"",
            "to = \"reciever\"",
            "traffic.to: no host, router or switch `reciever` (there are receiver, sender, s1)",
        ),
        (
            "[path]",
            "[switches.s2]\n[links.third]\nends = [\"s1\", \"s2\"]\n[links.fourth]\nends = [\"s2\", \"s1\"]\n[path]",
            "closes a loop, and switches run no spanning tree. Remove a link of the loop.",
        ),
        ("payload = \"1000B\"", "payload = \"1000\"", "`1000`: a size needs a unit, e.g. \"1000B\""),
        ("[axes]", "[axes", "mistake.toml:{line}: "),
        (
            "[links.downlink]",
            "[links.uplink.forward]\ndelay = \"1ms\"\nqueue = 5\n[links.downlink]",
            "links.uplink.forward: `queue` needs a `rate` or a `trace`",
        ),
        (
            "at_most = 1.25\n",
            "at_most = 1.25\nconfidence = 1.5\n",
            "mistake.toml:{line}: claim `UDP's mean delay stays at 160 us whatever the loss.`: confidence = 1.5: must be",
        ),
        (
            "name = \"delay-max\"",
            "name = \"delay-mean\"",
            "chart delay-mean: another chart has this name. Choose another.",
        ),
    ];
    for (from, to, message) in cases {
        let scenario = lab.telemetry("mistake", &[(from, to)]);
        let text = fs::read_to_string(&scenario).unwrap();
        // Of the last of the lines that were put in.
        let number = text[..text.find(to).unwrap() + to.len()].lines().count();
        let message = message.replace("{line}", &number.to_string());
        let ended = Ended::of(&mut weir(&["lab", "run", &scenario]));
        let line = line(&ended, 2);
        assert!(line.contains(&message) && line.contains("mistake"), "{line}");
        // A check and a shell read the same document.
        let check = Ended::of(&mut weir(&["lab", "check", &scenario]));
        assert_eq!((check.status, &check.stderr), (Some(2), &ended.stderr));
        assert_eq!(Ended::of(&mut weir(&["lab", "shell", &scenario, "receiver", "true"])).stderr, ended.stderr);
    }
}

#[test]
fn a_mistake_in_a_flag_is_a_line_and_status_2() {
    let lab = Lab::new();
    let missing = lab.path("missing.toml");
    let missing = missing.to_str().unwrap();
    let binary = lab.path("binary.toml");
    fs::write(&binary, [0xff, 0xfe]).unwrap();
    let cases: [(&[&str], &str); 7] = [
        (
            &["telemetri"],
            "no scenario `telemetri`: there are bbr, bufferbloat, burst, collectors, matrix, monitor, multicast, payload, protect, quic, sflow, sine, telemetry, or write the path of a file (./telemetri.toml)",
        ),
        (&[missing], "missing.toml: no such file"),
        (&[binary.to_str().unwrap()], "binary.toml: stream did not contain valid UTF-8"),
        (
            &["telemetry", "--set", "path.loss=120%"],
            "--set path.loss=120%: `120%`: a share is between \"0%\" and \"100%\"",
        ),
        (&["telemetry", "--set", "path.lsos=5%"], "unknown key `lsos`, did you mean `loss`?"),
        (&["telemetry", "--set", "path.loss=[]"], "--set path.loss=[]: "),
        (&["telemetry", "--set", "tcp.congestion=nonesuch", "--set", "run.duration=1s"], "nonesuch"),
    ];
    for (arguments, message) in cases {
        let mut command = weir(&["lab", "run"]);
        let ended = Ended::of(command.args(arguments).current_dir(lab.dir.path()));
        let line = line(&ended, 2);
        assert!(line.to_lowercase().contains(&message.to_lowercase()), "{line}");
        let check = Ended::of(weir(&["lab", "check"]).args(arguments).current_dir(lab.dir.path()));
        assert_eq!((check.status, &check.stderr), (Some(2), &ended.stderr));
    }
    let flag = Ended::of(&mut weir(&["lab", "run", "telemetry", "--set", "path.loss"]));
    assert!(flag.status == Some(2) && flag.stderr.contains("write KEY=VALUE"), "{flag:?}");
}

#[test]
fn a_result_is_not_overwritten() {
    let lab = Lab::new();
    let set = ["path.loss=0%", "traffic.transport=udp", "run.duration=200ms", "run.drain=200ms"];
    let first = lab.run("telemetry", "result", &set).good();
    let kept = fs::read(first.dir.join("cells.jsonl")).unwrap();
    let second = Ended::of(&mut lab.command("telemetry", &first.dir, &set));
    assert!(line(&second, 2).contains("already has a result. Choose another directory with --out"));
    assert_eq!(fs::read(first.dir.join("cells.jsonl")).unwrap(), kept);
    let out = lab.path("file");
    fs::write(&out, "").unwrap();
    assert!(line(&Ended::of(&mut lab.command("telemetry", &out, &set)), 1).starts_with("create directory "));
}

#[test]
fn too_few_descriptors_are_told_before_the_run() {
    let lab = Lab::new();
    let scenario = lab.telemetry("descriptors", &[]);
    for command in [format!("run {scenario}"), format!("shell {scenario} receiver true")] {
        let script = format!("ulimit -n 24; exec {} lab {command}", *WEIR);
        let ended = Ended::of(Command::new("sh").args(["-c", &script]).current_dir(lab.dir.path()));
        let line = line(&ended, 1);
        let (needed, rest) = line.split_once(" file descriptors are needed, the limit is 24: raise it with ").unwrap();
        assert!(rest.starts_with(&format!("`ulimit -n {needed}`")), "{line}");
        // It is enough, if the machine has as many.
        if command.starts_with("shell") {
            let script = script.replace("ulimit -n 24", &format!("ulimit -n {needed}"));
            assert_eq!(Ended::of(Command::new("sh").args(["-c", &script])).stderr, "");
        }
    }
    assert_eq!(fs::read_dir(lab.dir.path()).unwrap().count(), 1, "no result directory is begun");
}

#[test]
fn without_permission_the_setting_is_named() {
    if !user_namespaces(None) {
        return;
    }
    let lab = Lab::new();
    for command in ["run telemetry", "shell telemetry receiver true"] {
        let weir = WEIR.as_str();
        let script = format!(
            "echo 0 > /proc/sys/user/max_user_namespaces && \
             exec setpriv --bounding-set -all --inh-caps -all --ambient-caps -all {weir} lab {command}"
        );
        let ended = Ended::of(Command::new("unshare").args(["-Ur", "sh", "-c", &script]).current_dir(lab.dir.path()));
        assert_eq!(
            line(&ended, 1),
            "create a network as an ordinary user: user namespaces are switched off: \
             run `sudo sysctl -w user.max_user_namespaces=10000`, or run as root"
        );
    }
}

#[test]
fn an_ordinary_user_can_do_all_this() {
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    if !geteuid().is_root() || users.split_whitespace().nth(2) == Some("1") {
        return skip("all tests run as an ordinary user");
    }
    if !user_namespaces(Some(65534)) {
        return;
    }
    let lab = Lab::new();
    let scenario = lab.telemetry("ordinary", &[]);
    // Where another user gets at it.
    let weir = lab.path("weir");
    fs::copy(&*WEIR, &weir).unwrap();
    fs::set_permissions(lab.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let user = |arguments: &[&str]| {
        let mut command = Command::new(&weir);
        Ended::of(
            command.args(arguments).uid(65534).gid(65534).env("PATH", "/usr/bin:/bin").current_dir(lab.dir.path()),
        )
    };
    let set =
        ["--set", "path.loss=0%", "--set", "run.max_standstill=100%", "--set", "run.drain=1s", "--duration", "300ms"];
    let run = user(&[&["lab", "run", &scenario, "--out", "result"], &set[..]].concat());
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{}", run.stdout);
    let shell = user(&["lab", "shell", &scenario, "sender", "sh", "-c", "uname -n; exit 4"]);
    assert_eq!((shell.status, &*shell.stdout, &*shell.stderr), (Some(4), "sender\n", ""));
}

#[test]
fn a_full_disk_keeps_what_was_measured() {
    if !user_namespaces(None) {
        return;
    }
    let lab = Lab::new();
    let mount = lab.path("small");
    fs::create_dir(&mount).unwrap();
    let set = "--set path.loss=0%,1% --set run.max_standstill=100% --repeat 1 --duration 200ms --set run.drain=200ms";
    // Room for the manifest and a cell or two. A copy of what is left is made where there is room.
    let script = format!(
        "mount -t tmpfs -o size=40k none small && {} lab run telemetry --out small/result --jobs 1 {set}; \
         status=$?; cp -r small/result kept; exit $status",
        *WEIR
    );
    let ended = Ended::of(Command::new("unshare").args(["-Urm", "sh", "-c", &script]).current_dir(lab.dir.path()));
    let line = line(&ended, 1);
    assert!(line.contains("append to small/result/cells.jsonl: No space left on device"), "{line}");
    assert!(line.contains("Earlier results are kept: ") && line.contains("`weir lab resume`"), "{line}");
    assert_eq!(line.matches("No space").count(), 1, "{line}");
    // With room again it renders.
    let kept = lab.path("kept");
    let report = Ended::of(&mut weir(&["lab", "report", kept.to_str().unwrap()]));
    assert_eq!((report.status, &*report.stderr), (Some(0), ""));
    let cells = fs::read_to_string(kept.join("cells.jsonl")).unwrap().lines().count();
    assert_eq!(fs::read_to_string(kept.join("results.csv")).unwrap().lines().count(), 1 + cells);
    assert!((1..4).contains(&cells), "{cells} cells");
    // And goes on.
    let resumed = Ended::of(&mut weir(&["lab", "resume", kept.to_str().unwrap()]));
    assert_eq!((resumed.status, said(&resumed.stderr)), (Some(0), vec![]));
    assert_eq!(fs::read_to_string(kept.join("results.csv")).unwrap().lines().count(), 1 + 4);
}

/// There is room for the messages of one cell of eight: the others are measured all the same.
#[test]
fn a_full_disk_for_messages_costs_no_measurement() {
    if !user_namespaces(None) {
        return;
    }
    let lab = Lab::new();
    fs::create_dir_all(lab.path("result/messages")).unwrap();
    let set = "--set path.loss=0%,1%,2%,3% --set run.max_standstill=100% --duration 200ms --set run.drain=200ms --set run.repeat=1";
    let script = format!(
        "mount -t tmpfs -o size=4k none result/messages && exec {} lab run telemetry --out result --messages {set}",
        *WEIR
    );
    let ended = Ended::of(Command::new("unshare").args(["-Urm", "sh", "-c", &script]).current_dir(lab.dir.path()));
    let line = line(&ended, 1);
    assert!(line.contains(" result/messages/") && line.contains(".csv: No space left on device"), "{line}");
    assert!(!line.contains("resume"), "what lacks is no cell: {line}");
    let cells = fs::read_to_string(lab.path("result/cells.jsonl")).unwrap();
    assert_eq!(cells.lines().count(), 8, "{line}");
    assert!(cells.contains("the file of messages lacks all messages"), "{cells}");
    assert_eq!(fs::read_to_string(lab.path("result/results.csv")).unwrap().lines().count(), 1 + 8);
}

#[test]
fn a_full_standard_output_is_said_and_a_closed_one_is_not() {
    let list =
        |stdout: std::process::Stdio| Command::new(&*WEIR).args(["lab", "list"]).stdout(stdout).output().unwrap();
    let full = list(fs::File::options().write(true).open("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(full.stderr).unwrap(),
        "weir: write to standard output: No space left on device (os error 28)\n"
    );

    let script = format!("exec {} lab list >&-", *WEIR);
    let none = Ended::of(Command::new("sh").args(["-c", &script]));
    assert_eq!((none.status, &*none.stderr), (Some(1), "weir: write to standard output: it is closed\n"));

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = list(writer.into());
    assert_eq!((closed.status.code(), closed.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn traffic_that_nothing_could_send_is_a_line_and_status_2() {
    let lab = Lab::new();
    fs::write(lab.path("bad.trace"), "0\n4\nx\n").unwrap();
    let trace = format!("links.core.forward.trace={}", lab.path("bad.trace").display());
    let cases: [(&[&str], &str); 9] = [
        (&[&trace], "line 3: \"x\""),
        (&["traffic.engine=iperf3", "traffic.mode=messages"], "traffic.engine: iperf3 sends only in bulk"),
        (&["traffic.engine=iperf3", "traffic.transport=quic"], "traffic.engine: iperf3 speaks tcp and udp, not quic"),
        (&["traffic.engine=iperf3", "run.duration=1500ms"], "whole"),
        (&["traffic.transport=udp"], "traffic.rate: bulk over udp needs a rate, e.g. \"500mbit\""),
        (&["traffic.rate=1mbit"], "traffic.rate: only messages, and bulk over udp, are paced"),
        (&["traffic.transport=quic-datagram"], "traffic.transport: quic-datagram carries only messages"),
        (&["traffic.streams=0"], "traffic.streams: must be at least 1"),
        (&["links.access.forward.loss=[]"], "links.access.forward.loss=[]: "),
    ];
    for (set, message) in cases {
        let set: Vec<&str> = [&["links.core.forward.rate=1gbit"], set].concat();
        let ended = Ended::of(&mut lab.command("matrix", &lab.path("out"), &set));
        let line = line(&ended, 2);
        assert!(line.contains(message), "{line}");
    }
    assert!(!lab.path("out").exists(), "no result directory is begun");
}

#[test]
fn a_missing_iperf3_is_told_with_its_package() {
    let lab = Lab::new();
    let mut command = lab.command("matrix", &lab.path("out"), &["traffic.engine=iperf3"]);
    let ended = Ended::of(command.env("PATH", lab.dir.path()));
    assert!(line(&ended, 1).starts_with("iperf3: not found in PATH. Install it (apt-get install iperf3)"), "{ended:?}");
    assert!(!lab.path("out").exists(), "no result directory is begun");
}

#[test]
fn a_setup_line_that_fails_ends_the_run() {
    let lab = Lab::new();
    let host = "addresses = [\"10.0.0.1/24\"]\nsetup = [\"echo no such rule >&2; exit 3\"]";
    let scenario = lab.telemetry("setup", &[("addresses = [\"10.0.0.1/24\"]", host)]);
    let run = lab.run(&scenario, "result", &["path.loss=0%", "traffic.transport=udp", "run.duration=1s"]);
    assert_eq!(run.status, Some(1));
    let expected = "hosts.receiver.setup: `echo no such rule >&2; exit 3` ended with status 3: no such rule\n";
    assert!(run.stderr.ends_with(expected) && run.stderr.lines().count() == 1, "{}", run.stderr);
}
