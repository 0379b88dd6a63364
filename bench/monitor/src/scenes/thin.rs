//! Thinning alone, in memory, on one processor.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, machine, median, peers};
use serde_json::json;
use weir_signal::thin::{Thinned, Thinner};

use super::Scale;
use crate::programs::Programs;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("Thinning {SAMPLES} samples, f32, to least, greatest, first and last; on one processor, M samples/s");
    let mut random = fastrand::Rng::with_seed(7);
    let samples: Vec<f32> = (0..SAMPLES).map(|index| (index as f32 * 0.001).sin() + random.f32() * 0.1).collect();
    let file = peers().join("thin.f32");
    if programs.tsdownsample.is_some() {
        std::fs::write(&file, samples.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())?;
    }
    for bucket in [100, 1000, 10_000] {
        let wrong = errors(&samples, bucket);
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..scale.rounds {
            own.push(machine::pinned(machine::REPLICATOR, || Ok(weir(&samples, bucket, scale.look)))?);
            if let Some(python) = &programs.tsdownsample {
                other.push(tsdownsample(python, &file, bucket, scale.look)?);
            }
        }
        let (weir, peer) = (median(&own), median(&other));
        let speed = report.goal(
            &format!("samples thinned a second, buckets of {bucket}"),
            ">= 500 M/s",
            &format!("{:.0} M/s", weir / 1e6),
            weir >= 500e6,
        );
        let exact =
            report.goal(&format!("values of buckets of {bucket} that differ"), "0", &wrong.to_string(), wrong == 0);
        println!("  buckets of {bucket:6}: weir {:8.0} {speed}, {wrong} wrong {exact}", weir / 1e6);
        if !other.is_empty() {
            println!("                    tsdownsample {:8.0}: weir is {:.1} x as fast", peer / 1e6, weir / peer);
        }
        report.figure(json!({"scene": "thin", "bucket": bucket, "weir": weir, "tsdownsample": peer, "wrong": wrong}));
    }
    let _ = std::fs::remove_file(&file);
    Ok(())
}

/// Samples a second, in blocks as a station takes them.
fn weir(samples: &[f32], bucket: u32, time: Duration) -> f64 {
    let (start, mut count) = (Instant::now(), 0_usize);
    while start.elapsed() < time {
        let (mut thinner, mut first) = (Thinner::new(bucket), 0);
        for block in samples.chunks(BLOCK) {
            thinner.push(first, black_box(block), |thinned| {
                black_box(thinned);
            });
            first += block.len() as u64;
        }
        count += samples.len();
    }
    count as f64 / start.elapsed().as_secs_f64()
}

/// Values that differ from those made one sample after another.
fn errors(samples: &[f32], bucket: u32) -> usize {
    let mut thinned: Vec<Thinned> = Vec::new();
    let mut thinner = Thinner::new(bucket);
    thinner.push(0, samples, |one| thinned.push(one));
    thinner.flush(|one| thinned.push(one));
    let mut wrong = 0;
    for (one, chunk) in thinned.iter().zip(samples.chunks(bucket as usize)) {
        let (mut least, mut greatest) = (chunk[0], chunk[0]);
        for &value in chunk {
            least = if value < least { value } else { least };
            greatest = if value > greatest { value } else { greatest };
        }
        let truth = [least, greatest, chunk[0], chunk[chunk.len() - 1]].map(f64::from);
        let bucket = one.bucket;
        let seen = [bucket.least, bucket.greatest, bucket.first, bucket.last];
        wrong += truth.iter().zip(seen).filter(|(truth, seen)| **truth != *seen).count();
    }
    wrong + thinned.len().abs_diff(samples.len().div_ceil(bucket as usize))
}

/// Samples a second.
fn tsdownsample(python: &Path, file: &Path, bucket: u32, time: Duration) -> Result<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/thin.py");
    let output = machine::pinned(machine::REPLICATOR, || {
        let seconds = time.as_secs_f64().to_string();
        Ok(Command::new(python).arg(&script).arg(file).args([&bucket.to_string(), &seconds]).output()?)
    })?;
    ensure!(output.status.success(), "tsdownsample: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8_lossy(&output.stdout).trim().parse().context("tsdownsample told no number")
}

const SAMPLES: usize = 10_000_000;
const BLOCK: usize = 4096;
