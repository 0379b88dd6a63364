//! Pages that are made from the code say what the code says.

use std::env;
use std::fs;
use std::path::Path;

use weir_program::config::{Table, reference};
use weir_service::{admin, metrics};

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir metrics_page` writes it anew.
#[test]
fn metrics_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = metrics::page(&[
        ("`weir tee`", &weir_tee::metrics::families()),
        ("`weir loss watch`", &weir_loss::metrics::families()),
        ("`weir sflow serve`", &weir_sflow::metrics::families()),
        ("`[protect]` of `weir sflow serve`", &weir_protect::metrics::families()),
        ("`weir monitor station`", &weir_monitor::station::metrics::families()),
        ("`weir sflow agent`", &weir_agent::metrics::families()),
        ("`weir monitor serve`", &weir_monitor::serve::metrics::families()),
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
        ("weir sflow agent", weir_agent::config::Config::KEYS),
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
        ("deploy", "admin", admin::reference()),
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
