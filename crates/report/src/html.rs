//! `report.html`: one file that opens offline.
//!
//! The template writes, this module prepares. All values are text and escaped there, except style, script and charts,
//! which are our own, and the cells' details, which are JSON for the script.

use std::io;
use std::path::Path;

use askama::Template;
use serde::Serialize;
use weir_units::format;

use crate::answer::{self, Answer};
use crate::cells::{self, Cell, Measured};
use crate::columns::{self, Columns, Field, Statistic};
use crate::judge::{self, Judged};
use crate::record::{DropList, LedgerEntry, Manifest, Quantiles, Record, WRONG_CHECKSUM};
use crate::store::{self, StoreError};
use crate::{charts, comparison, summary, timelines};

/// Max rows of a page; `results.csv` has the rest. A browser needs about a second for these.
const MAX_ROWS: usize = 2000;

/// Max points of all timelines: about 2 MB.
const POINTS: usize = 150_000;

/// Max packet indexes shown per drop list.
const SHOWN_DROPS: usize = 12;

/// Max standstills shown.
const SHOWN_STANDSTILLS: usize = 200;

/// Writes the page. The same records give the same bytes.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, manifest: &Manifest, records: &[Record]) -> Result<(), StoreError> {
    let page = render(manifest, records).map_err(|error| StoreError::new("render", path, error))?;
    store::replace(path, |out| out.write_all(page.as_bytes()))
}

fn render(manifest: &Manifest, records: &[Record]) -> io::Result<String> {
    let cells = cells::group(manifest.columns(), records);
    Page::new(manifest, records, &cells)?.render().map_err(io::Error::other)
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    css: &'static str,
    script: &'static str,
    manifest: &'a Manifest,
    answers: Vec<Answer>,
    sentences: Vec<String>,
    warnings: Vec<String>,
    judged: Vec<Judged>,
    charts: Vec<(String, &'a str)>,
    source: &'a str,
    compared: Vec<[String; 5]>,
    constant: String,
    headings: Vec<Heading<'a>>,
    rows: Vec<RowView>,
    /// Name, equation, and whether the cell is valid.
    accounts: Vec<(String, String, bool)>,
    paragraphs: Vec<&'a str>,
    command: String,
    details: String,
    records: usize,
}

struct Heading<'a> {
    name: &'a str,
    about: &'a str,
    number: bool,
}

struct RowView {
    valid: bool,
    fields: Vec<FieldView>,
}

struct FieldView {
    shown: String,
    raw: String,
    number: bool,
}

impl<'a> Page<'a> {
    fn new(manifest: &'a Manifest, records: &'a [Record], cells: &[Cell<'_>]) -> io::Result<Self> {
        let known = manifest.columns();
        let judged = judge::judge(manifest, records);
        let mut answers = answer::answers(manifest, cells, &judged);
        let lines = answers.iter_mut().flat_map(|answer| &mut answer.lines);
        // Keeps a number and its unit on one line.
        lines.for_each(|line| *line = line.replace(" %", "\u{a0}%"));
        let published = manifest.published.as_ref();
        let compared = published.map(|published| comparison::compare(known, published, cells)).unwrap_or_default();
        let shown = &records[..records.len().min(MAX_ROWS)];
        let (names, constant) = split_constant(known, &columns::names(records), records);
        Ok(Self {
            css: include_str!("../templates/report.css"),
            script: include_str!("../templates/report.js"),
            manifest,
            answers,
            sentences: summary::sentences(manifest, records),
            warnings: summary::warnings(manifest, records),
            judged,
            charts: manifest.charts.iter().map(|c| (charts::render(c, cells, published), c.caption.as_str())).collect(),
            source: published.map(|p| p.source.as_str()).unwrap_or_default(),
            compared: compared.iter().map(|row| compared_row(known, row)).collect(),
            constant,
            headings: names.iter().map(|name| heading(known, name, records)).collect(),
            rows: shown.iter().map(|record| row(known, record, &names)).collect(),
            accounts: shown.iter().map(|record| (account_name(record), equation(record), record.row.valid)).collect(),
            paragraphs: manifest.description.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()).collect(),
            command: manifest.command.join(" "),
            details: details(known, shown)?,
            records: records.len(),
        })
    }
}

