//! The clock that people set is set, by days, while an attack goes on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use serde_json::Value;
use weir_testbed::await_that;

use super::{FLOOD, HOST, Scene, configuration};
use crate::sflow::serve::{File, Serve};

/// What the program reads as the time of day is as far off as a file says: the machine's own clock is everybody's.
const CLOCK: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    long error = syscall(SYS_clock_gettime, id, now);
    if (!error && id == CLOCK_REALTIME) {
        FILE *file = fopen(getenv("OFF_BY"), "r");
        long seconds = 0;
        if (file) {
            if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
            fclose(file);
        }
    }
    return (int)error;
}
"#;

/// Compiles it, and the file that it reads.
fn clock(dir: &Path) -> (String, String) {
    let [source, library, off_by] =
        ["clock.c", "clock.so", "off_by"].map(|name| dir.join(name).to_str().unwrap().to_owned());
    fs::write(&source, CLOCK).unwrap();
    fs::write(&off_by, "0").unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o", &library, &source]).status().unwrap();
    assert!(built.success());
    (library, off_by)
}

#[test]
fn routes_live_as_long_as_they_were_to_whatever_the_clock_is_set_to() {
    let file = File::new("");
    let more = "[protect.ttl]\nfirst = \"2s\"\nmost = \"2s\"\nhysteresis = \"2s\"";
    configuration(&file, "automatic", "\"192.0.2.0/24\"", more);
    let (library, off_by) = clock(file.dir.path());
    let path = file.path();
    let start = || {
        let flags = ["sflow", "serve", "--json", "--http", "127.0.0.1:0", "-c", &path, "--workers", "1"];
        // Into a static binary nothing is preloaded.
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("LD_PRELOAD", &library).env("OFF_BY", &off_by);
        Serve::spawn(command)
    };
    let mut scene = Scene::with(start(), file);
    scene.play(&[(HOST, FLOOD)], |attack| attack["phase"] == "unreachable");
    // Forward by ten days: by that clock its time is over. It goes on, and its next time to live is told by the clock as it is now.
    fs::write(&off_by, "864000").unwrap();
    let ahead = (UNIX_EPOCH.elapsed().unwrap().as_secs_f64() + 800_000.0) * 1e3;
    scene.play(&[(HOST, FLOOD)], |attack| attack["expires_ms"].as_f64().is_some_and(|at| at > ahead));
    let withdrawn = |lines: &[Value]| lines.iter().filter(|line| line["what"] == "withdrawn").count();
    assert_eq!((withdrawn(&scene.journal()), scene.list().len()), (0, 1));
    // Back by twenty, while it is killed: what nobody sees any more ends within its time to live, and not in twenty days.
    let scene = scene.replaced(|_| {
        fs::write(&off_by, "-864000").unwrap();
        start()
    });
    await_that("the end of the attack", || scene.list().is_empty());
    let lines = scene.await_journal(|lines| withdrawn(lines) > 0);
    assert_eq!(withdrawn(&lines), 1, "{lines:#?}");
}
