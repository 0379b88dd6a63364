//! A run that was cut short goes on where it was.

use std::collections::BTreeSet;
use std::process::Command;

use nix::sys::signal::Signal;

use super::endings::Family;
use super::{Ended, Lab, Run, said, weir};

/// Resumes the run of a killed command and checks that it then has every cell once.
fn goes_on_after(signal: Signal) {
    let lab = Lab::new();
    let out = lab.path("out");
    let set = ["run.duration=1s", "run.drain=1s", "run.jobs=1", "path.loss=0%,5%,10%"];
    let family = Family::new();
    let mut command = lab.command("telemetry", &out, &set);
    let mut child = family.mark(&mut command).spawn().unwrap();
    await_lines(&out.join("cells.jsonl"), 2);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
    child.wait().unwrap();
    family.await_end();

    let before = Run { dir: out.clone(), status: None, stdout: String::new(), stderr: String::new() }.records();
    let whole: Vec<_> = before.iter().filter(|record| record["stopped"] != true).cloned().collect();
    assert!((2..6).contains(&whole.len()), "{}", whole.len());
    let ended: Ended = resume(&out).output().unwrap().into();
    assert_eq!((ended.status, said(&ended.stderr)), (Some(0), vec![]), "{ended:?}");
    let run = Run { dir: out, status: ended.status, stdout: ended.stdout, stderr: ended.stderr };
    let cells: Vec<String> = run.rows().iter().map(|row| row.text("cell").to_owned()).collect();
    assert_eq!(cells, ["0%/udp", "0%/tcp", "5%/udp", "5%/tcp", "10%/udp", "10%/tcp"]);
    assert_eq!(run.manifest()["interrupted"], false);
    let records: BTreeSet<String> = run.records().iter().map(|record| record.to_string()).collect();
    assert!(whole.iter().all(|record| records.contains(&record.to_string())), "what was measured is kept");

    // There is nothing left to do, and nothing to say anew of the machine.
    let before = run.manifest()["environment"].clone();
    assert!(before.to_string().contains("; resumed: "), "{before}");
    let ended: Ended = resume(&run.dir).output().unwrap().into();
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert_eq!((run.records().len(), &run.manifest()["environment"]), (6, &before));
}

fn resume(dir: &std::path::Path) -> Command {
    weir(&["lab", "resume", dir.to_str().unwrap()])
}

/// Waits until a file that grows has this many whole lines. There is no event for another process's writes that a test
/// could wait for without inotify.
fn await_lines(path: &std::path::Path, lines: usize) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::fs::read_to_string(path).map_or(0, |text| text.matches('\n').count()) < lines {
        assert!(std::time::Instant::now() < deadline, "no {lines} lines in {}", path.display());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
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
    let ended: Ended = resume(&lab.path("nothing")).output().unwrap().into();
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.stderr.starts_with("weir: read ") && ended.stderr.lines().count() == 1, "{ended:?}");
}
