//! Axes as a document writes them, and the combinations of their values.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};
use weir_program::config::Step;

use super::document::unquoted;
use super::keys::as_written;
use super::overrides::messages_a_second;
use super::written::Written;

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Dotted scenario key.
    pub key: String,
    /// Its values.
    pub values: Vec<Value>,
}

impl Axis {
    /// Whether a value is there twice.
    pub(super) fn has_twice(&self) -> bool {
        let mut values = BTreeSet::new();
        !self.as_written().into_iter().all(|value| values.insert(value))
    }

    /// Its values without quotes.
    pub fn as_written(&self) -> Vec<String> {
        self.values.iter().map(as_written).collect()
    }
}

pub(super) fn take_axes(written: &Written, document: &mut Table) -> Result<Vec<Axis>> {
    let place = |path: &[Step<'_>]| format!("{}: axes", written.place(path));
    let Some(axes) = document.remove("axes") else {
        return Ok(Vec::new());
    };
    let Value::Table(axes) = axes else {
        bail!("{}: expected a table of scenario keys and lists of values", place(&[Step::Key("axes")]))
    };
    let of = |(key, value): (String, Value)| {
        let values = values(&key, value).with_context(|| place(&[Step::Key("axes"), Step::Key(&key)]))?;
        Ok(Axis { key, values })
    };
    axes.into_iter().map(of).collect()
}

const FORM: &str = "{ from, to, step }";

/// The values of an axis as the document writes them.
fn values(key: &str, written: Value) -> Result<Vec<Value>> {
    let values = match written {
        Value::Array(values) => values,
        Value::Table(table) if !["from", "to", "step"].iter().any(|end| table.contains_key(*end)) => {
            let written = Value::Table(table);
            bail!(unquoted(key, &written).unwrap_or_else(|| format!("\"{key}\": expected a list of values, or {FORM}")))
        }
        Value::Table(range) => steps(&range).with_context(|| format!("\"{key}\""))?,
        _ => bail!("\"{key}\": expected a list of values, or {FORM}"),
    };
    if let Some(advice) = values.iter().find_map(|value| messages_a_second(key, value.as_str()?)) {
        bail!("\"{key}\": {advice}");
    }
    if values.is_empty() {
        bail!("\"{key}\" is empty: give it at least one value, or remove it");
    }
    Ok(values)
}

/// `{ from = "0%", to = "20%", step = "1%" }`: the values of a range, ends included.
pub(super) fn steps(range: &Table) -> Result<Vec<Value>> {
    let end = |name: &str| -> Result<(f64, String)> {
        let value = range.get(name).with_context(|| format!("a range needs `{name}`"))?;
        let text = as_written(value);
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
        let number = text[..digits].parse().with_context(|| format!("`{name}`: {text} is not a number with a unit"))?;
        Ok((number, text[digits..].to_owned()))
    };
    let ((from, unit), (to, unit_to), (step, unit_step)) = (end("from")?, end("to")?, end("step")?);
    if let Some(key) = range.keys().find(|key| !["from", "to", "step"].contains(&key.as_str())) {
        bail!("a range has `from`, `to` and `step`, not `{key}`");
    }
    if unit_to != unit || unit_step != unit {
        bail!("`from`, `to` and `step` need the same unit");
    }
    let count = ((to - from) / step + 1e-9).floor();
    if !(0.0..10_000.0).contains(&count) {
        bail!("from {from}{unit} to {to}{unit} by {step}{unit} is not a range of at most 10,000 values");
    }
    let value = |i: u32| (from + f64::from(i) * step) * 1e9;
    Ok((0..=count as u32).map(|i| Value::String(format!("{}{unit}", value(i).round() / 1e9))).collect())
}

/// Indexes into each axis, the last varying fastest.
pub(super) fn combinations(axes: &[Axis]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |prefixes, axis| {
        prefixes.iter().flat_map(|prefix| (0..axis.values.len()).map(|i| [prefix.as_slice(), &[i]].concat())).collect()
    })
}
