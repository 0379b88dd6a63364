//! The columns of a result (`columns/table.rs`, and a scenario's own), and a record's fields by name.

mod table;

use serde::{Deserialize, Serialize};
use weir_units::format;

pub use self::table::{ADDED, COLUMNS, QUANTITIES};
use crate::record::{OwnColumn, Record, Row, Value};

/// A column of `results.csv`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a str,
    /// Unit, empty where there is none.
    pub unit: &'a str,
    /// How its values are read.
    pub kind: Kind,
    /// Which direction is better. `None`: neither.
    pub better: Option<Better>,
    /// What must have been undisturbed for it to be valid.
    pub statistic: Statistic,
    /// Its meaning.
    pub about: &'a str,
}

/// How the values of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word.
    Text,
    /// Yes or no.
    Flag,
    /// A share of trials, from 0 to 1, or its distance from a constant.
    Share,
    /// An estimate of a property of the path, meaningful only with its interval.
    Estimate,
    /// The max of the observations; over repeats, the max of all.
    Extreme,
    /// Exact for its run.
    Exact,
}

/// Which direction of a column is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// What a column depends on; standstills of the machine affect each differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// Rates and losses in the window.
    #[default]
    Rate,
    /// The mean delay.
    Mean,
    /// The median delay.
    P50,
    /// The 99th percentile of the delay.
    P99,
    /// Its 99.9th percentile.
    P999,
    /// The largest delay.
    Max,
    /// Counters: exact, whatever happened.
    Counter,
    /// The scenario.
    Setting,
}

/// A quantity sampled while a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Name of its timelines.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Its meaning.
    pub about: &'static str,
}

/// The axis of the receivers of a cell.
pub const RECEIVER: &str = "receiver";

/// The value of an axis that does not apply to a cell, e.g. `tcp.congestion` for UDP.
pub const NOTHING: &str = "-";

/// The columns of a run: the standard ones, and those that its scenario defines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Columns<'a>(pub &'a [OwnColumn]);

impl<'a> Columns<'a> {
    /// A column by name. `None`: an axis key, or a column of another version.
    pub fn get(self, name: &str) -> Option<Column<'a>> {
        let known = COLUMNS.iter().chain(&ADDED).find(|column| column.name == name).copied();
        known.or_else(|| {
            let own = self.0.iter().find(|own| own.name == name)?;
            let OwnColumn { name, unit, better, statistic } = own;
            let about = "defined by the scenario";
            Some(Column { name, unit, kind: Kind::Exact, better: *better, statistic: *statistic, about })
        })
    }

    /// Unit of a column or of a quantity over time; empty if there is none, or no such thing.
    pub fn unit(self, name: &str) -> &'a str {
        let quantity = || QUANTITIES.iter().find(|quantity| quantity.name == name).map(|quantity| quantity.unit);
        self.get(name).map(|column| column.unit).or_else(quantity).unwrap_or_default()
    }

    /// The kind of a column. `None`: no such column.
    pub fn kind(self, name: &str) -> Option<Kind> {
        self.get(name).map(|column| column.kind)
    }

    /// Meaning of the column.
    pub fn about(self, name: &str) -> &'a str {
        self.get(name).map_or("a column from another version of Weir", |column| column.about)
    }

    /// A value with its unit, as text.
    pub fn words(self, column: &str, value: f64) -> String {
        in_unit(self.unit(column), value)
    }

    /// Refuses a name that is neither a column nor one of these axes, with the nearest one.
    pub(crate) fn check(self, name: &str, axes: &[&str]) -> Result<(), String> {
        let fixed = COLUMNS.iter().chain(&ADDED).map(|column| column.name);
        let known = fixed.chain(self.0.iter().map(|own| own.name.as_str())).chain(axes.iter().copied());
        let known: Vec<&str> = known.collect();
        if known.contains(&name) { Ok(()) } else { Err(unknown(name, known)) }
    }
}

