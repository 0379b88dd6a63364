//! Pages that are made from the code say what the code says.

use std::env;
use std::fs;
use std::path::Path;

use weir_service::{admin, metrics};

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir metrics_page` writes it anew.
#[test]
fn metrics_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = metrics::page(&[
        ("`weir tee`", &weir_tee::metrics::families()),
        ("`weir loss watch`", &weir_loss::metrics::families()),
        ("`weir sflow serve`", &weir_sflow::metrics::families()),
        ("Every service", &admin::families()),
    ]);
    if env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/metrics.md is out of date: write it with WEIR_WRITE_DOCS=1");
}

/// `WEIR_WRITE_DOCS=1 cargo test -p weir --test weir table_of_places` writes it anew.
#[test]
fn table_of_places_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/loss.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- places: made from the code -->\n\n", "\n<!-- end of places -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let made = format!("{before}{begin}{}{end}{after}", weir_loss::places::table());
    if env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(written == made, "the table of docs/loss.md is out of date: write it with WEIR_WRITE_DOCS=1");
}
