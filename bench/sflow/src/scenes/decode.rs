//! Decoding alone: in memory, and from a capture to JSON.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, machine, median};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;
use weir_wire::frame::{Frame, Start};
use weir_wire::sflow::{Datagram, Sample, SampledHeader, View};

use super::Scale;
use crate::load::{Load, Plan};
use crate::pcap;
use crate::programs::Programs;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    let mut load = Load::new(Plan { datagrams: DATAGRAMS, ..Plan::USUAL })?;
    println!(
        "Decoding, {:.0} bytes and {:.2} samples a datagram; each on one processor",
        load.bytes_each(),
        load.samples_each()
    );
    let bare = programs.directory().join("datagrams");
    pcap::write_bare(&bare, &mut load, DATAGRAMS)?;
    let bytes = std::fs::read(&bare)?;
    let datagrams = split(&bytes)?;
    let mut looks = vec![
        Look::new("weir, every record"),
        Look::new("weir, and the headers"),
        Look::new("weir, every field by the table"),
    ];
    if programs.goflow2_decoder.is_some() {
        looks.extend([Look::new("goflow2, every record"), Look::new("goflow2, and the headers")]);
    }
    for _ in 0..scale.rounds {
        looks[0].costs.push(in_memory(&datagrams, scale.cost, records)?);
        looks[1].costs.push(in_memory(&datagrams, scale.cost, headers)?);
        looks[2].costs.push(in_memory(&datagrams, scale.cost, fields)?);
        if let Some(decoder) = &programs.goflow2_decoder {
            looks[3].costs.push(goflow2(decoder, &bare, scale.cost, &[])?);
            looks[4].costs.push(goflow2(decoder, &bare, scale.cost, &["headers"])?);
        }
    }
    println!("  in memory");
    let samples = load.samples_each();
    print(&looks, samples, "in memory", report);
    if let [own, own_headers, _, other, other_headers] = &looks[..] {
        for (what, own, other) in [("every record", own, other), ("and the headers", own_headers, other_headers)] {
            let measured = own.ratio(other);
            let words = format!("{measured:.1} x");
            let verdict = report.goal(
                &format!("decoding in memory, {what}, over goflow2's"),
                ">= 10 x",
                &words,
                measured >= 10.0,
            );
            println!("    {what}: weir is {words} as fast as goflow2 {verdict}");
        }
        println!("    weir with the headers is {:.1} x as fast as goflow2 without them", own_headers.ratio(other));
    }
    captures(programs, scale, &mut load, report)
}

/// From a capture to /dev/null.
fn captures(programs: &Programs, scale: Scale, load: &mut Load, report: &mut Report) -> Result<()> {
    let capture = programs.directory().join("capture.pcap");
    pcap::write(&capture, load, CAPTURED)?;
    println!("  a capture of {CAPTURED} datagrams, to /dev/null");
    let path = capture.to_str().context("a path of other bytes")?;
    let mut looks = vec![
        (Look::new("weir sflow decode, JSON"), &programs.weir, vec!["sflow", "decode", path]),
        (Look::new("weir sflow decode --csv"), &programs.weir, vec!["sflow", "decode", path, "--csv"]),
    ];
    if let Some(sflowtool) = &programs.sflowtool {
        looks.push((Look::new("sflowtool -J"), sflowtool, vec!["-r", path, "-J"]));
        looks.push((Look::new("sflowtool -l"), sflowtool, vec!["-r", path, "-l"]));
    }
    for _ in 0..scale.rounds {
        for (look, program, arguments) in &mut looks {
            look.costs.push(program_cost(program, arguments)? / f64::from(CAPTURED));
        }
    }
    std::fs::remove_file(&capture)?;
    let looks: Vec<Look> = looks.into_iter().map(|(look, ..)| look).collect();
    print(&looks, load.samples_each(), "capture", report);
    Ok(())
}

/// Somebody's costs, round by round.
struct Look {
    name: &'static str,
    /// CPU time a datagram, ns.
    costs: Vec<f64>,
}

impl Look {
    fn new(name: &'static str) -> Look {
        Look { name, costs: Vec::new() }
    }

    /// How many times as much another one costs, of the looks of one round.
    fn ratio(&self, other: &Look) -> f64 {
        median(&self.costs.iter().zip(&other.costs).map(|(own, other)| other / own).collect::<Vec<_>>())
    }
}

