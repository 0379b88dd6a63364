//! The page, in a real browser: scripts of `web/test` start an analyser, feed it, and look at what is on the screen.

use std::path::Path;
use std::process::Command;

use weir_testbed::random::seed;
use weir_testbed::{Ended, program, skip};

use crate::WEIR;

#[test]
fn the_page_shows_what_rest_says_and_obeys_nobody() {
    run_with("page.mjs", &[("LONG", "")]);
}

mod alone {
    /// All of it, and frames.
    #[test]
    #[ignore = "long: 60 s"]
    fn the_page_keeps_up_and_is_usable_by_all() {
        super::run("page.mjs");
    }

    #[test]
    #[ignore = "long: 40 s"]
    fn the_page_shows_50_000_agents_at_once() {
        super::run("many.mjs");
    }
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
    let mut command = Command::new(node);
    command.arg(format!("test/{script}")).current_dir(web);
    command.env("WEIR", &*WEIR).env("CHROMIUM", chromium).env("WEIR_SEED", seed().to_string());
    command.envs(environment.iter().copied());
    let ended = Ended::of(&mut command);
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.stdout, ended.stderr);
}
