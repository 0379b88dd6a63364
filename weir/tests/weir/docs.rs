//! Pages that are made from the code say what the code says.

use std::env;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use weir_program::config::{Table, reference};
use weir_program::ledger;
use weir_service::metrics::Family;
use weir_service::{admin, metrics};

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
        ("loss", "places", weir_loss::places::table()),
        ("deploy-prometheus", "admin", admin::reference()),
        ("monitor", "paths", weir_monitor::api::paths()),
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
    let mut page = fs::read_to_string(docs.join("sflow.md")).unwrap();
    for (name, table) in [("keys", keys), ("functions", functions.collect())] {
        let (begin, end) = (format!("<!-- {name}: made from the code -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = page.split_once(&begin).unwrap();
        let (head, after) = (rest.lines().take(2).collect::<Vec<_>>().join("\n"), rest.split_once(&end).unwrap().1);
        page = format!("{before}{begin}{head}\n{table}\n{end}{after}");
    }
    for (file, page) in [("sflow.md", page), ("sflow-metrics.md", weir_sflow::counters::page())] {
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

/// Every key of an object, and of those in it.
fn keys(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| keys(&format!("{path}.{key}"), value, found)),
        Value::Array(list) if !list.is_empty() => keys(&format!("{path}[]"), &list[0], found),
        _ => found.push(path.to_owned()),
    }
}