/// Place, column, published, ours, ratio.
fn compared_row(known: Columns<'_>, row: &comparison::Comparison) -> [String; 5] {
    let word = |value| known.words(&row.column, value);
    let ours = match row.ours {
        Some(Measured::Estimate(e)) => format!("{} ({} to {})", word(e.value), word(e.low), word(e.high)),
        Some(ours) => word(ours.value()),
        None => "not measured".into(),
    };
    let ratio = row.ours.map(|ours| format::short(ours.value() / row.published)).unwrap_or_default();
    [row.place.clone(), row.column.clone(), word(row.published), ours, ratio]
}

/// The columns with varying values, and a sentence with the constant settings.
fn split_constant<'n>(known: Columns<'_>, names: &[&'n str], records: &[Record]) -> (Vec<&'n str>, String) {
    let (mut constant, mut shown) = (Vec::new(), Vec::new());
    for name in names {
        let mut values = records.iter().map(|record| columns::text(record, name));
        let first = values.next().flatten();
        let same = records.len() > 1 && values.all(|value| value == first);
        let setting = known.get(name).is_some_and(|column| column.statistic == Statistic::Setting);
        match first {
            Some(value) if same && setting && *name != "cell" => {
                constant.push(format!("{name} {value} {}", known.unit(name)).trim_end().to_owned());
            }
            // Empty in all rows: not defined here.
            None if same => {}
            _ => shown.push(*name),
        }
    }
    // The cell's name comes first and stays in view. Then its settings, and the scenario's columns.
    shown.sort_by_key(|name| match known.get(name) {
        _ if *name == "cell" => 0,
        Some(column) if column.statistic == Statistic::Setting => 1,
        _ if known.0.iter().any(|own| own.name == *name) => 2,
        _ => 3,
    });
    (shown, constant.join(", "))
}

fn heading<'n>(known: Columns<'n>, name: &'n str, records: &[Record]) -> Heading<'n> {
    let words = |record| matches!(columns::field(record, name), Some(Field::Text(_) | Field::Flag(_)));
    Heading { name, about: known.about(name), number: !records.iter().any(words) }
}

fn row(known: Columns<'_>, record: &Record, shown: &[&str]) -> RowView {
    let field = |name: &&str| {
        let field = columns::field(record, name).unwrap_or(Field::Empty);
        let (shown, number) = match field {
            Field::Text(text) => (text.to_owned(), false),
            Field::Flag(flag) => (if flag { "yes" } else { "no" }.to_owned(), false),
            Field::Count(count) => (format::count(count), true),
            Field::Number(number) if known.unit(name) == "us" => (format::duration(number), true),
            Field::Number(number) => (format::short(number), true),
            Field::Empty => (String::new(), true),
        };
        let raw = if number { field.number().map(format::plain).unwrap_or_default() } else { String::new() };
        FieldView { shown, raw, number }
    };
    RowView { valid: record.row.valid, fields: shown.iter().map(field).collect() }
}

fn account_name(record: &Record) -> String {
    let row = &record.row;
    if row.repeat > 1 { format!("{} (repeat {})", row.cell, row.repeat) } else { row.cell.clone() }
}

/// `sent 5622 = delivered 5566 + planned loss 56 + unexplained 0`, messages. Terms that are 0 are left out, except the
/// last. Over TCP, where lost segments are not lost messages, undelivered messages are one term.
fn equation(record: &Record) -> String {
    let row = &record.row;
    let number = |n: u64| format::count(i64::try_from(n).unwrap_or(i64::MAX));
    let unexplained = row.unexplained.map_or_else(|| "unknown".into(), format::count);
    if row.transport != "udp"
        && let Some(received) = columns::number(record, "received_bytes")
    {
        // A transfer of bytes has no messages.
        let terms = [
            (row.retransmits.unwrap_or(0), "segments retransmitted"),
            (row.planned_drops, "packets dropped as planned"),
            (row.queue_drops, "dropped by queues"),
            (row.emulator_drops, "not carried by the emulator"),
        ];
        let terms = terms.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {} {what}", number(n)));
        return format!("{} received{}; unexplained {unexplained}", format::bytes(received), terms.collect::<String>());
    }
    if row.by_programs {
        return format!("unexplained {unexplained}");
    }
    let checksums = record.ledger.iter().find(|entry| entry.name == WRONG_CHECKSUM).map_or(0, |entry| entry.count);
    let lost = match row.undelivered {
        Some(undelivered) => vec![("undelivered", undelivered)],
        None => vec![
            ("planned loss", row.planned_drops),
            ("queue", row.queue_drops),
            ("socket", row.socket_drops.unwrap_or(0)),
            (WRONG_CHECKSUM, checksums.unsigned_abs()),
            ("emulator", row.emulator_drops),
            ("backlog", columns::number(record, "backlog_drops").map_or(0, |drops| drops as u64)),
        ],
    };
    let lost = lost.into_iter().filter(|(_, n)| *n > 0);
    let terms: Vec<(&str, u64)> = std::iter::once(("delivered", row.delivered)).chain(lost).collect();
    let sum = terms.iter().map(|(_, n)| i128::from(*n)).sum::<i128>();
    let closes = row.unexplained.is_some_and(|n| sum + i128::from(n) == i128::from(row.sent));
    let terms: Vec<String> = terms.into_iter().map(|(name, n)| format!("{name} {}", number(n))).collect();
    // If a message is several packets, or copied, the terms do not add up: they are only listed.
    let (sent, terms) = (number(row.sent), terms.join(if closes { " + " } else { ", " }));
    let [equals, and] = if closes { [" = ", " + "] } else { ["; ", "; "] };
    format!("sent {sent}{equals}{terms}{and}unexplained {unexplained}")
}

