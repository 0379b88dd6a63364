//! Dotted keys of a document.

use anyhow::{Context, Result};
use toml::{Table, Value};

/// Sets the value of a dotted key, and makes the tables that it is in.
pub(super) fn set(document: &mut Table, key: &str, value: Value) -> Result<()> {
    let (parents, name) = match key.rsplit_once('.') {
        Some((parents, name)) => (Some(parents), name),
        None => (None, key),
    };
    let mut table = document;
    for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
        table = table
            .entry(parent)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .with_context(|| format!("`{parent}` is a value, not a table of keys"))?;
    }
    table.insert(name.to_owned(), value);
    Ok(())
}

/// The value of a dotted key; `None`: it has none.
pub(crate) fn lookup<'a>(document: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let first = document.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_table()?.get(part))
}

/// A value without quotes.
pub(crate) fn as_written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
