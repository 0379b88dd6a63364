//! A benchmark from its command line to its report.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use weir_kernel::namespaces::process::init_if_asked;
use weir_kernel::namespaces::user;

use crate::Report;

/// How long to look.
pub trait Scale: Copy {
    /// As long as figures are worth it.
    const FULL: Self;
    /// Just whether it runs.
    const QUICK: Self;
    /// Options besides those that every benchmark has, with a comma before each.
    const OPTIONS: &'static str;

    /// Interleaved rounds.
    fn rounds(&mut self) -> &mut usize;

    /// Takes one of [`Scale::OPTIONS`], with its value from the words behind it; `false`: there is none of this name.
    ///
    /// # Errors
    /// It lacks its value, or has another one than it can.
    fn option(&mut self, name: &str, words: &mut dyn Iterator<Item = String>) -> Result<bool>;
}

/// What is compared.
pub trait Programs: Sized {
    /// Builds and finds them.
    ///
    /// # Errors
    /// One that it cannot be without is missing.
    fn build() -> Result<Self>;

    /// What they say they are.
    fn versions(&self) -> Vec<String>;
}

/// A part of a benchmark that can be run alone.
pub type Scene<P, S> = fn(&P, S, &mut Report) -> Result<()>;

/// Runs the scenes that the command line names, all without names, and prints the report.
///
/// # Errors
/// Of the command line or the first scene that could not go on.
pub fn run<P: Programs, S: Scale>(scenes: &[(&str, Scene<P, S>)]) -> Result<()> {
    init_if_asked();
    let privilege = user::obtain_network_privilege()?;
    let names: Vec<&str> = scenes.iter().map(|(name, _)| *name).collect();
    let mut arguments = Arguments::<S>::parse(&names, std::env::args().skip(1))?;
    let programs = P::build()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let processors = std::thread::available_parallelism()?;
    println!("Linux {} as {privilege:?}, {processors} processors", release.trim());
    for version in programs.versions() {
        println!("  {version}");
    }
    println!("medians of {} interleaved rounds\n", arguments.scale.rounds());
    let mut report = Report::default();
    for (name, run) in scenes {
        if arguments.scenes.is_empty() || arguments.scenes.iter().any(|asked| asked == name) {
            report.scene(name, |report| run(&programs, arguments.scale, report)).with_context(|| (*name).to_owned())?;
        }
    }
    report.print();
    if let Some(file) = arguments.json {
        let text = serde_json::to_string_pretty(&report.json())?;
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

/// What the command line asks for.
struct Arguments<S> {
    scenes: Vec<String>,
    scale: S,
    json: Option<PathBuf>,
}

impl<S: Scale> Arguments<S> {
    fn parse(scenes: &[&str], mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Arguments { scenes: Vec::new(), scale: S::FULL, json: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => arguments.scale = S::QUICK,
                "--rounds" => *arguments.scale.rounds() = words.next().context("--rounds: how many?")?.parse()?,
                "--json" => arguments.json = Some(words.next().context("--json: into which file?")?.into()),
                scene if scenes.contains(&scene) => arguments.scenes.push(word),
                other if arguments.scale.option(other, &mut words)? => {}
                other => {
                    let known = scenes.join(", ");
                    bail!("{other}: no such scene (there are {known}; --quick, --rounds N, --json FILE{})", S::OPTIONS)
                }
            }
        }
        Ok(arguments)
    }
}
