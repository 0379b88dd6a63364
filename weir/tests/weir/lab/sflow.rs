//! The analyser of sFlow behind a link that loses: short runs of the scenario that ships, and what holds on any machine.

use super::{Ended, Lab, Row, Run, weir};

/// Five agents of four interfaces, a fifth of the traffic.
fn run(lab: &Lab, out: &str, set: &[&str]) -> Run {
    let few = [
        "run.duration=4s",
        "run.drain=3s",
        "run.realtime=false",
        "sflow.agents=5",
        "sflow.packets_per_second=50000",
        "sflow.window=200ms",
        "sflow.polling=500ms",
        "links.wire.loss.burst=1",
    ];
    let set: Vec<&str> = few.iter().chain(set).copied().collect();
    lab.run("sflow", out, &set).good()
}

/// What is sent has arrived or is in a counter.
#[track_caller]
fn closes(row: &Row) {
    assert_eq!(row.count("unexplained"), 0, "{row:?}");
    let lost = row.count("planned_drops") + row.count("host_drops");
    assert_eq!(row.count("sent") - row.count("delivered"), lost, "{row:?}");
}

#[test]
#[ignore = "long: 10 s"]
fn counters_and_samples_survive_what_the_configured_rate_does_not() {
    let lab = Lab::new();
    let run = run(&lab, "lossy", &["links.wire.loss.mean=0%,30%", "traffic.transport=udp"]);
    let [clean, lossy] = ["0%", "30%"].map(|cell| run.row(cell));
    for row in [&clean, &lossy] {
        closes(row);
        assert!(row.count("windows") >= 20 && row.count("flow_samples") > 500, "{row:?}");
        // Twenty interfaces, twice a second, octets and packets: of those that are lost the next one tells.
        assert!(row.count("counter_rates") > 100, "{row:?}");
        assert!(row.number("counter_error_max_pct") <= 1.0, "{row:?}");
        // What a machine that stands still looks at too late is some percent off.
        let found = row.number("frames_found_pct");
        assert!((88.0..112.0).contains(&found), "{row:?}");
        // Nobody can know of what an agent sent before its first datagram that came, and behind its last.
        assert!((0..40).contains(&row.count("missed_losses")), "{row:?}");
    }
    assert_eq!(clean.count("missed_losses"), clean.count("sent") - clean.count("delivered"));
    assert!(lossy.count("planned_drops") > 100, "{lossy:?}");
    let (ours, nominal) = (lossy.number("frames_found_pct"), lossy.number("nominal_found_pct"));
    assert!(nominal < 0.8 * ours, "the configured rate finds {nominal} %, the pool {ours} %");
}

#[test]
#[ignore = "long: 10 s"]
fn tcp_is_late_with_the_same_records() {
    let lab = Lab::new();
    let run = run(&lab, "late", &["links.wire.loss.mean=0%,20%", "traffic.transport=tcp"]);
    let [clean, lossy] = ["0%", "20%"].map(|cell| run.row(cell));
    assert_eq!((clean.count("undelivered"), clean.count("unexplained")), (0, 0), "{clean:?}");
    assert!(clean.count("delivered") > 100 && clean.number("counter_error_max_pct") <= 1.0, "{clean:?}");
    assert_eq!(lossy.count("unexplained"), 0, "{lossy:?}");
    // Whatever the seed, it carries no megabit a second at this loss; each retransmission by timeout takes 200 ms at least.
    assert!(lossy.count("unsent") > 0 && lossy.count("delivered") < clean.count("delivered") / 2, "{lossy:?}");
    assert!(lossy.number("censored_delay_max_us") > 200_000.0, "{lossy:?}");
}

#[test]
fn its_network_can_be_entered_and_its_mistakes_are_told_in_a_line() {
    let lab = Lab::new();
    let listed = Ended::of(weir(&["lab", "list"]).current_dir(lab.dir.path()));
    assert!(listed.stdout.lines().any(|line| line.contains("sflow")), "{}", listed.stdout);
    let inside = Ended::of(&mut weir(&["lab", "shell", "--set", "name=mine", "sflow", "analyser", "true"]));
    assert_eq!((inside.status, inside.stderr.as_str()), (Some(0), ""), "{}", inside.stdout);
    let mistakes = [
        ("sflow.agents=0", "sflow.agents: 0: 1 to 10000"),
        ("sflow.window=0s", "sflow.window: 0: at least 100ms"),
        (
            "sflow.window=10s",
            "sflow.window: 10s: run.duration is 1m, and flows have settled after 8 of these: take less",
        ),
        ("sflow.agent=3", "unknown key `agent`"),
        ("traffic.transport=quic", "sflow is exported over udp or tcp, not quic"),
        ("traffic.payload=100B", "traffic.payload: 100B: a datagram has 256B to 65000B"),
    ];
    for (set, expected) in mistakes {
        let Ended { status, stderr, .. } = Ended::of(&mut weir(&["lab", "check", "sflow", "--set", set]));
        assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains(expected), "{set}: {stderr}");
    }
}
