//! A run as a table of two axes: one axis across, the others down. Cells beside the sweep are left out.

use indexmap::IndexSet;

use crate::cells::{self, Cell};
use crate::columns;
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

        let (mut rows, mut columns) = (IndexSet::new(), IndexSet::new());
        let mut table: Vec<Vec<Option<&Cell<'_>>>> = Vec::new();
        for cell in cells.iter().filter(|cell| !cell.beside) {
            let column = label(cell, &|key| Some(key) == across);
            let column = across.map_or(column.clone(), |key| cells::heading(key, column));
            let (column, _) = columns.insert_full(column);
            let (row, _) = rows.insert_full(rows_of(cell));
            if table.len() <= row {
                table.push(Vec::new());
            }
            if table[row].len() <= column {
                table[row].resize(column + 1, None);
            }
            table[row][column] = Some(cell);
        }
        for row in &mut table {
            row.resize(columns.len(), None);
        }
        Self { down: down(manifest, across), ..Self::of(rows, columns, table) }
    }

    fn of(rows: IndexSet<String>, columns: IndexSet<String>, cells: Vec<Vec<Option<&'a Cell<'a>>>>) -> Self {
        let (rows, columns) = (rows.into_iter().collect(), columns.into_iter().collect());
        Self { down: String::new(), rows, columns, cells }
    }
}

impl<'a> Pivot<'a> {
    /// Puts the values of a column down, ascending, and whatever else tells cells apart across: a chart over the column
    /// has a line each.
    pub fn over(x: &str, cells: &'a [Cell<'a>]) -> Self {
        let mut swept: Vec<&'a Cell<'a>> = cells.iter().filter(|cell| !cell.beside).collect();
        let further = cells::further_axes(&swept, &[x]);
        let at = |cell: &Cell<'_>| columns::number(cell.first(), x).unwrap_or(f64::INFINITY);
        swept.sort_by(|a, b| at(a).total_cmp(&at(b)));
        // Columns in the order of the run.
        let mut columns: IndexSet<String> =
            cells.iter().filter(|cell| !cell.beside).map(|cell| across(cell, &further)).collect();
        let mut rows = IndexSet::new();
        let mut table: Vec<Vec<Option<&Cell<'_>>>> = Vec::new();
        for cell in swept {
            let (row, _) = rows.insert_full(columns::text(cell.first(), x).unwrap_or_default());
            if table.len() <= row {
                table.push(vec![None; columns.len()]);
            }
            let (column, _) = columns.insert_full(across(cell, &further));
            table[row][column] = Some(cell);
        }
        Self { down: x.to_owned(), ..Self::of(rows, columns, table) }
    }
}

fn across(cell: &Cell<'_>, axes: &[String]) -> String {
    let axes = axes.iter().filter_map(|axis| Some(cells::heading(axis, columns::text(cell.first(), axis)?)));
    axes.collect::<Vec<_>>().join("/")
}

/// The last words of the keys that go down.
fn down(manifest: &Manifest, across: Option<&str>) -> String {
    let keys = manifest.axes.iter().map(|(key, _)| key.as_str()).filter(|key| Some(*key) != across);
    let words: Vec<&str> = keys.map(|key| key.rsplit('.').next().unwrap_or(key)).collect();
    if words.is_empty() { "cell".into() } else { words.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cells, fixture};

    #[test]
    fn loss_goes_down_and_transport_across() {
        let records = fixture::records();
        // An interrupted run: the very first cell is missing.
        let cells = cells::group(columns::Columns::default(), &records[1..]);
        let pivot = Pivot::new(&fixture::manifest(), &cells);
        assert_eq!((pivot.down.as_str(), pivot.rows.len()), ("loss", 21));
        assert_eq!(pivot.columns, ["tcp", "udp"]);
        assert!(pivot.cells[0][1].is_none());
        assert_eq!(pivot.cells[20][1].unwrap().name, "20%/udp");
    }

    #[test]
    fn over_a_column_each_other_axis_is_a_line() {
        let records = fixture::records_by_congestion();
        let cells = cells::group(columns::Columns::default(), &records);
        let pivot = Pivot::over("loss_pct", &cells);
        assert_eq!(pivot.columns, ["udp/cubic", "udp/bbr", "tcp/cubic", "tcp/bbr"]);
        assert_eq!((pivot.rows.len(), pivot.rows[20].as_str()), (21, "20"));
        assert_eq!(pivot.cells[20][3].unwrap().name, "20%/tcpbbr");
        assert!(pivot.cells.iter().flatten().all(Option::is_some));
    }

    #[test]
    fn numbers_across_have_the_name_of_their_axis() {
        let mut records = fixture::records();
        for record in &mut records {
            let streams = if record.axes[1].1 == "tcp" { "1" } else { "2" };
            record.axes[1] = ("traffic.streams".into(), streams.into());
        }
        let mut manifest = fixture::manifest();
        manifest.axes[1] = ("traffic.streams".into(), vec!["1".into(), "2".into()]);
        let cells = cells::group(columns::Columns::default(), &records);
        assert_eq!(Pivot::new(&manifest, &cells).columns, ["traffic.streams 2", "traffic.streams 1"]);
    }

    #[test]
    fn a_single_cell_is_a_table_too() {
        let mut records = fixture::records();
        records.truncate(1);
        records[0].axes.clear();
        let manifest = Manifest { axes: Vec::new(), ..fixture::manifest() };
        let cells = cells::group(columns::Columns::default(), &records);
        let pivot = Pivot::new(&manifest, &cells);
        assert_eq!(
            (pivot.down.as_str(), pivot.rows, pivot.columns),
            ("cell", vec!["0%/udp".into()], vec![String::new()])
        );
    }
}
