//! What a CI server asks of the lab: assertions with an exit status, JUnit XML, and comparisons of runs.

use std::fs;

use serde_json::Value;

use super::{Ended, Lab, Run, ended, weir};

/// A scenario of two quick cells with these assertions.
fn asserting(lab: &Lab, name: &str, asserts: &str) -> String {
    lab.telemetry(
        name,
        &[("[[charts]]\nname = \"delay-mean\"", &format!("{asserts}\n[[charts]]\nname = \"delay-mean\""))],
    )
}

fn run(lab: &Lab, scenario: &str, out: &str) -> Run {
    lab.run(scenario, out, &["run.duration=500ms", "run.drain=500ms", "path.loss=0%,20%", "traffic.transport=udp"])
}

const HOLDS: &str = "[[assert]]\nname = \"all arrives\"\nwhere = { loss_pct = 0 }\ncolumn = \"delivered_share\"\n\
                     at_least = 0.9\ninterval = \"touching\"\n";
const FAILS: &str = "[[assert]]\nname = \"nothing is lost\"\ncolumn = \"planned_drops\"\nat_most = 0\n";

#[test]
fn an_assertion_that_fails_is_status_3_and_a_failure_in_junit_xml() {
    let lab = Lab::new();
    let good = run(&lab, &asserting(&lab, "good", HOLDS), "good").good();
    assert!(good.stdout.contains("pass    all arrives: "), "{}", good.stdout);
    let junit = fs::read_to_string(good.dir.join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"0\"") && junit.contains("name=\"all arrives\""), "{junit}");

    let bad = run(&lab, &asserting(&lab, "bad", &format!("{HOLDS}{FAILS}")), "bad");
    assert_eq!((bad.status, &*bad.stderr), (Some(3), ""), "{}", bad.stdout);
    let drops = bad.row("20%").count("planned_drops");
    assert!(drops > 0);
    assert!(bad.stdout.contains(&format!("fail    nothing is lost: {drops}: 20% lies outside")), "{}", bad.stdout);
    let junit = fs::read_to_string(bad.dir.join("junit.xml")).unwrap();
    assert!(junit.contains("<testsuites name=\"weir lab bad\" tests=\"4\" skipped=\"0\" failures=\"1\""), "{junit}");
    assert!(junit.contains(&format!("message=\"{drops}: 20% lies outside")), "{junit}");
    let page = fs::read_to_string(bad.dir.join("report.html")).unwrap();
    assert!(page.contains("nothing is lost") && page.contains("badge fail"));

    // Rendered again, it says the same.
    fs::remove_file(bad.dir.join("junit.xml")).unwrap();
    let again: Ended = ended(&mut weir(&["lab", "report", bad.dir.to_str().unwrap()]));
    assert_eq!(again.status, Some(3), "{again:?}");
    assert_eq!(fs::read_to_string(bad.dir.join("junit.xml")).unwrap(), junit);
    // A run without assertions has no such file.
    assert!(!run(&lab, "telemetry", "plain").good().dir.join("junit.xml").exists());
}

