//! Traces of links: found, read once, and passed to every cell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use weir_emulator::model::Trace;

use crate::arrivals::{self, Due};
use crate::scenario::Scenario;

/// Traces by their path in the scenario.
pub type Traces = BTreeMap<PathBuf, Arc<Trace>>;

/// The datagrams of a capture; empty without one.
pub type Replayed = Arc<[Due]>;

/// Reads the files that a sweep's scenarios name, each once. Relative paths start at the scenario's `directory`, or
/// else at that of its file, `origin`.
#[derive(Default)]
pub struct Reader {
    traces: BTreeMap<PathBuf, Arc<Trace>>,
    captures: BTreeMap<PathBuf, Replayed>,
}

impl Reader {
    /// Sets a scenario's traces, capture and directory, so that it means the same elsewhere.
    ///
    /// # Errors
    /// A file that cannot be read or is no trace: one line with key and file.
    pub fn read(&mut self, origin: &str, scenario: &mut Scenario) -> Result<()> {
        let replay = scenario.traffic.replay.clone();
        let paths = paths(scenario);
        if paths.is_empty() && replay.is_none() {
            return Ok(());
        }
        let beside = Path::new(origin).parent().unwrap_or(Path::new(""));
        let directory = scenario.directory.as_ref().map_or(beside.to_owned(), |directory| beside.join(directory));
        let directory = std::path::absolute(Path::new(".").join(directory)).context("find the current directory")?;
        for (key, path) in paths {
            let trace = known(&mut self.traces, directory.join(&path), read_file).context(key)?;
            scenario.traces.insert(path, trace);
        }
        if let Some(path) = replay {
            scenario.replayed =
                known(&mut self.captures, directory.join(path), arrivals::read_capture).context("traffic.replay")?;
        }
        scenario.directory = Some(directory);
        Ok(())
    }
}

fn known<T: Clone>(all: &mut BTreeMap<PathBuf, T>, file: PathBuf, read: fn(&Path) -> Result<T>) -> Result<T> {
    if let Some(known) = all.get(&file) {
        return Ok(known.clone());
    }
    let new = read(&file)?;
    all.insert(file, new.clone());
    Ok(new)
}

/// Refuses files that may never end, devices or pipes, and longer ones.
pub(crate) fn check_bounded(file: &Path, most_mib: u64) -> Result<()> {
    let metadata = std::fs::metadata(file)?;
    ensure!(metadata.is_file(), "it is not a regular file");
    ensure!(metadata.len() >> 20 < most_mib, "it is longer than {most_mib} MiB");
    Ok(())
}

fn read_file(file: &Path) -> Result<Arc<Trace>> {
    let read = check_bounded(file, LONGEST_TRACE).and_then(|()| Ok(std::fs::read_to_string(file)?));
    let text = read.with_context(|| format!("read trace {}", file.display()))?;
    Ok(Arc::new(Trace::parse(&text).with_context(|| format!("trace {}", file.display()))?))
}

/// Max size of a trace, MiB: an hour at 100 Mbit/s, 30 million lines, fits.
const LONGEST_TRACE: u64 = 256;

