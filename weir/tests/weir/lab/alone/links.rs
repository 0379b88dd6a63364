//! Links whose rate is judged.

use std::time::Instant;

use weir_testbed::standstills::Standstills;

use super::super::changes::{only_row, run};
use super::super::places::{self, ROUTED};
use super::super::{Lab, Row};

/// 400 packets of 1500 bytes arrive, 199 opportunities come while they do, and ten wait at the end; a few more come to
/// a sender that a busy machine delays. While the machine stands still some come in vain, or more.
#[test]
fn a_trace_is_the_rate_of_its_link() {
    let (lab, watch) = (Lab::new(), Standstills::watch());
    let begin = Instant::now();
    let run = run(&lab, "forward = { trace = \"slow.trace\", queue = 10 }");
    let end = Instant::now();
    let still = (end - begin - watch.running(begin, end)).as_millis() as i64 / 10;
    let row = only_row(&run);
    let delivered = row.count("delivered");
    assert!((205 - still..=240 + still).contains(&delivered), "{still}: {row:?}");
    assert_eq!(row.count("queue_drops"), 400 - delivered);
    assert_eq!(row.text("rate_mbit"), "1.2");
    // The manifest's document finds the trace wherever it is read.
    let source = run.manifest()["source"].as_str().unwrap().to_owned();
    std::fs::write(lab.path("again.toml"), source).unwrap();
    let again = lab.run("./again.toml", "again", &["run.duration=100ms"]).good();
    assert_eq!(again.row("single").text("rate_mbit"), "1.2");
}

fn shaped(lab: &Lab, set: &[&str]) -> Row {
    places::run(lab, ROUTED, &[&["links.near.forward.rate=1mbit"], set].concat()).row("single")
}

/// A link has a queue, and messages may be asked for by their rate.
#[test]
fn rates_and_queues_are_bounded() {
    let lab = Lab::new();
    // 1000 bytes a millisecond into 125 a second: 15 of them fit into 15 kB, which take 120 ms. A sender that stands
    // still for longer finds the queue empty, and more are dropped of what it makes up for.
    let row = shaped(&lab, &["run.duration=2s", "run.drain=1s", "traffic.payload=972B", "traffic.interval=1ms"]);
    assert_eq!((row.count("sent"), row.count("unexplained")), (2000, 0), "{row:?}");
    assert!((1700..1850).contains(&row.count("queue_drops")), "{row:?}");
    // Where the machine stands still a few take longer.
    assert!((100_000.0..150_000.0).contains(&row.number("delay_p50_us")), "{row:?}");
    drop(std::fs::remove_dir_all(lab.path("out")));
    // 800 kbit/s of 1000 bytes: 100 a second, at fixed times. What was held up is sent at once, and has to fit.
    let set = ["traffic.payload=1000B", "traffic.rate=800kbit", "links.near.forward.queue=200kB", "run.messages=true"];
    let row = shaped(&lab, &set);
    assert_eq!((row.count("sent"), row.count("queue_drops")), (100, 0), "{row:?}");
    let file = std::fs::read_to_string(lab.path("out/messages/single.csv")).unwrap();
    let fields = file.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let times: Vec<[u64; 2]> = fields.map(|fields| [fields[4], fields[5]].map(|time| time.parse().unwrap())).collect();
    assert!(times.windows(2).all(|pair| pair[1][0] - pair[0][0] == 10_000_000), "{times:?}");
    assert!(times.iter().all(|[due, sent]| sent >= due), "{times:?}");
}
