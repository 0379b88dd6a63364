//! Pages that are made from the code say what the code says.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use weir_program::config::{Table, reference};
use weir_program::ledger;
use weir_service::metrics::Family;
use weir_service::{admin, metrics};
use weir_testbed::Ended;

use crate::weir;

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir metrics_page` writes it anew.
#[test]
fn metrics_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = metrics::page(&[
        ("`weir tee`", &weir_tee::metrics::families()),
        ("`weir loss watch`", &weir_loss::metrics::families()),
        ("`weir sflow serve`", &ledger::families::<weir_sflow::ledger::Ledger>()),
        ("`[protect]` of `weir sflow serve`", &weir_protect::metrics::families()),
        ("`weir monitor station`", &ledger::families::<weir_monitor::station::ledger::Ledger>()),
        ("`weir sflow agent`", &ledger::families::<weir_agent::ledger::Ledger>()),
        ("`weir monitor serve`", &weir_monitor::serve::ledger::families()),
        ("`weir monitor record`", &ledger::families::<weir_monitor::record::Ledger>()),
        ("Every service", &admin::families()),
    ]);
    if env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/metrics.md is out of date: write it with WEIR_WRITE_DOCS=1");
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir configuration_page` writes it anew.
#[test]
fn configuration_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let mut page = fs::read_to_string(&path).unwrap().split_inclusive("\n## ").next().unwrap().to_owned();
    for (at, (command, keys)) in [
        ("weir tee", weir_tee::config::document::Document::KEYS),
        ("weir sflow agent", weir_agent::config::Config::KEYS),
        ("weir sflow serve", weir_sflow::config::Config::KEYS),
        ("weir monitor station", weir_monitor::station::config::Config::KEYS),
        ("weir monitor serve", weir_monitor::serve::config::Config::KEYS),
        ("weir monitor record", weir_monitor::record::config::Config::KEYS),
    ]
    .into_iter()
    .enumerate()
    {
        page += &format!("{}`{command}`\n\n{}", if at == 0 { "" } else { "\n## " }, reference(keys));
    }
    if env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(written == page, "docs/configuration.md is out of date: write it with WEIR_WRITE_DOCS=1");
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir tables_within` writes them anew.
#[test]
fn tables_within_pages_are_up_to_date() {
    for (page, table, made) in [
        ("loss-places", "places", weir_loss::places::table()),
        ("deploy-prometheus", "admin", admin::reference()),
        ("monitor-rest", "paths", weir_monitor::api::paths()),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/{page}.md"));
        let text = fs::read_to_string(&path).unwrap();
        let (begin, end) = (format!("<!-- {table}: made from the code -->\n\n"), format!("\n<!-- end of {table} -->"));
        let (before, rest) = text.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        let made = format!("{before}{begin}{made}{end}{after}");
        if env::var_os("WEIR_WRITE_DOCS").is_some() {
            fs::write(&path, &made).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap();
        assert!(written == made, "{table} of docs/{page}.md is out of date: write it with WEIR_WRITE_DOCS=1");
    }
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir sflow_pages` writes them anew.
#[test]
fn sflow_pages_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let rows = |rows: &mut dyn Iterator<Item = (&str, &str)>| {
        rows.map(|(name, meaning)| format!("| `{name}` | {meaning} |\n")).collect::<String>()
    };
    let keys = rows(&mut weir_sflow::flows::keys());
    // How a function is written begins with code, and may go on with an example.
    let functions = weir_sflow::flows::functions().map(|(name, usage)| {
        let mut parts = usage.split(", e.g. ");
        let (usage, example) = (parts.next().unwrap(), parts.next().map(|example| format!("`{example}`")));
        let usage: Vec<String> = usage.split(" or ").map(|usage| format!("`{usage}`").replace('|', "\\|")).collect();
        format!("| {} | {} |\n", usage.join(" or "), example.unwrap_or_else(|| format!("`{name}:ipsource`")))
    });
    let mut page = fs::read_to_string(docs.join("sflow-flows.md")).unwrap();
    for (name, table) in [("keys", keys), ("functions", functions.collect())] {
        let (begin, end) = (format!("<!-- {name}: made from the code -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = page.split_once(&begin).unwrap();
        let (head, after) = (rest.lines().take(2).collect::<Vec<_>>().join("\n"), rest.split_once(&end).unwrap().1);
        page = format!("{before}{begin}{head}\n{table}\n{end}{after}");
    }
    for (file, page) in [("sflow-flows.md", page), ("sflow-metrics.md", weir_sflow::counters::page())] {
        let path = docs.join(file);
        if env::var_os("WEIR_WRITE_DOCS").is_some() {
            fs::write(&path, &page).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page, "docs/{file} is out of date: write it with WEIR_WRITE_DOCS=1");
    }
}

/// Other programs read these names: whoever changes one changes what they see, and says so in CHANGELOG.md. `WEIR_WRITE_DOCS=1` writes the list anew.
#[test]
fn names_of_metrics_and_json_stay() {
    let agent = {
        use weir_agent::ledger::{CollectorCount, DropsCount, Ledger, SamplingCount};
        let drops = DropsCount { by_reason: [("R".to_owned(), Default::default())].into(), ..DropsCount::default() };
        let (sampling, collectors) = (Some(SamplingCount::default()), vec![CollectorCount::default()]);
        json!(Ledger { sampling, drops: Some(drops), collectors, ..Ledger::default() })
    };
    let station = {
        use weir_monitor::station::ledger::{Ledger, OutletCount, SourceCount, StreamCount};
        let stream = StreamCount { outlets: vec![OutletCount::default()], ..StreamCount::default() };
        json!(Ledger { streams: vec![stream], sources: vec![SourceCount::default()], ..Ledger::default() })
    };
    let serve = {
        use weir_monitor::serve::ledger::{Ledger, SentCount, StreamCount};
        let (published, outputs) = (Some(SentCount::default()), vec![Default::default()]);
        json!(Ledger { published, outputs, streams: vec![StreamCount::default()], ..Ledger::default() })
    };
    let record = json!(weir_monitor::record::Ledger::default());
    let mut list = String::new();
    for (room, ledger, families) in [
        ("agent", agent, ledger::families::<weir_agent::ledger::Ledger>()),
        ("station", station, ledger::families::<weir_monitor::station::ledger::Ledger>()),
        ("serve", serve, weir_monitor::serve::ledger::families()),
        ("record", record, ledger::families::<weir_monitor::record::Ledger>()),
    ] {
        let family =
            |family: &Family| format!("{} {:?} {:?} {}", family.full_name(), family.kind, family.labels, family.help);
        let mut lines: Vec<String> = families.iter().map(family).collect();
        keys("", &ledger, &mut lines);
        lines.sort();
        lines.iter().for_each(|line| list.push_str(&format!("{room}: {line}\n")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/weir/names.txt");
    if env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(&path, &list).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(list == written, "tests/weir/names.txt is out of date");
}

/// Every line of a block that begins with `weir` has flags and arguments that the program takes.
#[test]
fn commands_of_pages_are_understood() {
    let mut wrong = Vec::new();
    for (page, _, block) in pages().iter().flat_map(|page| blocks(page)) {
        for line in block.replace("\\\n", " ").lines() {
            let line = line.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
            // Up to a comment, a column of words, or what the shell does with it.
            let ends = ["  ", " #", " | ", " && ", "; ", " &", " > ", " ..."];
            let line = ends.iter().fold(line, |line, end| line.split(end).next().unwrap());
            // A screen begins with the time.
            if !line.starts_with("weir ") || line.starts_with("weir loss 0:") || line.contains('$') {
                continue;
            }
            let words = Command::new("sh").args(["-c", &format!("set -f; printf '%s\\n' {line}")]).output().unwrap();
            let words = String::from_utf8(words.stdout).unwrap();
            let mut words: Vec<&str> = words.lines().skip(1).collect();
            // What follows is another program's.
            let own = words.iter().position(|word| *word == "--").unwrap_or(words.len());
            let own = if words.starts_with(&["lab", "shell"]) { own.min(4) } else { own };
            words.insert(own, "--help");
            let ended = Ended::of(&mut weir(&words));
            if ended.status != Some(0) {
                wrong.push(format!("{}: {line}: {}", page.display(), ended.stderr.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Files of tutorials, and of pages for users of other programs, are what their programs take.
#[test]
fn files_of_pages_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("flood.tokens");
    fs::write(&tokens, format!("alice act {}\n", "0".repeat(64))).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    ["up.trace", "down.trace"].iter().for_each(|name| fs::write(dir.path().join(name), "1\n2\n").unwrap());
    let mut checked = 0;
    for (page, language, block) in pages().iter().flat_map(|page| blocks(page)) {
        let of = |folder: &str| page.parent().unwrap().ends_with(folder);
        if language != "toml" || !(of("tutorials") || of("coming-from")) || block.contains("[[outputs.") {
            continue;
        }
        let file = dir.path().join(format!("{checked}.toml"));
        fs::write(&file, &block).unwrap();
        let file = file.to_str().unwrap();
        let arguments = match () {
            () if block.contains("[traffic]") => vec!["lab", "check", file],
            () if block.contains("[[output]]") => vec!["monitor", "serve", "-c", file, "--check"],
            () if block.contains("[[listener]]") => vec!["tee", "-c", file, "--check"],
            () => vec!["sflow", "serve", "-c", file, "--check"],
        };
        let ended = Ended::of(weir(&arguments).current_dir(dir.path()));
        assert_eq!(ended.status, Some(0), "{}: {block}{}", page.display(), ended.stderr);
        checked += 1;
    }
    assert!(checked > 5, "{checked}");
}

/// README.md, and all below docs/.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut pages, mut folders) = (vec![root.join("README.md")], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages
}

/// The blocks of code of a page: page, language, text.
fn blocks(page: &Path) -> Vec<(PathBuf, String, String)> {
    let text = fs::read_to_string(page).unwrap();
    let parts = text.split("```").skip(1).step_by(2);
    let block = |part: &str| {
        let (language, text) = part.split_once('\n')?;
        Some((page.to_owned(), language.to_owned(), text.to_owned()))
    };
    parts.filter_map(block).collect()
}

/// Every key of an object, and of those in it.
fn keys(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| keys(&format!("{path}.{key}"), value, found)),
        Value::Array(list) if !list.is_empty() => keys(&format!("{path}[]"), &list[0], found),
        _ => found.push(path.to_owned()),
    }
}
