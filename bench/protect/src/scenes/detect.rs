//! How soon floods are decided by size, beside fixed averages; how often each alarms in error; what a sample costs.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use bench_measure::{Report, median};
use ipnet::Ipv4Net;
use serde_json::json;
use weir_protect::detect::sequential::{Bar, Confidence, Most, Test};
use weir_protect::detect::{Detector, Group, Settings, Threshold};
use weir_protect::model::{Class, Packet, Point, Sighting, Transport, Word};
use weir_report::columns::Columns;
use weir_report::record::{Chart, Record, Row, Scale as Axis};
use weir_report::{cells, charts};
use weir_testbed::random::Source;

use super::averages::Average;
use super::{Scale, quantile};
use crate::programs::Programs;

/// Packets a second that a host may get, and one in how many is sampled.
const THRESHOLD: f64 = 40_000.0;
const SAMPLING: f64 = 1_000.0;
/// Of the size of a flood against the threshold.
const SIZES: [f64; 10] = [1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0];
/// Targets and kinds of traffic that share one false alarm a year.
const TESTS: f64 = 65_536.0 * 7.0;
/// Seconds after which a flood is given up.
const LONGEST: f64 = 60.0;
const OUT: &str = "target/bench-protect";
const RULES: [&str; 5] = ["Weir", "1 s average", "5 s average", "1 s average, raised", "5 s average, raised"];

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    power(scale, report)?;
    false_alarms(scale, report);
    cost(scale, report);
    Ok(())
}

/// Times to a decision after traffic of half the threshold becomes so many times the threshold.
fn power(scale: Scale, report: &mut Report) -> Result<()> {
    println!(
        "From a flood's beginning to its decision, threshold {THRESHOLD} packets/s, 1 in {SAMPLING}, {} floods each:",
        scale.floods
    );
    let names = RULES.map(|rule| format!("{rule:<20}"));
    println!("    (median, 99 %; raised: as far as makes false alarms as rare as Weir's)");
    println!("    {:<6}{}", "times", names.concat());
    let mut random = Source(16);
    let mut records = Vec::new();
    std::fs::create_dir_all(OUT).context(OUT)?;
    let mut table = csv::Writer::from_path(Path::new(OUT).join("detect.csv"))?;
    table.write_record(["rule", "times_threshold", "floods", "decided", "median_s", "p99_s"])?;
    for size in SIZES {
        let mut delays: [Vec<f64>; 5] = Default::default();
        for _ in 0..scale.floods {
            let found = decide(&mut random, size);
            delays.iter_mut().zip(found).for_each(|(delays, found)| delays.push(found.unwrap_or(f64::INFINITY)));
        }
        let mut words = String::new();
        for (rule, delays) in RULES.iter().zip(&mut delays) {
            delays.sort_by(f64::total_cmp);
            let decided = delays.iter().filter(|delay| delay.is_finite()).count();
            let [p50, p99] = [0.5, 0.99].map(|share| quantile(delays, share));
            words += &format!("{:<20}", format!("{}, {}", seconds(p50), seconds(p99)));
            table.write_record([
                rule,
                &size.to_string()[..],
                &delays.len().to_string(),
                &decided.to_string(),
                &p50.to_string(),
                &p99.to_string(),
            ])?;
            records.push(record(rule, size, p50));
            report.figure(json!({"scene": "detect", "rule": rule, "times_threshold": size, "decided": decided, "median_s": p50, "p99_s": p99}));
        }
        println!("    {size:<6}{}", words.trim_end());
        if size == 10.0 {
            let p99 = quantile(&delays[0], 0.99);
            println!(
                "    {}",
                report.goal("a flood of ten times the threshold, p99", "<= 200 ms", &seconds(p99), p99 <= 0.2)
            );
        }
    }
    table.flush()?;
    let chart = Chart {
        name: "detect".into(),
        title: "How soon a flood is decided".into(),
        x: "times_threshold".into(),
        y: "median_s".into(),
        series: "rule".into(),
        scale: Axis::Log,
        x_scale: Axis::Log,
        x_label: "Flood, times the threshold".into(),
        y_label: "Median from its beginning to the decision (s)".into(),
        caption: format!(
            "Threshold {THRESHOLD} packets/s, one packet in {SAMPLING} sampled. At traffic at its threshold the averages alarm all the \
             time; Weir does once a year, all targets together."
        ),
        ..Chart::default()
    };
    let picture = charts::render(&chart, &cells::group(Columns::default(), &records), None);
    std::fs::write(Path::new(OUT).join("detect.svg"), picture)?;
    println!("    {OUT}/detect.csv, {OUT}/detect.svg");
    Ok(())
}

