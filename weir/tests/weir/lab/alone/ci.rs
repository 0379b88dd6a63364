//! Comparisons of runs that are as good, and of one that is worse.

use std::path::Path;

use serde_json::Value;
use weir_testbed::Ended;

use super::super::{Lab, weir};

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
    let compare = |a: &Path, b: &Path, flags: &[&str]| {
        let dirs = ["lab", "compare", a.to_str().unwrap(), b.to_str().unwrap(), "--column", "mbit_per_s"];
        Ended::of(&mut weir(&[&dirs[..], flags].concat()))
    };
    let equal = compare(&before, &same, &[]);
    assert_eq!((equal.status, &*equal.stderr), (Some(0), ""), "{equal:?}");
    assert!(equal.stdout.contains("no difference shown"), "{}", equal.stdout);
    assert!(equal.stdout.contains("1 paired t tests: at most 5 % of comparisons of equal runs"), "{}", equal.stdout);

    let worse = compare(&before, &after, &["--json"]);
    assert_eq!(worse.status, Some(3), "{worse:?}");
    let json: Value = serde_json::from_str(&worse.stdout).unwrap();
    let row = &json["rows"][0];
    assert_eq!((&row["cell"], &row["verdict"]), (&"single".into(), &"worse".into()));
    let ratio = row["ratio"]["value"].as_f64().unwrap();
    assert!((0.4..0.6).contains(&ratio), "{ratio}");
    assert_eq!(compare(&after, &before, &[]).status, Some(0), "better is no alarm");

    let unknown = Ended::of(&mut weir(&[
        "lab",
        "compare",
        before.to_str().unwrap(),
        after.to_str().unwrap(),
        "--column",
        "mbit",
    ]));
    assert_eq!(unknown.status, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("no column `mbit`, did you mean `"), "{}", unknown.stderr);
    let missing = Ended::of(&mut weir(&["lab", "compare", before.to_str().unwrap(), "/nonexistent"]));
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
#[ignore = "long: 20 s"]
fn a_point_more_of_loss_is_found_unasked() {
    let lab = Lab::new();
    // As many messages as the default scenario sends in its 55 s.
    let set = ["run.repeat=5", "run.duration=6s"];
    let (five, six) = (lossy(&lab, "5%", "five", &set), lossy(&lab, "6%", "six", &set));
    let found = Ended::of(&mut weir(&["lab", "compare", &five, &six, "--json"]));
    assert_eq!((found.status, &*found.stderr), (Some(3), ""), "{found:?}");
    let json: Value = serde_json::from_str(&found.stdout).unwrap();
    let row = json["rows"].as_array().unwrap().iter().find(|row| row["column"] == "lost_share").unwrap();
    assert_eq!(row["verdict"], "worse", "{}", found.stdout);
    let [low, high] = ["low", "high"].map(|end| row["ratio"][end].as_f64().unwrap());
    assert!(1.0 < low && high < 1.5, "{low} {high}");
}

#[test]
fn ten_times_the_loss_is_found_by_its_shares() {
    let lab = Lab::new();
    let set = ["run.repeat=3", "run.duration=800ms"];
    let (few, many) = (lossy(&lab, "5%", "few", &set), lossy(&lab, "50%", "many", &set));
    let columns = "lost_share,delivered_share";
    let found = Ended::of(&mut weir(&["lab", "compare", &few, &many, "--column", columns]));
    assert_eq!((found.status, &*found.stderr), (Some(3), ""), "{found:?}");
    assert_eq!(found.stdout.matches(" worse").count(), 2, "{}", found.stdout);
    let back = Ended::of(&mut weir(&["lab", "compare", &many, &few, "--column", columns]));
    assert_eq!((back.status, back.stdout.matches(" better").count()), (Some(0), 2), "{back:?}");
}
