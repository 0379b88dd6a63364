//! A document with its axes: the values that each cell sets in it.

use anyhow::{Result, anyhow, bail};
use toml::Value;
use toml::de::{DeTable, DeValue};
use weir_program::config::{Document, Item, Step, did_you_mean, value_of};

use super::path_of;

/// A document without its axes, and the values that make its cells.
pub(super) struct Layout<'a> {
    document: Document<'a>,
    pub(super) axes: Vec<WrittenAxis<'a>>,
}

/// An axis, with the places of its values.
pub(super) struct WrittenAxis<'a> {
    /// Dotted scenario key.
    pub(super) key: String,
    pub(super) values: Vec<Item<'a>>,
}

impl<'a> Layout<'a> {
    /// Takes the axes out of a document, and applies the command line: a value removes an axis, a list makes one.
    pub(super) fn new(origin: &'a str, text: &'a str, set: &'a [(String, String)]) -> Result<Self> {
        let mut document = Document::parse(origin, text)?;
        let mut axes = Vec::new();
        if let Some(written) = document.take("axes") {
            let DeValue::Table(table) = written.get_ref() else {
                return Err(document.wrong_item(
                    &written,
                    "axes",
                    "write a table of scenario keys and lists of values",
                ));
            };
            for (key, item) in dotted(table, &is_range) {
                let wrong = |message: &str| document.wrong_item(&item, &format!("axes: {key}"), message);
                let values = match item.get_ref() {
                    DeValue::Array(values) => values.iter().cloned().collect(),
                    DeValue::Table(range) => steps(&item, range).map_err(|error| wrong(&error.to_string()))?,
                    _ => return Err(wrong("write a list of values, or { from, to, step }")),
                };
                if values.is_empty() {
                    return Err(wrong("it is empty. Give it a value, or remove it."));
                }
                axes.push(WrittenAxis { key, values });
            }
        }
        let mut layout = Layout { document, axes };
        for (key, text) in set {
            layout.set(key, text)?;
        }
        Ok(layout)
    }

    /// Applies one `--set`.
    fn set(&mut self, key: &str, text: &'a str) -> Result<()> {
        let item = self.document.flag(format!("--set {key}={text}"), text);
        let values = match item.get_ref() {
            DeValue::Table(range) if is_range(range) => {
                steps(&item, range).map_err(|error| self.document.wrong_item(&item, "", error))?
            }
            // No extra cell, no chart ...
            DeValue::Array(none) if none.is_empty() => vec![item],
            DeValue::Array(values) => values.iter().cloned().collect(),
            DeValue::String(list) if list.contains(',') => {
                let parts = text.split(',').map(str::trim);
                parts.map(|part| self.document.flag(format!("--set {key}={text}"), part)).collect()
            }
            _ => vec![item],
        };
        match (<[_; 1]>::try_from(values), self.axes.iter_mut().find(|axis| axis.key == key)) {
            (Ok([value]), _) => {
                self.axes.retain(|axis| axis.key != key);
                put(&mut self.document, key, &value)?;
            }
            (Err(values), Some(axis)) => axis.values = values,
            (Err(values), None) => self.axes.push(WrittenAxis { key: key.to_owned(), values }),
        }
        Ok(())
    }

    /// The number of combinations of the axes' values. `None`: too many to count.
    pub(super) fn combinations(&self) -> Option<usize> {
        self.axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()))
    }

    /// The document of the combination with this number, the first axis varying slowest, and its values.
    pub(super) fn combination(&self, mut number: usize) -> Result<(Document<'a>, Vec<&Item<'a>>)> {
        let mut chosen = Vec::new();
        for axis in self.axes.iter().rev() {
            chosen.push(&axis.values[number % axis.values.len()]);
            number /= axis.values.len();
        }
        chosen.reverse();
        let mut document = self.document.clone();
        for (axis, value) in self.axes.iter().zip(&chosen) {
            put(&mut document, &axis.key, value)?;
        }
        Ok((document, chosen))
    }

    /// The document as written, with the first value of each axis that it does not set.
    pub(super) fn written(&self) -> Result<Document<'a>> {
        let mut document = self.document.clone();
        for WrittenAxis { key, values } in &self.axes {
            if document.get(&path_of(key)).is_none() {
                put(&mut document, key, &values[0])?;
            }
        }
        Ok(document)
    }

    /// The document of the extra cell with this number: axes that it does not set have their first value.
    pub(super) fn extra(&self, number: usize) -> Result<Document<'a>> {
        let (mut document, _) = self.combination(0)?;
        let set = document.get(&[Step::Key("cells"), Step::Index(number), Step::Key("set")]).cloned();
        // A value that it sets has one place, not two.
        let _ = document.take("cells");
        if let Some(DeValue::Table(set)) = set.as_ref().map(Item::get_ref) {
            for (key, value) in dotted(set, &|_| false) {
                put(&mut document, &key, &value)?;
            }
        }
        Ok(document)
    }

    /// An error about the axes as a whole.
    pub(super) fn wrong_axes(&self, message: String) -> anyhow::Error {
        match self.axes.first().and_then(|axis| axis.values.first()) {
            Some(value) => self.document.wrong_item(value, "axes", message),
            None => anyhow!("axes: {message}"),
        }
    }
}

