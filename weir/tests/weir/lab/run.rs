//! `weir lab run`: what a run measures, and what it leaves behind.

use std::fs;

use calamine::{DataType, Reader, Xlsx};

use super::{Ended, Lab, Row, is_binomial, weir};

#[test]
fn lost_datagrams_of_quic_are_lost() {
    let set = ["path.loss=30%", "traffic.transport=quic-datagram", "traffic.interval=2ms", "run.duration=1s"];
    let lab = Lab::new();
    let run = lab.run("telemetry", "out", &[&set[..], &["run.drain=1s"]].concat()).good();
    let row = &run.rows()[0];
    let lost = 1.0 - row.number("delivered") / row.number("sent");
    assert!(lost > 0.0 && (row.number("lost_share") - lost).abs() < 1e-3, "{row:?}");
}

/// The program fails both times: the first record stays, and with it the times of its messages.
#[test]
fn times_of_messages_are_those_of_the_record_that_stays() {
    let lab = Lab::new();
    let programs = "[[programs]]\nname = \"fails\"\nhost = \"receiver\"\nrun = [\"false\"]\n\n[path]";
    let scenario = lab.telemetry("fails", &[("[path]", programs)]);
    let set = ["path.loss=0%", "traffic.transport=udp", "run.duration=500ms", "run.drain=100ms"];
    let run = lab.run(&scenario, "out", &[&set[..], &["run.reruns=1", "run.messages=true"]].concat());
    assert!(run.stdout.contains("run again") && run.status == Some(0), "{:?}", run.ended);
    let mut file = csv::Reader::from_path(run.dir.join("messages/single.csv")).unwrap();
    let times = file.records().map(|row| [5, 6].map(|column| row.as_ref().unwrap()[column].parse::<u64>().unwrap()));
    let longest = times.map(|[sent, received]| received - sent).max().unwrap();
    assert!((run.row("single").number("delay_max_us") - longest as f64 / 1e3).abs() < 0.2, "{longest}");
}

