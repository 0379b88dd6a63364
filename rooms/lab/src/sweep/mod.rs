//! From a scenario document to its cells.
//!
//! `[axes]` names scenario keys and lists their values; every combination is a cell, the first axis varying slowest.
//! `[[cells]]` adds extra cells. `--set KEY=VALUE` replaces a key of the document first, an axis or not.

mod layout;

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use toml::Value;
use weir_program::config::{Document, Mistakes, Step, value_of};
use weir_report::columns;
pub use weir_report::columns::NOTHING;
use weir_report::mistakes::{Asked, Mistake};

use self::layout::{Layout, as_written};
use crate::cell;
use crate::scenario::Scenario;
use crate::topology::Topology;
use crate::traces::Reader;

/// A scenario laid out.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Scenario key and its values, in the order of the document.
    pub axes: Vec<Axis>,
    /// Every combination, then the extra cells.
    pub cells: Vec<Cell>,
    /// The arguments of [`Sweep::new`], for the places of later errors.
    origin: String,
    text: String,
    set: Vec<(String, String)>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Dotted scenario key.
    pub key: String,
    /// Its values.
    pub values: Vec<Value>,
}

/// One combination of axis values, or an extra cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Axis values joined by `/`; `single` without axes; an extra cell has its given name.
    pub name: String,
    /// Scenario key and value as written; empty for an extra cell. [`NOTHING`]: the cell does not use it.
    pub axes: Vec<(String, String)>,
    /// The scenario with these values.
    pub scenario: Scenario,
    /// Its number in the layout.
    place: CellPlace,
}

#[derive(Clone, Copy, Debug)]
enum CellPlace {
    Combination(usize),
    Extra(usize),
}

impl Axis {
    /// Its values without quotes.
    pub fn as_written(&self) -> Vec<String> {
        self.values.iter().map(as_written).collect()
    }
}

impl Cell {
    /// A cell without a document.
    pub(crate) fn new(name: &str, scenario: Scenario) -> Cell {
        Cell { name: name.to_owned(), axes: Vec::new(), scenario, place: CellPlace::Combination(0) }
    }

    /// Its network, checked.
    pub fn topology(&self) -> Result<Topology> {
        Topology::new(&self.scenario)
    }
}

impl Sweep {
    /// Creates the cells of `text`, with keys `set` to values (as given on a command line). `origin` names the document
    /// in errors.
    ///
    /// # Errors
    /// [`Mistakes`], each with file, line and key, or with its `--set`.
    pub fn new(origin: &str, text: &str, set: &[(String, String)]) -> Result<Sweep> {
        let layout = Layout::new(origin, text, set)?;
        let Some(count) = layout.combinations().filter(|count| *count <= MAX_CELLS) else {
            return Err(layout.wrong_axes(format!("they make more than {MAX_CELLS} cells. Give them fewer values.")));
        };
        let mut cells: Vec<Cell> = Vec::new();
        let (mut mistakes, mut spared) = (Vec::new(), BTreeSet::new());
        // An axis replaces the value of a cell.
        let _: Option<Scenario> = collect(layout.written().and_then(|document| document.read()), &mut mistakes);
        for number in 0..count {
            let read = layout.combination(number).and_then(|(document, chosen)| Ok((document.read()?, chosen)));
            let Some((scenario, chosen)) = collect(read, &mut mistakes) else { continue };
            let scenario: Scenario = scenario;
            let axes = layout.axes.iter().zip(chosen).map(|(axis, value)| {
                let value = if scenario.uses(&axis.key) { as_written(&value_of(value)) } else { NOTHING.to_owned() };
                (axis.key.clone(), value)
            });
            let axes: Vec<_> = axes.collect();
            let values: Vec<&str> = axes.iter().map(|(_, value)| value.as_str()).collect();
            let name = if values.is_empty() { "single".to_owned() } else { values.join("/") };
            // Of cells that differ only in unused keys the first one runs.
            if !values.contains(&NOTHING) || spared.insert(name.clone()) {
                cells.push(Cell { name, axes, scenario, place: CellPlace::Combination(number) });
            }
        }
        let extra = cells.first().map(|cell| cell.scenario.cells.clone()).unwrap_or_default();
        for (number, extra) in extra.into_iter().enumerate() {
            let read = layout.extra(number).and_then(|document| document.read());
            let Some(scenario) = collect(read, &mut mistakes) else { continue };
            cells.push(Cell { name: extra.name, axes: Vec::new(), scenario, place: CellPlace::Extra(number) });
        }
        if !mistakes.is_empty() {
            return Err(Mistakes(mistakes).into());
        }
        let axes = layout
            .axes
            .iter()
            .map(|axis| Axis { key: axis.key.clone(), values: axis.values.iter().map(value_of).collect() });
        let axes = axes.collect();
        let (origin, text, set) = (origin.to_owned(), text.to_owned(), set.to_vec());
        let mut sweep = Sweep { axes, cells, origin, text, set };
        sweep.check_names(&layout)?;
        let mut reader = Reader::default();
        for index in 0..sweep.cells.len() {
            let Sweep { origin, cells, .. } = &mut sweep;
            let read = reader.read(origin, &mut cells[index].scenario);
            read.map_err(|error| sweep.placed(&sweep.cells[index], &error))?;
            sweep.cells[index].scenario.bound_queues();
        }
        let axes = sweep.axes.iter().map(|axis| (axis.key.clone(), Value::Array(axis.values.clone())));
        sweep.cells[0].scenario.axes = axes.collect();
        sweep.cells[0].scenario.directory = sweep.cells.iter().find_map(|cell| cell.scenario.directory.clone());
        sweep.check_asked()?;
        Ok(sweep)
    }

