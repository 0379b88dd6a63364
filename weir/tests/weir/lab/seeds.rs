//! Same seed, same losses.

use serde_json::Value;

use super::{Lab, Run};

/// Planned drops: (link and way, packets, indexes), without ports, which the kernel chooses.
fn drops(record: &Value, transport: &str) -> Vec<(String, u64, Vec<u64>)> {
    let lists = record["drops"].as_array().unwrap().iter();
    let own = lists.filter(|list| list["flow"].as_str().unwrap().starts_with(transport));
    own.map(|list| {
        assert_eq!(list["complete"], true);
        let indexes = list["indexes"].as_array().unwrap().iter().map(|index| index.as_u64().unwrap()).collect();
        (list["link"].as_str().unwrap().to_owned(), list["packets"].as_u64().unwrap(), indexes)
    })
    .collect()
}

fn only(run: &Run) -> Value {
    let mut records = run.records();
    assert_eq!(records.len(), 1);
    records.remove(0)
}

const LOSSY: [&str; 2] = ["path.loss=20%", "run.drain=500ms"];

#[test]
fn scheduled_udp_repeats_its_ledger() {
    let lab = Lab::new();
    let run = |out: &str, more: &[&str]| {
        // The ledger is the same as long as the receiver keeps up, or its buffer does.
        let scheduled = ["traffic.interval=2ms", "run.duration=500ms", "traffic.pacing=schedule"];
        let set = [&LOSSY[..], &scheduled, &["traffic.transport=udp", "receive.buffer=4MiB"], more].concat();
        only(&lab.run("telemetry", out, &set).good())
    };
    let (first, again) = (run("first", &["run.seed=7"]), run("again", &["run.seed=7"]));
    assert_eq!(first["row"]["sent"], 250);
    assert!(first["ledger"] == again["ledger"], "{first}\n{again}");
    let lists = drops(&first, "udp");
    assert_eq!(lists, drops(&again, "udp"));
    assert_eq!(lists.len(), 2, "uplink and downlink: {lists:?}");
    assert!(lists.iter().all(|(_, _, indexes)| indexes.len() > 10) && lists[0].2 != lists[1].2);
    assert_ne!(drops(&run("other", &["run.seed=8"]), "udp"), lists);
}

#[test]
fn else_the_shorter_list_begins_the_longer() {
    prefix("udp");
}

#[test]
fn else_the_shorter_list_begins_the_longer_over_tcp() {
    prefix("tcp");
}

fn prefix(transport: &str) {
    let lab = Lab::new();
    let key = format!("traffic.transport={transport}");
    let run = |out: &str, duration: &str| {
        let set = [&LOSSY[..], &["traffic.interval=4ms", &key, duration]].concat();
        only(&lab.run("telemetry", out, &set).good())
    };
    let (short, long) = (run("short", "run.duration=600ms"), run("long", "run.duration=1200ms"));
    let (short, long) = (drops(&short, transport), drops(&long, transport));
    let mut compared = 0;
    for (link, packets, indexes) in &short {
        let Some((_, more_packets, more)) = long.iter().find(|(other, ..)| other == link) else { continue };
        // Whichever flow had fewer packets this time, both agree as far as it went.
        let both = *packets.min(more_packets);
        let until = |indexes: &[u64]| indexes.iter().copied().filter(|&index| index < both).collect::<Vec<_>>();
        assert_eq!(until(indexes), until(more), "{transport} {link}");
        compared += until(indexes).len();
    }
    assert!(compared > 2, "{transport}: {short:?} {long:?}");
}
