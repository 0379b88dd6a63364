//! Published values beside ours.

use weir_units::format;

use crate::cells::{Cell, Measured};
use crate::columns::{self, Kind};
use crate::grid::{MATRIX, Place};
use crate::record::{Published, Value};

/// A published value and what was measured in the same place.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The place in words: `udp, 20 %`.
    pub place: String,
    /// The column.
    pub column: String,
    /// What was published.
    pub published: f64,
    /// What was measured; `None` if this run has no such cell, several, or not this column.
    pub ours: Option<Measured>,
}

/// A published grid over loss and latency, and what was measured there.
#[derive(Clone, Debug)]
pub struct ComparedGrid {
    /// What else says where: `cubic`; empty if nothing does.
    pub name: String,
    /// The column.
    pub column: String,
    /// The column that goes down.
    pub down: String,
    /// The column that goes across.
    pub across: String,
    /// Its values, ascending.
    pub rows: Vec<Place>,
    /// The values of what goes across, ascending.
    pub columns: Vec<Place>,
    /// `fields[row][column]`; `None` where nothing was published.
    pub fields: Vec<Vec<Option<Compared>>>,
}

/// A field of a published grid.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// What was published.
    pub published: f64,
    /// What was measured; `None` as in [`Comparison::ours`].
    pub ours: Option<Measured>,
}

