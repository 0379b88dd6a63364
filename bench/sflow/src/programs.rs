//! Who is compared: weir, goflow2, and what Debian has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use bench_measure::{build_weir, peer, peers, say};
use tempfile::TempDir;

/// Where the programs are.
pub(crate) struct Programs {
    directory: TempDir,
    /// The release build.
    pub(crate) weir: PathBuf,
    /// The collector; `None`: it is missing.
    pub(crate) goflow2: Option<PathBuf>,
    /// Its decoder in a loop (`peers/goflow2`); `None`: it is missing.
    pub(crate) goflow2_decoder: Option<PathBuf>,
    /// pmacct's collector; `None`: it is missing.
    pub(crate) sfacctd: Option<PathBuf>,
    /// `None`: it is missing.
    pub(crate) sflowtool: Option<PathBuf>,
    versions: Vec<String>,
}

impl bench_measure::Programs for Programs {
    fn build() -> Result<Programs> {
        let weir = build_weir()?;
        let mut versions = vec![say(&weir, "--version", "weir").context("weir does not tell its version")?];
        let go = say(Path::new("go"), "version", "go version");
        let (mut goflow2, mut goflow2_decoder) = (None, None);
        match go {
            None => versions.push("goflow2 is missing, left out: there is no go to build it".into()),
            Some(go) => match build_goflow2() {
                Ok((collector, decoder)) => {
                    versions.push(format!("goflow2 {GOFLOW2} ({go})"));
                    (goflow2, goflow2_decoder) = (Some(collector), Some(decoder));
                }
                Err(error) => versions.push(format!("goflow2 is missing, left out: {error:#}")),
            },
        }
        let mut find = |name: &str, flag: &str, word: &str, whence: &str| {
            let program = peer(name);
            match say(&program, flag, word) {
                Some(version) => {
                    versions.push(version);
                    Some(program)
                }
                None => {
                    versions.push(format!("{name} is missing, left out ({whence})"));
                    None
                }
            }
        };
        let sfacctd = find("sfacctd", "-V", "sfacctd", "apt install pmacct");
        let sflowtool = find("sflowtool", "-h", "version", "not in Debian: github.com/sflow/sflowtool");
        Ok(Programs { directory: tempfile::tempdir()?, weir, goflow2, goflow2_decoder, sfacctd, sflowtool, versions })
    }

    fn versions(&self) -> Vec<String> {
        self.versions.clone()
    }
}

impl Programs {
    /// The directory for files of this run.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Builds goflow2 and its decoder, once; both come through Go's proxy, held by checksums.
fn build_goflow2() -> Result<(PathBuf, PathBuf)> {
    let place = peers().join("go");
    fs::create_dir_all(&place).with_context(|| format!("create {}", place.display()))?;
    let place = place.canonicalize()?;
    let (collector, decoder) = (place.join(format!("goflow2-{GOFLOW2}")), place.join(format!("decode-{GOFLOW2}")));
    if !collector.exists() {
        let module = format!("github.com/netsampler/goflow2/v2/cmd/goflow2@v{GOFLOW2}");
        run(Command::new("go").args(["install", &module]).env("GOBIN", &place))?;
        fs::rename(place.join("goflow2"), &collector)?;
    }
    // Its source is ours and may have changed.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/goflow2");
    run(Command::new("go").args(["build", "-o"]).arg(&decoder).arg(".").current_dir(source))?;
    Ok((collector, decoder))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "go: {}", text.lines().last().unwrap_or_default());
    Ok(())
}

/// The version that is compared with; that of `peers/goflow2/go.mod`.
const GOFLOW2: &str = "2.2.6";
