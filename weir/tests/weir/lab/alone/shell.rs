//! The scripts of the article beside the lab's own traffic: what both measure is the same.

use std::process::Command;

use weir_testbed::{Ended, program};

use super::super::{Lab, WEIR};

/// docs/examples/article, run as docs/lab-shell.md says: the scripts measure what the scenario measures. `WEIR_CASES=5`:
/// 5 repeats at each loss (6 minutes).
#[test]
#[ignore = "long: 20 s"]
fn the_articles_scripts_agree_with_the_scenario() {
    let Some(python) = program("python3") else { return };
    let lab = Lab::new();
    let mut compare = Command::new(python);
    compare.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/article/compare.py"));
    compare.args(["--weir", &WEIR]).current_dir(lab.path("."));
    match std::env::var("WEIR_CASES") {
        Ok(repeats) => compare.args(["--values", "--repeats", &repeats]),
        Err(_) => compare.args("--transport udp --loss 0,20 --repeats 2 --duration 1 --drain 0.2".split(' ')),
    };
    let compared = Ended::of(&mut compare);
    assert_eq!((compared.status, &*compared.stderr), (Some(0), ""), "{}", compared.stdout);
    println!("{}", compared.stdout);
    let cells = compared.stdout.lines().filter(|line| line.starts_with("udp,") || line.starts_with("tcp,"));
    let agreeing = cells.filter(|line| line.matches(",yes").count() == 2).count();
    assert_eq!(agreeing, if std::env::var_os("WEIR_CASES").is_some() { 8 } else { 2 }, "{}", compared.stdout);
}
