//! Programs on hosts, columns of what they print, and the scenarios that ship with them.

use super::{Ended, Lab, Run, weir};

/// Two hosts and a link that loses every third packet; `rest` has programs and columns.
fn scenario(lab: &Lab, rest: &str) -> String {
    let text = format!(
        r#"
name = "own"
title = "Programs"
[run]
duration = "600ms"
drain = "100ms"
[parameters]
word = "one"
[hosts]
a.addresses = ["10.0.0.1/24"]
b.addresses = ["10.0.0.2/24"]
[links]
wire.ends = ["a", "b"]
[traffic]
mode = "programs"
from = "a"
to = "b"
port = 9
transport = "udp"
payload = "100B"
{rest}"#
    );
    let path = lab.path("own.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn columns_are_made_of_what_programs_print_and_links_count() {
    let lab = Lab::new();
    let scenario = scenario(
        &lab,
        r#"
[[programs]]
name = "server"
host = "b"
run = ["sh", "-c", "trap 'echo {\\\"word\\\":\\\"{word}\\\",\\\"got\\\":3}; exit' TERM; while sleep 0.02; do :; done"]
[[programs]]
name = "both"
host = ["a", "b"]
start = "100ms"
run = ["sh", "-c", "echo '{\"n\":1}'; cat; echo '{\"n\":[2,3]}'"]
stdin = "{\"n\":10}\n"
[columns]
got = { value = "server.got", better = "higher" }
last = { value = "sum(both.n)" }
all = { value = "sum(both.lines.n)" }
rate = { value = "link.wire.forward.frames / run.duration_s", unit = "1/s", statistic = "rate" }
absent = { value = "server.nothing + 1" }
counted = { value = "host.b.udp.NoPorts" }
course = { value = "both.lines.n" }
"#,
    );
    let run = lab.run(&scenario, "own", &[]).good();
    let row = run.row("single");
    // The row is about host b, where an instance of `both` runs.
    assert_eq!((row.count("got"), row.count("last"), row.count("all")), (3, 5, 16), "{row:?}");
    assert_eq!((row.text("absent"), row.text("course"), row.text("valid")), ("", "", "true"), "{row:?}");
    // What programs send is not measured.
    assert!(["sent", "delivered", "msgs_per_s", "mbit_per_s"].iter().all(|name| row.text(name).is_empty()), "{row:?}");
    let why = "column `absent` is empty: `nothing` is not a number in what server on b reported";
    let remarks = run.record("single")["remarks"].clone();
    let says_why = |remark: &serde_json::Value| remark.as_str().is_some_and(|remark| remark.starts_with(why));
    assert!(remarks.as_array().unwrap().iter().any(says_why), "{remarks}");
    assert!(run.stdout.contains("Cell single lacks values: column `absent` is empty"), "{}", run.stdout);
    assert!(!run.stdout.contains("carried nothing"), "{}", run.stdout);
    assert_eq!((row.count("unexplained"), row.count("counted")), (0, 0), "{row:?}");
    assert!(row.number("rate") >= 0.0, "{row:?}");
    let timelines = &run.record("single")["timelines"];
    assert_eq!(
        (timelines[0]["name"].as_str(), timelines[0]["points"].as_array().map(Vec::len)),
        (Some("course"), Some(4))
    );
    let columns = &run.manifest()["columns"];
    assert_eq!((columns[0]["name"].as_str(), columns[0]["better"].as_str()), (Some("got"), Some("higher")));
}

#[test]
fn a_program_that_fails_makes_its_row_not_valid_and_one_that_is_absent_does_not() {
    let lab = Lab::new();
    let scenario = scenario(
        &lab,
        r#"
[[programs]]
name = "gone"
host = "a"
run = ["no-such-program"]
[[programs]]
name = "broken"
host = "b"
start = "100ms"
run = ["sh", "-c", "echo '{\"v\": 1}'; echo first >&2; echo the disk is full >&2; exit 7"]
[[programs]]
name = "killed"
host = "b"
kill = "200ms"
run = ["sleep", "60"]
[columns]
gone = { value = "count(gone.lines.x)" }
printed = { value = "broken.v" }
[[assert]]
column = "printed"
at_least = 1
"#,
    );
    let run = lab.run(&scenario, "own", &[]);
    // What it printed before shows nothing.
    assert_eq!(run.status, Some(3), "{}", run.stdout);
    let row = run.row("single");
    assert_eq!((row.text("valid"), row.text("gone")), ("false", ""), "{row:?}");
    let remarks = run.record("single")["remarks"].to_string();
    for remark in [
        "broken on b: ended with status 7: the disk is full",
        "gone: no-such-program is not installed: its columns are empty",
    ] {
        assert!(remarks.contains(remark), "{remarks}");
    }
    assert!(!remarks.contains("killed"), "{remarks}");
}

#[test]
fn mistakes_name_file_line_and_key() {
    let lab = Lab::new();
    let program = "[[programs]]\nname = \"p\"\nhost = \"a\"\nrun = [\"true\"]\n";
    for (rest, message) in [
        (
            format!("{program}[columns]\nx.value = \"link.wier.forward.frames\"\n"),
            "columns.x.value: link.wier.forward.frames: no link `wier`, did you mean `wire`?",
        ),
        (
            format!("{program}[columns]\nx.value = \"link.wire.forward.frame\"\n"),
            "no field `frame`, did you mean `frames`?",
        ),
        (
            format!("{program}[columns]\nx.value = \"run.duration\"\n"),
            "no field `duration`, did you mean `duration_s`?",
        ),
        (format!("{program}[columns]\nx.value = \"host.c.udp.InErrors\"\n"), "no host `c`"),
        (format!("{program}[columns]\nx.value = \"q.n\"\n"), "columns.x.value: q.n: no program `q`"),
        (format!("{program}[columns]\nx.value = \"1 +\"\n"), "columns.x.value: a value is missing at the end"),
        (format!("{program}[columns]\nsent.value = \"1\"\n"), "columns.sent: there is a column of this name"),
        (
            format!("{program}stop = \"soon\"\n"),
            "programs[0].stop: `soon`: write window, end, or a time after the start, e.g. 8s",
        ),
        (
            format!("{program}start = \"end\"\n"),
            "programs[0].start: `end`: write before, window, or a time after the start",
        ),
        (format!("{program}kill = \"x\"\n"), "programs[0].kill: `x`: write never, or a time after the start"),
        (format!("{program}start = \"8s\"\n"), "programs[0].start: 8s is after the window of the cell, 600ms"),
        (format!("{program}stop = \"8s\"\n"), "programs[0].stop: 8s is after the window and drain of the cell, 700ms"),
        (
            format!("{program}[columns]\nx.value = \"host.b.udp.InErors\"\n"),
            "no counter `InErors`, did you mean `InErrors`?",
        ),
        (format!("{program}ready = \"maybe\"\n"), "`maybe`: write READY, none, or a port, e.g. \"port 6343\""),
        (format!("{program}stdin = \"{{wrod}}\"\n"), "programs[0]: no {wrod} in [parameters], did you mean `word`?"),
        (
            format!("{program}poll = {{ every = \"1s\", get = \"ftp://x\" }}\n"),
            "programs[0].poll: `every` must be above 0",
        ),
        (program.replace("\"a\"", "\"c\""), "programs[0].host: no"),
        (program.replace("\"p\"", "\"link\""), "programs[0].name: \"link\": use letters, digits and _"),
        (program.repeat(2), "programs[1].name: there already is a program `p`"),
        (String::new(), "traffic.mode: \"programs\" needs [[programs]]"),
    ] {
        let file = scenario(&lab, &rest);
        let Ended { status, stderr, .. } = Ended::of(&mut weir(&["lab", "check", &file]));
        assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{rest}: {stderr}");
        assert!(stderr.contains(message) && stderr.contains("own.toml:"), "{message}: {stderr}");
    }
}

fn monitor(lab: &Lab, out: &str, set: &[&str]) -> Run {
    let few = ["run.duration=2s", "run.realtime=false", "cells=[]", "parameters.delay=10ms", "parameters.groups=1"];
    let set: Vec<&str> = few.iter().chain(set).copied().collect();
    lab.run("monitor", out, &set).good()
}

#[test]
fn every_viewer_knows_of_every_sample() {
    let lab = Lab::new();
    let run = monitor(&lab, "lossy", &[]);
    for viewer in 1..=20 {
        let row = run.row(&format!("single@v{viewer:02}"));
        assert_eq!((row.count("unexplained_samples"), row.count("unexplained")), (0, 0), "{row:?}");
        assert!(row.count("samples") > 3 * 4 * 1000, "{row:?}");
    }
    let [best, worst] = ["single@v01", "single@v12"].map(|cell| run.row(cell));
    assert_eq!(best.count("missing"), 0, "{best:?}");
    assert!(worst.count("missing") > 0 && worst.number("sample_age_p50_us") > 0.0, "{worst:?}");
}

#[test]
#[ignore = "long: 10 s"]
fn viewers_change_over_to_the_server_that_is_left() {
    let lab = Lab::new();
    let set = [
        "traffic.address=239.192.77.2",
        "parameters.listen=\"--listen 239.192.77.2:5110 --interface eth0\"",
        "parameters.unpublished=\"\"",
        "parameters.kill=1s",
    ];
    let row = monitor(&lab, "killed", &set).row("single@v01");
    // A second of samples follows the end of the first server.
    assert!(row.count("shown") > row.count("samples") * 3 / 4, "{row:?}");
    assert!((0..1200).contains(&row.count("not_shown_nor_missing")), "{row:?}");
}

#[test]
#[ignore = "long: 8 s"]
fn a_sine_is_shown_with_its_gaps_or_whole() {
    let lab = Lab::new();
    let run = lab.run("sine", "sine", &["run.duration=2s"]).good();
    let [small, large] = ["64KiB", "8MiB"].map(|cell| run.row(cell));
    for row in [&small, &large] {
        assert_eq!(row.count("unexplained_samples"), 0, "{row:?}");
    }
    assert!(small.count("missing_socket") > 0, "{small:?}");
    assert!(large.count("missing_socket") == 0, "{large:?}");
    let points = &run.record("64KiB")["timelines"][0]["points"];
    assert!(points.as_array().is_some_and(|points| points.len() > 1000), "{points}");
}

#[test]
#[ignore = "long: 45 s"]
fn estimates_from_sflow_survive_loss() {
    let lab = Lab::new();
    let set = ["run.duration=40s", "links.wire.loss.mean=30%", "links.wire.loss.burst=1"];
    let row = lab.run("sflow", "sflow", &set).good().row("single");
    // 25 estimates of 2 s each rest on some 10,000 samples: 1 %; and agents that stand still for a moment are some percent off.
    assert!((93.0..107.0).contains(&row.number("frames_found_pct")), "{row:?}");
    assert!(row.count("unexplained") == 0 && row.count("planned_drops") > 0, "{row:?}");
}

#[test]
#[ignore = "long: 20 s"]
fn a_flood_is_detected_once() {
    let lab = Lab::new();
    let row = lab.run("protect", "protect", &["links.wire.loss=20%"]).good().row("single");
    assert_eq!(row.count("detected"), 1, "{row:?}");
    assert!((0.0..5000.0).contains(&row.number("reaction_ms")), "{row:?}");
}