    /// The same with more keys set.
    ///
    /// # Errors
    /// As [`Sweep::new`].
    pub(crate) fn with(&self, more: &[(String, String)]) -> Result<Sweep> {
        Sweep::new(&self.origin, &self.text, &[&self.set, more].concat())
    }

    /// The keys set in the document, as command-line flags.
    pub(crate) fn set_in_words(&self) -> String {
        let set: Vec<_> = self.set.iter().map(|(key, value)| format!("--set '{key}={value}'")).collect();
        if set.is_empty() { "without --set".into() } else { set.join(" ") }
    }

    /// Records, and the missing cells of a resumed run, are identified by cell names.
    fn check_names(&self, layout: &Layout<'_>) -> Result<()> {
        let mut names = BTreeSet::new();
        for Cell { name, place, .. } in &self.cells {
            match place {
                _ if names.insert(name) && !name.trim().is_empty() && !name.chars().any(char::is_control) => {}
                CellPlace::Combination(_) => {
                    return Err(layout.wrong_axes(format!("there are two cells `{name}`. Give each value once.")));
                }
                CellPlace::Extra(index) => {
                    let path = [Step::Key("cells"), Step::Index(*index), Step::Key("name")];
                    let message = format!("{name:?}: must be unique, not empty and without control characters");
                    return Err(Document::parse(&self.origin, &self.text)?.wrong(&path, message));
                }
            }
        }
        Ok(())
    }

    /// Refuses a sweep with a cell that cannot run.
    ///
    /// # Errors
    /// The error of the first such cell, with file and line if the file has the key.
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

    /// Adds the place in the file of the key that begins the message.
    fn placed(&self, cell: &Cell, error: &anyhow::Error) -> anyhow::Error {
        let said = format!("{error:#}");
        let key = said.split(": ").next().unwrap_or_default();
        let document = Layout::new(&self.origin, &self.text, &self.set).and_then(|layout| match cell.place {
            CellPlace::Combination(number) => Ok(layout.combination(number)?.0),
            CellPlace::Extra(number) => layout.extra(number),
        });
        let place = document.map_or_else(
            |_| self.origin.clone(),
            |document| {
                let mut path = path_of(key);
                // An impairment of one direction may be written for both.
                if document.get(&path).is_none() && path.first() == Some(&Step::Key("links")) && path.len() > 2 {
                    path.remove(2);
                }
                document.place(&path)
            },
        );
        anyhow!("{place}: {said}")
    }

    /// The scenario of the first cell: all values that no axis changes.
    pub fn scenario(&self) -> &Scenario {
        // No axis is empty, so there is a combination.
        &self.cells[0].scenario
    }

    /// An equivalent document with all defaults: its first cell, its axes and its cells. Keys without a value (`rate`
    /// of a link without a shaper) are absent.
    ///
    /// # Errors
    /// A value has no form in TOML, which no document can cause.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self.scenario()).context("write the scenario")
    }

    /// Refuses what the report of a run cannot do.
    fn check_asked(&self) -> Result<()> {
        let axes: Vec<&str> = self.axes.iter().map(|axis| axis.key.as_str()).chain([columns::RECEIVER]).collect();
        let Scenario { charts, published, claims, asserts, .. } = self.scenario();
        let columns = &self.scenario().own_columns();
        let asked = Asked { charts, published: published.as_ref(), claims, asserts, columns, axes: &axes };
        asked.check().map_err(|Mistake { path, said }| {
            Document::parse(&self.origin, &self.text)
                .map_or_else(|error| error, |document| document.error(&path_of(&path), &said))
        })
    }
}

/// The value read; on an error none, and its lines are kept, each once.
fn collect<T>(read: Result<T>, mistakes: &mut Vec<String>) -> Option<T> {
    let error = match read {
        Ok(read) => return Some(read),
        Err(error) => error,
    };
    let lines = match error.downcast::<Mistakes>() {
        Ok(Mistakes(lines)) => lines,
        Err(error) => vec![format!("{error:#}")],
    };
    for line in lines {
        if mistakes.len() < MAX_MISTAKES && !mistakes.contains(&line) {
            mistakes.push(line);
        }
    }
    None
}

/// The steps of a dotted key: `links.l.steps[1].trace`.
fn path_of(key: &str) -> Vec<Step<'_>> {
    let steps = key.split('.').filter(|part| !part.is_empty()).flat_map(|part| {
        match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((list, index)) => [Some(Step::Key(list)), index.parse().ok().map(Step::Index)],
            None => [Some(Step::Key(part)), None],
        }
    });
    steps.flatten().collect()
}

/// More would never be run, and creating them takes gigabytes.
const MAX_CELLS: usize = 100_000;

/// More errors mean the wrong file.
const MAX_MISTAKES: usize = 20;

#[cfg(test)]
mod tests;
