//! What the analysis of sFlow costs and withstands, beside goflow2 and sfacctd: `cargo run --release -p bench-sflow [-- SCENE ...]`.
//!
//! Scenes: `decode`, `analyse`, `agents`, `event`, `rest`, `overload`, `agent`; all of them without arguments. What is compared is run
//! in turn, and medians are printed. `--quick` takes short looks, `--rounds N` sets how many, `--json FILE` writes all
//! figures to a file.

mod analysis;
mod collector;
mod frames;
mod http;
mod load;
mod pcap;
mod programs;
mod scenes;
mod source;

use anyhow::Result;

use crate::scenes::SCENES;

fn main() -> Result<()> {
    bench_measure::run(&SCENES)
}