#[test]
fn telemetry_on_a_short_axis() {
    let lab = Lab::new();
    // The kernel's own buffer holds 90 ms of messages, and a processor may stand still for longer.
    let few = ["run.duration=1s", "run.drain=1s", "receive.buffer=4MiB"];
    let set = [&["path.loss=0%,10%,20%", "traffic.interval=1ms"], &few[..]].concat();
    let run = lab.run("telemetry", "result", &set).good();

    let header = run.header();
    assert_eq!(header[..FIXED.len()], FIXED, "the fixed columns come first");
    assert_eq!(header[FIXED.len()], "delivered_share");
    let rows = run.rows();
    let cells: Vec<&str> = rows.iter().map(|row| row.text("cell")).collect();
    assert_eq!(cells, ["0%/udp", "0%/tcp", "10%/udp", "10%/tcp", "20%/udp", "20%/tcp"]);
    for row in &rows {
        let cell = row.text("cell");
        assert_eq!(
            (row.text("scenario"), row.text("repeat"), row.count("unexplained")),
            ("telemetry", "1", 0),
            "{cell}"
        );
        assert_eq!((row.count("queue_drops"), row.count("emulator_drops")), (0, 0), "{cell}");
        assert!(
            row.number("delay_mean_us") > 0.0 && row.number("delay_max_us") >= row.number("delay_mean_us"),
            "{cell}"
        );
        if cell.starts_with("0%") {
            let undelivered = if cell.ends_with("tcp") { row.count("undelivered") } else { 0 };
            assert_eq!((row.count("planned_drops"), undelivered), (0, 0), "{cell}");
        }
        if cell.ends_with("udp") {
            closes(row);
            assert!(row.count("sent") > 500, "{cell}");
            assert_eq!((row.text("undelivered"), row.text("retransmits")), ("", ""), "{cell}");
        } else {
            assert_eq!(row.count("undelivered"), row.count("sent") - row.count("delivered"), "{cell}");
            assert!(row.number("connect_ms") > 0.0, "{cell}");
        }
    }
    for (cell, loss) in [("10%/udp", 0.1), ("20%/udp", 0.2)] {
        let row = run.row(cell);
        // What else is missing is at the socket, and in the account above.
        let (sent, lost) = (row.count("sent") as u64, row.count("planned_drops") as u64);
        assert!(is_binomial(lost, sent, loss), "{cell}: {lost} of {sent}");
    }
    for cell in ["10%/tcp", "20%/tcp"] {
        let row = run.row(cell);
        assert!(row.count("planned_drops") > 0 && row.count("retransmits") > 0, "{cell}");
    }
    assert!(run.row("20%/tcp").number("msgs_per_s") < run.row("20%/udp").number("msgs_per_s"));

    for line in ["   0%  ", "  10%  ", "  20%  ", "udp msgs/s", "tcp msgs/s"] {
        assert!(run.stdout.contains(line), "{line:?} is not in\n{}", run.stdout);
    }
    let page = run.dir.join("report.html");
    assert_eq!(run.stdout.lines().last(), page.to_str());
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("20%/tcp") && !page.contains("src=\"http") && !page.contains("<link"));
    for chart in ["delay-mean", "delay-max", "throughput"] {
        let chart = fs::read_to_string(run.dir.join(format!("charts/{chart}.svg"))).unwrap();
        assert!(chart.starts_with("<svg") && chart.trim_end().ends_with("</svg>"));
    }
    let mut book: Xlsx<_> = calamine::open_workbook(run.dir.join("summary.xlsx")).unwrap();
    let mut in_book = |text: &str| {
        let in_cell = |cell: &calamine::Data| cell.as_string().as_deref() == Some(text);
        book.worksheets().iter().any(|(_, sheet)| sheet.used_cells().any(|(_, _, cell)| in_cell(cell)))
    };
    assert!(in_book("20%/tcp") && in_book(run.row("10%/udp").text("delivered")));

    let manifest = run.manifest();
    assert_eq!((&manifest["interrupted"], &manifest["planned_cells"]), (&false.into(), &6.into()));
    let facts: Vec<&str> =
        manifest["environment"].as_array().unwrap().iter().map(|fact| fact[0].as_str().unwrap()).collect();
    assert!(facts.len() > 5, "{facts:?}");
    assert!(manifest["source"].as_str().unwrap().contains("interval = \"1ms\""));

    // The directory renders again to the same table.
    fs::remove_file(run.dir.join("results.csv")).unwrap();
    let again = Ended::of(&mut weir(&["lab", "report", run.dir.to_str().unwrap()]));
    assert_eq!((again.status, &*again.stderr), (Some(0), ""));
    assert!(run.rows().iter().zip(&rows).all(|(new, old)| new.0 == old.0) && run.rows().len() == rows.len());
}

