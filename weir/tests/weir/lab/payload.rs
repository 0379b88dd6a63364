//! The study's experiment, cut down: receivers that cannot keep up, and exactly where what they lack was lost.

use std::fs;

use super::{Lab, Run};

const PAYLOAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/payload.toml");

/// Runs some of its cells: one of the sweep, and those beside it of these names.
pub(super) fn cells(lab: &Lab, out: &str, names: &[&str], set: &[&str]) -> Run {
    let text = fs::read_to_string(PAYLOAD).unwrap();
    let mut document: toml::Table = text.parse().unwrap();
    let all = document["cells"].as_array().unwrap().clone();
    let kept: Vec<_> = all.into_iter().filter(|cell| names.contains(&cell["name"].as_str().unwrap())).collect();
    assert_eq!(kept.len(), names.len(), "{names:?}");
    document.insert("cells".into(), kept.into());
    let path = lab.path(&format!("{out}.toml"));
    fs::write(&path, document.to_string()).unwrap();
    let few = ["run.duration=800ms", "run.drain=4s", "receive.buffer=default", "parameters.burners=0"];
    let set: Vec<&str> = few.iter().chain(set).copied().collect();
    lab.run(path.to_str().unwrap(), out, &set).good()
}

#[test]
fn mixed_speeds_lose_in_the_queue_before_the_slow_leg() {
    let lab = Lab::new();
    let run = cells(
        &lab,
        "speeds",
        &["1 Gbit/s into 100 Mbit/s"],
        &["run.drain=1s", "traffic.payload=16B", "traffic.interval=1ms"],
    );
    let [slow, fast] = ["one", "two"].map(|receiver| run.row(&format!("1 Gbit/s into 100 Mbit/s@{receiver}")));
    assert_eq!((slow.count("unexplained"), fast.count("unexplained")), (0, 0));
    // Beside the queue only a busy machine loses any.
    for row in [&slow, &fast] {
        let lost = ["queue_drops", "emulator_drops", "socket_drops", "backlog_drops"].map(|place| row.count(place));
        assert_eq!(row.count("sent") - row.count("delivered"), lost.iter().sum::<i64>(), "{row:?}");
    }
    assert!(slow.count("queue_drops") > slow.count("sent") / 10, "{slow:?}");
    assert_eq!(fast.count("queue_drops"), 0, "{fast:?}");
    let record = run.record("1 Gbit/s into 100 Mbit/s@one");
    let ledger = record["ledger"].as_array().unwrap();
    let full = ledger.iter().find(|entry| entry["place"] == "to-one ->" && entry["name"] == "queue full").unwrap();
    assert_eq!(full["count"], slow.count("queue_drops"));
    let said = record["remarks"].as_array().unwrap().iter().any(|remark| {
        let remark = remark.as_str().unwrap();
        remark.contains("dropped in the queue of link `to-one`") && remark.contains("100 Mbit/s")
    });
    assert!(said, "{}", record["remarks"]);
}
