//! `make build` compiles nothing that `make run` has compiled: both ask the same features of each library.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Libraries with their versions and features in a build of `weir`.
fn libraries(arguments: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--locked", "-p", "weir", "-e", "normal,build", "--prefix", "none", "-f", "{p} {f}"];
    let output = Command::new(env!("CARGO")).current_dir(root()).args(tree).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let plain = |line: &str| line.trim_end_matches(" (*)").replace(" (proc-macro)", "");
    lines.lines().filter(|line| !line.starts_with("weir ")).map(plain).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn the_lab_alone_asks_no_other_features_than_the_whole() {
    let alone = libraries(&["--no-default-features", "--features", "alone"]);
    let whole = libraries(&[]);
    let others: Vec<_> = alone.difference(&whole).collect();
    assert!(others.is_empty(), "name their features in Cargo.toml, or in weir/Cargo.toml: {others:#?}");
    let rooms = ["weir-loss ", "weir-monitor ", "weir-protect ", "weir-service ", "weir-sflow ", "weir-tee "];
    let needless = alone.iter().filter(|library| rooms.iter().any(|room| library.starts_with(room)));
    assert_eq!(needless.collect::<Vec<_>>(), Vec::<&String>::new(), "the lab alone needs none of these");
}

#[test]
fn features_of_shared_libraries_stand_in_one_place() {
    let manifests = ["crates", "rooms", "bench"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let manifests = manifests.into_iter().flatten().map(|member| member.unwrap().path().join("Cargo.toml"));
    for path in manifests.chain([root().join("weir/Cargo.toml")]).filter(|path| path.exists()) {
        let text = fs::read_to_string(&path).unwrap();
        let elsewhere =
            text.lines().find(|line| line.contains("workspace = true, features") && !line.starts_with("weir-"));
        assert_eq!(elsewhere, None, "{}: name them in the workspace's Cargo.toml", path.display());
    }
}
