//! Links that change while the traffic runs: steps, and traces beside the scenario's file.

use super::{Lab, Row, Run};

const SCENARIO: &str = r#"
name = "changes"
title = "One link"
[run]
duration = "2s"
drain = "1s"
control = "0s"
[hosts]
a.addresses = ["10.0.0.1/24"]
b.addresses = ["10.0.0.2/24"]
[links.air]
ends = ["a", "b"]
AIR
[traffic]
from = "a"
to = "b"
port = 5000
transport = "udp"
payload = "1472B"
interval = "5ms"
pacing = "schedule"
[receive]
buffer = "4MiB"
"#;

/// Runs it with these keys of the link, from another directory than the one its file is in.
pub(super) fn run(lab: &Lab, air: &str) -> Run {
    let directory = lab.path("scenarios");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("changes.toml"), SCENARIO.replace("AIR", air)).unwrap();
    std::fs::write(directory.join("slow.trace"), "# one packet each 10 ms\n10\n").unwrap();
    lab.run("scenarios/changes.toml", "out", &["run.messages=true"]).good()
}

pub(super) fn only_row(run: &Run) -> Row {
    let row = run.row("single");
    assert_eq!((row.count("sent"), row.count("unexplained")), (400, 0), "{row:?}");
    row
}

/// The half of the messages that is due from the step on is lost, and what a machine that stands still sends too late.
#[test]
fn a_step_takes_effect_when_it_is_due() {
    let lab = Lab::new();
    let run = run(&lab, "forward.steps = [{ at = \"1s\", loss = \"100%\", delay = \"30ms\" }]");
    let row = only_row(&run);
    let lost = row.count("planned_drops");
    assert!(lost >= 200, "{row:?}");
    assert_eq!(row.count("delivered"), 400 - lost);
    // What is lost was sent behind the step, all of it. The step counts from when the first was to be sent.
    let file = std::fs::read_to_string(run.dir.join("messages/single.csv")).unwrap();
    let rows: Vec<Vec<&str>> = file.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let [intended, sent] = [4_usize, 5].map(|column| rows.iter().map(move |row| row[column].parse::<u64>().unwrap()));
    let begin = intended.min().unwrap();
    let (came, missing): (Vec<_>, Vec<_>) = rows.iter().zip(sent).partition(|(row, _)| !row[6].is_empty());
    assert!(came.iter().all(|(_, sent)| *sent < begin + 1_000_000_000), "{row:?}");
    assert!(missing.iter().all(|(_, sent)| *sent > begin + 400_000_000), "{row:?}");
    // Averages over the window.
    assert_eq!((row.text("loss_pct"), row.text("latency_ms")), ("50", "15"));
    assert_eq!((row.text("return_loss_pct"), row.text("return_latency_ms")), ("0", "0"));
}

#[test]
fn a_queue_that_does_not_drain_ends_with_the_drain() {
    let lab = Lab::new();
    // 100 messages of a tenth of a second each: 10 s of queue.
    let set = [
        "path.loss=0%",
        "traffic.transport=udp",
        "traffic.interval=5ms",
        "links.uplink.rate=80kbit",
        "links.uplink.queue=unlimited",
        "run.duration=500ms",
        "run.drain=500ms",
    ];
    let run = lab.run("telemetry", "out", &set).good();
    let row = run.row("single");
    assert_eq!(row.text("unexplained"), "", "{row:?}");
    let record = run.record("single");
    // Delays of a second meet standstills, and may not be believed for those alone.
    let doubts = record["disturbed"].as_object().cloned().unwrap_or_default();
    let is_valid = ["rate", "mean", "p99"].iter().all(|of| !doubts.contains_key(*of));
    assert_eq!(
        (row.text("valid"), doubts.contains_key("rate")),
        (if is_valid { "true" } else { "false" }, false),
        "{record}"
    );
    assert!(row.count("delivered") < row.count("sent") / 2, "{row:?}");
    assert!(row.count("host_drops") > 0, "those behind the drain found no receiver: {row:?}");
    let remarks = record["remarks"].to_string();
    assert!(remarks.contains("packets were still in flight when the counters were read"), "{remarks}");
}
