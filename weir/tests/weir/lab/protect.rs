//! Floods behind a link that loses: short runs of the scenario that ships, and what holds on any machine.

use super::{Ended, Lab, Run, weir};

/// Of floods of twenty times the threshold some twenty.
fn run(lab: &Lab, out: &str, set: &[&str]) -> Run {
    let few = ["run.duration=12s", "run.drain=2s", "run.realtime=false", "protect.agents=2"];
    let set: Vec<&str> = few.iter().chain(set).copied().collect();
    lab.run("protect", out, &set).good()
}

#[test]
#[ignore = "long: 30 s"]
fn floods_are_met_though_telemetry_is_lost_and_over_tcp_they_are_not() {
    let lab = Lab::new();
    let set = ["protect.size=20", "links.wire.loss.mean=0%,20%", "traffic.transport=udp,tcp"];
    let run = run(&lab, "floods", &set);
    for cell in ["0%/udp", "20%/udp", "0%/tcp"] {
        let row = run.row(cell);
        assert_eq!(row.count("unexplained"), 0, "{row:?}");
        assert!(row.count("floods") >= 15, "{row:?}");
        // They last half a second; a machine that stands still may miss one.
        assert!(row.number("stopped_pct") >= 80.0, "{row:?}");
        assert_eq!((row.count("false_alarms"), row.count("false_routes")), (0, 0), "{row:?}");
    }
    let (udp, tcp) = (run.row("20%/udp"), run.row("20%/tcp"));
    assert!(udp.count("planned_drops") > 100, "{udp:?}");
    assert!(tcp.number("reaction_p50_us") > 5.0 * udp.number("reaction_p50_us"), "{tcp:?}\n{udp:?}");
    assert!(tcp.number("stopped_pct") < 50.0, "{tcp:?}");
}

#[test]
#[ignore = "long: 15 s"]
fn forged_telemetry_makes_an_event_and_no_route() {
    let lab = Lab::new();
    let set = ["protect.size=20", "links.wire.loss.mean=0%", "traffic.transport=udp"];
    let run = run(&lab, "forged", &set);
    let (forged, benign) = (run.row("forged"), run.row("benign"));
    assert!(forged.count("doubted") >= 2 && forged.count("delivered") > 500, "{forged:?}");
    assert_eq!((forged.count("false_routes"), forged.count("floods")), (0, 0), "{forged:?}");
    assert_eq!((benign.count("alarms"), benign.count("false_routes")), (0, 0), "{benign:?}");
}

#[test]
fn its_mistakes_are_told_in_a_line() {
    let mistakes = [
        ("protect.agents=0", "protect.agents: 0: 1 to 200"),
        ("protect.size=1", "protect.size: 1: more than 1, up to 1000 times the threshold"),
        ("protect.apart=1ms", "protect.apart: 1ms: at least 10ms"),
        ("run.duration=6s", "the first begins after 6 s, and run.duration is 6s"),
        ("protect.attack=many", "`many`: write one of none, flood, forged"),
        ("protect.false_alarms=never", "never"),
        ("traffic.transport=quic", "sflow is exported over udp or tcp, not quic"),
    ];
    for (set, expected) in mistakes {
        let Ended { status, stderr, .. } = Ended::of(&mut weir(&["lab", "check", "protect", "--set", set]));
        assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{set}: {stderr}");
        assert!(stderr.contains(expected), "{set}: {stderr}");
    }
}