/// The error that there is no such column, with the nearest name.
pub(crate) fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let similarity = |candidate: &str| strsim::jaro_winkler(name, candidate);
    let nearest = known.into_iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    nearest.map_or(format!("no column `{name}`"), |nearest| format!("no column `{name}`, did you mean `{nearest}`?"))
}

/// A value in a unit, as text: a duration or size in a suitable unit.
pub fn in_unit(unit: &str, value: f64) -> String {
    match unit {
        "us" => format::duration(value),
        "ms" => format::duration(value * 1e3),
        "bytes" => format::bytes(value),
        "1/s" => format!("{}/s", format::short(value)),
        "%" | "Mbit/s" => format!("{} {unit}", format::short(value)),
        _ => format::short(value),
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// A word.
    Text(&'a str),
    /// A count.
    Count(i64),
    /// A number in the column's unit.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Not measured or not defined.
    Empty,
}

impl Field<'_> {
    /// As a number; a flag is 1 or 0.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Field::Count(count) => Some(count as f64),
            Field::Number(number) => number.is_finite().then_some(number),
            Field::Flag(flag) => Some(f64::from(u8::from(flag))),
            Field::Text(text) => text.parse().ok(),
            Field::Empty => None,
        }
    }
}

/// Names of all columns of a run: the fixed ones, then those that its first record adds.
pub fn names(records: &[Record]) -> Vec<&str> {
    let added = records.iter().take(1).flat_map(|record| record.extra.keys().map(String::as_str));
    COLUMNS.iter().map(|column| column.name).chain(added).collect()
}

/// The fixed fields of a row, in the order of [`COLUMNS`].
pub fn fields(row: &Row) -> [Field<'_>; 25] {
    let count = |n: u64| Field::Count(i64::try_from(n).unwrap_or(i64::MAX));
    let maybe_count = |n: Option<u64>| n.map_or(Field::Empty, count);
    let maybe = |n: Option<f64>| n.map_or(Field::Empty, Field::Number);
    let of_lab = |field| if row.by_programs { Field::Empty } else { field };
    [
        Field::Text(&row.scenario),
        Field::Text(&row.cell),
        count(row.repeat.into()),
        Field::Text(&row.transport),
        Field::Number(row.loss_pct),
        Field::Number(row.latency_ms),
        maybe(row.rate_mbit),
        count(row.payload_bytes),
        Field::Number(row.duration_s),
        of_lab(count(row.sent)),
        of_lab(count(row.delivered)),
        maybe_count(row.undelivered),
        of_lab(Field::Number(row.msgs_per_s)),
        of_lab(Field::Number(row.mbit_per_s)),
        maybe(row.delay_mean_us),
        maybe(row.delay_p50_us),
        maybe(row.delay_p99_us),
        maybe(row.delay_max_us),
        maybe_count(row.retransmits),
        count(row.planned_drops),
        count(row.queue_drops),
        maybe_count(row.socket_drops),
        count(row.emulator_drops),
        row.unexplained.map_or(Field::Empty, Field::Count),
        Field::Flag(row.valid),
    ]
}

/// A field by name: a fixed column, an added one, or an axis key. `None`: the record has none of that name.
pub fn field<'a>(record: &'a Record, name: &str) -> Option<Field<'a>> {
    if let Some(index) = COLUMNS.iter().position(|column| column.name == name) {
        return Some(fields(&record.row)[index]);
    }
    if let Some(value) = record.extra.get(name) {
        return Some(value.map_or(Field::Empty, Field::Number));
    }
    let (_, value) = record.axes.iter().find(|(key, _)| key == name)?;
    Some(if value == NOTHING { Field::Empty } else { Field::Text(value) })
}

/// A field by name as a finite number.
pub fn number(record: &Record, name: &str) -> Option<f64> {
    field(record, name)?.number()
}

/// Whether the record is of a bulk transfer, which counts bytes instead of messages.
pub fn is_bulk(record: &Record) -> bool {
    number(record, "received_bytes").is_some()
}

/// A field by name, as text.
pub fn text(record: &Record, name: &str) -> Option<String> {
    match field(record, name)? {
        Field::Text(text) => Some(text.to_owned()),
        Field::Flag(flag) => Some(flag.to_string()),
        Field::Empty => None,
        number => number.number().map(format::plain),
    }
}

