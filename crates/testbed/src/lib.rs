//! What tests of all crates share: programs that they start, networks, real peers, and a word about what is not tested here.

#![allow(clippy::unwrap_used)]

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::panic::{self, Location};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

pub mod http;
#[cfg(feature = "network")]
pub mod network;
pub mod random;
#[cfg(feature = "network")]
pub mod standstills;
mod started;
mod sys;

pub use started::{Ended, PATIENCE, Started, await_that};

/// Runs looks that mostly wait beside one another, each in a thread of its name; fails with the first of the list that fails.
pub fn together(looks: &[(&str, fn())]) {
    let ends = thread::scope(|scope| {
        let begin = |&(name, look): &(&str, fn())| {
            thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, look).unwrap()
        };
        let running: Vec<_> = looks.iter().map(begin).collect();
        running.into_iter().map(|look| look.join()).collect::<Vec<_>>()
    });
    if let Some(panic) = ends.into_iter().find_map(Result::err) {
        panic::resume_unwind(panic);
    }
}

/// Says that the calling test is skipped, and why. Nothing is skipped in continuous integration (`CI=true`): there the test
/// fails.
#[track_caller]
pub fn skip(reason: impl Display) {
    assert!(env::var("CI").as_deref() != Ok("true"), "{reason}: in continuous integration nothing is skipped");
    leave_unjudged(reason);
}

/// Says that the calling test judges nothing, and why, where nothing is missing that somebody could install: continuous
/// integration takes it, too.
#[track_caller]
pub fn leave_unjudged(reason: impl Display) {
    let (thread, place) = (thread::current(), Location::caller().to_string());
    // The harness names threads after tests.
    let test = thread.name().filter(|&name| name != "main").unwrap_or(&place);
    // Past the harness, which keeps to itself what tests print, and counts this one as passed.
    io::stderr().write_all(format!("skipped: {test}: {reason}\n").as_bytes()).unwrap();
    if let Some(record) = env::var_os(RECORD) {
        let mut record = File::options().create(true).append(true).open(record).unwrap();
        record.write_all(format!("{reason}\t{test}\n").as_bytes()).unwrap();
    }
}

/// Names the file to which `make test` has skipped tests written: a line each, reason and name.
const RECORD: &str = "WEIR_SKIPPED";

/// The value; without one, the calling test is skipped for the error.
#[track_caller]
pub fn or_skip<T, E: Display>(result: Result<T, E>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            skip(error);
            None
        }
    }
}

/// Whether a user, our own unless told, can make user namespaces, by `unshare`; the kernel forbids it in a chroot, and
/// settings may. Where not, the calling test is skipped.
#[track_caller]
pub fn user_namespaces(user: Option<u32>) -> bool {
    let Some(unshare) = program("unshare") else { return false };
    let mut command = Command::new(unshare);
    command.args(["--user", "true"]);
    user.map(|user| command.uid(user));
    let made = command.output().is_ok_and(|output| output.status.success());
    if !made {
        skip("needs user namespaces");
    }
    made
}

/// Where a program is that a test needs: unpacked by `make deps`, or installed. Without it the calling test is skipped.
///
/// # Panics
///
/// No machine has it for certain, and `make deps` does not know it.
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    let entry = |word: &str| word.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let known = [MAKEFILE, PEERS].iter().any(|list| list.split([' ', '\n', '\'']).any(entry));
    let known = known || ESSENTIAL.contains(&name);
    assert!(known, "no step of the Makefile installs {name}: add it to PEERS");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = vec![UNPACKED.into()];
    places.extend(env::split_paths(&path));
    // Not on an ordinary user's path.
    places.push("/usr/sbin".into());
    let found = places.iter().map(|place| place.join(name)).find(|file| file.exists());
    if found.is_none() {
        skip(format_args!("needs {name}"));
    }
    found
}

/// Programs that a Debian cannot be without, and others may.
const ESSENTIAL: [&str; 7] = ["bash", "logger", "nsenter", "setpriv", "setsid", "sh", "unshare"];

const MAKEFILE: &str = include_str!("../../../Makefile");
const PEERS: &str = include_str!("../peers.sh");

/// What peers.sh made.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers/bin");

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn looks_run_beside_one_another_and_one_that_fails_is_not_lost() {
        static MET: Barrier = Barrier::new(2);
        fn meets() {
            MET.wait();
        }
        fn meets_and_fails() {
            MET.wait();
            panic!("a look");
        }
        let end = panic::catch_unwind(|| together(&[("one", meets), ("another", meets_and_fails)]));
        assert_eq!(*end.unwrap_err().downcast::<&str>().unwrap(), "a look");
    }

    /// The skipped one is this test in another process, whose environment and output are its own.
    #[test]
    fn a_skip_is_seen_recorded_and_a_failure_where_nothing_may_be_skipped() {
        const NAME: &str = "tests::a_skip_is_seen_recorded_and_a_failure_where_nothing_may_be_skipped";
        if env::var_os("WEIR_TEST_ROLE").is_some() {
            skip("needs luck");
            return;
        }
        let run = |ci: &str| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", NAME]).env("WEIR_TEST_ROLE", "skipped").env(RECORD, "/dev/stdout").env("CI", ci);
            let output = command.output().unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (output.status.success(), text(output.stdout), text(output.stderr))
        };
        let (passed, stdout, stderr) = run("");
        assert!(passed && stdout.contains(&format!("needs luck\t{NAME}\n")), "{stdout}");
        assert_eq!(stderr, format!("skipped: {NAME}: needs luck\n"));
        let (passed, stdout, _) = run("true");
        assert!(!passed && stdout.contains("needs luck: in continuous integration nothing is skipped"), "{stdout}");
    }

    #[test]
    fn programs_are_those_that_somebody_installs() {
        assert_eq!(program("sh").unwrap().file_name().unwrap(), "sh");
        let refused = panic::catch_unwind(|| program("p"));
        assert!(
            refused.unwrap_err().downcast_ref::<String>().unwrap().starts_with("no step of the Makefile installs p:")
        );
    }
}
