//! The page, in a real browser: scripts of `web/test` start an analyser, feed it, and look at what is on the screen.

use std::path::Path;
use std::process::Command;

use weir_testbed::random::seed;
use weir_testbed::{program, skip, turn};

#[test]
fn the_page_shows_what_rest_says_and_obeys_nobody() {
    run("page.mjs");
}

#[test]
fn the_page_shows_50_000_agents_at_once() {
    run("many.mjs");
}

/// Runs a script, which ends with 0 if all that it looks at holds.
#[track_caller]
pub(crate) fn run(script: &str) {
    run_with(script, &[]);
}

/// The same with further words in its environment.
#[track_caller]
pub(crate) fn run_with(script: &str, environment: &[(&str, &str)]) {
    let (Some(node), Some(chromium)) = (program("node"), program("chromium")) else { return };
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    if !web.join("node_modules/playwright-core").exists() {
        skip("needs what web/package.json names (make deps)");
        return;
    }
    let _turn = turn();
    let mut command = Command::new(node);
    command.arg(format!("test/{script}")).current_dir(web);
    command.env("WEIR", env!("CARGO_BIN_EXE_weir")).env("CHROMIUM", chromium).env("WEIR_SEED", seed().to_string());
    command.envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
