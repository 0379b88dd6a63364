//! From a scenario document to its cells.
//!
//! `[axes]` names scenario keys and lists their values; every combination is a cell, the first axis varying slowest.
//! `[[cells]]` adds cells of their own. `--set KEY=VALUE` replaces a key of the document before, be it an axis or not.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail};
use toml::{Table, Value};
use weir_report::{asserts, columns};
use weir_service::config::{explain, one_line};

use crate::scenario::{ExtraCell, Scenario};
use crate::topology::Topology;
use crate::traces;

/// A scenario laid out.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The document as it runs, overrides applied, axes included.
    pub document: Table,
    /// Scenario key and its values, in the order of the document.
    pub axes: Vec<Axis>,
    /// Every combination, then the cells of their own.
    pub cells: Vec<Cell>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Dotted scenario key.
    pub key: String,
    /// Its values.
    pub values: Vec<Value>,
}

/// One combination of axis values.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Axis values joined by `/`; `single` without axes; a cell of its own has the name it was given.
    pub name: String,
    /// Scenario key and value as written; empty for a cell of its own.
    pub axes: Vec<(String, String)>,
    /// The scenario with these values.
    pub scenario: Scenario,
}

impl Sweep {
    /// Lays `text` out, with `overrides` (key and value, both as given on a command line) applied. `origin` names the
    /// document in errors.
    pub fn new(origin: &str, text: &str, overrides: &[(String, String)]) -> Result<Sweep> {
        let mut document: Table = text.parse().map_err(|error| explain(origin, text, &error))?;
        check_keys(origin, text)?;
        let mut axes = take_axes(&mut document).with_context(|| format!("{origin}: axes"))?;
        for (key, value) in overrides {
            apply(&mut document, &mut axes, key, value).with_context(|| format!("--set {key}={value}"))?;
        }
        let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
        if count.is_none_or(|count| count > MOST_CELLS) {
            bail!("{origin}: axes: they make more than {MOST_CELLS} cells: give them fewer values");
        }
        let mut cells = combinations(&axes)
            .into_iter()
            .map(|values| cell(origin, &document, &axes, values))
            .collect::<Result<Vec<_>>>()?;
        // Records, and what a resumed run lacks, are told apart by it.
        let mut names = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|cell| !names.insert(&cell.name)) {
            bail!("{origin}: axes: there are two cells `{}`: give each value once", twice.name);
        }
        for extra in cells[0].scenario.cells.clone() {
            if cells.iter().any(|cell| cell.name == extra.name) {
                bail!("{origin}: cells: there is a cell `{}` already", extra.name);
            }
            cells.push(extra_cell(origin, &document, &axes, extra)?);
        }
        traces::read(origin, &mut document, cells.iter_mut().map(|cell| &mut cell.scenario))?;
        if !axes.is_empty() {
            let table = axes.iter().map(|axis| (axis.key.clone(), Value::Array(axis.values.clone()))).collect();
            document.insert("axes".into(), Value::Table(table));
        }
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).chain([columns::RECEIVER]).collect();
        let first = &cells[0].scenario;
        let checked = asserts::validate(&first.asserts, &keys)
            .and_then(|()| asserts::validate_shown(&first.charts, &first.claims, &keys));
        checked.map_err(|mistake| anyhow!("{origin}: {mistake}"))?;
        Ok(Sweep { document, axes, cells })
    }

    /// The scenario of the first cell: all that no axis changes.
    pub fn scenario(&self) -> &Scenario {
        // No axis is empty, so that there is a combination.
        &self.cells[0].scenario
    }
}

impl Cell {
    /// Its network, checked.
    pub fn topology(&self) -> Result<Topology> {
        Topology::new(&self.scenario).with_context(|| format!("{}, cell {}", self.scenario.name, self.name))
    }
}

impl Axis {
    /// Its values without quotes.
    pub fn as_written(&self) -> Vec<String> {
        self.values.iter().map(as_written).collect()
    }
}

/// Deserializes the document as written, so that an error can point at its line.
fn check_keys(origin: &str, text: &str) -> Result<()> {
    match toml::from_str::<Scenario>(text) {
        Ok(_) => Ok(()),
        // A key that only an axis gives a value is missing here, and present in every cell.
        Err(error) if error.message().starts_with("missing field") => Ok(()),
        Err(error) => Err(explain(origin, text, &error)),
    }
}

