//! How soon floods are decided, beside fixed averages, and what that costs: `cargo run --release -p bench-protect [-- SCENE ...]`.
//!
//! Scenes: `detect`, `react`, `routes`; all of them without arguments. `--quick` takes short looks, `--rounds N` sets how many, `--json FILE` writes all
//! figures to a file. Tables and charts go to `target/bench-protect`.

mod programs;
mod scenes;

use anyhow::Result;

use crate::scenes::SCENES;

fn main() -> Result<()> {
    bench_measure::run(&SCENES)
}
