//! `report.html`: one file that opens offline.
//!
//! The template writes, this module arranges: everything it hands over is text, and escaped there, but for style,
//! script and charts, which are our own.

use std::io;
use std::path::Path;

use askama::Template;
use weir_units::format;

use crate::cells::{self, Cell, Measured};
use crate::columns::{self, Field, Kind};
use crate::critical::{self, Series};
use crate::grid::Grid;
use crate::headline::Headline;
use crate::monotony::Monotony;
use crate::record::{Manifest, Record};
use crate::store::{self, StoreError};
use crate::{asserts, charts, claims, comparison, summary};
use accounts::AccountView;
use late::{FIRST, Late, TOGETHER, WHOLE};
use surface::{CostView, GridView, ModelView, MonotonyView};
use timelines::Sampled;

mod accounts;
mod late;
mod surface;
mod timelines;

/// Writes the page. The same records give the same bytes.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, manifest: &Manifest, records: &[Record]) -> Result<(), StoreError> {
    let cells = cells::group(records);
    let page = Page::new(manifest, records, &cells).map_err(|error| StoreError::new("render", path, error))?;
    store::replace(path, |out| page.write_into(out))
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    css: &'static str,
    script: &'static str,
    manifest: &'a Manifest,
    answer: String,
    caveat: Option<String>,
    /// Our own markup.
    picture: Option<String>,
    sentences: Vec<String>,
    warnings: Vec<String>,
    claims: Vec<ClaimView>,
    asserts: Vec<AssertView>,
    charts: Vec<ChartView<'a>>,
    model: Option<ModelView>,
    critical: Vec<Series>,
    monotony: Option<MonotonyView>,
    cost: Option<CostView>,
    source: &'a str,
    compared_grids: Vec<GridView>,
    compared: Vec<ComparedView>,
    constant: String,
    headings: Vec<Heading<'a>>,
    rows: Vec<RowView>,
    quantile_names: Vec<String>,
    accounts: Vec<AccountView>,
    paragraphs: Vec<&'a str>,
    command: String,
    /// JSON for the script.
    timelines: String,
    /// How many there are, and how many of these the page shows.
    records: usize,
    first: usize,
    /// Of many: everything of each cell, in parts of so many.
    late: Option<Late<'a>>,
    together: usize,
}

struct ClaimView {
    text: String,
    reading: String,
    column: String,
    bounds: String,
    measured: String,
    reason: String,
    verdict: &'static str,
}

struct AssertView {
    name: String,
    column: String,
    bounds: String,
    measured: String,
    reason: String,
    state: &'static str,
}

struct ChartView<'a> {
    svg: String,
    caption: &'a str,
}

struct ComparedView {
    place: String,
    column: String,
    published: String,
    ours: String,
    interval: String,
    ratio: String,
}

struct Heading<'a> {
    name: &'a str,
    about: String,
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
        let judged = claims::judge(&manifest.claims, records);
        let published = manifest.published.as_ref();
        let (grids, others) = published.map(|p| comparison::compare(p, cells)).unwrap_or_default();
        let chart = |chart| charts::render(chart, cells, published);
        let names = columns::names(records);
        let (shown, constant) = split_constant(&names, records);
        let quantiles = accounts::quantile_keys(records);
        let headline = Headline::new(manifest, records, cells);
        let large = records.len() > WHOLE;
        let first = &records[..if large { FIRST } else { records.len() }];
        let sampled = Sampled::new(records);
        let timelines = if large { sampled.head() } else { sampled.whole(records) }?;
        let account = |(number, record)| AccountView::new(number, record, &quantiles);
        let quantile_names: Vec<String> = quantiles.iter().map(|q| format!("p{}", format::plain(q * 100.0))).collect();
        Ok(Self {
            css: include_str!("../../templates/report.css"),
            script: include_str!("../../templates/report.js"),
            manifest,
            picture: headline.picture(),
            answer: unbroken(&headline.answer),
            caveat: headline.caveat,
            sentences: summary::sentences(manifest, records, cells, &judged),
            warnings: summary::warnings(manifest, records),
            claims: judged.into_iter().map(ClaimView::new).collect(),
            asserts: asserts::check(manifest, records).into_iter().map(AssertView::new).collect(),
            charts: manifest.charts.iter().map(|c| ChartView { svg: chart(c), caption: &c.caption }).collect(),
            source: published.map(|p| p.source.as_str()).unwrap_or_default(),
            model: ModelView::new(cells),
            critical: critical::series(cells),
            monotony: Monotony::check(&Grid::matrix(cells)).as_ref().map(MonotonyView::new),
            cost: manifest.own_cost.as_ref().map(CostView::new),
            compared_grids: grids.iter().map(GridView::new).collect(),
            compared: others.iter().map(compared).collect(),
            constant,
            headings: shown.iter().map(|name| heading(name, records)).collect(),
            rows: first.iter().map(|record| row(record, &shown)).collect(),
            accounts: (0..).zip(first).map(account).collect(),
            records: records.len(),
            first: first.len(),
            late: large.then(|| Late { records, shown, quantile_names: quantile_names.clone(), quantiles, sampled }),
            together: TOGETHER,
            quantile_names,
            paragraphs: manifest.description.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()).collect(),
            command: manifest.command.join(" "),
            timelines,
        })
    }
}