fn take_axes(document: &mut Table) -> Result<Vec<Axis>> {
    let Some(axes) = document.remove("axes") else {
        return Ok(Vec::new());
    };
    let Value::Table(axes) = axes else { bail!("expected a table of scenario keys and lists of values") };
    axes.into_iter()
        .map(|(key, value)| {
            let values = match value {
                Value::Array(values) => values,
                Value::Table(range) => steps(&range).with_context(|| format!("\"{key}\""))?,
                _ => bail!("\"{key}\": expected a list of values, or {{ from, to, step }}"),
            };
            if values.is_empty() {
                bail!("\"{key}\" is empty: give it at least one value, or remove it");
            }
            Ok(Axis { key, values })
        })
        .collect()
}

/// `{ from = "0%", to = "20%", step = "1%" }`: the values of a range, ends included.
fn steps(range: &Table) -> Result<Vec<Value>> {
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

/// Applies one override. A list (`a,b,c` or `["a","b"]`) makes the key an axis; a single value makes it none.
fn apply(document: &mut Table, axes: &mut Vec<Axis>, key: &str, text: &str) -> Result<()> {
    let values = match parse(text) {
        // No cell of its own, no chart ...
        Value::Array(none) if none.is_empty() && axes.iter().all(|axis| axis.key != key) => {
            return set(document, key, Value::Array(none));
        }
        Value::Array(values) => values,
        Value::String(list) if list.contains(',') => list.split(',').map(|value| parse(value.trim())).collect(),
        value => vec![value],
    };
    match (values.as_slice(), axes.iter_mut().find(|axis| axis.key == key)) {
        ([], _) => bail!("needs a value"),
        ([value], _) => {
            axes.retain(|axis| axis.key != key);
            set(document, key, value.clone())?;
        }
        (_, Some(axis)) => axis.values = values,
        (_, None) => axes.push(Axis { key: key.to_owned(), values }),
    }
    Ok(())
}

/// A command-line value: TOML where it is TOML (numbers, booleans, tables, lists), else a string.
fn parse(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn set(document: &mut Table, key: &str, value: Value) -> Result<()> {
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

/// Indexes into each axis, the last varying fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |prefixes, axis| {
        prefixes.iter().flat_map(|prefix| (0..axis.values.len()).map(|i| [prefix.as_slice(), &[i]].concat())).collect()
    })
}

fn cell(origin: &str, document: &Table, axes: &[Axis], values: Vec<usize>) -> Result<Cell> {
    let mut document = document.clone();
    let mut chosen = Vec::new();
    for (axis, index) in axes.iter().zip(values) {
        let value = axis.values[index].clone();
        chosen.push((axis.key.clone(), as_written(&value)));
        set(&mut document, &axis.key, value).with_context(|| format!("{origin}: axis \"{}\"", axis.key))?;
    }
    let name = match chosen.as_slice() {
        [] => "single".to_owned(),
        chosen => chosen.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/"),
    };
    let scenario = scenario(origin, &name, document)?;
    Ok(Cell { name, axes: chosen, scenario })
}

/// A cell of its own: what it does not set has the first value of its axis.
fn extra_cell(origin: &str, document: &Table, axes: &[Axis], extra: ExtraCell) -> Result<Cell> {
    let mut document = document.clone();
    let firsts = axes.iter().map(|axis| (axis.key.clone(), axis.values[0].clone()));
    for (key, value) in firsts.chain(extra.set) {
        set(&mut document, &key, value).with_context(|| format!("{origin}, cell {}: `{key}`", extra.name))?;
    }
    let scenario = scenario(origin, &extra.name, document)?;
    Ok(Cell { name: extra.name, axes: Vec::new(), scenario })
}

fn scenario(origin: &str, cell: &str, document: Table) -> Result<Scenario> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let (key, error) = (error.path().to_string(), error.into_inner());
        let at = if key == "." { String::new() } else { format!("{key}: ") };
        anyhow::anyhow!("{origin}, cell {cell}: {at}{}", one_line(&error))
    })
}

/// Nobody runs more, and laying them out takes gigabytes.
const MOST_CELLS: usize = 100_000;

/// A value without quotes.
fn as_written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"
name = "two"
title = "Two hosts"

[axes]
"path.loss" = { from = "0%", to = "1%", step = "0.5%" }
"traffic.transport" = ["udp", "tcp"]

[hosts.a]
addresses = ["10.0.0.1/24"]
[hosts.b]
addresses = ["10.0.0.2/24"]
[links.l]
ends = ["a", "b"]

