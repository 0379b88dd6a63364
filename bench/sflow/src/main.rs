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

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bench_measure::Report;
use weir_kernel::namespaces::process::init_if_asked;
use weir_kernel::namespaces::user;

use crate::programs::Programs;
use crate::scenes::{SCENES, Scale};

fn main() -> Result<()> {
    init_if_asked();
    let privilege = user::obtain_network_privilege()?;
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let programs = Programs::build()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let processors = std::thread::available_parallelism()?;
    println!("Linux {} as {privilege:?}, {processors} processors", release.trim());
    for version in programs.versions() {
        println!("  {version}");
    }
    println!("medians of {} interleaved rounds\n", arguments.scale.rounds);
    let mut report = Report::default();
    for (name, run) in SCENES {
        if arguments.scenes.is_empty() || arguments.scenes.iter().any(|asked| asked == name) {
            report.scene(name, |report| run(&programs, arguments.scale, report)).with_context(|| name.to_owned())?;
        }
    }
    report.print();
    if let Some(file) = arguments.json {
        let text = serde_json::to_string_pretty(&report.json())?;
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

struct Arguments {
    scenes: Vec<String>,
    scale: Scale,
    json: Option<PathBuf>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
        let mut arguments = Arguments { scenes: Vec::new(), scale: Scale::FULL, json: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.scale = Scale::QUICK,
                "--rounds" => arguments.scale.rounds = words.next().context("--rounds: how many?")?.parse()?,
                "--json" => arguments.json = Some(words.next().context("--json: into which file?")?.into()),
                scene if SCENES.iter().any(|(name, _)| *name == scene) => arguments.scenes.push(word),
                other => {
                    let known = SCENES.map(|(name, _)| name).join(", ");
                    bail!("{other}: no such scene (there are {known}; --quick, --rounds N, --json FILE)")
                }
            }
        }
        Ok(arguments)
    }
}
