//! Who is compared: tsdownsample, from PyPI.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bench_measure::peers;

/// Where the programs are.
pub(crate) struct Programs {
    /// A Python that has it; `None`: it is missing.
    pub(crate) tsdownsample: Option<PathBuf>,
    versions: Vec<String>,
}

impl bench_measure::Programs for Programs {
    fn build() -> Result<Programs> {
        let (tsdownsample, version) = match install() {
            Ok(python) => (Some(python), format!("tsdownsample {TSDOWNSAMPLE}, numpy {NUMPY}")),
            Err(error) => (None, format!("tsdownsample is missing, left out: {error:#}")),
        };
        Ok(Programs { tsdownsample, versions: vec![version] })
    }

    fn versions(&self) -> Vec<String> {
        self.versions.clone()
    }
}

/// An environment of its own, made once.
fn install() -> Result<PathBuf> {
    let place = peers().join(format!("tsdownsample-{TSDOWNSAMPLE}"));
    let python = place.join("bin/python3");
    if !place.join("installed").exists() {
        std::fs::create_dir_all(peers())?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        let packages = [format!("tsdownsample=={TSDOWNSAMPLE}"), format!("numpy=={NUMPY}")];
        run(Command::new(&python).args(["-m", "pip", "install", "-q"]).args(packages))?;
        std::fs::write(place.join("installed"), "")?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}", text.lines().last().unwrap_or_default());
    Ok(())
}

const TSDOWNSAMPLE: &str = "0.1.5.1";
const NUMPY: &str = "2.3.5";
