//! fuzz/README.md lists who reads what others write: each has a target, and each target is built.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The table: target and readers. Behind it, what has none.
fn list() -> (Vec<(String, Vec<String>)>, String) {
    let text = fs::read_to_string(root().join("fuzz/README.md")).unwrap();
    let (table, rest) = text.split_once("\nWithout a target: ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let columns: Vec<&str> = line.split('|').collect();
        (quoted(columns[1]).remove(0), quoted(columns[3]))
    });
    (rows.collect(), rest.to_owned())
}

/// What stands between backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_target_is_listed_and_built() {
    let listed: Vec<String> = list().0.into_iter().map(|(target, _)| target).collect();
    let mut files: Vec<String> = fs::read_dir(root().join("fuzz/fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(listed, files, "rows of fuzz/README.md, files of fuzz/fuzz_targets");
    let manifest: toml::Table = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap().parse().unwrap();
    let built = manifest["bin"].as_array().unwrap().iter().map(|bin| {
        let name = bin["name"].as_str().unwrap().to_owned();
        assert_eq!(bin["path"].as_str().unwrap(), format!("fuzz_targets/{name}.rs"));
        name
    });
    assert_eq!(built.collect::<Vec<_>>(), files, "[[bin]] of fuzz/Cargo.toml");
}

#[test]
fn every_reader_has_a_target() {
    let (rows, without) = list();
    let listed: BTreeSet<String> = rows.into_iter().flat_map(|(_, readers)| readers).chain(quoted(&without)).collect();
    for reader in &listed {
        assert!(root().join(reader).is_file(), "there is no {reader}: mend fuzz/README.md");
    }
    let found = readers();
    assert!(found.len() > 30, "{found:?}");
    let missing: Vec<_> = found.difference(&listed).collect();
    assert!(missing.is_empty(), "readers without a row in fuzz/README.md, and a target: {missing:?}");
}

/// Source files that look like readers: outside their tests they parse something, or deserialize it.
fn readers() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = ["crates", "rooms", "weir"].map(|folder| root().join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            let is_test = ["/tests", "/testbed/", "/foreign.rs"].iter().any(|part| name.contains(part));
            if path.is_dir() && !is_test {
                folders.push(path);
            } else if name.contains("/src/") && name.ends_with(".rs") && !is_test {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
                let signs = ["fn parse", "serde_json::from_", "Deserializer::from", "toml::from_str", "from_str_radix"];
                if signs.iter().any(|sign| code.contains(sign)) {
                    found.insert(name);
                }
            }
        }
    }
    found
}
