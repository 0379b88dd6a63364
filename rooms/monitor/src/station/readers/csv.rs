//! Comma-separated values, one row a line. A semicolon or a tab separates fields where the first line has one; with semicolons a comma
//! is a decimal point.

use csv::{ReaderBuilder, StringRecord, Trim};

use super::{Look, Unit, Unreadable, is_time, time};

/// Knows the names of the columns from the configuration or from the first line.
#[derive(Clone, Debug, PartialEq)]
pub struct Csv {
    columns: Vec<Column>,
    delimiter: Option<u8>,
    time: Option<usize>,
    unit: Option<Unit>,
}

#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    has: Has,
}

/// What a column has had so far.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Has {
    Nothing,
    Numbers,
    Texts,
}

impl Csv {
    /// `names`: of the columns; empty: the first line has them.
    pub fn new(names: &[String], unit: Option<Unit>) -> Self {
        let mut csv = Self { columns: Vec::new(), delimiter: None, time: None, unit };
        csv.set_names(names.iter().cloned());
        csv
    }

    /// Whether the names of its columns are known.
    pub fn is_named(&self) -> bool {
        !self.columns.is_empty()
    }

    fn set_names(&mut self, names: impl Iterator<Item = String>) {
        let column = |name| Column { name, has: Has::Nothing };
        self.columns = names.map(column).take(MOST_COLUMNS).collect();
        // One letter may be anything: time is `t`, in front.
        let is_it = |(column, Column { name, .. }): (usize, &Column)| {
            if name.len() > 1 { is_time(name) } else { column == 0 && name == "t" }
        };
        self.time = (0..).zip(&self.columns).position(is_it);
    }

    /// Reads a row, or names. A row without a number that has the time column's name (without a time column: any name that is known) has
    /// the names from there on. Columns of a first line that is all numbers are named by their number, from 0.
    pub(super) fn line(&mut self, line: &str, look: &mut Look<'_>) -> Result<(), Unreadable> {
        if line.starts_with('#') {
            return Ok(());
        }
        let found = || [b';', b'\t'].into_iter().find(|other| line.as_bytes().contains(other)).unwrap_or(b',');
        let delimiter = *self.delimiter.get_or_insert_with(found);
        let fields = fields(line, delimiter);
        let number = |field: &str| match delimiter {
            b';' => field.replace(',', ".").parse::<f64>().ok(),
            _ => field.parse().ok(),
        };
        let numbers = fields.iter().filter_map(number).count();
        let known = |field: &str| match self.time {
            Some(time) => field == self.columns[time].name,
            None => self.columns.iter().any(|column| column.name == field),
        };
        if !self.is_named() && numbers == fields.len() {
            self.set_names((0..fields.len()).map(|at| at.to_string()));
        } else if !self.is_named() || numbers == 0 && fields.iter().any(known) {
            self.set_names(fields.iter().map(str::to_owned));
            return Ok(());
        }
        let written = self.time.and_then(|column| fields.get(column)).filter(|field| !field.is_empty());
        let written = written.map(|field| if delimiter == b';' { field.replace(',', ".") } else { field.to_owned() });
        let at = written.as_ref().and_then(|text| time(text, self.unit));
        if written.is_some() && at.is_none() {
            return Err(Unreadable("times that are numbers"));
        }
        let mut read = Ok(());
        for (column, field) in fields.iter().enumerate().filter(|(_, field)| !field.is_empty()) {
            match (self.columns.get_mut(column), number(field)) {
                _ if Some(column) == self.time => {}
                (Some(column), Some(value)) => {
                    column.has = Has::Numbers;
                    look(&column.name, at, value);
                }
                (Some(Column { has: Has::Texts, .. }), None) => {}
                (column, _) => {
                    read = Err(Unreadable("numbers in columns that have names"));
                    // A column that has texts from its first row on is left out, and counted once.
                    if let Some(Column { has: has @ Has::Nothing, .. }) = column {
                        *has = Has::Texts;
                    }
                }
            }
        }
        read
    }
}

fn fields(line: &str, delimiter: u8) -> StringRecord {
    let mut builder = ReaderBuilder::new();
    builder.delimiter(delimiter).has_headers(false).trim(Trim::All).buffer_capacity(line.len());
    let mut record = StringRecord::new();
    // A line of a text is always a record.
    let _ = builder.from_reader(line.as_bytes()).read_record(&mut record);
    record
}

/// Four times as many channels as a station has by default.
const MOST_COLUMNS: usize = 4096;
