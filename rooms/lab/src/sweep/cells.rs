//! The scenario of each cell.

use anyhow::{Context, Result, anyhow, bail};
use serde_path_to_error::Segment;
use toml::Table;
use weir_program::config::{Step, one_line};
use weir_report::columns::NOTHING;

use super::about::elsewhere;
use super::axes::Axis;
use super::document::unquoted;
use super::keys::{as_written, set};
use super::overrides::{check_links, messages_a_second};
use super::pace;
use super::written::Written;
use crate::scenario::{ExtraCell, Scenario};
use crate::topology::Topology;

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

impl Cell {
    /// Its network, checked.
    pub fn topology(&self) -> Result<Topology> {
        Topology::new(&self.scenario).with_context(|| format!("{}, cell {}", self.scenario.name, self.name))
    }
}

/// The cell of a combination: an index into each axis.
pub(super) fn combined(written: &Written, document: &Table, axes: &[Axis], values: Vec<usize>) -> Result<Cell> {
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
    let whose = format!("cell {}", named(&chosen));
    let scenario = scenario(&|path| written.place(path), &whose, document)?;
    for (key, value) in &mut chosen {
        if !scenario.uses(key) {
            *value = NOTHING.to_owned();
        }
    }
    let elsewhere = elsewhere(&scenario, &chosen)?;
    Ok(Cell { name: named(&chosen), axes: chosen, elsewhere, scenario })
}

/// A cell of its own, the entry `index` of `[[cells]]`: what it does not set has the first value of its axis.
pub(super) fn extra_cell(
    written: &Written,
    index: usize,
    document: &Table,
    axes: &[Axis],
    extra: ExtraCell,
) -> Result<Cell> {
    let ExtraCell { name, set: own } = extra;
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        let place = written.place(&[Step::Key("cells"), Step::Index(index), Step::Key("name")]);
        bail!(
            "{place}: cells: name: {name:?}: it names the cell in tables and files: not empty, without control characters"
        );
    }
    let place_of = |key: &str| written.place_in_cell_of(index, &own, key);
    let mut document = firsts(document, axes)?;
    check_links(
        &|key| format!("{}: cell {name}", place_of(key)),
        &document,
        &own.keys().map(String::as_str).collect::<Vec<_>>(),
    )?;
    for (key, value) in &own {
        if let Some(advice) = value.as_str().and_then(|text| messages_a_second(key, text)) {
            bail!("{}: cell {name}: `{key}`: {advice}", place_of(key));
        }
        set(&mut document, key, value.clone()).with_context(|| format!("{}: cell {name}: `{key}`", place_of(key)))?;
    }
    pace::replace(&mut document, &mut Vec::new(), &|key| own.contains_key(key));
    let whose = format!("cell {name}");
    let scenario = scenario(&|path| written.place_in_cell(index, &own, path), &whose, document).map_err(|error| {
        let said = format!("{error:#}");
        let mut replaced = own.iter().filter(|(key, _)| said.contains(&format!(": {key}: ")));
        match replaced.find_map(|(key, value)| unquoted(key, value)) {
            Some(advice) => anyhow!("{said} ({advice})"),
            None => error,
        }
    })?;
    Ok(Cell { name, axes: Vec::new(), elsewhere: Vec::new(), scenario })
}

/// The document with the first value of each axis.
pub(super) fn firsts(document: &Table, axes: &[Axis]) -> Result<Table> {
    let mut document = document.clone();
    axes.iter().try_for_each(|axis| set(&mut document, &axis.key, axis.values[0].clone()))?;
    Ok(document)
}

/// A scenario of which all is decided; `place` tells where the file has what is wrong in it, `whose` names it.
pub(super) fn scenario(place: &dyn Fn(&[Step<'_>]) -> String, whose: &str, document: Table) -> Result<Scenario> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let steps = error.path().iter().map_while(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } | Segment::Enum { variant: key } => Some(Step::Key(key)),
            Segment::Unknown => None,
        });
        let place = place(&steps.collect::<Vec<_>>());
        let (key, error) = (error.path().to_string(), error.into_inner());
        let at = if key == "." { String::new() } else { format!("{key}: ") };
        anyhow!("{place}: {whose}: {at}{}", one_line(&error))
    })
}

#[cfg(test)]
mod tests {
    use crate::sweep::Sweep;
    use crate::sweep::tests::{DOCUMENT, error};

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
}
