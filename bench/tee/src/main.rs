//! What `weir tee` costs and withstands, beside C loops and what Debian has:
//! `cargo run --release -p bench-tee [-- SCENE ...]`.
//!
//! Scenes: `cpu`, `delay`, `dead`, `rate`, `load`, `reload`, `single`, `growth`; all of them without arguments. What is compared is run in
//! turn, and medians are printed. `--quick` takes short looks, `--rounds N` sets how many, `--only WORDS` picks
//! comparisons of the cost by their names, `--json FILE` writes all figures to a file.

mod network;
mod replicator;
mod scenes;
mod sinks;
mod stream;
mod sys;

use anyhow::Result;

use crate::scenes::SCENES;

fn main() -> Result<()> {
    bench_measure::run(&SCENES)
}
