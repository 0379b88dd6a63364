//! Killed at any point, nothing is left: all processes of the machine are looked through.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use weir_testbed::await_that;

use super::super::family::{self, Family, processes};
use super::super::{Lab, weir};

#[test]
fn kill_9_of_a_run_leaves_nothing() {
    runs_killed(4);
}

#[test]
#[ignore = "long: 30 s"]
fn kill_9_of_a_run_at_many_points_leaves_nothing() {
    runs_killed(20);
}

fn runs_killed(rounds: u32) {
    let lab = Lab::new();
    let run = |family: &Family, round| {
        let set = ["path.loss=10%,20%", "run.duration=60s"];
        let mut command = lab.command("telemetry", &lab.path(&format!("result-{round}")), &set);
        family.mark(&mut command);
        command
    };
    // A cell has five namespaces or so; its sockets are open when all of them are there.
    killed(rounds, run, |family| family.networks().len() >= 16);
}

#[test]
fn kill_9_of_a_shell_leaves_nothing() {
    shells_killed(4);
}

#[test]
#[ignore = "long: 20 s"]
fn kill_9_of_a_shell_at_many_points_leaves_nothing() {
    shells_killed(20);
}

fn shells_killed(rounds: u32) {
    let lab = Lab::new();
    let scenario = lab.telemetry(&format!("killed-shell-{rounds}"), &[]);
    let shell = |family: &Family, _| {
        let script = "trap '' HUP TERM INT; setsid sleep 1000 & (sleep 1000 &); wait";
        let mut command = weir(&["lab", "shell", &scenario, "sender", "sh", "-c", script]);
        family.mark(&mut command);
        command
    };
    killed(rounds, shell, |family| family.processes("1000").len() == 2);
}

/// Kills a command by turns when it is up, and at points spread over its start.
#[track_caller]
fn killed(rounds: u32, command: impl Fn(&Family, u32) -> Command, is_up: impl Fn(&Family) -> bool) {
    let family = Family::new();
    let before = surroundings();
    for round in 0..rounds {
        let mut child = command(&family, round).spawn().unwrap();
        if round % 2 == 0 {
            await_that("it to be up", || is_up(&family));
        } else {
            sleep(Duration::from_millis(160) * round / rounds);
        }
        let networks = family.networks();
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_is_left(&family, &networks, &before, round);
    }
}

#[track_caller]
fn nothing_is_left(family: &Family, networks: &BTreeSet<String>, before: &(BTreeSet<String>, String), round: u32) {
    family.await_end();
    let holds = |process: &PathBuf| family::networks(process).iter().any(|network| networks.contains(network));
    // Who ends has no environment any more by which to know it, and leaves its network a few steps later (kernel/exit.c,
    // do_exit).
    await_that("the networks to be left", || !processes().any(|process| holds(&process)));
    assert_eq!(&surroundings(), before, "round {round}");
}

/// What a run must not change: our interfaces, our mounts.
fn surroundings() -> (BTreeSet<String>, String) {
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap();
    let names = interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect();
    (names, fs::read_to_string("/proc/self/mountinfo").unwrap())
}
