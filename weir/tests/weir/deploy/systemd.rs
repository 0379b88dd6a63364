//! The systemd units.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;
use std::time::Duration;

use nix::unistd::geteuid;
use weir_testbed::program;

use super::{RECORDER, STATE, assert_flags_exist, check, check_of, read};
use crate::WEIR;

/// The values of a key, in all sections.
fn values(unit: &str, key: &str) -> Vec<String> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
    unit.lines().filter_map(value).collect()
}

fn value(unit: &str, key: &str) -> String {
    let all = values(unit, key);
    assert_eq!(all.len(), 1, "{key}: {all:?}");
    all[0].clone()
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap())
}

#[test]
fn the_service_starts_the_program_as_it_is() {
    let unit = read("systemd/weir-tee.service");
    let command = value(&unit, "ExecStart");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "/usr/bin/weir");
    assert_flags_exist(&words[1..]);
    assert_eq!(words.last(), Some(&"/etc/weir/tee.toml"));

    let config = check(&read("systemd/tee.toml"));
    let drain: humantime::Duration = config["drain"].as_str().unwrap().parse().unwrap();
    assert!(seconds(&value(&unit, "TimeoutStopSec")) > *drain);
    // Usage and configuration errors have this status.
    assert_eq!(value(&unit, "RestartPreventExitStatus"), "2");
    assert_eq!(value(&unit, "AmbientCapabilities"), value(&unit, "CapabilityBoundingSet"));
}

#[test]
fn the_watch_starts_the_program_as_it_is() {
    let unit = read("systemd/weir-loss.service");
    let command = value(&unit, "ExecStart");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[..3], ["/usr/bin/weir", "loss", "watch"]);
    assert_flags_exist(&words[1..]);
    assert_eq!(value(&unit, "AmbientCapabilities"), value(&unit, "CapabilityBoundingSet"));
    // What it exposes is what the alerts are on.
    let rules = read("prometheus/weir-loss.rules.yaml");
    assert!(rules.contains(words.last().unwrap()), "{words:?}");
}

#[test]
fn the_analyser_starts_the_program_as_it_is() {
    let unit = read("systemd/weir-sflow.service");
    let command = value(&unit, "ExecStart");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!((&words[..3], words.last()), (&["/usr/bin/weir", "sflow", "serve"][..], Some(&"/etc/weir/sflow.toml")));
    assert_flags_exist(&words[1..]);
    assert_eq!(value(&unit, "RestartPreventExitStatus"), "2");
    assert_eq!(value(&unit, "AmbientCapabilities"), value(&unit, "CapabilityBoundingSet"));
    // It may write there, and what it exposes is what the alerts are on.
    let config = check_of(&["sflow", "serve"], &read("systemd/sflow.toml"));
    assert_eq!(format!("/var/lib/{}", value(&unit, "StateDirectory")), STATE);
    assert!(read("systemd/sflow.toml").contains(&format!("state = \"{STATE}/")));
    assert!(read("prometheus/weir-sflow.rules.yaml").contains(config["admin"].as_str().unwrap()));
    // The container's is the same, seen from outside.
    let container = check_of(&["sflow", "serve"], &read("container/sflow.toml"));
    assert_eq!(container["listener"], config["listener"]);
}