fn record(rule: &str, size: f64, p50: f64) -> Record {
    Record {
        row: Row {
            scenario: "detect".into(),
            cell: format!("{rule}/{size}"),
            repeat: 1,
            valid: true,
            ..Row::default()
        },
        extra: [("times_threshold".into(), Some(size)), ("median_s".into(), p50.is_finite().then_some(p50))].into(),
        axes: vec![("rule".into(), rule.into()), ("times_threshold".into(), size.to_string())],
        ..Record::default()
    }
}

/// When each rule decided, in seconds from the beginning of a flood, which comes at any time of a second.
fn decide(random: &mut Source, size: f64) -> [Option<f64>; 5] {
    let confidence = Confidence::new(1.0, TESTS, 0.1);
    let (bar, most) = (Bar::new(THRESHOLD), Most::new(SAMPLING as f32));
    let mut test = Test::default();
    let mut averages = averages();
    let begin = 10.0 + random.uniform();
    let (mut at, mut found) = (0.0, [None; 5]);
    while at < begin + LONGEST && found.iter().any(Option::is_none) {
        let rate = if at < begin { 0.5 } else { size } * THRESHOLD;
        let next = at + random.exponential(SAMPLING / rate);
        if at < begin && next >= begin {
            // What comes from then on comes at the other rate.
            at = begin;
            continue;
        }
        at = next;
        let now = (at * 1e9) as u64;
        let decided = test.sample((now, 0), SAMPLING as f32, most, &bar, &confidence).share >= 1.0;
        let alarms = averages.iter_mut().map(|average| average.sample(now, SAMPLING));
        for (found, alarm) in found.iter_mut().zip(std::iter::once(decided.then_some(now)).chain(alarms)) {
            let alarm = alarm.map(|time| time as f64 / 1e9 - begin).filter(|&delay| delay >= 0.0);
            *found = found.or(alarm);
        }
    }
    found
}

/// Averages of one and of five seconds, held against the threshold, and against what traffic at the threshold exceeds by chance as rarely as
/// Weir alarms in error.
fn averages() -> [Average; 4] {
    let raised = |seconds: u64| {
        let mean = THRESHOLD / SAMPLING * seconds as f64;
        let a_year = TESTS * weir_protect::detect::sequential::YEAR;
        rarely_above(mean, 1.0 / a_year) * SAMPLING / seconds as f64
    };
    [Average::new(1, THRESHOLD), Average::new(5, THRESHOLD), Average::new(1, raised(1)), Average::new(5, raised(5))]
}

/// The number that a Poisson variable of this mean exceeds with at most this probability.
fn rarely_above(mean: f64, probability: f64) -> f64 {
    let (mut log, mut number) = (-mean, 0.0);
    loop {
        number += 1.0;
        log += (mean / number).ln();
        // The terms behind fall faster than a geometric series.
        if number > mean && log.exp() / (1.0 - mean / (number + 1.0)) <= probability {
            return number - 1.0;
        }
    }
}

/// How often a target alarms whose traffic is always at, or somewhat below, its threshold.
fn false_alarms(scale: Scale, report: &mut Report) {
    let hours = f64::from(scale.floods) / 10.0;
    println!("False alarms of one target in {hours} h:");
    let mut random = Source(17);
    for part in [0.7, 0.8, 0.9, 1.0] {
        let confidence = Confidence::new(1.0, TESTS, 0.1);
        let (bar, most) = (Bar::new(THRESHOLD), Most::new(SAMPLING as f32));
        let mut test = Test::default();
        let mut averages = averages();
        let (mut at, mut alarms) = (0.0, [0u32; 5]);
        while at < hours * 3600.0 {
            at += random.exponential(SAMPLING / (part * THRESHOLD));
            let now = (at * 1e9) as u64;
            if test.sample((now, 0), SAMPLING as f32, most, &bar, &confidence).share >= 1.0 {
                alarms[0] += 1;
                test = Test::default();
            }
            for (average, alarms) in averages.iter_mut().zip(&mut alarms[1..]) {
                *alarms += u32::from(average.sample(now, SAMPLING).is_some());
            }
        }
        let words: Vec<String> = RULES.iter().zip(alarms).map(|(rule, alarms)| format!("{rule} {alarms}")).collect();
        println!("    at {part} of the threshold: {}", words.join(", "));
        report.figure(json!({"scene": "detect", "part": part, "hours": hours, "alarms": alarms}));
    }
}

