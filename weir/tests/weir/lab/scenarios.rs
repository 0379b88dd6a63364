//! `weir lab show`, `init`, `check`: the binary alone is enough to begin with.

use std::fs;
use std::path::Path;

use super::{Ended, Lab, Run, SHIPPED, weir};

fn lab(dir: &Path, arguments: &[&str]) -> Ended {
    Ended::of(weir(&[&["lab"], arguments].concat()).current_dir(dir))
}

fn good(dir: &Path, arguments: &[&str]) -> String {
    let Ended { status, stdout, stderr } = lab(dir, arguments);
    assert_eq!((status, &*stderr), (Some(0), ""), "{arguments:?}");
    stdout
}

#[test]
fn a_scenario_that_ships_becomes_ones_own() {
    let machine = Lab::new();
    let dir = machine.dir.path();
    let shipped = fs::read_to_string(SHIPPED).unwrap();
    assert_eq!(good(dir, &["show", "telemetry"]), shipped);
    let said = good(dir, &["init", "telemetry"]);
    assert_eq!(said, "telemetry.toml: edit it, then run `weir lab run telemetry.toml`\n");
    assert_eq!(fs::read_to_string(dir.join("telemetry.toml")).unwrap(), shipped);
    // What it says can be done, also where a name alone would be that of a scenario that ships.
    assert!(good(dir, &["init", "telemetry", "--out", "mine"]).ends_with("then run `weir lab run ./mine`\n"));
    assert!(good(dir, &["check", "./mine"]).contains("\nname = \"telemetry\"\n"));

    fs::write(dir.join("telemetry.toml"), "# mine\n").unwrap();
    let again = lab(dir, &["init", "telemetry"]);
    assert_eq!(again.status, Some(2));
    assert_eq!(again.stderr, "weir: telemetry.toml: already exists. Choose another file with --out.\n");
    assert_eq!(fs::read_to_string(dir.join("telemetry.toml")).unwrap(), "# mine\n");
    for command in ["init", "show"] {
        let missing = lab(dir, &[command, "telemetri"]);
        assert_eq!(missing.status, Some(2));
        assert!(missing.stderr.starts_with("weir: no scenario `telemetri`: there are bbr, "), "{}", missing.stderr);
    }
}

#[test]
fn what_check_prints_runs_the_same() {
    let machine = Lab::new();
    let dir = machine.dir.path();
    let set = ["path.loss=0%,10%", "traffic.transport=udp", "run.duration=300ms", "run.drain=300ms"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let printed = good(dir, &[&["check", "telemetry"], &set[..]].concat());
    assert!(printed.starts_with("# 2 cells"), "{printed}");
    for line in ["duration = \"300ms\"", "mtu = 1500", "mode = \"messages\"", "connect_timeout = \"30s\""] {
        assert!(printed.contains(&format!("\n{line}\n")), "{printed}");
    }
    fs::write(dir.join("effective.toml"), &printed).unwrap();
    assert_eq!(good(dir, &["check", "effective.toml"]), printed);
    let cells = |run: &Run| run.rows().iter().map(|row| row.text("cell").to_owned()).collect::<Vec<_>>();
    let run = machine.run("./effective.toml", "effective", &["run.jobs=all"]).good();
    assert_eq!(cells(&run), ["0%", "10%"]);
    assert_eq!(run.manifest()["scenario"], "telemetry");
}
