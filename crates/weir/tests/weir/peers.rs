//! Real programs that tests send to and receive from: those of `make deps`, with their best documented settings.

use std::path::PathBuf;

/// Where a peer's program is: unpacked by `make deps`, or installed. Without it the test is skipped by name; in
/// continuous integration that is a failure.
pub(super) fn peer(test: &str, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = vec![UNPACKED.into()];
    places.extend(std::env::split_paths(&path));
    places.push("/usr/sbin".into());
    let found = places.iter().map(|place| place.join(program)).find(|file| file.exists());
    assert!(found.is_some() || std::env::var("CI").as_deref() != Ok("true"), "{test} needs {program}");
    if found.is_none() {
        eprintln!("skipped: {test} needs {program}");
    }
    found
}

/// What peers.sh made.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers/bin");
