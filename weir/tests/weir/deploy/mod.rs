//! What `deploy/` promises: units, manifests and the container agree with the program and with one another.

mod container;
mod grafana;
mod kubernetes;
mod prometheus;
mod systemd;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use weir_testbed::Ended;

use crate::weir;

/// A file below `deploy/`.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What `weir tee --check` says of a configuration: it must be a good one.
fn check(config: &str) -> toml::Table {
    check_of(&["tee"], config)
}

/// The same of another service.
fn check_of(service: &[&str], config: &str) -> toml::Table {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("weir.toml");
    // What the service manager would make.
    let mut config = config.to_owned();
    for folder in [STATE, RECORDER] {
        let state = dir.path().join(Path::new(folder).file_name().unwrap());
        fs::create_dir(&state).unwrap();
        config = config.replace(folder, state.to_str().unwrap());
    }
    fs::write(&file, &config).unwrap();
    let checked = Ended::of(&mut weir(&[service, &["-c", file.to_str().unwrap(), "--check"]].concat()));
    assert!(checked.status == Some(0) && checked.stderr.is_empty(), "{config}\n{}", checked.stderr);
    // What it prints is a configuration, too.
    checked.stdout.parse().unwrap()
}

/// Port of the one listener, and of `/metrics`.
fn ports(config: &str) -> (u16, u16) {
    let table = check(config);
    let port = |address: &toml::Value| address.as_str().unwrap().rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let [listener] = &table["listener"].as_array().unwrap()[..] else { panic!("{table}") };
    (port(&listener["address"]), port(&table["admin"]))
}

/// Whether the command that these arguments begin with has every flag among them.
fn assert_flags_exist(arguments: &[&str]) {
    let command: Vec<&str> = arguments.iter().copied().take_while(|argument| !argument.starts_with('-')).collect();
    let help = Ended::of(weir(&command).arg("--help").env("COLUMNS", "100"));
    assert!(help.status == Some(0) && !command.is_empty(), "{arguments:?}");
    let known: BTreeSet<&str> = help.stdout.split([' ', ',', '\n']).filter(|word| word.starts_with('-')).collect();
    for flag in arguments.iter().filter(|argument| argument.starts_with('-')) {
        assert!(known.contains(flag.split('=').next().unwrap()), "{flag} of {arguments:?}: {known:?}");
    }
    assert!(arguments.iter().any(|argument| argument.starts_with('-')), "{arguments:?}");
}

/// Where the manager makes directories for the analyser's state, and for what is recorded.
const STATE: &str = "/var/lib/weir-sflow";
const RECORDER: &str = "/var/lib/weir-recorder";
