//! What a CI server asks of the lab: assertions with an exit status, JUnit XML, and comparisons of runs.

use std::fs;

use super::{Ended, Lab, Run, weir};

/// A scenario of two quick cells with these assertions.
fn asserting(lab: &Lab, name: &str, asserts: &str) -> String {
    lab.telemetry(
        name,
        &[("[[charts]]\nname = \"delay-mean\"", &format!("{asserts}\n[[charts]]\nname = \"delay-mean\""))],
    )
}

fn run(lab: &Lab, scenario: &str, out: &str) -> Run {
    let quick = ["run.duration=500ms", "run.drain=500ms", "run.jobs=all"];
    lab.run(scenario, out, &[&quick[..], &["path.loss=0%,20%", "traffic.transport=udp"]].concat())
}

const HOLDS: &str = "[[assert]]\nname = \"all arrives\"\nwhere = { loss_pct = 0 }\ncolumn = \"delivered_share\"\n\
                     at_least = 0.9\ninterval = \"touching\"\n";
const FAILS: &str = "[[assert]]\nname = \"nothing is lost\"\ncolumn = \"planned_drops\"\nat_most = 0\n";

#[test]
fn an_assertion_that_fails_is_status_3_and_a_failure_in_junit_xml() {
    let lab = Lab::new();
    let good = run(&lab, &asserting(&lab, "good", HOLDS), "good").good();
    assert!(good.stdout.contains("pass        all arrives\n"), "{}", good.stdout);
    let junit = fs::read_to_string(good.dir.join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"0\"") && junit.contains("name=\"all arrives\""), "{junit}");

    let bad = run(&lab, &asserting(&lab, "bad", &format!("{HOLDS}{FAILS}")), "bad");
    assert_eq!((bad.status, &*bad.stderr), (Some(3), ""), "{}", bad.stdout);
    let drops = bad.row("20%").count("planned_drops");
    assert!(drops > 0);
    assert!(
        bad.stdout.contains(&format!("fail        nothing is lost\n            {drops}: 20% lies outside")),
        "{}",
        bad.stdout
    );
    let junit = fs::read_to_string(bad.dir.join("junit.xml")).unwrap();
    assert!(junit.contains("<testsuites name=\"weir lab bad\" tests=\"4\" skipped=\"0\" failures=\"1\""), "{junit}");
    assert!(junit.contains(&format!("message=\"{drops}: 20% lies outside")), "{junit}");
    let page = fs::read_to_string(bad.dir.join("report.html")).unwrap();
    assert!(page.contains("nothing is lost") && page.contains("badge fail"));

    // Rendered again, it says the same.
    fs::remove_file(bad.dir.join("junit.xml")).unwrap();
    let again: Ended = Ended::of(&mut weir(&["lab", "report", bad.dir.to_str().unwrap()]));
    assert_eq!(again.status, Some(3), "{again:?}");
    assert_eq!(fs::read_to_string(bad.dir.join("junit.xml")).unwrap(), junit);
    // A run without assertions has no such file.
    assert!(!run(&lab, "telemetry", "plain").good().dir.join("junit.xml").exists());
}

#[test]
fn a_mistaken_assertion_is_a_line_and_status_2() {
    let lab = Lab::new();
    let cases = [
        (
            "column = \"mbit_per_sec\"\nat_least = 1",
            "assert 1: column: no column `mbit_per_sec`, did you mean `mbit_per_s`?",
        ),
        ("column = \"sent\"", "assert 1: needs a bound: `at_least`, `at_most` or both"),
        (
            "column = \"sent\"\nat_least = 1\nwhere = { transprot = \"udp\" }",
            "assert 1: where: no column `transprot`, did you mean `transport`?",
        ),
        ("column = \"sent\"\nat_leats = 1", "unknown key `at_leats`, did you mean `at_least`?"),
    ];
    for (assert, message) in cases {
        let scenario = asserting(&lab, "mistake", &format!("[[assert]]\n{assert}\n"));
        let ended = Ended::of(&mut weir(&["lab", "run", &scenario]));
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.stderr.trim_end().ends_with(message) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}

#[test]
fn every_column_that_the_lab_writes_is_known() {
    let lab = Lab::new();
    let run = run(&lab, "telemetry", "all").good();
    let dir = run.dir.to_str().unwrap();
    for column in run.header() {
        let compared = Ended::of(&mut weir(&["lab", "compare", dir, dir, "--column", &column]));
        let said = compared.stderr.trim_end();
        match compared.status {
            // A single run says too little: no all-clear.
            Some(1) => {
                assert!(
                    said.ends_with(" valid pairs of repeats, but 3 are needed (--repeat)"),
                    "{column}: {compared:?}"
                );
            }
            status => {
                assert_eq!(status, Some(2), "{column}: {compared:?}");
                assert!(said.ends_with(&format!("column `{column}` is not a measured number")), "{compared:?}");
            }
        }
    }
}

#[test]
fn a_column_of_another_version_is_refused_in_one_line() {
    let lab = Lab::new();
    let run = run(&lab, "telemetry", "old").good();
    // As if an older version had measured a share under another name, and written no checksums.
    let cells = run.dir.join("cells.jsonl");
    let text = fs::read_to_string(&cells).unwrap().replace("[\"lost_share\",", "[\"share_lost\",");
    let without = |line: &str| format!("{}}}\n", line.split_once(",\"seal\":").unwrap().0);
    fs::write(&cells, text.lines().map(without).collect::<String>()).unwrap();
    let dir = run.dir.to_str().unwrap();
    let refused = Ended::of(&mut weir(&["lab", "compare", dir, dir, "--column", "share_lost"]));
    assert_eq!((refused.status, refused.stderr.lines().count()), (Some(2), 1), "{refused:?}");
    assert!(refused.stderr.contains("column `share_lost` is from another version of Weir"), "{refused:?}");
}
