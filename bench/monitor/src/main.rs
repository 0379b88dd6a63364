//! What thinning and sending signals cost, beside tsdownsample: `cargo run --release -p bench-monitor [-- SCENE ...]`.
//!
//! Scenes: `thin`, `send`; both without arguments. What is compared is run in turn, and medians are printed. `--quick` takes short
//! looks, `--rounds N` sets how many, `--json FILE` writes all figures to a file.

mod programs;
mod scenes;

use anyhow::Result;

use crate::scenes::SCENES;

fn main() -> Result<()> {
    bench_measure::run(&SCENES)
}