/// Whether a field of this name has this value; numbers are compared to nine digits.
pub fn matches(record: &Record, name: &str, value: &Value) -> bool {
    match value {
        Value::Number(wanted) => {
            number(record, name).is_some_and(|found| (found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0))
        }
        Value::Text(wanted) => text(record, name).is_some_and(|found| found == *wanted),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::{env, fs};

    use super::*;

    #[test]
    fn values_have_the_unit_of_their_column() {
        let own = [OwnColumn { name: "found_pct".into(), unit: "%".into(), ..OwnColumn::default() }];
        let columns = Columns(&own);
        assert_eq!(
            (columns.words("loss_pct", 0.5), columns.words("msgs_per_s", 93.71)),
            ("0.5 %".into(), "93.7/s".into())
        );
        assert_eq!(
            (columns.words("load_mbit_per_s", 12.5), columns.words("found_pct", 99.0)),
            ("12.5 Mbit/s".into(), "99 %".into())
        );
        assert_eq!(columns.words("rtt_us", 1500.0), "1.5 ms");
    }

    #[test]
    fn each_column_is_there_once_and_in_the_rows_order() {
        let all = || COLUMNS.iter().chain(&ADDED);
        let names: BTreeSet<&str> = all().map(|column| column.name).collect();
        assert_eq!(names.len(), COLUMNS.len() + ADDED.len());
        assert!(all().all(|column| !column.about.is_empty() && column.about.len() <= 100));
        let json = serde_json::to_string(&Row::default()).unwrap();
        let places: Vec<_> =
            COLUMNS.iter().map(|column| json.find(&format!("\"{}\":", column.name)).unwrap()).collect();
        assert!(places.is_sorted());
        assert_eq!(serde_json::to_value(Row::default()).unwrap().as_object().unwrap().len(), COLUMNS.len());
    }

    /// `WEIR_WRITE_DOCS=1 cargo test -p weir-report --lib columns_page` writes it.
    #[test]
    fn columns_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab-columns.md");
        let page = fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- columns: made from the code -->\n\n", "\n<!-- end of columns -->");
        let (before, after) = (page.split_once(begin).unwrap().0, page.split_once(end).unwrap().1);
        let mut table = "| column | unit | meaning |\n|---|---|---|\n".to_owned();
        for Column { name, unit, about, .. } in COLUMNS.iter().chain(&ADDED) {
            table += &format!("| `{name}` | {unit} | {about} |\n");
        }
        let made = format!("{before}{begin}{table}{end}{after}");
        if env::var_os("WEIR_WRITE_DOCS").is_some() {
            fs::write(path, &made).unwrap();
        }
        assert!(fs::read_to_string(path).unwrap() == made, "docs/lab-columns.md: write it with WEIR_WRITE_DOCS=1");
    }

    #[test]
    fn every_name_reaches_its_own_field() {
        let row = Row { sent: 9, socket_drops: Some(4), unexplained: Some(-2), valid: true, ..Row::default() };
        let record = Record {
            row,
            extra: [("late_max_us".into(), Some(7.0)), ("share".into(), None)].into(),
            axes: vec![("tcp.nodelay".into(), "true".into())],
            ..Record::default()
        };
        let number = |name| number(&record, name);
        assert_eq!((number("sent"), number("socket_drops"), number("unexplained")), (Some(9.0), Some(4.0), Some(-2.0)));
        assert_eq!((number("late_max_us"), number("share"), field(&record, "nothing")), (Some(7.0), None, None));
        assert!(matches(&record, "tcp.nodelay", &Value::Text("true".into())));
        assert!(matches(&record, "valid", &Value::Text("true".into())));
        assert!(!matches(&record, "sent", &Value::Number(9.1)));
        let udp = Record { axes: vec![("tcp.nodelay".into(), NOTHING.into())], ..record };
        assert_eq!((field(&udp, "tcp.nodelay"), text(&udp, "tcp.nodelay")), (Some(Field::Empty), None));
    }
}
