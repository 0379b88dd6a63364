//! A made-up run that looks like the telemetry experiment, to develop and test renderers against.

use weir_stats::binomial;

use crate::record::{
    Chart, Claim, DropList, Estimate, LedgerEntry, Manifest, Method, Published, Quantiles, Record, Row,
};
use crate::record::{Scale, Value};

pub(crate) use matrix::{matrix_manifest, matrix_records};

mod matrix;

/// The published values and claims, and charts as a scenario would ask for them.
pub(crate) fn manifest() -> Manifest {
    let chart = |name: &str, title: &str, y: &str, scale, y_label: &str, caption: &str| Chart {
        name: name.into(),
        title: title.into(),
        x: "loss_pct".into(),
        y: y.into(),
        series: "transport".into(),
        scale,
        x_label: "Path loss, one way (%)".into(),
        y_label: y_label.into(),
        caption: caption.into(),
        ..Chart::default()
    };
    let text = |word: &str| Value::Text(word.into());
    let point = |transport: &str, loss: f64, column: &str, value: f64| {
        [("transport", text(transport)), ("loss_pct", Value::Number(loss)), (column, Value::Number(value))]
            .map(|(key, value)| (key.to_owned(), value))
            .into()
    };
    let claim = |text: &str, transport: &str, loss: Option<f64>, column: &str, at_least, at_most| Claim {
        text: text.into(),
        reading: String::new(),
        selection: [("transport".into(), Value::Text(transport.into()))]
            .into_iter()
            .chain(loss.map(|loss| ("loss_pct".into(), Value::Number(loss))))
            .collect(),
        relative_to: None,
        column: column.into(),
        at_least,
        at_most,
        confidence: 0.95,
        min_duration_s: None,
    };
    Manifest {
        format: 1,
        weir_version: "0.1.0".into(),
        scenario: "telemetry".into(),
        title: "UDP and TCP for telemetry under loss".into(),
        description: "A sender hands a timestamped message of 1000 bytes to the kernel every 10 ms, over UDP and over \
                      TCP. Both directions of the path lose packets independently.\n\nThe receiver notes when each \
                      message arrives."
            .into(),
        command: ["weir", "lab", "run", "telemetry"].map(String::from).into(),
        source: "name = \"telemetry\"\n\n[sweep]\nloss = [\"0%\", \"1%\", \"20%\"]\ntransport = [\"udp\", \"tcp\"]\n"
            .into(),
        seed: 1,
        started: "2026-11-21T10:00:00Z".into(),
        elapsed_s: 71.4,
        planned_cells: 42,
        interrupted: false,
        axes: vec![
            ("path.loss".into(), (0..=20).map(|loss| format!("{loss}%")).collect()),
            ("traffic.transport".into(), vec!["udp".into(), "tcp".into()]),
        ],
        environment: [
            ("kernel", "Linux 6.12.0"),
            ("CPU", "2 cores"),
            ("congestion control", "cubic"),
            ("emulator lateness p99", "74 µs"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into(),
        network: vec![
            "sender 10.0.0.2 – uplink – switch".into(),
            "switch – downlink – receiver 10.0.0.1".into(),
            "uplink, downlink: loss 1 - sqrt(1 - p) each way, no added delay".into(),
        ],
        charts: vec![
            chart(
                "throughput",
                "Throughput",
                "msgs_per_s",
                Scale::Linear,
                "Messages received per second",
                "UDP loses what the path loses. TCP keeps up until its retransmissions can no longer.",
            ),
            chart(
                "mean-delay",
                "Mean one-way delay",
                "delay_mean_us",
                Scale::Log,
                "Mean delay",
                "Delivered messages, from the send call.",
            ),
            chart("max-delay", "Largest one-way delay", "delay_max_us", Scale::Log, "Largest delay", ""),
        ],
        published: Some(Published {
            source: "the article".into(),
            points: vec![
                point("udp", 0.0, "msgs_per_s", 96.0),
                point("udp", 20.0, "msgs_per_s", 77.0),
                point("udp", 12.0, "msgs_per_s", 85.0),
                point("tcp", 0.0, "msgs_per_s", 96.0),
                point("tcp", 10.0, "msgs_per_s", 90.0),
                point("tcp", 12.0, "msgs_per_s", 85.0),
                point("tcp", 20.0, "msgs_per_s", 10.0),
                point("udp", 0.0, "delay_mean_us", 160.0),
                point("udp", 20.0, "delay_mean_us", 160.0),
                point("tcp", 20.0, "delay_mean_us", 3e7),
                point("udp", 20.0, "delay_max_us", 8e3),
                point("tcp", 14.0, "delay_max_us", 1e6),
                point("tcp", 20.0, "delay_max_us", 8.4e8),
            ],
        }),
        asserts: Vec::new(),
        claims: vec![
            claim("The mean delay of UDP is 160 µs at any loss.", "udp", None, "delay_mean_us", None, Some(200.0)),
            claim("UDP's largest delay is 8 ms.", "udp", None, "delay_max_us", None, Some(8e3)),
            Claim {
                relative_to: Some([("transport".into(), text("udp"))].into()),
                reading: "At most a quarter of UDP's throughput.".into(),
                ..claim("At 20 % TCP carries 10 messages a second.", "tcp", Some(20.0), "msgs_per_s", None, Some(0.25))
            },
            claim("UDP carries 77 messages a second at 20 %.", "udp", Some(20.0), "msgs_per_s", Some(76.0), Some(78.0)),
            claim("TCP carries 85 messages a second at 12 %.", "tcp", Some(12.0), "msgs_per_s", Some(82.0), Some(88.0)),
            Claim {
                min_duration_s: Some(1200.0),
                ..claim(
                    "TCP's largest delay at 20 % is 14 minutes.",
                    "tcp",
                    Some(20.0),
                    "delay_max_us",
                    Some(1e8),
                    None,
                )
            },
        ],
        own_cost: None,
    }
}

/// 21 losses, UDP and TCP each, of 60 s.
pub(crate) fn records() -> Vec<Record> {
    (0..=20).flat_map(|loss| [udp(loss), tcp(loss)]).collect()
}

const SENT: u64 = 5622;

fn udp(loss: u32) -> Record {
    let dropped = (SENT as f64 * (f64::from(loss) / 100.0 + wobble(loss) * 0.004)).max(0.0).round() as u64;
    let dropped = if loss == 0 { 0 } else { dropped };
    let mut record = record(loss, "udp", SENT - dropped, dropped);
    let mean = 128.0 + 25.0 * wobble(loss + 40);
    fill_delays(&mut record, mean, 9.0, mean * (9.0 + 6.0 * wobble(loss + 90)), 0.0);
    record.row.socket_drops = Some(0);
    record
}

fn tcp(loss: u32) -> Record {
    let over = f64::from(loss.saturating_sub(9));
    let share = 1.0 / (1.0 + (over / 6.5).powf(3.2)) * (1.0 - 0.1 * wobble(loss + 7).abs() * over.min(1.0));
    let mut record = record(loss, "tcp", (SENT as f64 * share) as u64, (f64::from(loss) * 70.0) as u64);
    record.row.undelivered = Some(SENT - record.row.delivered);
    record.row.retransmits = Some(u64::from(loss) * 64);
    let mean = 150.0 * (1.0 + f64::from(loss)).powf(1.2) * (over * 0.75).exp();
    fill_delays(&mut record, mean, mean * 0.35, (mean * 14.0).min(5.8e7), over);
    if loss == 17 {
        record.row.valid = false;
        record.reruns = 2;
        record.remarks.push("disturbed: heartbeat 312 ms late".into());
    }
    record
}

fn record(loss: u32, transport: &str, delivered: u64, planned: u64) -> Record {
    let msgs_per_s = delivered as f64 / 60.0;
    let share = binomial::share(delivered, SENT).expect("delivered at most what was sent");
    let entry = |place: &str, name: &str, unit: &str, count: u64, source: &str| LedgerEntry {
        place: place.into(),
        name: name.into(),
        unit: unit.into(),
        count: count as i64,
        source: source.into(),
    };
    let estimate = |value: f64, half: f64| Estimate {
        value,
        low: value - half,
        high: value + half,
        n: 32,
        method: Method::BatchMeans,
    };
    let half = 60.0 * (share.high - share.low);
    Record {
        row: Row {
            scenario: "telemetry".into(),
            cell: format!("{loss}%/{transport}"),
            repeat: 1,
            transport: transport.into(),
            loss_pct: loss.into(),
            payload_bytes: 1000,
            duration_s: 60.0,
            sent: SENT,
            delivered,
            msgs_per_s,
            mbit_per_s: msgs_per_s * 0.008,
            planned_drops: planned,
            unexplained: Some(0),
            valid: true,
            ..Row::default()
        },
        extra: vec![
            ("delivered_share".into(), Some(share.value)),
            ("return_planned_drops".into(), Some(f64::from(loss) * 3.0)),
        ],
        axes: vec![("path.loss".into(), format!("{loss}%")), ("traffic.transport".into(), transport.into())],
        estimates: [("msgs_per_s".into(), estimate(msgs_per_s, half)), ("delivered_share".into(), share)].into(),
        ledger: vec![
            entry("sender", "sent", "messages", SENT, "sender"),
            entry("link uplink ->", "planned loss", "packets", planned / 2, "emulator"),
            entry("link downlink ->", "planned loss", "packets", planned - planned / 2, "emulator"),
            entry("receiver", "delivered", "messages", delivered, "receiver"),
        ],
        drops: vec![DropList {
            link: "uplink ->".into(),
            flow: format!("{transport} 10.0.0.2:40000 > 10.0.0.1:65432"),
            packets: SENT,
            indexes: (0..planned / 2).map(|i| i * 11 + u64::from(loss)).collect(),
            complete: true,
        }],
        lateness: Quantiles { n: SENT, mean: Some(7.0), max: Some(1769.0), values: vec![(0.5, 6.0), (0.99, 74.0)] },
        heartbeat: Quantiles { n: 6000, mean: Some(55.0), max: Some(900.0), values: vec![(0.5, 52.0), (0.99, 131.0)] },
        ..Record::default()
    }
}

fn fill_delays(record: &mut Record, mean: f64, half: f64, max: f64, heavy: f64) {
    let median = mean / (1.0 + heavy * 0.2);
    record.row.delay_mean_us = Some(mean);
    record.row.delay_p50_us = Some(median);
    record.row.delay_p99_us = Some(max * 0.7);
    record.row.delay_max_us = Some(max);
    let estimate = Estimate { value: mean, low: mean - half, high: mean + half, n: 32, method: Method::BatchMeans };
    record.estimates.insert("delay_mean_us".into(), estimate);
    record.delays = Quantiles {
        n: record.row.delivered,
        mean: Some(mean),
        max: Some(max),
        values: vec![(0.5, median), (0.9, mean * 1.6), (0.99, max * 0.7)],
    };
}

/// A fixed number between -1 and 1 for each `index`.
fn wobble(index: u32) -> f64 {
    (f64::from(index) * 12.9898).sin() * 43_758.547 % 1.0
}
