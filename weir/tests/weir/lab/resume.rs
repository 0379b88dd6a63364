//! A run that was cut short goes on where it was.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use weir_testbed::await_that;

use super::family::Family;
use super::{Ended, Lab, Run, weir};

/// Resumes the run of a killed command and checks that it then has every cell once.
fn goes_on_after(signal: Signal) {
    let lab = Lab::new();
    let out = lab.path("out");
    let set = ["run.duration=300ms", "run.drain=300ms", "run.jobs=1", "path.loss=0%,5%,10%"];
    let family = Family::new();
    let mut run = family.spawn(lab.command("telemetry", &out, &set));
    let cells = out.join("cells.jsonl");
    await_that("two cells", || fs::read_to_string(&cells).is_ok_and(|text| text.matches('\n').count() >= 2));
    run.signal(signal);
    let mut run = Run { dir: out, ended: run.wait() };
    family.await_end();

    let before = run.records();
    let whole: Vec<_> = before.iter().filter(|record| record["stopped"] != true).cloned().collect();
    assert!((2..6).contains(&whole.len()), "{}", whole.len());
    run.ended = Ended::of(&mut resume(&run.dir));
    let run = run.good();
    let cells: Vec<String> = run.rows().iter().map(|row| row.text("cell").to_owned()).collect();
    assert_eq!(cells, ["0%/udp", "0%/tcp", "5%/udp", "5%/tcp", "10%/udp", "10%/tcp"]);
    assert_eq!(run.manifest()["interrupted"], false);
    let records: BTreeSet<String> = run.records().iter().map(|record| record.to_string()).collect();
    assert!(whole.iter().all(|record| records.contains(&record.to_string())), "what was measured is kept");

    // There is nothing left to do, and nothing to say anew of the machine.
    let before = run.manifest()["environment"].clone();
    assert!(before.to_string().contains("resumed: "), "{before}");
    let ended = Ended::of(&mut resume(&run.dir));
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert_eq!((run.records().len(), &run.manifest()["environment"]), (6, &before));
}

fn resume(dir: &std::path::Path) -> Command {
    weir(&["lab", "resume", dir.to_str().unwrap()])
}

#[test]
fn after_a_kill_the_missing_cells_run() {
    goes_on_after(Signal::SIGKILL);
}

#[test]
fn after_a_ctrl_c_the_stopped_cell_runs_again() {
    goes_on_after(Signal::SIGINT);
}

#[test]
fn a_directory_without_a_run_is_a_line() {
    let lab = Lab::new();
    let ended = Ended::of(&mut resume(&lab.path("nothing")));
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.stderr.starts_with("weir: read ") && ended.stderr.lines().count() == 1, "{ended:?}");
}
