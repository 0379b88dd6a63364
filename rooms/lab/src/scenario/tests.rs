//! Every key of a scenario with its default and meaning, for docs/lab-keys.md: meanings are the comments of the fields, defaults
//! what a scenario has that says nothing of them.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use toml::{Table, Value};
use weir_report::record::{Chart, Claim, Published};

use super::{Program, Scenario};

/// What a scenario cannot do without.
const LEAST: &str = r#"
name = "least"
title = "Two hosts"
[hosts.NAME]
addresses = ["10.0.0.1/24"]
[hosts.b]
addresses = ["10.0.0.2/24"]
[routers.NAME]
addresses = []
[links.NAME]
ends = ["NAME", "b"]
[traffic]
from = "NAME"
to = "b"
port = 9
transport = "udp"
[columns.NAME]
value = "run.duration_s"
[[programs]]
name = "own"
host = "NAME"
run = ["true"]
[[cells]]
name = "own"
"#;

/// The key of a table, the source of its type and the type's name; `None`: the scenario itself.
const TABLES: [(&str, &str, &str); 19] = [
    ("", include_str!("mod.rs"), "Scenario"),
    ("run", include_str!("run.rs"), "Run"),
    ("hosts.NAME", include_str!("nodes.rs"), "Host"),
    ("routers.NAME", include_str!("nodes.rs"), "Router"),
    ("links.NAME", include_str!("links.rs"), "Link"),
    ("links.NAME", include_str!("links.rs"), "LinkDirection"),
    ("path", include_str!("links.rs"), "PathImpairments"),
    ("traffic", include_str!("traffic.rs"), "Traffic"),
    ("receive", include_str!("traffic.rs"), "Receive"),
    ("tcp", include_str!("traffic.rs"), "Tcp"),
    ("quic", include_str!("traffic.rs"), "Quic"),
    ("programs", include_str!("programs.rs"), "Program"),
    ("programs.poll", include_str!("programs.rs"), "Poll"),
    ("columns.NAME", include_str!("programs.rs"), "Column"),
    ("cells", include_str!("mod.rs"), "ExtraCell"),
    ("charts", RECORD, "Chart"),
    ("published", RECORD, "Published"),
    ("claims", RECORD, "Claim"),
    ("load", include_str!("traffic.rs"), ""),
];

const RECORD: &str = include_str!("../../../../crates/report/src/record/asked.rs");

/// Key and meaning of each field of a type, from its source.
fn fields(source: &str, name: &str) -> Vec<(String, String)> {
    let begin = format!("pub struct {name} {{\n");
    let body = source.split_once(&begin).unwrap_or_else(|| panic!("no {name}")).1.split("\n}\n").next().unwrap();
    let (mut fields, mut meaning, mut renamed) = (Vec::new(), String::new(), None);
    let mut hidden = false;
    for line in body.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            meaning += words;
        } else if line.starts_with("#[") {
            hidden |= line == "#[serde(skip)]";
            renamed =
                line.split_once("rename = \"").map(|(_, rest)| rest.split('"').next().unwrap().to_owned()).or(renamed);
        } else if let Some((field, _)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')) {
            let key = renamed.take().unwrap_or_else(|| field.to_owned());
            if !std::mem::take(&mut hidden) {
                fields.push((key, in_words(&std::mem::take(&mut meaning))));
            }
            meaning.clear();
        }
    }
    fields
}

/// Without the links of a comment: the code's types are the scenario's tables.
fn in_words(comment: &str) -> String {
    let plain = comment.trim().replace("[`", "`").replace("`]", "`").replace("super::", "");
    let tables = TABLES.iter().filter(|(key, _, name)| !key.is_empty() && !name.is_empty());
    let plain = tables.fold(plain, |plain, (key, _, name)| {
        plain.replace(&format!("`{name}::"), &format!("`{key}.")).replace(&format!("`{name}`"), &format!("`[{key}]`"))
    });
    plain.replace('|', "\\|")
}