/// Every trace that the scenario names: its key and its path.
fn paths(scenario: &Scenario) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for (name, link) in &scenario.links {
        for (way, direction) in ["forward", "backward"].into_iter().zip(link.directions()) {
            let steps = direction.steps().iter().enumerate();
            let steps = steps.map(|(index, step)| (format!(".steps[{index}]"), &step.values));
            for (place, values) in std::iter::once((String::new(), &direction)).chain(steps) {
                let key = || format!("links.{name}.{way}{place}.trace");
                found.extend(values.trace.clone().map(|path| (key(), path)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::sweep::Sweep;

    const DOCUMENT: &str = r#"
name = "cellular"
title = "t"
hosts.a.addresses = ["10.0.0.1/24"]
hosts.b.addresses = ["10.0.0.2/24"]
[links.air]
ends = ["a", "b"]
trace = "lte.trace"
queue = 100
[links.air.backward]
steps = [{ at = "1s", trace = "outage.trace" }]
[traffic]
from = "a"
to = "b"
port = 1
transport = "udp"
payload = "100B"
"#;

    /// A directory with a scenario and what it names.
    fn directory(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let origin = directory.path().join("cellular.toml").to_string_lossy().into_owned();
        (directory, origin)
    }

    #[test]
    fn traces_are_found_beside_the_scenario_and_from_anywhere_later() {
        let (_directory, origin) = directory(&[("lte.trace", "1\n2"), ("outage.trace", "500"), ("other.trace", "4")]);
        let overrides = [("links.air.trace".to_owned(), "lte.trace,other.trace".to_owned())];
        let sweep = Sweep::new(&origin, DOCUMENT, &overrides).unwrap();
        let names: Vec<&str> = sweep.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["lte.trace", "other.trace"], "cells are named by what was written");
        let mbit = |sweep: &Sweep| -> Vec<f64> {
            let plans = sweep.cells.iter().map(|cell| cell.topology().unwrap().links[0].impairments.clone());
            let traces =
                plans.flatten().flat_map(|plan| plan.phases().map(|all| all.trace.clone()).collect::<Vec<_>>());
            traces.map(|trace| trace.unwrap().mean_bits_per_second() / 1e6).collect()
        };
        // One 1500-byte packet a millisecond is 12 Mbit/s.
        let expected = [12.0, 12.0, 0.024, 3.0, 3.0, 0.024];
        assert_eq!(mbit(&sweep), expected);
        let again = Sweep::new("elsewhere/manifest.json", &sweep.to_toml().unwrap(), &[]).unwrap();
        assert_eq!(mbit(&again), expected, "the document knows where it was");
    }

    #[test]
    fn documents_without_traces_stay_as_they_are() {
        let text = DOCUMENT.replace("trace = \"lte.trace\"\nqueue = 100", "").replace("trace = \"outage.trace\"", "");
        assert!(!Sweep::new("cellular.toml", &text, &[]).unwrap().to_toml().unwrap().contains("directory"));
    }

    #[test]
    fn what_may_never_end_is_not_read() {
        let (directory, origin) = directory(&[("outage.trace", "500")]);
        std::os::unix::fs::symlink("/dev/zero", directory.path().join("lte.trace")).unwrap();
        let error = format!("{:#}", Sweep::new(&origin, DOCUMENT, &[]).unwrap_err());
        assert!(error.ends_with("lte.trace: it is not a regular file"), "{error}");
        std::fs::File::create(directory.path().join("long")).unwrap().set_len(2 << 20).unwrap();
        assert!(super::check_bounded(&directory.path().join("long"), 3).is_ok());
        assert!(super::check_bounded(&directory.path().join("long"), 2).is_err());
    }

    #[test]
    fn what_is_wrong_with_a_trace_is_told_in_one_line() {
        let (directory, origin) = directory(&[("lte.trace", "1\n2"), ("outage.trace", "1\n12.5x")]);
        let error = || {
            let error = format!("{:#}", Sweep::new(&origin, DOCUMENT, &[]).unwrap_err());
            error.replace(&*directory.path().to_string_lossy(), "DIR")
        };
        let mut errors = vec![error()];
        std::fs::remove_file(directory.path().join("lte.trace")).unwrap();
        errors.push(error());
        std::fs::write(directory.path().join("lte.trace"), [0xff, 0xfe]).unwrap();
        errors.push(error());
        assert_eq!(
            errors,
            [
                "DIR/cellular.toml:11: links.air.backward.steps[0].trace: trace DIR/outage.trace: line 2: \"12.5x\" is not a time in \
                 whole milliseconds",
                "DIR/cellular.toml:8: links.air.forward.trace: read trace DIR/lte.trace: No such file or directory (os error 2)",
                "DIR/cellular.toml:8: links.air.forward.trace: read trace DIR/lte.trace: stream did not contain valid UTF-8",
            ]
        );
    }
}
