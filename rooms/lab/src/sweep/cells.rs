//! The scenario of each cell.

use anyhow::{Context, Result, anyhow};
use serde_path_to_error::Segment;
use toml::Table;
use weir_report::columns::NOTHING;
use weir_service::config::{Step, one_line};

use super::about::elsewhere;
use super::axes::Axis;
use super::keys::{as_written, set};
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
    let scenario = scenario(&|path| written.place(path), &named(&chosen), document)?;
    for (key, value) in &mut chosen {
        if !scenario.uses(key) {
            *value = NOTHING.to_owned();
        }
    }
    let elsewhere = elsewhere(&scenario, &chosen)?;
    Ok(Cell { name: named(&chosen), axes: chosen, elsewhere, scenario })
}

/// A cell of its own: what it does not set has the first value of its axis.
pub(super) fn extra_cell(
    place: &dyn Fn() -> String,
    document: &Table,
    axes: &[Axis],
    extra: ExtraCell,
) -> Result<Cell> {
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
