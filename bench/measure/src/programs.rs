//! Where programs are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

/// A program from Debian: unpacked by `make bench`, or installed.
pub fn peer(name: &str) -> PathBuf {
    let places = [peers().join("bin"), "/usr/sbin".into()].map(|place| place.join(name));
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| name.into())
}

/// Where programs are put that are not installed: by crates/testbed/peers.sh, and by benchmarks.
pub fn peers() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers"))
}

/// The release build of `weir`, made if cargo is at hand.
///
/// # Errors
/// It cannot be built, or there is none.
pub fn build_weir() -> Result<PathBuf> {
    if let Some(cargo) = std::env::var_os("CARGO") {
        let status = Command::new(cargo).args(["build", "--release", "--locked", "-p", "weir"]).status()?;
        ensure!(status.success(), "build weir: see above");
    }
    let path = std::env::current_exe()?.with_file_name("weir");
    ensure!(path.exists(), "{}: no such program (cargo build --release -p weir)", path.display());
    Ok(path)
}

/// The first line with a word in it that a program prints when it is asked for its version; `None`: it cannot be run, or
/// prints no such line.
pub fn say(program: &Path, flag: &str, word: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    text.lines().find(|line| line.contains(word)).map(|line| line.trim().to_owned())
}
