//! Messages that are not all alike.

use super::{Ended, Lab};

const TWO: &str = r#"
name = "arrivals"
title = "Two hosts"
[run]
duration = "400ms"
drain = "300ms"
control = "0s"
[hosts]
a.addresses = ["10.0.0.1/24"]
b.addresses = ["10.0.0.2/24"]
[links.wire]
ends = ["a", "b"]
[traffic]
from = "a"
to = "b"
port = 5000
transport = "udp"
payload = "100B"
interval = "4ms"
"#;

/// What is captured of one run is sent again by another: as many datagrams, as long, over as much time.
#[test]
fn what_was_captured_is_sent_again() {
    let lab = Lab::new();
    std::fs::write(lab.path("two.toml"), TWO).unwrap();
    let sizes = "traffic.sizes=[[{ bytes = \"60B\", share = \"50%\" }, { bytes = \"1000B\", share = \"50%\" }]]";
    let out = lab.path("first");
    // A late schedule is made up for as long as the window: longer than a machine stands still.
    let bursts = ["traffic.bursts={ on = \"100ms\", off = \"100ms\" }", "traffic.interval=10ms", "run.duration=1s"];
    let set = [&bursts[..], &[sizes, "run.drain=2s", "run.messages=true"]].concat();
    let mut command = lab.command("./two.toml", &out, &set);
    let first = Ended::of(command.args(["--pcap", "single", "--json"])).json();
    assert_eq!((&first["rows"][0]["sent"], &first["directory"]), (&50.into(), &out.to_str().unwrap().into()));
    let capture = out.join("pcap/single-a.pcapng");
    assert!(capture.exists(), "{:?}", std::fs::read_dir(out.join("pcap")).unwrap().collect::<Vec<_>>());
    let replay = format!("traffic.replay={}", capture.display());
    // As long as it took, whatever stood still: behind the last one there is room for as much as lies between two.
    let file = std::fs::read_to_string(out.join("messages/single.csv")).unwrap();
    let sent: Vec<u64> = file.lines().skip(1).map(|line| line.split(',').nth(5).unwrap().parse().unwrap()).collect();
    let window = format!("run.duration={}ns", sent[49] - sent[0] + 5_000_000);
    // An interval that has room for four says nothing of what is planned.
    let set = [replay.as_str(), &window, "traffic.interval=300ms", "run.drain=2s", "run.messages=true"];
    let again = lab.run("./two.toml", "again", &set).good();
    let row = again.row("single");
    let file = std::fs::read_to_string(again.dir.join("messages/single.csv")).unwrap();
    assert_eq!(file.lines().count(), 51);
    // One each 10 ms of the 500 ms in bursts; 60 and 1000 bytes are half of them each.
    assert_eq!((row.count("sent"), row.count("delivered"), row.count("unexplained")), (50, 50, 0), "{row:?}");
    let bytes = row.number("mbit_per_s") / row.number("msgs_per_s") * 1e6 / 8.0;
    assert!((250.0..810.0).contains(&bytes), "{bytes}");
}

/// Rates are over the planned window in results.csv, too, whatever part of it is silent, or however late the sender is; and
/// every message has its row.
#[test]
fn a_rate_is_the_same_wherever_it_is_told() {
    let lab = Lab::new();
    std::fs::write(lab.path("two.toml"), TWO).unwrap();
    // 100 of 400 ms; 1 us a message is less than any call takes.
    for (out, sent, set) in [
        ("bursts", Some(25), &["traffic.bursts={ on = \"100ms\", off = \"1s\" }"][..]),
        ("late", None, &["traffic.interval=1us", "links.wire.direct=true"]),
    ] {
        let run = lab.run("./two.toml", out, &[set, &["run.messages=true"][..]].concat()).good();
        let (row, record) = (run.row("single"), run.record("single"));
        let told = record["estimates"]["msgs_per_s"]["value"].as_f64().unwrap();
        let rate = row.number("msgs_per_s");
        assert!(
            (row.number("duration_s") - 0.4).abs() < 1e-6 && (rate / told - 1.0).abs() < 1e-3,
            "{out}: {row:?} {told}"
        );
        assert!(sent.is_none_or(|sent| row.count("sent") == sent && rate < 62.6), "{row:?}");
        assert_eq!(run.stdout.contains("the sender fell behind its schedule"), out == "late", "{}", run.stdout);
        let file = std::fs::read_to_string(run.dir.join("messages/single.csv")).unwrap();
        assert_eq!(file.lines().count() as i64, row.count("sent") + 1, "{out}");
    }
}