impl ClaimView {
    fn new(judged: claims::Judgement) -> Self {
        let measured = judged.measured.map(|interval| interval.text(&judged.claim)).unwrap_or_default();
        let bounds = claims::bounds(&judged.claim);
        let of = if judged.claim.relative_to.is_some() { " ratio" } else { "" };
        Self {
            measured,
            bounds,
            column: format!("{}{of}", judged.claim.column),
            text: judged.claim.text,
            reading: judged.claim.reading,
            reason: judged.reason,
            verdict: judged.verdict.word(),
        }
    }
}

impl AssertView {
    fn new(checked: asserts::Checked) -> Self {
        let of = if checked.assert.relative_to.is_some() { " ratio" } else { "" };
        Self {
            column: format!("{}{of}", checked.assert.column),
            bounds: checked.bounds(),
            measured: checked.measured_in_words(),
            state: checked.state.word(),
            name: checked.name,
            reason: checked.reason,
        }
    }
}

fn compared(row: &comparison::Comparison) -> ComparedView {
    let word = |value| columns::words(&row.column, value);
    let interval = match row.ours {
        Some(Measured::Estimate(e)) => format!("{} to {}", word(e.low), word(e.high)),
        _ => String::new(),
    };
    ComparedView {
        place: row.place.clone(),
        column: row.column.clone(),
        published: word(row.published),
        ours: row.ours.map_or_else(|| "not measured".into(), |ours| word(ours.value())),
        interval,
        ratio: row.ours.map(|ours| format::short(ours.value() / row.published)).unwrap_or_default(),
    }
}

/// With spaces that do not break between a number and its unit.
fn unbroken(text: &str) -> String {
    const UNITS: [&str; 12] = ["%", "ns", "µs", "ms", "s", "B", "kB", "MB", "GB", "KiB", "MiB", "Mbit/s"];
    let mut parts = text.split(' ');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = whole.ends_with(|c: char| c.is_ascii_digit());
        let unit = number && UNITS.contains(&part.trim_end_matches(['.', ',', ';', ':', ')']));
        whole.push(if unit { '\u{a0}' } else { ' ' });
        whole += part;
    }
    whole
}

/// The columns that say something, and a sentence of the settings that are the same in every row.
fn split_constant<'a>(names: &[&'a str], records: &[Record]) -> (Vec<&'a str>, String) {
    let mut constant = Vec::new();
    let mut shown = Vec::new();
    for name in names {
        let mut values = records.iter().map(|record| columns::text(record, name));
        let first = values.next().flatten();
        let same = records.len() > 1 && values.all(|value| value == first);
        match (same && *name != "cell" && columns::kind(name) == Some(Kind::Setting), first) {
            (true, Some(value)) => {
                let unit = columns::unit(name);
                constant.push(format!("{name} {value}{}{unit}", if unit.is_empty() { "" } else { " " }));
            }
            (true, None) => {}
            // Empty in every row: not defined here.
            (false, None) if same => {}
            (false, _) => shown.push(*name),
        }
    }
    // The cell's name comes first: it stays in sight.
    shown.sort_by_key(|name| *name != "cell");
    (shown, constant.join(", "))
}

