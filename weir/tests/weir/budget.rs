//! `.ci/budget` bounds the production lines of each crate: no blanks, comments or tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A line goes down with the code. Raising one is a commit of its own that says why.
#[test]
fn no_crate_has_more_lines_than_its_budget() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let budget = fs::read_to_string(root.join(".ci/budget")).unwrap();
    let line = |line: &str| {
        let (name, lines) = line.split_once(' ').unwrap();
        (name.to_owned(), lines.trim().parse().unwrap())
    };
    let budget: BTreeMap<String, usize> = budget.lines().map(line).collect();
    let mut counted = BTreeMap::from([("weir".to_owned(), lines_below(&root.join("weir/src")))]);
    for folder in ["crates", "rooms"] {
        for member in fs::read_dir(root.join(folder)).unwrap() {
            let name = format!("{folder}/{}", member.unwrap().file_name().to_str().unwrap());
            if name != "crates/testbed" {
                counted.insert(name.clone(), lines_below(&root.join(&name).join("src")));
            }
        }
    }
    assert_eq!(budget.keys().collect::<Vec<_>>(), counted.keys().collect::<Vec<_>>(), "crates in .ci/budget");
    let over: Vec<_> = counted.iter().filter(|(name, lines)| **lines > budget[*name]).collect();
    assert!(over.is_empty(), "more lines than in .ci/budget: {over:?}, of {budget:?}");
}

/// Production lines of all sources below a folder.
fn lines_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { lines_below(&path) } else { lines_of(&path) }).sum()
}

/// Production lines of a source: none in a file of tests, none from a module of tests on.
fn lines_of(path: &Path) -> usize {
    let name = path.file_name().unwrap().to_str().unwrap();
    let (_, below) = path.to_str().unwrap().rsplit_once("/src/").unwrap();
    let is_test = matches!(name, "tests.rs" | "fixture.rs") || below.split('/').any(|part| part == "tests");
    if is_test || !name.ends_with(".rs") {
        return 0;
    }
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(str::trim).peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let module = |next: &&str| next.contains("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(module) {
            break;
        }
        count += usize::from(!line.is_empty() && !line.starts_with("//"));
    }
    count
}
