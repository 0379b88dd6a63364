//! From a scenario document to its cells.
//!
//! `[axes]` names scenario keys and lists their values; every combination is a cell, the first axis varying slowest.
//! `[[cells]]` adds cells of their own. `--set KEY=VALUE` replaces a key of the document before, be it an axis or not.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail};
use serde_path_to_error::Segment;
use toml::{Table, Value};
pub use weir_report::columns::NOTHING;
use weir_report::{asserts, columns};
use weir_service::config::{Document, Step, did_you_mean, explain, one_line};

use crate::cell;
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
    written: Written,
}

/// The document's file, to say where in it something stands.
#[derive(Clone, Debug)]
struct Written {
    origin: String,
    text: String,
    /// Keys that it sweeps.
    axes: Vec<String>,
    /// Keys that it does not say the last word about.
    overridden: Vec<String>,
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
    /// Scenario key and value as written; empty for a cell of its own. [`NOTHING`]: the cell has no use for it.
    pub axes: Vec<(String, String)>,
    /// Axes on which it has another value than the published values and claims are about (`about`).
    pub elsewhere: Vec<String>,
    /// The scenario with these values.
    pub scenario: Scenario,
}

impl Sweep {
    /// Lays `text` out, with `overrides` (key and value, both as given on a command line) applied. `origin` names the
    /// document in errors.
    pub fn new(origin: &str, text: &str, overrides: &[(String, String)]) -> Result<Sweep> {
        let mut document: Table = text.parse().map_err(|error| explain(origin, text, &error))?;
        check_keys(origin, text)?;
        let overridden = overrides.iter().map(|(key, _)| key.clone()).collect();
        let mut written = Written { origin: origin.to_owned(), text: text.to_owned(), axes: Vec::new(), overridden };
        let mut axes = take_axes(&written, &mut document)?;
        written.axes.extend(axes.iter().map(|axis| axis.key.clone()));
        let written = written;
        let before = (document.clone(), axes.clone());
        for (key, value) in overrides {
            apply(&mut document, &mut axes, key, value).with_context(|| format!("--set {key}={value}"))?;
        }
        check_links(&written, &document, &axes, overrides)?;
        say_about(&written, &mut document, &axes, &before);
        let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()));
        if count.is_none_or(|count| count > MOST_CELLS) {
            let place = written.place(&[Step::Key("axes")]);
            bail!("{place}: axes: they make more than {MOST_CELLS} cells: give them fewer values");
        }
        let mut cells: Vec<Cell> = Vec::new();
        let mut spared = BTreeSet::new();
        for values in combinations(&axes) {
            let cell = combined(&written, &document, &axes, values)?;
            // Of cells that differ only in what they have no use for the first one runs.
            if !cell.axes.iter().any(|(_, value)| value == NOTHING) || spared.insert(cell.name.clone()) {
                cells.push(cell);
            }
        }
        // Records, and what a resumed run lacks, are told apart by it.
        let mut names = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|cell| !names.insert(&cell.name)) {
            let place = match axes.iter().find(|axis| axis.has_twice()) {
                Some(axis) => written.place_of(&axis.key),
                None => written.place(&[Step::Key("axes")]),
            };
            bail!("{place}: axes: there are two cells `{}`: give each value once", twice.name);
        }
        for (index, extra) in cells[0].scenario.cells.clone().into_iter().enumerate() {
            let place = || written.place(&[Step::Key("cells"), Step::Index(index)]);
            if cells.iter().any(|cell| cell.name == extra.name) {
                bail!("{}: cells: there is a cell `{}` already", place(), extra.name);
            }
            cells.push(extra_cell(&place, &document, &axes, extra)?);
        }
        traces::read(origin, &mut document, cells.iter_mut().map(|cell| &mut cell.scenario))?;
        cells.iter_mut().for_each(|cell| cell.scenario.bound_queues());
        if !axes.is_empty() {
            let table = axes.iter().map(|axis| (axis.key.clone(), Value::Array(axis.values.clone()))).collect();
            document.insert("axes".into(), Value::Table(table));
        }
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).chain([columns::RECEIVER]).collect();
        let first = &cells[0].scenario;
        let checked = asserts::validate(&first.asserts, &keys)
            .and_then(|()| asserts::validate_shown(&first.charts, &first.claims, &keys));
        checked.map_err(|mistake| {
            let entry = [Step::Key(mistake.list), Step::Index(mistake.index)];
            let path: Vec<Step<'_>> = entry.into_iter().chain(mistake.keys.iter().map(|key| Step::Key(key))).collect();
            anyhow!("{}: {}", written.place(&path), mistake.said)
        })?;
        Ok(Sweep { document, axes, cells, written })
    }

    /// Refuses a sweep of which a cell cannot run.
    ///
    /// # Errors
    /// What is wrong with the first of them, with file and line where the file says it.
    pub fn check(&self) -> Result<()> {
        self.cells.iter().try_for_each(|cell| cell::check(cell).map(drop).map_err(|error| self.placed(cell, &error)))
    }

    /// The network of the first cell, checked.
    ///
    /// # Errors
    /// As [`Sweep::check`].
    pub fn topology(&self) -> Result<Topology> {
        self.cells[0].topology().map_err(|error| self.placed(&self.cells[0], &error))
    }

    /// Says where the file has what is wrong: the keys in front of the message tell.
    fn placed(&self, cell: &Cell, error: &anyhow::Error) -> anyhow::Error {
        let said = format!("{error:#}");
        let context = format!("{}, cell {}: ", cell.scenario.name, cell.name);
        let about = said.strip_prefix(&context).unwrap_or(&said);
        let is_key = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
        let path: Vec<Step<'_>> =
            about.split(": ").take_while(is_key).flat_map(|keys| keys.split('.')).map(Step::Key).collect();
        anyhow!("{}: {said}", self.written.place(&path))
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

impl Written {
    /// `lab.toml:12` for the value at `path`, of one that is swept the line of its axis; without a line where the file
    /// does not say it.
    fn place(&self, path: &[Step<'_>]) -> String {
        let keys = path.iter().map_while(|step| if let Step::Key(key) = step { Some(*key) } else { None });
        let keys = keys.collect::<Vec<_>>().join(".");
        let within =
            |of: &&String| keys.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let document = match Document::parse(&self.origin, &self.text) {
            Ok(document) if !self.overridden.iter().any(|key| within(&key)) => document,
            _ => return self.origin.clone(),
        };
        match self.axes.iter().find(within) {
            Some(axis) => document.place(&[Step::Key("axes"), Step::Key(axis)]),
            None => document.place(path),
        }
    }

    /// The same for a dotted key.
    fn place_of(&self, key: &str) -> String {
        self.place(&key.split('.').map(Step::Key).collect::<Vec<_>>())
    }
}

impl Axis {
    fn has_twice(&self) -> bool {
        let mut values = BTreeSet::new();
        !self.as_written().into_iter().all(|value| values.insert(value))
    }

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

fn take_axes(written: &Written, document: &mut Table) -> Result<Vec<Axis>> {
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

/// The values of an axis as the document writes them.
fn values(key: &str, written: Value) -> Result<Vec<Value>> {
    let values = match written {
        Value::Array(values) => values,
        Value::Table(range) => steps(&range).with_context(|| format!("\"{key}\""))?,
        _ => bail!("\"{key}\": expected a list of values, or {{ from, to, step }}"),
    };
    if values.is_empty() {
        bail!("\"{key}\" is empty: give it at least one value, or remove it");
    }
    Ok(values)
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

/// Refuses a key of a link that there is not: set, it would make one without ends.
fn check_links(written: &Written, document: &Table, axes: &[Axis], overrides: &[(String, String)]) -> Result<()> {
    let links = document.get("links").and_then(Value::as_table);
    let known =
        || links.into_iter().flatten().filter(|(_, link)| link.get("ends").is_some()).map(|(name, _)| name.as_str());
    let keys = overrides.iter().map(|(key, _)| key).chain(axes.iter().map(|axis| &axis.key));
    for key in keys {
        let Some((name, _)) = key.strip_prefix("links.").and_then(|rest| rest.split_once('.')) else { continue };
        let made = format!("links.{name}.ends");
        if known().all(|known| known != name) && axes.iter().all(|axis| axis.key != made) {
            let all = known().collect::<Vec<_>>().join(", ");
            let (place, near) = (written.place_of(key), did_you_mean(name, known()));
            bail!("{place}: {key}: there is no link `{name}` (there are {all}){near}");
        }
    }
    Ok(())
}

/// What an override that looks like something else is to be written as; `None`: nothing is known against it.
fn misread(key: &str, text: &str) -> Option<String> {
    let last = key.rsplit('.').next().unwrap_or(key);
    let is_list = ["steps", "sizes"].contains(&last) && text.starts_with('[') && !text.starts_with("[[");
    if is_list && matches!(parse(text), Value::Array(tables) if tables.iter().any(Value::is_table)) {
        return Some(format!("a list of values makes an axis: one list has two brackets, {key}=[{text}]"));
    }
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    if let Some((from, to)) = text.split_once("..").filter(|(from, to)| is_number(from) && is_number(to)) {
        return Some(format!("a range is written {{ from = \"{from}\", to = \"{to}\", step = ... }}"));
    }
    let messages = || {
        let number = text.strip_suffix("/s").filter(|_| last == "rate")?;
        let (digits, times) = match number.strip_suffix('k') {
            Some(digits) => (digits, 1e3),
            None => number.strip_suffix('M').map_or((number, 1.0), |digits| (digits, 1e6)),
        };
        let nanos = (1e9 / (digits.trim().parse::<f64>().ok()? * times)).round();
        let interval = if nanos % 1e3 == 0.0 { format!("{}us", nanos / 1e3) } else { format!("{nanos}ns") };
        let table = key.strip_suffix(".rate")?;
        (1.0..1e18)
            .contains(&nanos)
            .then(|| format!("a rate is in bits a second; so many messages are {table}.interval = \"{interval}\""))
    };
    messages()
}

/// Applies one override. A list (`a,b,c` or `["a","b"]`) makes the key an axis; a single value makes it none.
fn apply(document: &mut Table, axes: &mut Vec<Axis>, key: &str, text: &str) -> Result<()> {
    if let Some(advice) = misread(key, text) {
        bail!(advice);
    }
    let values = match parse(text) {
        Value::Table(range) if ["from", "to", "step"].iter().all(|end| range.contains_key(*end)) => steps(&range)?,
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

/// The value of a dotted key; `None`: it has none.
pub(crate) fn lookup<'a>(document: &'a Table, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let first = document.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_table()?.get(part))
}

/// Indexes into each axis, the last varying fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |prefixes, axis| {
        prefixes.iter().flat_map(|prefix| (0..axis.values.len()).map(|i| [prefix.as_slice(), &[i]].concat())).collect()
    })
}

fn combined(written: &Written, document: &Table, axes: &[Axis], values: Vec<usize>) -> Result<Cell> {
    let mut document = document.clone();
    let mut chosen = Vec::new();
    for (axis, index) in axes.iter().zip(values) {
        let value = axis.values[index].clone();
        chosen.push((axis.key.clone(), as_written(&value)));
        set(&mut document, &axis.key, value)
            .with_context(|| format!("{}: axis \"{}\"", written.place_of(&axis.key), axis.key))?;
    }
    let named = |chosen: &[(String, String)]| match chosen {
        [] => "single".to_owned(),
        chosen => chosen.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/"),
    };
    let scenario = scenario(&|path| written.place(path), &named(&chosen), document)?;
    for (key, value) in &mut chosen {
        if !scenario.uses(key) {
            *value = NOTHING.to_owned();
        }
    }
    let elsewhere = elsewhere(&scenario, &chosen)?;
    Ok(Cell { name: named(&chosen), axes: chosen, elsewhere, scenario })
}

/// Published values and claims are about what the scenario had before somebody else made a further axis: the document
/// says so of every such axis, so that it means the same wherever it is read.
fn say_about(written: &Written, document: &mut Table, axes: &[Axis], (before, known): &(Table, Vec<Axis>)) {
    let further: Vec<&Axis> = axes.iter().filter(|axis| known.iter().all(|known| known.key != axis.key)).collect();
    if further.is_empty() {
        return;
    }
    // What cannot be laid out is told of when the whole is.
    let Ok(plain) = combined(written, before, known, vec![0; known.len()]) else { return };
    let Ok(plain) = Table::try_from(&plain.scenario) else { return };
    let about = document.entry("about").or_insert_with(|| Value::Table(Table::new()));
    let Some(about) = about.as_table_mut() else { return };
    for axis in further {
        if let Some(value) = lookup(&plain, &axis.key)
            && !about.contains_key(&axis.key)
        {
            about.insert(axis.key.clone(), value.clone());
        }
    }
}

/// The axes on which a scenario has another value than it says that published values are about.
fn elsewhere(scenario: &Scenario, axes: &[(String, String)]) -> Result<Vec<String>> {
    if scenario.about.is_empty() {
        return Ok(Vec::new());
    }
    let own = Table::try_from(scenario).context("write the scenario")?;
    let differs = |(key, value): &&(String, String)| {
        let about = scenario.about.get(key);
        value != NOTHING
            && about.is_some_and(|about| lookup(&own, key).is_none_or(|own| as_written(own) != as_written(about)))
    };
    Ok(axes.iter().filter(differs).map(|(key, _)| key.clone()).collect())
}

/// A cell of its own: what it does not set has the first value of its axis.
fn extra_cell(place: &dyn Fn() -> String, document: &Table, axes: &[Axis], extra: ExtraCell) -> Result<Cell> {
    let mut document = document.clone();
    let firsts = axes.iter().map(|axis| (axis.key.clone(), axis.values[0].clone()));
    for (key, value) in firsts.chain(extra.set) {
        set(&mut document, &key, value).with_context(|| format!("{}: cell {}: `{key}`", place(), extra.name))?;
    }
    let scenario = scenario(&|_| place(), &extra.name, document)?;
    Ok(Cell { name: extra.name, axes: Vec::new(), elsewhere: Vec::new(), scenario })
}

/// A cell's scenario; `place` tells where the file has what is wrong in it.
fn scenario(place: &dyn Fn(&[Step<'_>]) -> String, cell: &str, document: Table) -> Result<Scenario> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let steps = error.path().iter().map_while(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } | Segment::Enum { variant: key } => Some(Step::Key(key)),
            Segment::Unknown => None,
        });
        let place = place(&steps.collect::<Vec<_>>());
        let (key, error) = (error.path().to_string(), error.into_inner());
        let at = if key == "." { String::new() } else { format!("{key}: ") };
        anyhow!("{place}: cell {cell}: {at}{}", one_line(&error))
    })
}