[traffic]
from = "a"
to = "b"
port = 9
transport = "udp"
payload = "100B"
interval = "10ms"
"#;

    fn names(overrides: &[(&str, &str)]) -> Vec<String> {
        let overrides: Vec<_> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let sweep = Sweep::new("two.toml", DOCUMENT, &overrides).unwrap();
        sweep.cells.into_iter().map(|cell| cell.name).collect()
    }

    fn error(document: &str, overrides: &[(&str, &str)]) -> String {
        let overrides: Vec<_> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        format!("{:#}", Sweep::new("two.toml", document, &overrides).unwrap_err())
    }

    #[test]
    fn every_combination_is_a_cell_the_first_axis_slowest() {
        assert_eq!(names(&[]), ["0%/udp", "0%/tcp", "0.5%/udp", "0.5%/tcp", "1%/udp", "1%/tcp"]);
    }

    #[test]
    fn set_replaces_values_and_makes_and_ends_axes() {
        assert_eq!(names(&[("path.loss", "5%")]), ["udp", "tcp"]);
        assert_eq!(names(&[("path.loss", "5%"), ("traffic.transport", "tcp")]), ["single"]);
        assert_eq!(
            names(&[("path.loss", "5%"), ("traffic.transport", "tcp"), ("tcp.congestion", "cubic, reno")]),
            ["cubic", "reno"]
        );
        assert_eq!(names(&[("path.loss", r#"["1%"]"#), ("traffic.transport", "udp")]), ["single"]);
    }

    #[test]
    fn a_cell_has_the_values_of_its_axes() {
        let sweep = Sweep::new("two.toml", DOCUMENT, &[("tcp.nodelay".into(), "true,false".into())]).unwrap();
        let cell = &sweep.cells[1];
        assert_eq!(
            cell.axes,
            [("path.loss", "0%"), ("traffic.transport", "udp"), ("tcp.nodelay", "false")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
        assert!(!cell.scenario.tcp.nodelay && sweep.cells[0].scenario.tcp.nodelay);
        // The document as it ran lays out into the same cells.
        let again = Sweep::new("two.toml", &sweep.document.to_string(), &[]).unwrap();
        assert_eq!(again.cells.len(), sweep.cells.len());
    }

    #[test]
    fn cells_of_their_own_come_behind_the_axes() {
        let document = format!("{DOCUMENT}\n[[cells]]\nname = \"bare\"\nset = {{ \"run.impaired\" = false }}\n");
        let sweep = Sweep::new("two.toml", &document, &[]).unwrap();
        let (bare, others) = sweep.cells.split_last().unwrap();
        assert_eq!((bare.name.as_str(), bare.axes.len(), bare.scenario.run.impaired), ("bare", 0, false));
        assert!(others.len() == 6 && others.iter().all(|cell| cell.scenario.run.impaired));
        assert_eq!(bare.scenario.traffic.transport.to_string(), "udp", "the first value of the axis");
        let none = Sweep::new("two.toml", &document, &[("cells".into(), "[]".into())]).unwrap();
        assert_eq!(none.cells.len(), 6);
        let twice = document.replace("name = \"bare\"", "name = \"1%/udp\"");
        assert_eq!(error(&twice, &[]), "two.toml: cells: there is a cell `1%/udp` already");
    }

    #[test]
    fn a_sweep_that_nobody_can_run_is_not_laid_out() {
        let step = r#"{ from = "0%", to = "1%", step = "0.0002%" }"#;
        let overrides = [("links.l.delay", "1ms,2ms,3ms,4ms,5ms,6ms,7ms,8ms,9ms,10ms")];
        assert_eq!(
            error(&DOCUMENT.replace(r#"{ from = "0%", to = "1%", step = "0.5%" }"#, step), &overrides),
            "two.toml: axes: they make more than 100000 cells: give them fewer values"
        );
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        let cases = [
            error(&DOCUMENT.replace("payload =", "paylod ="), &[]),
            error(&DOCUMENT.replace("ends = ", "los = \"5%\"\nends = "), &[]),
            error(&DOCUMENT.replace("\"100B\"", "\"100\""), &[]),
            error(DOCUMENT, &[("path.loss", "120%")]),
            error(DOCUMENT, &[("links.l.delya", "5ms")]),
            error(DOCUMENT, &[("traffic.port.number", "5")]),
            error(&DOCUMENT.replace("[\"udp\", \"tcp\"]", "[]"), &[]),
            error(&DOCUMENT.replace("to = \"1%\"", "to = \"1ms\""), &[]),
            error(&DOCUMENT.replace("[axes]", "[axes"), &[]),
            error(DOCUMENT, &[("path.loss", "1%,5%,1%")]),
        ];
        insta::assert_snapshot!(cases.join("\n"));
        assert!(cases.iter().all(|case| !case.contains('\n')));
    }
}
