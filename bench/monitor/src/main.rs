//! What signals cost, beside tsdownsample, iperf 2, InfluxDB and dd: `cargo run --release -p bench-monitor [-- SCENE ...]`.
//!
//! Scenes: `thin`, `send`, `receive`, `latency`, `pixel`, `archive`; all of them without arguments. What is compared is run in turn, and
//! medians are printed. `--quick` takes short looks, `--rounds N` sets how many, `--json FILE` writes all figures to a file.

mod feed;
mod network;
mod programs;
mod scenes;

use anyhow::Result;

use crate::scenes::SCENES;

fn main() -> Result<()> {
    bench_measure::run(&SCENES)
}
