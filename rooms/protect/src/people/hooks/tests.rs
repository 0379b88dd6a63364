//! Receivers of all kinds, alive, dead and slow.

use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use weir_testbed::await_that;

use super::*;
use crate::journal::{Entry, What};
use crate::people::fixture;

fn entry() -> Entry {
    let target = Some(fixture::attack(17).detection.target);
    let why = "anna approved it \u{1b}[2J";
    Entry { attack: Some(17), target, ..Entry::new(SystemTime::now(), "anna", What::Announced, why) }
}

fn event() -> Event {
    Event::new(&entry(), Some(&fixture::attack(17)))
}

#[test]
fn an_event_tells_how_sure_its_rates_are_and_of_no_class_what_nobody_found() {
    let told = |attack: &crate::model::Attack| -> Value {
        serde_json::from_slice(&Event::new(&entry(), Some(attack)).json()).unwrap()
    };
    let mut attack = fixture::attack(17);
    let ends =
        ["packets_low", "packets_high", "bits_low", "bits_high"].map(|key| told(&attack)["attack"][key].as_f64());
    assert_eq!(ends, [790e3, 834e3, 8.8e9, 9.4e9].map(Some));
    attack.by_hand = true;
    let told = told(&attack);
    assert_eq!((&told["attack"]["class"], &told["by"]), (&"by_hand".into(), &"anna".into()));
    assert_eq!(told["text"], entry().to_string(), "as the log has it");
    assert!(!told["text"].as_str().unwrap().contains('\u{1b}'));
}

/// Waits until a receiver has so many events with this outcome.
fn await_count(hooks: &Hooks, receiver: &str, outcome: fn(Count) -> Shared, wanted: u64) {
    await_that(&format!("counts of {receiver}"), || outcome(count(hooks, receiver)).get() == wanted);
}

fn count(hooks: &Hooks, receiver: &str) -> Count {
    hooks.counts().into_iter().find(|count| count.receiver == receiver).unwrap()
}

fn only_command(line: &[&str], timeout: Duration) -> Settings {
    Settings {
        command: line.iter().map(|&word| word.to_owned()).collect(),
        syslog: None,
        timeout: weir_units::Span::from_nanos(timeout.as_nanos() as u64),
    }
}

#[test]
fn a_program_gets_the_event_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("event");
    let script = format!("cat > {0}.part; env > {0}.env; mv {0}.part {0}", file.display());
    let hooks = Hooks::start(&only_command(&["/bin/sh", "-c", &script], Duration::from_secs(20))).unwrap();
    hooks.tell(event());
    await_count(&hooks, "command", |count| count.told, 1);
    let told: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((&told["event"], &told["attack"]["id"]), (&"announced".into(), &17.into()), "{told}");
    assert_eq!(told["attack"]["target"], "192.0.2.7/32");
    let env = fs::read_to_string(directory.path().join("event.env")).unwrap();
    assert!(!env.contains("CARGO"), "{env}");
    // Nothing of an event is obeyed by a shell: it is no argument.
    let hostile = Hooks::start(&only_command(&["/bin/echo", "$(reboot)"], Duration::from_secs(20))).unwrap();
    hostile.tell(event());
    await_count(&hostile, "command", |count| count.told, 1);
}

#[test]
fn a_program_that_hangs_is_killed_with_all_that_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {0}.part; mv {0}.part {0}; wait", file.display());
    let hooks = Hooks::start(&only_command(&["/bin/sh", "-c", &script], Duration::from_secs(1))).unwrap();
    hooks.tell(event());
    await_count(&hooks, "command", |count| count.failed, 1);
    let child = fs::read_to_string(&file).unwrap().trim().to_owned();
    // It is a zombie until whoever is its parent now has seen to it.
    await_that("its end", || {
        !fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    });
}

#[test]
fn a_full_queue_is_counted_and_nobody_waits() {
    let line = ["/bin/sleep", "1000"];
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let syslog = Some(Address(sink.local_addr().unwrap()));
    let hooks = Hooks::start(&Settings { syslog, ..only_command(&line, Duration::from_secs(1000)) }).unwrap();
    let start = Instant::now();
    for _ in 0..QUEUE + 100 {
        hooks.tell(event());
        // The other receiver has all of them.
        let mut bytes = [0; 4096];
        assert!(sink.recv(&mut bytes).unwrap() > 100);
    }
    let dropped = count(&hooks, "command").dropped.get();
    // One is at the program.
    assert!((99..=100).contains(&dropped), "{dropped}");
    await_count(&hooks, "syslog", |count| count.told, QUEUE as u64 + 100);
    drop(hooks);
    assert!(start.elapsed() < Duration::from_secs(30), "a program holds up the end");
}

#[test]
fn what_cannot_be_started_or_reached_is_counted() {
    let hooks = Hooks::start(&only_command(&["/nowhere/program"], Duration::from_secs(5))).unwrap();
    hooks.tell(event());
    await_count(&hooks, "command", |count| count.failed, 1);
    let failing = Hooks::start(&only_command(&["/bin/false"], Duration::from_secs(20))).unwrap();
    failing.tell(event());
    await_count(&failing, "command", |count| count.failed, 1);
}