#[test]
fn an_analyser_that_protects_finds_its_tokens_and_its_speaker() {
    let written = read("systemd/protect.toml");
    let dropped_in = read("systemd/weir-sflow.service.d/protect.conf");
    // The manager makes a copy of the credential, which is not there in a test.
    let (id, _) = value(&dropped_in, "LoadCredential")
        .split_once(':')
        .map(|(id, file)| (id.to_owned(), file.to_owned()))
        .unwrap();
    let copy = format!("/run/credentials/weir-sflow.service/{id}");
    assert!(written.contains(&format!("tokens = \"{copy}\"")), "{copy}");
    let tokens = tempfile::NamedTempFile::new().unwrap();
    fs::write(tokens.path(), format!("noc act {}\n", "0".repeat(32))).unwrap();
    let config = check_of(&["sflow", "serve"], &written.replace(&copy, tokens.path().to_str().unwrap()));
    assert_eq!(config["protect"]["mode"].as_str(), Some("observe"));
    assert!(written.contains(&format!("journal = \"{STATE}/")));
    // What it has besides is that of the analyser, and its tokens are for this machine alone.
    let plain = check_of(&["sflow", "serve"], &read("systemd/sflow.toml"));
    assert_eq!((&config["listener"], &config["admin"]), (&plain["listener"], &plain["admin"]));
    assert!(config["http"].as_str().unwrap().starts_with("127.0.0.1:"));

    let unit = read("systemd/weir-gobgpd.service");
    assert!(value(&dropped_in, "After").contains("weir-gobgpd.service"));
    let command = value(&unit, "ExecStart");
    let gobgp = config["protect"]["speaker"]["gobgp"].as_str().unwrap();
    assert!(command.contains(&format!("--api-hosts {gobgp} ")), "{command}: {gobgp}");
    let Some(gobgpd) = program("gobgpd") else { return };
    let flags: Vec<&str> = command.split(' ').skip(1).collect();
    let file = super::path("systemd/gobgpd.toml");
    let flags = flags.iter().map(|flag| if *flag == "/etc/weir/gobgpd.toml" { file.to_str().unwrap() } else { flag });
    let output = Command::new(gobgpd).args(flags).arg("--dry-run").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// What the documents show can be written so.
#[test]
fn the_first_configuration_of_the_documents_is_a_good_one() {
    let pages = [
        include_str!("../../../../docs/protect-observe.md"),
        include_str!("../../../../docs/protect-mitigation.md"),
        include_str!("../../../../docs/protect-speakers.md"),
        include_str!("../../../../docs/protect-access.md"),
    ];
    let blocks = pages.iter().flat_map(|page| page.split("```toml\n").skip(1));
    let blocks: Vec<&str> = blocks.map(|rest| rest.split("```").next().unwrap()).collect();
    let unindented = |block: &str| block.lines().map(|line| line.trim_start()).collect::<Vec<_>>().join("\n");
    let tokens = tempfile::NamedTempFile::new().unwrap();
    fs::write(tokens.path(), format!("noc act {}\n", "0".repeat(32))).unwrap();
    if geteuid().is_root() {
        // The service becomes nobody.
        chown(tokens.path(), Some(65534), Some(65534)).unwrap();
    }
    let first = unindented(blocks[0]).replace("/etc/weir/protect.tokens", tokens.path().to_str().unwrap());
    check_of(&["sflow", "serve"], &first);
    assert!(blocks.len() >= 4, "{blocks:?}");
    for block in &blocks[1..] {
        check_of(&["sflow", "serve"], &format!("{first}\n{}", unindented(block)));
    }
}

#[test]
fn the_agent_starts_the_program_as_it_is() {
    let unit = read("systemd/weir-agent.service");
    let command = value(&unit, "ExecStart");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!((&words[..3], words.last()), (&["/usr/bin/weir", "sflow", "agent"][..], Some(&"/etc/weir/agent.toml")));
    assert_flags_exist(&words[1..]);
    assert_eq!(value(&unit, "RestartPreventExitStatus"), "2");
    assert_eq!(value(&unit, "AmbientCapabilities"), value(&unit, "CapabilityBoundingSet"));
    let config = check_of(&["sflow", "agent"], &read("systemd/agent.toml"));
    assert!(read("prometheus/weir-agent.rules.yaml").contains(config["admin"].as_str().unwrap()));
    let container = check_of(&["sflow", "agent"], &read("container/agent.toml"));
    assert_eq!(container["collector"], config["collector"]);
}

#[test]
fn stations_servers_and_recorders_start_the_program_as_it_is() {
    for (name, command) in [("station", "station"), ("monitor", "serve"), ("recorder", "record")] {
        let unit = read(&format!("systemd/weir-{name}.service"));
        let start = value(&unit, "ExecStart");
        let words: Vec<&str> = start.split(' ').collect();
        let file = format!("/etc/weir/{name}.toml");
        assert_eq!((&words[..4], words.last()), (&["/usr/bin/weir", "monitor", command, "-c"][..], Some(&&file[..])));
        assert_flags_exist(&words[1..]);
        assert_eq!(value(&unit, "RestartPreventExitStatus"), "2");
        assert_eq!(value(&unit, "AmbientCapabilities"), value(&unit, "CapabilityBoundingSet"));
        // What it exposes is what the alerts are on.
        let config = check_of(&["monitor", command], &read(&format!("systemd/{name}.toml")));
        assert!(read("prometheus/weir-monitor.rules.yaml").contains(config["admin"].as_str().unwrap()));
        if name == "recorder" {
            assert_eq!(format!("/var/lib/{}", value(&unit, "StateDirectory")), RECORDER);
            assert!(read("systemd/recorder.toml").contains(&format!("directory = \"{RECORDER}\"")));
        }
    }
}

#[test]
fn the_socket_is_the_listener_of_the_example() {
    for (name, service) in [("tee", &["tee"][..]), ("sflow", &["sflow", "serve"])] {
        let unit = read(&format!("systemd/weir-{name}.socket"));
        let config = check_of(service, &read(&format!("systemd/{name}.toml")));
        let listener = &config["listener"][0];
        assert_eq!(value(&unit, "ListenDatagram"), listener["address"].as_str().unwrap());
        assert_eq!(value(&unit, "FileDescriptorName"), listener["name"].as_str().unwrap());
        assert_eq!(value(&unit, "Service"), format!("weir-{name}.service"));
    }
}

#[test]
fn systemd_accepts_the_units_and_finds_them_hardened() {
    let Some(analyzer) = program("systemd-analyze") else { return };
    let dir = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        // The program is not installed under its name here.
        let unit = read(&format!("systemd/{name}")).replace("/usr/bin/weir ", &format!("{} ", *WEIR));
        fs::write(dir.path().join(name), unit).unwrap();
        dir.path().join(name).to_str().unwrap().to_owned()
    };
    // What they want of the system, and nothing else: units of other packages are not ours to judge.
    for name in ["basic", "multi-user", "network-online", "shutdown", "sockets", "sysinit"] {
        fs::write(dir.path().join(name).with_extension("target"), "[Unit]\n").unwrap();
    }
    let units = [
        "weir-tee.service",
        "weir-tee.socket",
        "weir-loss.service",
        "weir-sflow.service",
        "weir-sflow.socket",
        "weir-agent.service",
        "weir-station.service",
        "weir-monitor.service",
        "weir-recorder.service",
    ];
    let units = units.map(copy);
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new(&analyzer);
        let output = command.args(arguments).env("SYSTEMD_UNIT_PATH", dir.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let verify: Vec<&str> = ["verify", "--man=no"].into_iter().chain(units.iter().map(String::as_str)).collect();
    assert_eq!(analyze(&verify), (true, String::new(), String::new()));

    // Exposure from 0 to 10, told in tenths; the threshold is in tenths, too. Who looks into all processes is exposed more.
    for service in units.iter().filter(|unit| unit.ends_with(".service")) {
        let threshold =
            if ["loss", "agent"].iter().any(|name| service.contains(&format!("weir-{name}"))) { 30 } else { 20 };
        let threshold = format!("--threshold={threshold}");
        let (hardened, report, _) = analyze(&["security", "--offline=yes", &threshold, "--no-pager", service]);
        assert!(hardened, "{service}: {}", report.lines().last().unwrap_or_default());
    }
}
