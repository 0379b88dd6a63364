//! Bulk transfers over a routed, shaped path, by our own engine and by iperf3.

use weir_testbed::program;

use super::{Ended, Lab, Run};

/// Few, short cells of a scenario that ships, and no cells of its own.
pub(super) fn few<'a>(set: &[&'a str]) -> Vec<&'a str> {
    [&["run.max_foreign=100%", "cells=[]"], set].concat()
}

impl Lab {
    pub(super) fn cells_of(&self, scenario: &str, set: &[&str]) -> Run {
        self.run(scenario, "out", &few(set)).good()
    }
}

#[test]
fn a_path_that_lets_nothing_through_is_0_and_valid() {
    let lab = Lab::new();
    let engines = if program("iperf3").is_some() { "weir,iperf3" } else { "weir" };
    let run = lab.cells_of(
        "matrix",
        &[
            "run.duration=1s",
            "tcp.connect_timeout=2s",
            "links.access.forward.loss=100%",
            "links.access.forward.delay=1ms",
            &format!("traffic.engine={engines}"),
        ],
    );
    for row in run.rows() {
        assert_eq!((row.text("mbit_per_s"), row.text("valid"), row.text("connect_ms")), ("0", "true", ""), "{row:?}");
        assert_eq!(row.count("unexplained"), 0);
    }
}

#[test]
fn datagrams_in_bulk_repeat_their_ledger() {
    let lab = Lab::new();
    let set = few(&[
        "run.duration=1s",
        "run.drain=500ms",
        "links.access.forward.loss=5%",
        "links.access.forward.delay=2ms",
        "traffic.transport=udp",
        "traffic.payload=1000B",
        "traffic.rate=40mbit",
    ]);
    let [first, second] = ["first", "second"].map(|out| lab.run("matrix", out, &set).good().row("single"));
    assert_eq!(first.count("sent"), 5000, "40 Mbit/s of 1000 bytes for a second");
    for column in ["sent", "planned_drops", "unexplained"] {
        assert_eq!(first.text(column), second.text(column), "{column}");
    }
    for row in [first, second] {
        // What a busy machine loses on top of the plan is in the ledger, too.
        let unplanned: i64 =
            ["queue_drops", "socket_drops", "emulator_drops"].map(|column| row.count(column)).iter().sum();
        let missing = row.count("sent") - row.count("delivered");
        assert_eq!((missing, row.count("unexplained")), (row.count("planned_drops") + unplanned, 0), "{row:?}");
    }
}

#[test]
fn packets_are_captured_at_both_ends() {
    let lab = Lab::new();
    let out = lab.path("out");
    let set = few(&[
        "run.duration=1s",
        "run.drain=1s",
        "links.access.forward.loss=10%",
        "links.access.forward.delay=1ms,2ms",
        "traffic.transport=udp",
        "traffic.payload=1000B",
        "traffic.rate=8mbit",
    ]);
    let mut command = lab.command("matrix", &out, &set);
    let run = Run { dir: out.clone(), ended: Ended::of(command.args(["--pcap", "2ms"])) }.good();
    let row = run.row("2ms");
    // Enhanced packet blocks (type 6) of the pcapng format, walked by their lengths.
    let packets = |file: &str| {
        let bytes = std::fs::read(out.join("pcap").join(file)).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut packets) = (0, 0);
        while at < bytes.len() {
            // UDP in IPv4 in Ethernet; datagrams that left together are captured as one frame.
            if word(at) == 6 && bytes[at + 28 + 23] == 17 {
                packets += (i64::from(word(at + 24)) - 42) / 1000;
            }
            at += word(at + 4) as usize;
        }
        packets
    };
    assert_eq!(packets("2ms-client.pcapng"), row.count("sent"));
    assert_eq!(packets("2ms-server.pcapng"), row.count("delivered"));
    assert!(!out.join("pcap/1ms-client.pcapng").exists());
}

/// What still waits in the full queue when iperf3 ends is counted nowhere.
#[test]
fn datagrams_that_iperf3_leaves_in_a_queue_are_not_explained_away() {
    let Some(_) = program("iperf3") else { return };
    let set = [
        "run.duration=1s",
        "run.drain=1s",
        "links.access.forward.loss=0%",
        "links.access.forward.delay=1ms",
        "links.access.forward.rate=8mbit",
        "links.access.forward.queue=200",
        "traffic.engine=iperf3",
        "traffic.transport=udp",
        "traffic.payload=1000B",
        "traffic.rate=16mbit",
    ];
    let lab = Lab::new();
    let run = lab.run("matrix", "out", &few(&set)).good();
    let row = run.rows().remove(0);
    // What still queued when iperf3 stopped counting is in neither of its counts: as many as there are by chance.
    let placed: i64 = ["delivered", "queue_drops", "host_drops"].iter().map(|column| row.count(column)).sum();
    let closes = row.count("sent") == placed;
    assert_eq!(
        (row.count("queue_drops") > 0, row.text("unexplained")),
        (true, if closes { "0" } else { "" }),
        "{row:?}"
    );
    assert_eq!(run.stdout.contains("unexplained is unknown"), !closes, "{}", run.stdout);
}

#[test]
fn datagrams_of_a_load_on_the_same_host_are_not_taken_for_lost() {
    let lab = Lab::new();
    let set = ["run.duration=2s", "load.warmup=1s", "load.transport=quic", "load.streams=1"];
    let run = lab.cells_of("bufferbloat", &[&set[..], &["links.wire.forward.queue=250kB"]].concat());
    let row = run.row("single");
    assert_eq!((row.count("unexplained"), row.count("sent")), (0, 200), "{row:?}");
    assert!(row.number("load_mbit_per_s") > 0.0, "{row:?}");
    assert_eq!(row.text("host_drops"), "", "the host counts those of the load with them");
}