#[test]
fn a_copied_scenario_with_another_topology() {
    let lab = Lab::new();
    let scenario = lab.telemetry(
        "long-way",
        &[
            ("\"path.loss\" = { from = \"0%\", to = \"20%\", step = \"1%\" }", AXES),
            ("[\"10.0.0.2/24\"]", "[\"fd00:7::2/64\", \"192.0.2.2/28\"]"),
            ("[\"10.0.0.1/24\"]", "[\"fd00:7::1/64\", \"192.0.2.1/28\"]"),
            ("[switches.s1]", "[switches.s1]\n[switches.s2]\n[links.middle]\nends = [\"s2\", \"s1\"]"),
            ("ends = [\"s1\", \"receiver\"]", "ends = [\"s2\", \"receiver\"]"),
            ("loss = \"0%\"  ", "loss = \"10%\"  "),
            ("interval = \"10ms\"", "interval = \"4ms\""),
            ("duration = \"55s\"", "duration = \"1500ms\""),
            ("drain = \"10s\"", "drain = \"2s\""),
        ],
    );
    let run = lab.run(&scenario, "result", &[]).good();
    assert_eq!(run.rows().len(), 16);
    for row in run.rows() {
        let cell = row.text("cell").to_owned();
        let [delay, payload, address, transport] = cell.split('/').collect::<Vec<_>>().try_into().unwrap();
        let milliseconds: f64 = delay.trim_end_matches("ms").parse().unwrap();
        assert_eq!((row.number("latency_ms"), row.number("loss_pct")), (milliseconds, 10.0), "{cell}");
        assert_eq!((row.text("scenario"), format!("{}B", row.text("payload_bytes"))), ("long-way", payload.to_owned()));
        // A clock that ticks in whole steps may round the least delay, not the mean, below what was asked for.
        let mean = row.number("delay_mean_us");
        assert!(mean >= 1000.0 * milliseconds, "{cell}: {mean}");
        let record = run.record(&cell);
        assert_eq!(row.count("unexplained"), 0, "{cell}: {}", record["ledger"]);

        let [up, middle, down] = ["uplink ->", "middle <-", "downlink ->"].map(|link| {
            let lists = record["drops"].as_array().unwrap().iter();
            let of_data =
                lists.filter(|list| list["link"] == link && list["flow"].as_str().unwrap().starts_with(transport));
            assert!(of_data.clone().all(|list| list["complete"] == true));
            of_data.map(|list| list["indexes"].as_array().unwrap().len() as i64).sum::<i64>()
        });
        assert_eq!(up + middle + down, row.count("planned_drops"), "{cell}");
        if transport == "udp" {
            closes(&row);
            let flow = record["drops"][0]["flow"].as_str().unwrap();
            assert!(flow.contains(address), "{flow} is not to {address}");
            // Each of three links takes 1 - 0.9^(1/3) of what reaches it.
            let (sent, share) = (row.count("sent") as u64, 1.0 - 0.9f64.cbrt());
            let after = |drops: i64| sent - drops as u64;
            for (drops, entering) in [(up, sent), (middle, after(up)), (down, after(up + middle))] {
                assert!(is_binomial(drops as u64, entering, share), "{cell}: {drops} of {entering}");
            }
        } else {
            assert!(row.number("connect_ms") >= 2.0 * milliseconds, "{cell}");
        }
    }
}

#[test]
fn congestion_control_is_an_axis() {
    let lab = Lab::new();
    let set = [
        "path.loss=5%",
        "traffic.transport=tcp",
        "tcp.congestion=cubic,reno",
        "traffic.interval=2ms",
        "run.duration=1s",
        "run.drain=2s",
    ];
    let run = lab.run("telemetry", "result", &set).good();
    let cells: Vec<String> = run.rows().iter().map(|row| row.text("cell").to_owned()).collect();
    assert_eq!(cells, ["cubic", "reno"]);
    assert!(run.rows().iter().all(|row| row.count("unexplained") == 0 && row.count("delivered") > 20));
}

/// Every datagram has a counter at its end.
#[track_caller]
fn closes(row: &Row) {
    let ends = ["delivered", "planned_drops", "socket_drops", "queue_drops", "emulator_drops"];
    let sum: i64 = ends.iter().map(|column| row.count(column)).sum();
    assert_eq!(sum, row.count("sent"), "{}", row.text("cell"));
}

const AXES: &str = r#""path.delay" = ["5ms", "20ms"]
"traffic.payload" = ["100B", "1200B"]
"traffic.address" = ["fd00:7::1", "192.0.2.1"]"#;

/// As the design fixes them.
const FIXED: [&str; 25] = [
    "scenario",
    "cell",
    "repeat",
    "transport",
    "loss_pct",
    "latency_ms",
    "rate_mbit",
    "payload_bytes",
    "duration_s",
    "sent",
    "delivered",
    "undelivered",
    "msgs_per_s",
    "mbit_per_s",
    "delay_mean_us",
    "delay_p50_us",
    "delay_p99_us",
    "delay_max_us",
    "retransmits",
    "planned_drops",
    "queue_drops",
    "socket_drops",
    "emulator_drops",
    "unexplained",
    "valid",
];