/// Sets a value in the document of a cell.
fn put<'a>(document: &mut Document<'a>, key: &str, value: &Item<'a>) -> Result<()> {
    if let Some((table, rest)) = key.split_once('.')
        && let Some((name, _)) = rest.split_once('.')
        && let Some(DeValue::Table(known)) = document.get(&[Step::Key(table)]).map(Item::get_ref)
        && ["hosts", "routers", "links"].contains(&table)
        && !known.contains_key(name)
    {
        let names: Vec<&str> = known.keys().map(|name| &**name.get_ref()).collect();
        let near = did_you_mean(name, names.iter().copied());
        let kind = &table[..table.len() - 1];
        let message = format!("no {kind} `{name}` (there are {}){near}", names.join(", "));
        return Err(document.wrong_item(value, key, message));
    }
    // A rate and an interval replace each other.
    let _ = match key {
        "traffic.interval" => document.take("traffic.rate"),
        "traffic.rate" => document.take("traffic.interval"),
        _ => None,
    };
    document.set(key, value.clone())
}

/// The entries of a table with dotted keys, quoted or not; a table for which `is_value` holds is one.
fn dotted<'a>(table: &DeTable<'a>, is_value: &dyn Fn(&DeTable<'a>) -> bool) -> Vec<(String, Item<'a>)> {
    let mut entries = Vec::new();
    for (key, item) in table {
        let key = key.get_ref();
        match item.get_ref() {
            DeValue::Table(below) if !key.contains('.') && !is_value(below) => {
                entries.extend(dotted(below, is_value).into_iter().map(|(rest, item)| (format!("{key}.{rest}"), item)));
            }
            _ => entries.push((key.to_string(), item.clone())),
        }
    }
    entries
}

const ENDS: [&str; 3] = ["from", "to", "step"];

fn is_range(table: &DeTable<'_>) -> bool {
    ENDS.iter().all(|end| table.contains_key(*end))
}

/// `{ from = "0%", to = "20%", step = "1%" }`: the values of a range, ends included, with its place.
fn steps<'a>(range: &Item<'a>, table: &DeTable<'a>) -> Result<Vec<Item<'a>>> {
    let mut ends = [(0.0, String::new()), (0.0, String::new()), (0.0, String::new())];
    for (end, name) in ends.iter_mut().zip(ENDS) {
        let Some(value) = table.get(name) else { bail!("a range needs `from`, `to` and `step`. Add {name} = ...") };
        let text = as_written(&value_of(value));
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
        let Ok(number) = text[..digits].parse::<f64>() else { bail!("`{name}`: {text} is not a number with a unit") };
        *end = (number, text[digits..].to_owned());
    }
    let [(from, unit), (to, unit_to), (step, unit_step)] = ends;
    if unit_to != unit || unit_step != unit {
        bail!("`from`, `to` and `step` need the same unit");
    }
    let count = ((to - from) / step + 1e-9).floor();
    if !(0.0..10_000.0).contains(&count) {
        bail!("from {from}{unit} to {to}{unit} by {step}{unit} is not a range of at most 10,000 values");
    }
    let value = |i: u32| ((from + f64::from(i) * step) * 1e9).round() / 1e9;
    let text = |i: u32| DeValue::String(format!("{}{unit}", value(i)).into());
    Ok((0..=count as u32).map(|i| Item::new(range.span(), text(i))).collect())
}

/// The value without quotes.
pub(crate) fn as_written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
