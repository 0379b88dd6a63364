//! A run as a table of two axes: one axis across, the others down. Cells beside the sweep are left out.

use crate::cells::Cell;
use crate::record::Manifest;

/// Cells by row and column.
#[derive(Debug)]
pub struct Pivot<'a> {
    /// Name of what goes down, e.g. `loss`.
    pub down: String,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// Labels of the columns; a single empty one if nothing goes across.
    pub columns: Vec<String>,
    /// `cells[row][column]`; `None` where a cell has not run.
    pub cells: Vec<Vec<Option<&'a Cell<'a>>>>,
}

/// More columns than this are hard to take in, and in a terminal do not fit.
const WIDEST: usize = 4;

impl<'a> Pivot<'a> {
    /// Puts the axis of the transport across, or else the shortest one with 2 to 4 values.
    pub fn new(manifest: &Manifest, cells: &'a [Cell<'a>]) -> Self {
        let fits = |values: &[String]| (2..=WIDEST).contains(&values.len());
        let axes = manifest.axes.iter().filter(|(_, values)| fits(values));
        let across = axes.min_by_key(|(key, values)| (!key.ends_with("transport"), values.len()));
        let across = across.map(|(key, _)| key.as_str()).filter(|_| manifest.axes.len() > 1);
        let label = |cell: &Cell<'_>, own: &dyn Fn(&str) -> bool| {
            let axes = cell.first().axes.iter().filter(|(key, _)| own(key));
            axes.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/")
        };
        let rows_of = |cell: &Cell<'_>| {
            if cell.first().axes.is_empty() { cell.name.to_owned() } else { label(cell, &|key| Some(key) != across) }
        };

        let mut pivot = Self { down: down(manifest, across), rows: Vec::new(), columns: Vec::new(), cells: Vec::new() };
        for cell in cells.iter().filter(|cell| !cell.beside) {
            let column = index_of(&mut pivot.columns, label(cell, &|key| Some(key) == across));
            let row = index_of(&mut pivot.rows, rows_of(cell));
            if pivot.cells.len() <= row {
                pivot.cells.push(Vec::new());
            }
            if pivot.cells[row].len() <= column {
                pivot.cells[row].resize(column + 1, None);
            }
            pivot.cells[row][column] = Some(cell);
        }
        for row in &mut pivot.cells {
            row.resize(pivot.columns.len(), None);
        }
        pivot
    }
}

/// The last words of the keys that go down.
fn down(manifest: &Manifest, across: Option<&str>) -> String {
    let keys = manifest.axes.iter().map(|(key, _)| key.as_str()).filter(|key| Some(*key) != across);
    let words: Vec<&str> = keys.map(|key| key.rsplit('.').next().unwrap_or(key)).collect();
    if words.is_empty() { "cell".into() } else { words.join("/") }
}

fn index_of(labels: &mut Vec<String>, label: String) -> usize {
    labels.iter().position(|known| *known == label).unwrap_or_else(|| {
        labels.push(label);
        labels.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cells, fixture};

    #[test]
    fn loss_goes_down_and_transport_across() {
        let records = fixture::records();
        // An interrupted run: the very first cell is missing.
        let cells = cells::group(&records[1..]);
        let pivot = Pivot::new(&fixture::manifest(), &cells);
        assert_eq!((pivot.down.as_str(), pivot.rows.len()), ("loss", 21));
        assert_eq!(pivot.columns, ["tcp", "udp"]);
        assert!(pivot.cells[0][1].is_none());
        assert_eq!(pivot.cells[20][1].unwrap().name, "20%/udp");
    }

    #[test]
    fn a_single_cell_is_a_table_too() {
        let mut records = fixture::records();
        records.truncate(1);
        records[0].axes.clear();
        let manifest = Manifest { axes: Vec::new(), ..fixture::manifest() };
        let cells = cells::group(&records);
        let pivot = Pivot::new(&manifest, &cells);
        assert_eq!(
            (pivot.down.as_str(), pivot.rows, pivot.columns),
            ("cell", vec!["0%/udp".into()], vec![String::new()])
        );
    }
}