fn heading<'a>(name: &&'a str, records: &[Record]) -> Heading<'a> {
    let about = columns::about(name);
    let number =
        !records.iter().any(|record| matches!(columns::field(record, name), Some(Field::Text(_) | Field::Flag(_))));
    Heading { name, about: about.to_owned(), number }
}

fn row(record: &Record, shown: &[&str]) -> RowView {
    let field = |name: &&str| {
        let field = columns::field(record, name).unwrap_or(Field::Empty);
        let (shown, number) = match field {
            Field::Text(text) => (text.to_owned(), false),
            Field::Flag(flag) => (if flag { "yes" } else { "no" }.to_owned(), false),
            Field::Count(count) => (format::count(count), true),
            Field::Number(number) if columns::unit(name) == "us" => (format::duration(number), true),
            Field::Number(number) => (format::short(number), true),
            Field::Empty => (String::new(), true),
        };
        let raw = if number { field.number().map(format::plain).unwrap_or_default() } else { String::new() };
        FieldView { shown, raw, number }
    };
    RowView { valid: record.row.valid, fields: shown.iter().map(field).collect() }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use base64::Engine;
    use flate2::read::ZlibDecoder;

    use super::*;
    use crate::fixture;
    use crate::record::{Published, Value};

    fn render(manifest: &Manifest, records: &[Record]) -> io::Result<String> {
        let cells = cells::group(records);
        Page::new(manifest, records, &cells)?.render().map_err(io::Error::other)
    }

    /// What a page has packed of a kind, part by part.
    fn unpacked(page: &str, kind: &str) -> Vec<serde_json::Value> {
        let begin = format!("data-later=\"{kind}\">");
        let parts = page.split(&begin).skip(1);
        let unpacked = parts.map(|part| {
            let text = part.split_once("</script>").unwrap().0;
            let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
            let mut json = String::new();
            ZlibDecoder::new(&packed[..]).read_to_string(&mut json).unwrap();
            serde_json::from_str(&json).unwrap()
        });
        unpacked.collect()
    }

    #[test]
    fn a_large_run_has_its_first_rows_and_everything_packed() {
        let few = fixture::records();
        let records: Vec<Record> = (0..2000)
            .map(|number| {
                let mut record = few[number % few.len()].clone();
                record.row.cell = format!("cell {number} </script><b>");
                record
            })
            .collect();
        let page = render(&fixture::manifest(), &records).unwrap();
        assert_eq!(page.matches("\n<details>").count(), FIRST);
        // No text of a record ends a script element or is markup.
        assert!(!page.contains("</script><b>") && !page.contains("<b>"));
        for (kind, begin) in [("rows", "<tr"), ("accounts", "<details>")] {
            let parts = unpacked(&page, kind);
            assert!(parts.iter().all(|part| part.as_array().unwrap().len() == TOGETHER));
            let all: Vec<&str> =
                parts.iter().flat_map(|part| part.as_array().unwrap()).filter_map(|v| v.as_str()).collect();
            assert_eq!(all.len(), 2000);
            assert!(all[1005].starts_with(begin) && all[1005].contains("cell 1005 &#60;/script"), "{}", all[1005]);
        }
        assert!(unpacked(&page, "timelines").is_empty() && !page.contains("id=\"timelines\""));
        assert!(page.len() < 1_000_000 + 2000 * 600, "{}", page.len());
    }

    #[test]
    fn timelines_of_a_large_run_are_packed_with_it() {
        let few = fixture::matrix_records();
        let records: Vec<Record> = (0..WHOLE + 1).map(|number| few[number % few.len()].clone()).collect();
        let page = render(&fixture::matrix_manifest(), &records).unwrap();
        let parts = unpacked(&page, "timelines");
        let lengths: Vec<usize> = parts.iter().map(|part| part["cells"].as_array().unwrap().len()).collect();
        assert_eq!(lengths, [200, 200, 101]);
        assert_eq!(parts[1]["cells"][86], parts[0]["cells"][19], "286 is the 19th again");
        assert!(page.contains("id=\"timelines\">{\"quantities\":[{"), "which they are is told at once");
    }

    #[test]
    fn a_page_has_everything() {
        let page = render(&fixture::manifest(), &fixture::records()).unwrap();
        for part in [
            "<h1>UDP and TCP for telemetry under loss</h1>",
            "<span class=\"badge reproduced\">",
            "<span class=\"badge undecided\">not valid</span>",
            "sent 5622 = delivered 5622 + unexplained 0",
            "heartbeat&#39;s lateness",
            "congestion control",
            "digest ",
            "<p class=\"caveat\">Left out, as not valid: 17%/tcp.</p>",
            "Cell 17%/tcp is not valid: after 2 reruns; disturbed: heartbeat 312 ms late.",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<svg ").count(), 4, "one of the answer, one a chart");
        assert_eq!(page.matches("<details>").count(), 42);
        assert!(
            !page.contains("http://")
                || page.matches("http://").count() == page.matches("http://www.w3.org/2000/svg").count()
        );
        assert!(!page.contains("https://"), "nothing is fetched");
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(unbroken("after 2.4 ms, at 9 % on"), "after 2.4\u{a0}ms, at 9\u{a0}% on");
    }

    #[test]
    fn hostile_text_stays_text() {
        let evil = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u{0}";
        let (mut manifest, mut records) = (fixture::manifest(), fixture::records());
        manifest.title = evil.into();
        manifest.scenario = evil.into();
        manifest.description = evil.into();
        manifest.source = evil.into();
        manifest.command = vec![evil.into()];
        manifest.network = vec![evil.into()];
        manifest.environment = vec![(evil.into(), evil.into())];
        manifest.claims[0].text = evil.into();
        manifest.claims[0].reading = evil.into();
        manifest.charts[0].title = evil.into();
        manifest.charts[0].caption = evil.into();
        manifest.charts[0].x_label = evil.into();
        manifest.charts[0].y_label = evil.into();
        manifest.published = Some(Published {
            source: evil.into(),
            points: vec![
                [("transport".into(), Value::Text(evil.into())), ("msgs_per_s".into(), Value::Number(1.0))].into(),
            ],
        });
        for record in &mut records {
            record.row.cell = evil.into();
            record.row.transport = evil.into();
            record.remarks = vec![evil.into()];
            record.extra = [(evil.into(), Some(1.0))].into();
            record.axes = vec![(evil.into(), evil.into())];
            record.ledger[0].place = evil.into();
            record.ledger[0].source = evil.into();
            record.drops[0].flow = evil.into();
        }
        let page = render(&manifest, &records).unwrap();
        assert!(!page.contains("<img") && !page.contains("<script>alert"));
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (1, 1));
        assert_eq!((page.matches("<style").count(), page.matches("</style").count()), (1, 1));
        // No attribute of ours was ended by a quote of theirs.
        assert!(!page.contains("alert(1)>\"'"));
    }

    #[test]
    fn a_matrix_has_its_own_parts_and_stays_small() {
        let (manifest, records) = (fixture::matrix_manifest(), fixture::matrix_records());
        let page = render(&manifest, &records).unwrap();
        for part in [
            "id=\"model\"",
            "All 250 cells with loss lie within the band",
            "id=\"monotony\"",
            "in none of 493 pairs of neighbours",
            "id=\"published\"",
            "<td class=\"n\">37.3</td>",
            "What the lab itself adds",
            "<td>baseline</td>",
            "<script type=\"application/json\" id=\"timelines\">",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("data-timelines=").count(), 266, "one of 267 never connected");
        assert!(page.len() < 3_000_000, "{}", page.len());
    }

    #[test]
    fn a_run_without_results_is_a_page_too() {
        let manifest = Manifest { interrupted: true, ..fixture::manifest() };
        assert!(render(&manifest, &[]).unwrap().contains("The run was interrupted: 0 of 42 cells are here;"));
    }
}