#[test]
fn a_mistaken_assertion_is_a_line_and_status_2() {
    let lab = Lab::new();
    let cases = [
        ("column = \"mbit_per_sec\"\nat_least = 1", "assert 1: no column `mbit_per_sec`, did you mean `mbit_per_s`?"),
        ("column = \"sent\"", "assert 1: needs a bound: `at_least`, `at_most` or both"),
        (
            "column = \"sent\"\nat_least = 1\nwhere = { transprot = \"udp\" }",
            "assert 1: where: no column `transprot`, did you mean `transport`?",
        ),
        ("column = \"sent\"\nat_leats = 1", "unknown key `at_leats`, did you mean `at_least`?"),
    ];
    for (assert, message) in cases {
        let scenario = asserting(&lab, "mistake", &format!("[[assert]]\n{assert}\n"));
        let ended = ended(&mut weir(&["lab", "run", &scenario]));
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.stderr.trim_end().ends_with(message) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}

#[test]
fn a_run_that_is_worse_is_found_and_an_equal_one_is_not() {
    let lab = Lab::new();
    let run = |loss: &str, out: &str| {
        let settings = ["run.repeat=3", "run.duration=1s", "run.drain=500ms", "run.jobs=all", "traffic.transport=udp"];
        // Where only the receiver stands still nothing is lost but what is planned.
        let traffic = ["traffic.pacing=schedule", "traffic.interval=2ms", "receive.buffer=4MiB", loss];
        lab.run("telemetry", out, &[&settings[..], &traffic].concat()).good().dir
    };
    let (before, same, after) = (run("path.loss=0%", "a"), run("path.loss=0%", "b"), run("path.loss=50%", "c"));
    let compare = |a: &std::path::Path, b: &std::path::Path, flags: &[&str]| {
        let dirs = ["lab", "compare", a.to_str().unwrap(), b.to_str().unwrap(), "--column", "mbit_per_s"];
        ended(&mut weir(&[&dirs[..], flags].concat()))
    };
    let equal = compare(&before, &same, &[]);
    assert_eq!((equal.status, &*equal.stderr), (Some(0), ""), "{equal:?}");
    assert!(equal.stdout.contains("no difference shown"), "{}", equal.stdout);
    assert!(equal.stdout.contains("rests on paired t tests over 3 repeats"), "{}", equal.stdout);
    assert!(equal.stdout.contains("false alarms: at most 5 % of comparisons of equal runs"), "{}", equal.stdout);

    let worse = compare(&before, &after, &["--json"]);
    assert_eq!(worse.status, Some(3), "{worse:?}");
    let json: Value = serde_json::from_str(&worse.stdout).unwrap();
    let row = &json["rows"][0];
    assert_eq!((&row["cell"], &row["verdict"]), (&"single".into(), &"worse".into()));
    let ratio = row["ratio"]["value"].as_f64().unwrap();
    assert!((0.4..0.6).contains(&ratio), "{ratio}");
    assert_eq!(compare(&after, &before, &[]).status, Some(0), "better is no alarm");

    let unknown =
        ended(&mut weir(&["lab", "compare", before.to_str().unwrap(), after.to_str().unwrap(), "--column", "mbit"]));
    assert_eq!(unknown.status, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("no column `mbit`, did you mean `"), "{}", unknown.stderr);
    let missing = ended(&mut weir(&["lab", "compare", before.to_str().unwrap(), "/nonexistent"]));
    assert_eq!(missing.status, Some(1), "{missing:?}");
}

/// A thousand datagrams a second over a path of this loss: the result directory.
fn lossy(lab: &Lab, loss: &str, out: &str, set: &[&str]) -> String {
    let loss = format!("path.loss={loss}");
    // A receiver that stands still loses nothing else.
    let receive = ["run.drain=200ms", "receive.buffer=4MiB"];
    let settings = [&receive[..], &["run.jobs=all", "traffic.transport=udp", "traffic.interval=1ms", &loss]].concat();
    lab.run("telemetry", out, &[&settings[..], set].concat()).good().dir.to_str().unwrap().to_owned()
}

#[test]
fn a_point_more_of_loss_is_found_unasked() {
    let lab = Lab::new();
    // As many messages as the default scenario sends in its 60 s.
    let set = ["run.repeat=5", "run.duration=6s"];
    let (five, six) = (lossy(&lab, "5%", "five", &set), lossy(&lab, "6%", "six", &set));
    let found = ended(&mut weir(&["lab", "compare", &five, &six, "--json"]));
    assert_eq!((found.status, &*found.stderr), (Some(3), ""), "{found:?}");
    let json: Value = serde_json::from_str(&found.stdout).unwrap();
    let row = json["rows"].as_array().unwrap().iter().find(|row| row["column"] == "lost_share").unwrap();
    assert_eq!(row["verdict"], "worse", "{}", found.stdout);
    let [low, high] = ["low", "high"].map(|end| row["ratio"][end].as_f64().unwrap());
    assert!(1.0 < low && high < 1.5, "{low} {high}");
}

#[test]
fn ten_times_the_loss_is_found_by_its_shares_with_repeats_and_without() {
    let lab = Lab::new();
    for (repeats, set) in [(3, ["run.repeat=3", "run.duration=1500ms"]), (1, ["run.repeat=1", "run.duration=1500ms"])] {
        let out = |loss: &str| format!("{loss}-{repeats}");
        let (few, many) = (lossy(&lab, "5%", &out("5"), &set), lossy(&lab, "50%", &out("50"), &set));
        let columns = "lost_share,delivered_share";
        let found = ended(&mut weir(&["lab", "compare", &few, &many, "--column", columns]));
        assert_eq!((found.status, &*found.stderr), (Some(3), ""), "{found:?}");
        assert_eq!(found.stdout.matches(" worse").count(), 2, "{}", found.stdout);
        let back = ended(&mut weir(&["lab", "compare", &many, &few, "--column", columns]));
        assert_eq!((back.status, back.stdout.matches(" better").count()), (Some(0), 2), "{back:?}");
    }
}

#[test]
fn every_column_that_the_lab_writes_is_known_for_what_it_is() {
    let lab = Lab::new();
    let run = run(&lab, "telemetry", "all").good();
    let dir = run.dir.to_str().unwrap();
    for column in run.header() {
        let compared = ended(&mut weir(&["lab", "compare", dir, dir, "--column", &column]));
        let told = |what: &str| compared.stderr.trim_end().ends_with(&format!("{what}: nothing to compare"));
        match compared.status {
            Some(0) => assert!(compared.stdout.contains(&format!(" {column} ")), "{column}: {compared:?}"),
            // A single run says too little of some: no all-clear.
            Some(1) => {
                assert!(compared.stderr.starts_with("weir: nothing could be compared: "), "{column}: {compared:?}");
            }
            status => {
                assert_eq!(status, Some(2), "{column}: {compared:?}");
                assert!(told("is set by the scenario") || told("is yes or no"), "{column}: {compared:?}");
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
    let refused = ended(&mut weir(&["lab", "compare", dir, dir, "--column", "share_lost"]));
    assert_eq!((refused.status, refused.stderr.lines().count()), (Some(2), 1), "{refused:?}");
    assert!(refused.stderr.contains("column `share_lost` is of another version of weir, not compared"), "{refused:?}");
    // What is known is compared, without the column that this version would add.
    let compared = ended(&mut weir(&["lab", "compare", dir, dir]));
    assert_eq!(compared.status, Some(0), "{compared:?}");
    assert!(compared.stdout.contains("mbit_per_s") && !compared.stdout.contains("lost"), "{}", compared.stdout);
}
