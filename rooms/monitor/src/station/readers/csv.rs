//! Comma-separated values: RFC 4180 without line breaks within fields. A semicolon or a tab parts fields where the first line has one.

use super::{Unreadable, is_time, time};

/// Knows the names of the columns from the first line.
#[derive(Clone, Debug, Default)]
pub struct Csv {
    names: Vec<String>,
    delimiter: char,
    time: Option<usize>,
}

impl Csv {
    /// Reads a line; the first one has names, and shows nothing. Names that are all numbers are values: columns are then named by their
    /// number, from 0.
    ///
    /// # Errors
    /// A field that is neither a number nor empty.
    pub fn line(&mut self, line: &str, mut look: impl FnMut(&str, Option<i64>, f64)) -> Result<(), Unreadable> {
        let line = line.trim_end_matches(['\r', '\n']);
        if line.trim().is_empty() {
            return Ok(());
        }
        if self.names.is_empty() {
            self.delimiter = [';', '\t'].into_iter().find(|&other| line.contains(other)).unwrap_or(',');
            let fields: Vec<String> = self.fields(line).map(|field| field.into_owned()).take(MOST_COLUMNS).collect();
            let values = fields.iter().all(|field| field.parse::<f64>().is_ok());
            self.names = if values { (0..fields.len()).map(|at| at.to_string()).collect() } else { fields };
            // One letter may be anything: time is `t`, in front.
            let is_it = |(column, name): (usize, &String)| {
                if name.len() > 1 { is_time(name) } else { column == 0 && name == "t" }
            };
            self.time = (0..).zip(&self.names).position(is_it);
            if !values {
                return Ok(());
            }
        }
        let written =
            self.time.and_then(|column| self.fields(line).nth(column)).filter(|field| !field.trim().is_empty());
        let at = written.as_ref().and_then(|field| field.trim().parse().ok()).and_then(time);
        if written.is_some() && at.is_none() {
            return Err(Unreadable("times that are numbers"));
        }
        let mut read = Ok(());
        for (column, field) in self.fields(line).enumerate().filter(|(column, _)| Some(*column) != self.time) {
            match (self.names.get(column), field.parse()) {
                (_, _) if field.is_empty() => {}
                (Some(name), Ok(value)) => look(name, at, value),
                _ => read = Err(Unreadable("numbers in columns that have names")),
            }
        }
        read
    }

    /// Names of the columns with values, in their order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let values = self.names.iter().enumerate().filter(|(column, _)| Some(*column) != self.time);
        values.map(|(_, name)| name.as_str())
    }

    fn fields<'a>(&self, line: &'a str) -> impl Iterator<Item = std::borrow::Cow<'a, str>> + use<'a> {
        let (mut rest, delimiter) = (Some(line), self.delimiter);
        std::iter::from_fn(move || {
            let text = rest?;
            if let Some(quoted) = text.trim_start().strip_prefix('"') {
                // Two quotes are one.
                let mut end = 0;
                while let Some(at) = quoted[end..].find('"').map(|at| at + end) {
                    if quoted[at + 1..].starts_with('"') {
                        end = at + 2;
                        continue;
                    }
                    rest = quoted[at + 1..].split_once(delimiter).map(|(_, rest)| rest);
                    return Some(quoted[..at].replace("\"\"", "\"").into());
                }
            }
            let (field, behind) = text.split_once(delimiter).map_or((text, None), |(field, rest)| (field, Some(rest)));
            rest = behind;
            Some(field.trim().into())
        })
    }
}

const MOST_COLUMNS: usize = 4096;
