//! A run as a grid of two columns, e.g. loss down and latency across.

use std::collections::HashMap;

use indexmap::IndexMap;

use crate::cells::{self, Cell};
use crate::columns;

/// Cells by the values of two columns. Further axes make further grids.
#[derive(Debug)]
pub struct Grid<'a> {
    /// The values of the further axes, joined by ` · `, numbers after the names of their axes; empty if there are none.
    pub name: String,
    /// The row values, in order.
    pub rows: Vec<Place>,
    /// The column values, in order.
    pub columns: Vec<Place>,
    /// `cells[row][column]`. `None`: no such cell has run.
    pub cells: Vec<Vec<Option<&'a Cell<'a>>>>,
}

/// A value of a grid's column.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// As text, without its unit.
    pub text: String,
    /// As a number, if it is one.
    pub number: Option<f64>,
}

/// The columns of the usual kind of lab: rows, columns, and fields.
pub const MATRIX: [&str; 3] = ["loss_pct", "latency_ms", "mbit_per_s"];

impl<'a> Grid<'a> {
    /// The grids of the sweep, in the order of their first cells: numbers ascend, words keep the order of the cells.
    /// Extra cells, and those that lack one of the columns, are left out.
    pub fn all(cells: &'a [Cell<'a>], down: &str, across: &str) -> Vec<Grid<'a>> {
        let place = |cell: &Cell<'_>, column| {
            let text = columns::text(cell.first(), column)?;
            Some(Place { text, number: columns::number(cell.first(), column) })
        };
        let swept: Vec<&Cell<'a>> = cells.iter().filter(|cell| !cell.beside).collect();
        let further = cells::further_axes(&swept, &[down, across]);
        let mut found: IndexMap<String, Vec<Member<'a>>> = IndexMap::new();
        for cell in swept {
            let (Some(row), Some(column)) = (place(cell, down), place(cell, across)) else {
                continue;
            };
            let words =
                further.iter().filter_map(|axis| Some(cells::heading(axis, columns::text(cell.first(), axis)?)));
            let name = words.collect::<Vec<_>>().join(" · ");
            found.entry(name).or_default().push((row, column, cell));
        }
        found.into_iter().map(|(name, members)| Grid::new(name, members)).collect()
    }

    /// The grids of throughput over loss and latency; empty unless a run varies the two independently of each other.
    pub fn matrix(cells: &'a [Cell<'a>]) -> Vec<Grid<'a>> {
        let [down, across, _] = MATRIX;
        let mut grids = Grid::all(cells, down, across);
        // Two columns that vary together have about one cell per value.
        let is_grid = |grid: &Grid<'_>| {
            let (rows, columns) = (grid.rows.len(), grid.columns.len());
            rows > 1 && columns > 1 && grid.cells.iter().flatten().flatten().count() >= rows + columns
        };
        if !grids.iter().any(is_grid) {
            grids.clear();
        }
        grids
    }

    fn new(name: String, members: Vec<Member<'a>>) -> Self {
        let rows = places(members.iter().map(|(row, ..)| row));
        let columns = places(members.iter().map(|(_, column, _)| column));
        let mut cells = vec![vec![None; columns.len()]; rows.len()];
        let numbered = |places: &[Place]| -> HashMap<String, usize> {
            places.iter().enumerate().map(|(index, place)| (place.text.clone(), index)).collect()
        };
        let (row_of, column_of) = (numbered(&rows), numbered(&columns));
        for (row, column, cell) in members {
            cells[row_of[&row.text]][column_of[&column.text]].get_or_insert(cell);
        }
        Self { name, rows, columns, cells }
    }

    /// Every cell with its row and column.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, &'a Cell<'a>)> {
        let rows = self.cells.iter().enumerate();
        rows.flat_map(|(row, cells)| cells.iter().enumerate().filter_map(move |(at, cell)| Some((row, at, (*cell)?))))
    }
}

/// A cell with its row and column, on its way into a grid.
type Member<'a> = (Place, Place, &'a Cell<'a>);

/// The different places, numbers ascending, then words in their order.
fn places<'b>(all: impl Iterator<Item = &'b Place>) -> Vec<Place> {
    let mut found: IndexMap<&str, &Place> = IndexMap::new();
    for place in all {
        found.entry(&place.text).or_insert(place);
    }
    let key = |place: &Place| place.number.unwrap_or(f64::INFINITY);
    let mut found: Vec<Place> = found.into_values().cloned().collect();
    found.sort_by(|a, b| key(a).total_cmp(&key(b)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, Row};
    use crate::{cells, fixture};

    #[test]
    fn loss_goes_down_and_latency_across() {
        let records = fixture::matrix_records();
        let cells = cells::group(columns::Columns::default(), &records);
        let grids = Grid::matrix(&cells);
        assert_eq!(grids.len(), 1);
        let texts = |places: &[Place]| places.iter().map(|place| place.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&grids[0].rows)[..3], ["0", "1", "2"]);
        assert_eq!(texts(&grids[0].columns)[10..], ["60", "80", "90", "100"]);
        assert_eq!(grids[0].iter().count(), 266, "the baseline has no place");
        let (row, column, cell) = grids[0].iter().nth(17).unwrap();
        assert_eq!((row, column, cell.first().row.loss_pct, cell.first().row.latency_ms), (1, 3, 1.0, 4.0));
    }

    #[test]
    fn further_axes_make_further_grids() {
        let record = |loss: f64, latency: f64, congestion: &str| Record {
            row: Row {
                cell: format!("{loss}/{latency}/{congestion}"),
                loss_pct: loss,
                latency_ms: latency,
                ..Row::default()
            },
            axes: vec![("a".into(), loss.to_string()), ("tcp.congestion".into(), congestion.into())],
            ..Record::default()
        };
        let mut records = Vec::new();
        for congestion in ["cubic", "bbr"] {
            for (loss, latency) in [(5.0, 1.0), (0.0, 1.0), (0.0, 9.0), (5.0, 9.0)] {
                records.push(record(loss, latency, congestion));
            }
        }
        let cells = cells::group(columns::Columns::default(), &records);
        let grids = Grid::matrix(&cells);
        assert_eq!(grids.iter().map(|grid| grid.name.as_str()).collect::<Vec<_>>(), ["cubic", "bbr"]);
        assert_eq!(grids[1].cells[0][1].unwrap().name, "0/9/bbr");
        for record in &mut records {
            let streams = if record.axes[1].1 == "bbr" { "2" } else { "1" };
            record.axes[1] = ("traffic.streams".into(), streams.into());
        }
        let cells = cells::group(columns::Columns::default(), &records);
        let grids = Grid::matrix(&cells);
        let names = grids.iter().map(|grid| grid.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["traffic.streams 1", "traffic.streams 2"]);
        let together: Vec<Record> = (0..5).map(|i| record(f64::from(i), f64::from(i), "cubic")).collect();
        assert!(Grid::matrix(&cells::group(columns::Columns::default(), &together)).is_empty());
        assert!(Grid::matrix(&cells::group(columns::Columns::default(), &fixture::records())).is_empty());
    }
}