fn print(looks: &[Look], samples: f64, case: &str, report: &mut Report) {
    for look in looks {
        let cost = median(&look.costs);
        let rate = 1e3 / cost;
        println!("    {:36} {cost:9.1} ns  {rate:7.3} M datagrams/s  {:7.3} M samples/s", look.name, rate * samples);
        report.figure(json!({"scene": "decode", "case": case, "who": look.name, "ns": cost}));
    }
}

fn split(mut bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let mut datagrams = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (datagram, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).context("cut off")?;
        datagrams.push(datagram);
        bytes = rest;
    }
    Ok(datagrams)
}

/// CPU time of `decode` a datagram, ns.
fn in_memory(datagrams: &[&[u8]], time: Duration, decode: fn(&[u8]) -> Option<u64>) -> Result<f64> {
    machine::pinned(machine::REPLICATOR, || {
        let (start, before, mut count) = (Instant::now(), cpu(UsageWho::RUSAGE_THREAD)?, 0_u64);
        while start.elapsed() < time {
            for datagram in datagrams {
                black_box(decode(black_box(datagram)).context("malformed")?);
            }
            count += datagrams.len() as u64;
        }
        Ok((cpu(UsageWho::RUSAGE_THREAD)? - before).as_nanos() as f64 / count as f64)
    })
}

/// Every record as its type.
fn records(bytes: &[u8]) -> Option<u64> {
    decode(bytes, |header| u64::from(header.frame_length))
}

/// Likewise, and the headers of each sampled frame.
fn headers(bytes: &[u8]) -> Option<u64> {
    decode(bytes, |header| {
        let Some(start) = Start::from_header_protocol(header.protocol.0) else { return 0 };
        black_box(Frame::parse(start, header.header)).layers().len() as u64
    })
}

#[inline]
fn decode(bytes: &[u8], look: impl Fn(SampledHeader<'_>) -> u64) -> Option<u64> {
    let mut sum = 0;
    for sample in Datagram::parse(bytes).ok()?.samples() {
        let sample = sample.ok()?;
        for record in sample.records() {
            match record.ok()?.view().ok()? {
                View::Header(header) => sum += look(header),
                other => {
                    black_box(other);
                }
            }
        }
        if let Sample::Flow(flow) = sample {
            sum += u64::from(flow.sample_pool);
        }
    }
    Some(sum)
}

/// Every field of every record, by the table of structures.
fn fields(bytes: &[u8]) -> Option<u64> {
    let mut sum = 0;
    for sample in Datagram::parse(bytes).ok()?.samples() {
        for record in sample.ok()?.records() {
            for value in record.ok()?.values() {
                black_box(value.ok()?);
                sum += 1;
            }
        }
    }
    Some(sum)
}

/// CPU time of goflow2's decoder a datagram, ns.
fn goflow2(decoder: &Path, datagrams: &Path, time: Duration, how: &[&str]) -> Result<f64> {
    let seconds = time.as_secs_f64().to_string();
    let output = machine::pinned(machine::REPLICATOR, || {
        Ok(Command::new(decoder).arg(datagrams).arg(&seconds).args(how).env("GOMAXPROCS", "1").output()?)
    })?;
    ensure!(output.status.success(), "goflow2's decoder: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [datagrams, _, cpu] = numbers[..] else { anyhow::bail!("goflow2's decoder said {text:?}") };
    Ok(cpu / datagrams)
}

/// CPU time of a program from its start to its end, ns.
fn program_cost(program: &Path, arguments: &[&str]) -> Result<f64> {
    let before = cpu(UsageWho::RUSAGE_CHILDREN)?;
    let status = machine::pinned(machine::REPLICATOR, || {
        Ok(Command::new(program).args(arguments).stdout(Stdio::null()).status()?)
    })?;
    ensure!(status.success(), "{}: {status}", program.display());
    Ok((cpu(UsageWho::RUSAGE_CHILDREN)? - before).as_nanos() as f64)
}

fn cpu(who: UsageWho) -> Result<Duration> {
    let usage = getrusage(who)?;
    let time =
        |time: nix::sys::time::TimeVal| Duration::from_micros(time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64);
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// Datagrams that are decoded again and again: 20 MB of them, more than processors cache.
const DATAGRAMS: u32 = 20_000;

/// Datagrams in the capture.
const CAPTURED: u32 = 200_000;