/// Looks up each published value among the cells, those of grids by grid, and the others. Text columns, settings and
/// axes of a point say where it is; its other numbers are values. A cell beside the sweep is meant only where it is
/// named.
pub fn compare(published: &Published, cells: &[Cell<'_>]) -> (Vec<ComparedGrid>, Vec<Comparison>) {
    let mut members: Vec<(String, String, Vec<Member>)> = Vec::new();
    let mut others = Vec::new();
    for found in look_up(published, cells) {
        let Some((row, column)) = found.at else {
            others.push(found);
            continue;
        };
        let member = Member { row, column, found };
        let key = (&member.found.elsewhere, &member.found.comparison.column);
        match members.iter_mut().find(|(name, of, _)| (name, of) == key) {
            Some((.., known)) => known.push(member),
            None => members.push((key.0.clone(), key.1.clone(), vec![member])),
        }
    }
    let mut grids = Vec::new();
    for (name, column, members) in members {
        let rows = places(members.iter().map(|member| member.row));
        let columns = places(members.iter().map(|member| member.column));
        if rows.len() < 2 || columns.len() < 2 {
            others.extend(members.into_iter().map(|member| member.found));
            continue;
        }
        let mut fields = vec![vec![None; columns.len()]; rows.len()];
        let at = |places: &[Place], value: f64| places.iter().position(|place| place.number == Some(value));
        for member in members {
            if let (Some(row), Some(column)) = (at(&rows, member.row), at(&columns, member.column)) {
                let Comparison { published, ours, .. } = member.found.comparison;
                fields[row][column] = Some(Compared { published, ours });
            }
        }
        let [down, across, _] = MATRIX.map(String::from);
        grids.push(ComparedGrid { name, column, down, across, rows, columns, fields });
    }
    others.sort_by_key(|found| found.order);
    (grids, others.into_iter().map(|found| found.comparison).collect())
}

/// A published value of a grid.
struct Member {
    row: f64,
    column: f64,
    found: Found,
}

/// A published value, looked up.
struct Found {
    comparison: Comparison,
    order: usize,
    /// Loss and latency, if it has both.
    at: Option<(f64, f64)>,
    /// Where it is but for these.
    elsewhere: String,
}

fn look_up(published: &Published, cells: &[Cell<'_>]) -> Vec<Found> {
    let is_axis = |name: &str| cells.iter().any(|cell| cell.first().axes.iter().any(|(key, _)| key == name));
    let says_where = |name: &str, value: &Value| {
        matches!(value, Value::Text(_)) || columns::kind(name) == Some(Kind::Setting) || is_axis(name)
    };
    let [down, across, _] = MATRIX;
    let mut found = Vec::new();
    for point in &published.points {
        let place: Vec<(&String, &Value)> = point.iter().filter(|(name, value)| says_where(name, value)).collect();
        let here = |cell: &&Cell<'_>| {
            (!cell.beside || point.contains_key("cell"))
                && cell.first().elsewhere.iter().all(|axis| point.contains_key(axis))
                && place.iter().all(|(name, value)| columns::matches(cell.first(), name, value))
        };
        let mut matching = cells.iter().filter(here);
        let only = matching.next().filter(|_| matching.next().is_none());
        let number = |name: &str| match point.get(name)? {
            Value::Number(number) => Some(*number).filter(|number| number.is_finite()),
            Value::Text(_) => None,
        };
        let at = number(down).zip(number(across));
        let elsewhere = place.iter().filter(|(name, _)| at.is_none() || (*name != down && *name != across));
        let elsewhere = in_words(elsewhere.copied());
        for (name, value) in point {
            if let Value::Number(value) = value
                && !says_where(name, &Value::Number(*value))
            {
                let ours = only.and_then(|cell| cell.measured(name));
                let place = in_words(place.iter().copied());
                let comparison = Comparison { place, column: name.clone(), published: *value, ours };
                found.push(Found { comparison, order: found.len(), at, elsewhere: elsewhere.clone() });
            }
        }
    }
    found
}

/// A place, words first: `udp, 20 %`.
fn in_words<'a>(place: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let mut words: Vec<(bool, String)> = place
        .map(|(name, value)| match value {
            Value::Text(word) => (false, word.clone()),
            Value::Number(number) => (true, columns::words(name, *number)),
        })
        .collect();
    words.sort_by_key(|(is_number, _)| *is_number);
    words.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

/// The different values, ascending.
fn places(values: impl Iterator<Item = f64>) -> Vec<Place> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let place = |value: f64| Place { text: format::plain(value), number: Some(value) };
    values.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, Row};
    use crate::{cells, fixture};

    #[test]
    fn published_values_find_their_cells() {
        let (manifest, records) = (fixture::manifest(), fixture::records());
        let (grids, compared) = compare(&manifest.published.unwrap(), &cells::group(&records[..40]));
        assert!(grids.is_empty());
        assert_eq!(compared.len(), 13);
        assert_eq!((compared[0].place.as_str(), compared[0].published), ("udp, 0 %", 96.0));
        assert_eq!(compared[0].ours.unwrap().value(), records[0].row.msgs_per_s);
        assert!(compared[1].ours.is_none(), "the 20 % cells have not run");
    }

    #[test]
    fn a_further_axis_does_not_hide_the_cells_that_were_published() {
        let (manifest, mut records) = (fixture::manifest(), fixture::records());
        for record in fixture::records() {
            let elsewhere = vec!["tcp.congestion".into()];
            records.push(Record { elsewhere, row: Row { msgs_per_s: 0.0, ..record.row.clone() }, ..record });
        }
        for (index, record) in records.iter_mut().enumerate() {
            let value = if index < 42 { "cubic" } else { "bbr" };
            record.axes.push(("tcp.congestion".into(), value.into()));
        }
        let ours = |records: &[Record]| {
            let compared = compare(&manifest.published.clone().unwrap(), &cells::group(records)).1;
            compared[0].ours.map(|ours| ours.value())
        };
        assert_eq!(ours(&records), Some(records[0].row.msgs_per_s));
        records.iter_mut().for_each(|record| record.elsewhere.clear());
        assert_eq!(ours(&records), None, "nobody knows which of the two is meant");
    }

    #[test]
    fn published_grids_lie_beside_ours() {
        let (mut manifest, records) = (fixture::matrix_manifest(), fixture::matrix_records());
        let published = manifest.published.as_mut().unwrap();
        published
            .points
            .push([("cell".into(), Value::Text("baseline".into())), ("sent".into(), Value::Number(1.0))].into());
        let (grids, others) = compare(published, &cells::group(&records));
        let [grid] = &grids[..] else { panic!("{grids:?}") };
        assert_eq!((grid.name.as_str(), grid.column.as_str()), ("", "mbit_per_s"));
        assert_eq!((grid.rows.len(), grid.columns.len()), (2, 14));
        let field = grid.fields[1][5].unwrap();
        assert_eq!((field.published, field.ours.unwrap().value()), (37.28, records[19].row.mbit_per_s));
        assert_eq!((others.len(), others[0].place.as_str()), (1, "baseline"));
        assert_eq!(others[0].ours.unwrap().value(), 0.0, "named, it is found beside the sweep");
    }
}
