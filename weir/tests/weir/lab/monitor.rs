//! Stations, servers and viewers in the lab: short runs of the scenarios that ship, and what holds on any machine.

use super::{Ended, Lab, Row, Run, weir};

fn run(lab: &Lab, out: &str, set: &[&str]) -> Run {
    let few = ["run.duration=2s", "run.realtime=false", "cells=[]", "monitor.groups=1", "monitor.delay=10ms"];
    let set: Vec<&str> = few.iter().chain(set).copied().collect();
    lab.run("monitor", out, &set).good()
}

/// Every sample is shown, or known to be missing.
#[track_caller]
fn closes(row: &Row) {
    assert_eq!(row.count("unexplained"), 0, "{row:?}");
    let causes = ["station", "network", "host", "socket", "server", "others"];
    let missing: i64 = causes.iter().map(|cause| row.count(&format!("missing_{cause}"))).sum();
    let known = row.count("before") + row.count("delivered") + missing + row.count("unheard");
    assert_eq!(row.count("sent"), known, "{row:?}");
    assert!(row.count("sent") > 3 * 4 * 1000, "{row:?}");
}

fn viewers(run: &Run, cell: &str) -> Vec<Row> {
    (1..=20).map(|viewer| run.row(&format!("{cell}@v{viewer:02}"))).collect()
}

#[test]
fn every_viewer_knows_of_every_sample() {
    let lab = Lab::new();
    let run = run(&lab, "lossy", &[]);
    let rows = viewers(&run, "single");
    rows.iter().for_each(closes);
    // Nothing is lost on its way; the worst loses one in ten.
    assert_eq!((rows[0].count("missing_network"), rows[0].count("lost_datagrams")), (0, 0), "{:?}", rows[0]);
    let worst = &rows[11];
    assert!(worst.count("missing_network") > 0 && worst.number("delay_p50_us") > 0.0, "{worst:?}");
}

#[test]
#[ignore = "long: 10 s"]
fn a_second_network_has_what_the_first_one_loses() {
    let lab = Lab::new();
    let run =
        run(&lab, "redundant", &["monitor.groups=1,2", "traffic.to=[[\"v10\", \"v12\"]]", "monitor.servers=[[]]"]);
    let [one, two] = ["1", "2"].map(|groups| ["v10", "v12"].map(|viewer| run.row(&format!("{groups}@{viewer}"))));
    one.iter().chain(&two).for_each(closes);
    let lost = |rows: &[Row; 2]| rows.iter().map(|row| row.count("lost_datagrams")).sum::<i64>();
    // 15 of 100 by one network, 1.25 by two.
    assert!(lost(&one) > 3 * lost(&two), "{one:?} {two:?}");
}

#[test]
fn viewers_change_over_to_the_server_that_is_left() {
    let lab = Lab::new();
    let run = run(&lab, "killed", &["monitor.follow=servers", "monitor.kill=1s"]);
    let rows = viewers(&run, "single");
    rows.iter().for_each(closes);
    // A second of samples is behind the end of the first server. Who joins while the machine stands still lacks some.
    let whole = &rows[0];
    assert!(whole.count("delivered") > whole.count("sent") * 3 / 4, "{whole:?}");
}

#[test]
#[ignore = "long: 8 s"]
fn a_sine_is_shown_with_its_gaps_or_whole() {
    let lab = Lab::new();
    let run = lab.run("sine", "sine", &["run.duration=2s"]).good();
    let [small, large] = ["64KiB", "default"].map(|cell| run.row(cell));
    for row in [&small, &large] {
        assert_eq!(row.count("unexplained"), 0, "{row:?}");
    }
    assert!(small.count("missing_socket") > 0, "{small:?}");
    assert!(large.count("missing_socket") == 0, "{large:?}");
    let drawn = |name: &str| std::fs::read_to_string(run.dir.join(format!("charts/{name}.svg"))).unwrap();
    assert!(drawn("gaps").contains("lost at: socket") && !drawn("falsified").contains("fill-opacity"));
}

#[test]
fn its_mistakes_are_told_in_a_line() {
    let lab = Lab::new();
    let mistakes = [
        ("monitor.groups=3", "monitor.groups: 3: 1, or 2 (A/B)"),
        ("monitor.stations=[[\"thermal\"]]", "traffic.from: `magnetics` is not among monitor.stations"),
        ("monitor.servers=[[\"east\"]]", "monitor.to: there is no"),
        ("monitor.kill=1h", "monitor.kill: 1h: within run.duration, 15s"),
        ("traffic.payload=64B", "traffic.payload: 64B: a datagram has 1232B to 1472B"),
        ("traffic.address=10.1.0.9", "several receivers need a multicast group"),
        ("monitor.chanels=3", "unknown key `chanels`"),
    ];
    for (mistake, message) in mistakes {
        let mut command = weir(&["lab", "check", "monitor", "--set", mistake]);
        let ended = Ended::of(command.current_dir(lab.dir.path()));
        assert!(ended.status == Some(2) && ended.stderr.contains(message), "{mistake}: {}", ended.stderr);
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{}", ended.stderr);
    }
}
