//! The columns of a result: what they are (`columns/table.rs`), and how to get at a record's fields by name.

mod column;
mod table;

pub use column::{Better, Column, Kind, Quantity, Statistic, Trials};
pub use table::{ADDED, COLUMNS, DELIVERED_BY_NUMBER, QUANTITIES, RECEIVER, about, column, kind, rests_on, unit};

use weir_units::format;

use crate::record::{Record, Row, Value};

/// The value of an axis that a cell has no use for, as `tcp.congestion` of one that sends by UDP.
pub const NOTHING: &str = "-";

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

/// That there is no such column, and which one is called nearly so.
pub(super) fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let similarity = |candidate: &str| strsim::jaro_winkler(name, candidate);
    let nearest = known.into_iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    nearest.map_or(format!("no column `{name}`"), |nearest| format!("no column `{name}`, did you mean `{nearest}`?"))
}

/// Refuses what is neither a column nor one of these axes, with the nearest name.
pub(super) fn check(name: &str, axes: &[&str]) -> Result<(), String> {
    let known = || COLUMNS.iter().chain(&ADDED).map(|column| column.name).chain(axes.iter().copied());
    if known().any(|known| known == name) { Ok(()) } else { Err(unknown(name, known())) }
}

/// Whether it is a column of words.
pub fn is_text(name: &str) -> bool {
    table::place(name).is_some_and(|index| matches!(fields(&Row::default())[index], Field::Text(_)))
}

/// Names of all columns of a run: the fixed ones, then those that its first record adds.
pub fn names(records: &[Record]) -> Vec<&str> {
    let added = records.first().map(|record| record.extra.names()).unwrap_or_default();
    COLUMNS.iter().map(|column| column.name).chain(added.iter().map(|name| &**name)).collect()
}

/// The fixed fields of a row, in the order of [`COLUMNS`].
pub fn fields(row: &Row) -> [Field<'_>; 25] {
    let count = |n: u64| Field::Count(i64::try_from(n).unwrap_or(i64::MAX));
    let maybe_count = |n: Option<u64>| n.map_or(Field::Empty, count);
    let maybe = |n: Option<f64>| n.map_or(Field::Empty, Field::Number);
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
        count(row.sent),
        count(row.delivered),
        maybe_count(row.undelivered),
        Field::Number(row.msgs_per_s),
        Field::Number(row.mbit_per_s),
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

/// A field by name: a fixed column, an added one, or an axis key. `None` if the record has nothing of that name.
pub fn field<'a>(record: &'a Record, name: &str) -> Option<Field<'a>> {
    #[cfg(test)]
    LOOKUPS.with(|lookups| lookups.set(lookups.get() + 1));
    if let Some(index) = table::place(name) {
        return Some(fields(&record.row)[index]);
    }
    if let Some(value) = record.extra.get(name) {
        return Some(value.map_or(Field::Empty, Field::Number));
    }
    let (_, value) = record.axes.iter().find(|(key, _)| key == name)?;
    Some(if value == NOTHING { Field::Empty } else { Field::Text(value) })
}

#[cfg(test)]
thread_local! {
    static LOOKUPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Fields that this thread has looked up so far.
#[cfg(test)]
pub(crate) fn lookups() -> u64 {
    LOOKUPS.with(std::cell::Cell::get)
}

/// A field by name as a finite number.
pub fn number(record: &Record, name: &str) -> Option<f64> {
    field(record, name)?.number()
}

/// Whether the record is of a bulk transfer, which is told in bytes instead of messages.
pub fn is_bulk(record: &Record) -> bool {
    number(record, "received_bytes").is_some()
}

/// A field by name as a reader would write it.
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

/// A value of a column: a duration in the unit that suits it, or [`format::short`] with the column's unit where it says
/// more.
pub fn words(column: &str, value: f64) -> String {
    match unit(column) {
        "us" => format::duration(value),
        "ms" => format::duration(value * 1e3),
        "%" => format!("{} %", format::short(value)),
        "Mbit/s" => format!("{} Mbit/s", format::short(value)),
        "bytes" => format::bytes(value),
        _ => format::short(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_unit_of_their_column() {
        assert_eq!((words("loss_pct", 0.5), words("msgs_per_s", 93.71)), ("0.5 %".into(), "93.7".into()));
        assert_eq!(words("load_mbit_per_s", 12.5), "12.5 Mbit/s");
    }

    #[test]
    fn columns_are_the_rows_fields_in_order() {
        let json = serde_json::to_string(&Row::default()).unwrap();
        let mut last = 0;
        for column in COLUMNS {
            let at = json.find(&format!("\"{}\":", column.name)).expect(column.name);
            assert!(at >= last, "{} is out of order", column.name);
            last = at;
        }
        assert_eq!(serde_json::to_value(Row::default()).unwrap().as_object().unwrap().len(), COLUMNS.len());
    }

    #[test]
    fn columns_of_words_are_known() {
        let words: Vec<_> =
            COLUMNS.iter().chain(&ADDED).map(|column| column.name).filter(|name| is_text(name)).collect();
        assert_eq!(words, ["scenario", "cell", "transport"]);
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
        assert_eq!(number(&record, "sent"), Some(9.0));
        assert_eq!(number(&record, "socket_drops"), Some(4.0));
        assert_eq!(number(&record, "unexplained"), Some(-2.0));
        assert_eq!(number(&record, "late_max_us"), Some(7.0));
        assert_eq!((number(&record, "share"), field(&record, "nothing")), (None, None));
        assert!(matches(&record, "tcp.nodelay", &Value::Text("true".into())));
        assert!(matches(&record, "valid", &Value::Text("true".into())));
        assert!(!matches(&record, "sent", &Value::Number(9.1)));
        let udp = Record { axes: vec![("tcp.nodelay".into(), NOTHING.into())], ..record };
        assert_eq!((field(&udp, "tcp.nodelay"), text(&udp, "tcp.nodelay")), (Some(Field::Empty), None));
    }
}
