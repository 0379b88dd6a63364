//! The systemd units.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{assert_flags_exist, check, has, read};

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
fn the_socket_is_the_listener_of_the_example() {
    let unit = read("systemd/weir-tee.socket");
    let config = check(&read("systemd/tee.toml"));
    let listener = &config["listener"][0];
    assert_eq!(value(&unit, "ListenDatagram"), listener["address"].as_str().unwrap());
    assert_eq!(value(&unit, "FileDescriptorName"), listener["name"].as_str().unwrap());
    assert_eq!(value(&unit, "Service"), "weir-tee.service");
}

#[test]
fn systemd_accepts_the_units_and_finds_them_hardened() {
    if !has("systemd_accepts_the_units_and_finds_them_hardened", "systemd-analyze") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // The program is not installed under its name here.
    let service = read("systemd/weir-tee.service").replace("/usr/bin/weir ", concat!(env!("CARGO_BIN_EXE_weir"), " "));
    let (service_path, socket_path) = (dir.path().join("weir-tee.service"), dir.path().join("weir-tee.socket"));
    fs::write(&service_path, service).unwrap();
    fs::write(&socket_path, read("systemd/weir-tee.socket")).unwrap();
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (service_path, socket_path) = (service_path.to_str().unwrap(), socket_path.to_str().unwrap());
    assert_eq!(analyze(&["verify", "--man=no", service_path, socket_path]), (true, String::new(), String::new()));

    // Exposure from 0 to 10, told in tenths; the threshold is in tenths, too.
    let (hardened, report, _) = analyze(&["security", "--offline=yes", "--threshold=20", "--no-pager", service_path]);
    assert!(hardened, "{}", report.lines().last().unwrap_or_default());
}