/// What a sample costs in the whole detector, in ns: medians of rounds.
fn cost(scale: Scale, report: &mut Report) {
    println!("A sample in the detector:");
    let one = vec![Threshold::packets(Class::UdpFlood, THRESHOLD)];
    let all: Vec<Threshold> = Class::ALL
        .map(|class| Threshold { bits: Some(4e8), learn: true, ..Threshold::packets(class, THRESHOLD) })
        .into();
    for (what, thresholds, hosts, frames) in [
        ("usual traffic, one threshold, 256 hosts", &one, 256, 100.0),
        ("usual traffic, one threshold, 65,536 hosts", &one, 65_536, 100.0),
        ("usual traffic, all classes in packets and bits, learning, 256 hosts", &all, 256, 100.0),
        ("usual traffic, all classes in packets and bits, learning, 65,536 hosts", &all, 65_536, 100.0),
        ("a flood of one host, one threshold", &one, 1, 100_000.0),
        ("floods of 1,000 hosts, one threshold", &one, 1_000, 100_000.0),
    ] {
        let mut detector = detector(thresholds);
        let packets = packets(hosts);
        let (mut costs, mut ticks) = (Vec::new(), Vec::new());
        for round in 0..scale.rounds as u64 + 1 {
            let begin = Instant::now();
            for at in 0..SAMPLES {
                let time = 1 + (round * SAMPLES + at) * 10_000;
                detector.sample(black_box(&sighting(time, frames, &packets[at as usize % packets.len()])));
            }
            let cost = begin.elapsed().as_secs_f64() / SAMPLES as f64 * 1e9;
            let begin = Instant::now();
            detector.tick((round + 1) * SAMPLES * 10_000, 0);
            let tick = begin.elapsed().as_secs_f64() * 1e3;
            detector.take_findings();
            // The first round fills tables.
            if round > 0 {
                costs.push(cost);
                ticks.push(tick);
            }
        }
        let (cost, tick) = (median(&costs), median(&ticks));
        let floods = detector.statistics().floods;
        println!("    {cost:.0} ns: {what}; {floods} floods, a tick {tick:.2} ms");
        report.figure(json!({"scene": "detect", "what": what, "ns": cost, "tick_ms": tick, "floods": floods}));
    }
}

const SAMPLES: u64 = 200_000;

fn detector(thresholds: &[Threshold]) -> Detector {
    let networks = vec![Ipv4Net::new_assert(Ipv4Addr::new(10, 1, 0, 0), 16).into()];
    let group = Group { name: "web".into(), networks, thresholds: thresholds.to_vec() };
    Detector::new(Settings { groups: vec![group], ..Settings::default() })
}

fn packets(hosts: u64) -> Vec<Packet> {
    let mut random = Source(18);
    let packet = |random: &mut Source| Packet {
        source: Ipv4Addr::from(0x3000_0000 + random.bits() as u32 % 0x4000_0000).into(),
        // Spread over the network, so that many hosts are no carpet.
        destination: Ipv4Addr::from(0x0a01_0000 + random.number(0..hosts) as u32 * (65_536 / hosts as u32)).into(),
        protocol: 17,
        transport: Some(Transport::Udp { source: random.bits() as u16, destination: 443 }),
        fragment: false,
        length: 60 + random.number(0..1400) as u32,
        dscp: 0,
    };
    (0..65_536).map(|_| packet(&mut random)).collect()
}

fn sighting(time: u64, frames: f64, packet: &Packet) -> Sighting<'static> {
    let point = Point { agent: Ipv4Addr::new(10, 0, 0, 1).into(), index: 1 };
    Sighting {
        time,
        stream: 0,
        exposure: Some(time % 100_000_000),
        point,
        word: Word::Good,
        ingress: Some(true),
        frames,
        packet: *packet,
        header: &[0x45; 64],
    }
}

fn seconds(value: f64) -> String {
    if value.is_finite() { format!("{value:.2} s") } else { "never".into() }
}
