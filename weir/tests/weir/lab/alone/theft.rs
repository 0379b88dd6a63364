//! The ledger finds what is taken behind its back, and who took it.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_testbed::program;

use super::super::Lab;

#[test]
fn stolen_datagrams_have_their_place() {
    let Some(_) = program("nft") else { return };
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let stolen = i64::from(1 + nanoseconds / 1000 % 40);
    println!("nft takes {stolen} datagrams");

    let lab = Lab::new();
    // `numgen inc` counts the datagrams that get to it, from 0: exactly the first ones are dropped.
    let host = format!(
        r#"addresses = ["10.0.0.1/24"]
setup = [
    "PATH=$PATH:/usr/sbin; nft add table inet thief",
    "PATH=$PATH:/usr/sbin; nft add chain inet thief input '{{ type filter hook input priority 0; }}'",
    "PATH=$PATH:/usr/sbin; nft add rule inet thief input udp dport 65432 numgen inc mod 65536 lt {stolen} drop",
]"#
    );
    let scenario = lab.telemetry("theft", &[("addresses = [\"10.0.0.1/24\"]", &host)]);
    let set = ["path.loss=0%,10%", "traffic.transport=udp", "traffic.interval=2ms", "run.duration=1s"];
    // Nothing else is lost, nor too late, where the receiver stands still.
    let set = [&set[..], &["run.drain=2s", "receive.buffer=4MiB"]].concat();
    let run = lab.run(&scenario, "result", &set);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    for row in run.rows() {
        let cell = row.text("cell");
        assert_eq!((row.count("kernel_drops"), row.count("unexplained")), (stolen, 0), "{cell}");
        let remarks = run.record(cell)["remarks"].to_string();
        assert!(
            remarks.contains(&format!("{stolen} datagrams were dropped on host `receiver`: firewall")),
            "{cell}: {remarks}"
        );
        assert_eq!(row.count("sent"), row.count("delivered") + row.count("planned_drops") + stolen, "{cell}");
    }
    assert!(!run.stdout.contains("does not close its ledger"), "{}", run.stdout);
}