/// What is there where nothing is said.
fn defaults() -> Table {
    let scenario: Scenario = toml::from_str(LEAST).unwrap();
    let mut defaults = Table::try_from(scenario).unwrap();
    let mut insert = |key: &str, table: Table| defaults.insert(key.to_owned(), Value::Table(table));
    insert("cells", Table::new());
    insert("programs", Table::try_from(toml::from_str::<Program>(PROGRAM).unwrap()).unwrap());
    insert("charts", Table::try_from(toml::from_str::<Chart>(CHART).unwrap()).unwrap());
    insert("claims", Table::try_from(toml::from_str::<Claim>(CLAIM).unwrap()).unwrap());
    insert("published", Table::try_from(toml::from_str::<Published>(PUBLISHED).unwrap()).unwrap());
    defaults
}

const PROGRAM: &str =
    "name = \"a\"\nhost = \"a\"\nrun = [\"true\"]\npoll = { every = \"1s\", get = \"http://10.0.0.1/\" }";
const CHART: &str = "name = \"a\"\ntitle = \"A\"";
const CLAIM: &str = "column = \"sent\"";
const PUBLISHED: &str = "source = \"A\"\npoints = []";

/// Keys that have to be there, where their table is.
fn needed() -> Table {
    let mut needed: Table = LEAST.parse().unwrap();
    for (key, text) in [("charts", CHART), ("claims", CLAIM), ("published", PUBLISHED), ("programs", PROGRAM)] {
        needed.insert(key.to_owned(), Value::Table(text.parse().unwrap()));
    }
    needed.insert("cells".into(), Value::Table("name = \"own\"".parse().unwrap()));
    needed
}

/// The value of a dotted key; `None`: it has none.
fn lookup<'a>(document: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let first = document.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_table()?.get(part))
}

fn table() -> String {
    let (defaults, needed) = (defaults(), needed());
    let mut table = "| key | default | meaning |\n|---|---|---|\n".to_owned();
    for (prefix, source, name) in TABLES.iter().filter(|(_, _, name)| !name.is_empty()) {
        for (field, meaning) in fields(source, name) {
            let key = if prefix.is_empty() { field.clone() } else { format!("{prefix}.{field}") };
            // Tables have rows of their own; what both directions have is told once.
            let is_table =
                prefix.is_empty() && TABLES.iter().any(|(table, ..)| table.split('.').next() == Some(&field));
            if is_table && field != "load" || meaning.starts_with("As in") {
                continue;
            }
            let default = match (lookup(&needed, &key), lookup(&defaults, &key)) {
                (Some(Value::Table(_)), _) => "–".to_owned(),
                (Some(_), _) => "required".to_owned(),
                (None, None) => "–".to_owned(),
                (None, Some(Value::String(empty))) if empty.is_empty() => "–".to_owned(),
                (None, Some(Value::Array(none))) if none.is_empty() => "–".to_owned(),
                (None, Some(Value::Table(none))) if none.is_empty() => "–".to_owned(),
                (None, Some(value)) => format!("`{value}`"),
            };
            writeln!(table, "| `{key}` | {default} | {meaning} |").unwrap();
        }
    }
    table
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir-lab --lib every_key` writes it.
#[test]
fn every_key_is_in_the_manual_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab-keys.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- keys: made from the code -->\n\n", "\n<!-- end of keys -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let made = format!("{before}{begin}{}{end}{after}", table());
    if env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(written == made, "docs/lab-keys.md is out of date: write it with WEIR_WRITE_DOCS=1");
    // Whoever forgets a table forgets its rows: all that a scenario prints has one.
    for (key, value) in defaults() {
        let keys = match &value {
            Value::Table(table) if !["columns", "hosts", "links", "routers"].contains(&key.as_str()) => {
                table.keys().map(|name| format!("| `{key}.{name}` |")).collect()
            }
            Value::Table(_) => vec![format!("| `{key}.NAME.")],
            _ => vec![format!("| `{key}` |")],
        };
        for row in keys {
            assert!(made.contains(&row), "{row}");
        }
    }
}

#[test]
fn comments_become_words() {
    let source = "pub struct A {\n    /// One [`super::B`]\n    /// or c|d.\n    #[serde(rename = \"where\", default)]\n    pub b: u8,\n    \
                  /// No.\n    #[serde(skip)]\n    pub c: u8,\n}\n";
    assert_eq!(fields(source, "A"), [("where".to_owned(), "One `B` or c\\|d.".to_owned())]);
    assert_eq!(in_words("As [`Host::setup`] of [`super::Run`]"), "As `hosts.NAME.setup` of `[run]`");
}