/// Nobody runs more, and laying them out takes gigabytes.
const MOST_CELLS: usize = 100_000;

/// A value without quotes.
pub(crate) fn as_written(value: &Value) -> String {
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

    #[test]
    fn what_is_set_amiss_is_told_how_to_write() {
        let said = |key: &str, value: &str| {
            let set = [(key.to_owned(), value.to_owned())];
            format!("{:#}", Sweep::new("two.toml", DOCUMENT, &set).unwrap_err())
        };
        for (key, value, message) in [
            ("links.k.loss", "5%", "links.k.loss: there is no link `k` (there are l)"),
            ("links.k.loss", "5%,6%", "there is no link `k`"),
            ("path.loss", "0%..5%", "a range is written { from = \"0%\", to = \"5%\", step = ... }"),
            ("links.l.steps", "[{ at = \"1s\" }]", "one list has two brackets, links.l.steps=[[{ at = \"1s\" }]]"),
            ("traffic.rate", "20k/s", "so many messages are traffic.interval = \"50us\""),
        ] {
            let said = said(key, value);
            assert!(said.contains(message) && said.lines().count() == 1, "{said}");
        }
        let range = names(&[("path.loss", "{ from = \"2%\", to = \"4%\", step = \"2%\" }")]);
        assert_eq!(range, ["2%/udp", "2%/tcp", "4%/udp", "4%/tcp"]);
    }

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
            [("path.loss", "0%"), ("traffic.transport", "tcp"), ("tcp.nodelay", "true")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
        assert!(cell.scenario.tcp.nodelay && !sweep.cells[2].scenario.tcp.nodelay);
        // The document as it ran lays out into the same cells.
        let again = Sweep::new("two.toml", &sweep.document.to_string(), &[]).unwrap();
        assert_eq!(again.cells.len(), sweep.cells.len());
    }

    #[test]
    fn what_cannot_run_is_said_with_its_line() {
        let wrong = |from: &str, to: &str, set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            let sweep = Sweep::new("two.toml", &DOCUMENT.replace(from, to), &set).unwrap();
            format!("{:#}", sweep.check().unwrap_err())
        };
        let line = |text: &str| DOCUMENT[..DOCUMENT.find(text).unwrap()].lines().count() + 1;
        let mistake = wrong("to = \"b\"", "to = \"c\"", &[]);
        let place = format!("two.toml:{}: two, cell 0%/udp: traffic.to: there is no host", line("to = \"b\""));
        assert!(mistake.starts_with(&place), "{mistake}");
        let mistake = wrong("ends = [\"a\", \"b\"]", "ends = [\"a\", \"a\"]", &[]);
        let place = format!("two.toml:{}: two, cell 0%/udp: links.l: both ends are `a`", line("[links.l]"));
        assert!(mistake.starts_with(&place), "{mistake}");
        let mistake = wrong("port", "port", &[("traffic.to", "c")]);
        assert!(mistake.starts_with("two.toml: two, cell 0%/udp: traffic.to: there is no host"), "{mistake}");
    }

    #[test]
    fn a_cell_is_not_run_again_for_what_it_has_no_use_for() {
        let loss = ("path.loss", "0%,5%");
        assert_eq!(
            names(&[loss, ("tcp.congestion", "cubic,bbr")]),
            ["0%/udp/-", "0%/tcp/cubic", "0%/tcp/bbr", "5%/udp/-", "5%/tcp/cubic", "5%/tcp/bbr"]
        );
        assert_eq!(names(&[loss, ("traffic.transport", "quic"), ("quic.congestion", "cubic,bbr")]).len(), 4);
        assert_eq!(names(&[loss, ("traffic.transport", "udp"), ("tcp.nodelay", "true,false")]), ["0%/-", "5%/-"]);
    }

    #[test]
    fn published_values_are_about_what_the_scenario_had() {
        let set = [("tcp.congestion", "cubic,bbr"), ("traffic.interval", "10ms,20ms")];
        let overrides = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let sweep = Sweep::new("two.toml", DOCUMENT, &overrides).unwrap();
        let elsewhere = |sweep: &Sweep| -> Vec<(String, String)> {
            let cells = sweep.cells.iter().filter(|cell| cell.name.starts_with("0%"));
            cells.map(|cell| (cell.name.clone(), cell.elsewhere.join(" "))).collect()
        };
        let expected = [
            ("0%/udp/-/10ms", ""),
            ("0%/udp/-/20ms", "traffic.interval"),
            ("0%/tcp/cubic/10ms", ""),
            ("0%/tcp/cubic/20ms", "traffic.interval"),
            ("0%/tcp/bbr/10ms", "tcp.congestion"),
            ("0%/tcp/bbr/20ms", "tcp.congestion traffic.interval"),
        ];
        assert_eq!(elsewhere(&sweep), expected.map(|(name, axes)| (name.to_owned(), axes.to_owned())));
        // What the manifest has says the same.
        let again = Sweep::new("two.toml", &sweep.document.to_string(), &[]).unwrap();
        assert_eq!(elsewhere(&again), elsewhere(&sweep));
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
        let line = twice.lines().position(|line| line == "[[cells]]").unwrap() + 1;
        assert_eq!(error(&twice, &[]), format!("two.toml:{line}: cells: there is a cell `1%/udp` already"));
    }

    #[test]
    fn a_sweep_that_nobody_can_run_is_not_laid_out() {
        let step = r#"{ from = "0%", to = "1%", step = "0.0002%" }"#;
        let overrides = [("links.l.delay", "1ms,2ms,3ms,4ms,5ms,6ms,7ms,8ms,9ms,10ms")];
        assert_eq!(
            error(&DOCUMENT.replace(r#"{ from = "0%", to = "1%", step = "0.5%" }"#, step), &overrides),
            "two.toml:5: axes: they make more than 100000 cells: give them fewer values"
        );
    }

    #[test]
    fn what_is_wrong_with_axes_and_what_is_shown_is_said_with_its_line() {
        let shown = r#"
[[charts]]
name = "sent"
title = "Sent"
x = "loss_pct"
y = "sent"
series = "transport"
[[claims]]
text = "All"
column = "sent"
at_least = 1
[claims.where]
transport = "udp"
[[assert]]
column = "sent"
at_least = 1
"#;
        let document = format!("{DOCUMENT}{shown}");
        assert!(Sweep::new("two.toml", &document, &[]).is_ok());
        // What stands in the line of the mistake.
        for (from, to, at, message) in [
            ("\"1%\", step", "\"1ms\", step", "\"path.loss\" = {", "`from`, `to` and `step` need the same unit"),
            ("[\"udp\", \"tcp\"]", "[]", "\"traffic.transport\" =", "is empty"),
            ("[\"udp\", \"tcp\"]", "3", "\"traffic.transport\" =", "expected a list of values"),
            ("[\"udp\", \"tcp\"]", "[\"udp\", \"udp\"]", "\"traffic.transport\" =", "there are two cells `0%/udp`"),
            ("[\"udp\", \"tcp\"]", "[\"udp\", \"tpc\"]", "\"traffic.transport\" =", "cell 0%/tpc: traffic.transport: "),
            ("\"path.loss\" =", "\"links.k.loss\" =", "\"links.k.loss\" =", "links.k.loss: there is no link `k`"),
            ("y = \"sent\"", "y = \"snt\"", "y = \"snt\"", "chart sent: y: no column `snt`, did you mean `sent`?"),
            ("series = \"transport\"", "", "[[charts]]", "chart sent: kind \"lines\" needs `series`"),
            (
                "transport = \"udp\"\n[[",
                "trnsport = \"udp\"\n[[",
                "trnsport =",
                "claim \"All\": where: no column `trnsport`",
            ),
            (
                "[claims.where]",
                "[claims.relative_to]\nsnt = 1\n[claims.where]",
                "snt = 1",
                "relative_to: no column `snt`",
            ),
            (
                "[[assert]]\ncolumn = \"sent\"",
                "[[assert]]\ncolumn = \"snt\"",
                "column = \"snt\"",
                "assert 1: no column `snt`",
            ),
            ("[[assert]]\ncolumn = \"sent\"", "[[assert]]", "[[assert]]", "missing field `column`"),
        ] {
            let wrong = document.replacen(from, to, 1);
            assert_ne!(wrong, document, "{from}");
            let line = wrong.lines().position(|line| line.starts_with(at)).unwrap() + 1;
            let error = error(&wrong, &[]);
            assert!(error.starts_with(&format!("two.toml:{line}: ")) && error.contains(message), "{line} {error}");
        }
        // The file does not say it.
        let set = [("traffic.transport", "udp,tpc")];
        assert!(error(&document, &set).starts_with("two.toml: cell 0%/tpc: "), "{}", error(&document, &set));
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
