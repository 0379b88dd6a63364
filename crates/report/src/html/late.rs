//! What a large run has of each cell: its row, its account, its timelines. The page shows the first ones and has all of them
//! packed, for its script to unpack some of when somebody asks. A page of 10,000 cells would otherwise be 100 MB, and take a
//! browser minutes to open.

use std::fmt;
use std::io::{self, Write};

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

use super::accounts::AccountView;
use super::timelines::Sampled;
use super::{RowView, row};
use crate::record::Record;

/// Records of which the page itself has everything.
pub(super) const WHOLE: usize = 500;

/// Of more than these, the first ones that it has.
pub(super) const FIRST: usize = 100;

/// Records of a script element.
pub(super) const TOGETHER: usize = 200;

/// Everything of each cell, by script elements of so many records. It is rendered as it is written, some at a time.
pub(super) struct Late<'a> {
    pub(super) records: &'a [Record],
    /// Columns of the table.
    pub(super) shown: Vec<&'a str>,
    pub(super) quantiles: Vec<f64>,
    pub(super) quantile_names: Vec<String>,
    pub(super) sampled: Sampled<'a>,
}

#[derive(Template)]
#[template(path = "row.html")]
struct OneRow {
    row: RowView,
}

#[derive(Template)]
#[template(path = "account.html")]
struct OneAccount<'a> {
    cell: AccountView,
    quantile_names: &'a [String],
}

impl fmt::Display for Late<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f).map_err(|_| fmt::Error)
    }
}

impl Late<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> io::Result<()> {
        let parts = || (0..).step_by(TOGETHER).zip(self.records.chunks(TOGETHER));
        for (_, records) in parts() {
            let rows = records.iter().map(|record| OneRow { row: row(record, &self.shown) }.render());
            element(f, "rows", &texts(rows)?)?;
        }
        for (first, records) in parts() {
            let accounts = (first..).zip(records).map(|(number, record)| {
                let cell = AccountView::new(number, record, &self.quantiles);
                OneAccount { cell, quantile_names: &self.quantile_names }.render()
            });
            element(f, "accounts", &texts(accounts)?)?;
        }
        for (_, records) in parts().filter(|_| !self.sampled.is_empty()) {
            element(f, "timelines", &self.sampled.of(records))?;
        }
        Ok(())
    }
}

fn texts(rendered: impl Iterator<Item = askama::Result<String>>) -> io::Result<Vec<String>> {
    rendered.collect::<Result<_, _>>().map_err(io::Error::other)
}

/// A script element with this as JSON, by zlib (RFC 1950), in base64.
fn element(f: &mut fmt::Formatter<'_>, kind: &str, of: &impl Serialize) -> io::Result<()> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::new(PACKED));
    packed.write_all(&serde_json::to_vec(of)?)?;
    let text = STANDARD.encode(packed.finish()?);
    writeln!(f, "<script type=\"application/octet-stream\" data-later=\"{kind}\">{text}</script>")
        .map_err(io::Error::other)
}

/// What repeats from cell to cell is found by the fastest levels too; higher ones take several times as long.
const PACKED: u32 = 3;