/// Data for the script when a cell is opened.
#[derive(Serialize)]
struct Details<'a> {
    quantities: Vec<(String, &'a str)>,
    cells: Vec<Detail<'a>>,
}

type Course = Vec<(f64, Option<f64>)>;

#[derive(Serialize)]
struct Detail<'a> {
    remarks: &'a [String],
    ledger: &'a [LedgerEntry],
    samples: Vec<(&'static str, &'a Quantiles)>,
    /// Link, flow, dropped, packets, the first indexes.
    drops: Vec<(&'a str, &'a str, String, u64, String)>,
    /// Quantity, connection, and the points: seconds and value, `null` where a line is broken.
    timelines: Vec<(usize, &'a str, Course)>,
    /// Start and length, ms.
    standstills: Vec<(f64, f64)>,
}

/// JSON that is safe within a script element.
fn details(known: Columns<'_>, records: &[Record]) -> io::Result<String> {
    let names = timelines::quantities(&records.iter().collect::<Vec<_>>());
    let lines: usize = records.iter().map(|record| record.timelines.len()).sum();
    let max = (POINTS / lines.max(1)).clamp(24, 200);
    let detail = |record| Detail::new(record, &names, max);
    let quantities = names.iter().map(|name| (timelines::heading(name), known.unit(name))).collect();
    let details = Details { quantities, cells: records.iter().map(detail).collect() };
    Ok(serde_json::to_string(&details)?.replace('<', "\\u003c"))
}

impl<'a> Detail<'a> {
    fn new(record: &'a Record, names: &[&str], max: usize) -> Self {
        let samples = [
            ("one-way delay", &record.delays),
            ("emulator's lateness", &record.lateness),
            ("heartbeat's lateness", &record.heartbeat),
        ];
        let timelines = record.timelines.iter().map(|timeline| {
            let (name, which) = timelines::quantity(timeline);
            let index = names.iter().position(|known| *known == name).unwrap_or_default();
            let rounded = |value: f64| format::significant(value, 4).parse().ok();
            let mut points = Vec::new();
            for part in timelines::thinned_parts(timeline, max) {
                points.extend(points.last().map(|&(t, _): &(f64, _)| (t, None)));
                points.extend(part.into_iter().map(|(t, value)| ((t * 1e3).round() / 1e3, rounded(value))));
            }
            (index, which, points)
        });
        let longest = timelines::longest(&record.standstills.list, SHOWN_STANDSTILLS);
        Self {
            remarks: &record.remarks,
            ledger: &record.ledger,
            samples: samples.into_iter().filter(|(_, sample)| sample.n > 0).collect(),
            drops: record.drops.iter().map(drops).collect(),
            timelines: timelines.collect(),
            standstills: longest.into_iter().map(|still| ((still.at_s * 1e3).round(), still.ms)).collect(),
        }
    }
}

fn drops(list: &DropList) -> (&str, &str, String, u64, String) {
    let mut first = list.indexes.iter().take(SHOWN_DROPS).map(u64::to_string).collect::<Vec<_>>().join(" ");
    if list.indexes.len() > SHOWN_DROPS {
        // FNV-1a over the indexes: equal lists are seen at a glance.
        let bytes = list.indexes.iter().flat_map(|index| index.to_le_bytes());
        let digest = store::checksum(&bytes.collect::<Vec<u8>>());
        first += &format!(" … digest {digest:016x}");
    }
    let dropped = format!("{}{}", if list.complete { "" } else { "≥ " }, list.indexes.len());
    (&list.link, &list.flow, dropped, list.packets, first)
}

#[cfg(test)]
#[path = "tests/html.rs"]
mod tests;
