//! Published values beside ours.

use super::cells::{Cell, Measured};
use super::columns::{self, Kind};
use super::record::{Published, Value};

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

/// Looks up each published value among the cells. Text columns, settings and axes of a point say where it is; its other
/// numbers are values.
pub fn compare(published: &Published, cells: &[Cell<'_>]) -> Vec<Comparison> {
    let is_axis = |name: &str| cells.iter().any(|cell| cell.first().axes.iter().any(|(key, _)| key == name));
    let says_where = |name: &str, value: &Value| {
        matches!(value, Value::Text(_)) || columns::kind(name) == Kind::Setting || is_axis(name)
    };
    let mut found = Vec::new();
    for point in &published.points {
        let place: Vec<(&String, &Value)> = point.iter().filter(|(name, value)| says_where(name, value)).collect();
        let here = |cell: &&Cell<'_>| {
            !cell.beside && place.iter().all(|(name, value)| columns::matches(cell.first(), name, value))
        };
        let mut matching = cells.iter().filter(here);
        let only = matching.next().filter(|_| matching.next().is_none());
        // Words first: `udp, 20 %`.
        let mut words: Vec<(bool, String)> = place
            .iter()
            .map(|(name, value)| match value {
                Value::Text(word) => (false, word.clone()),
                Value::Number(number) => (true, columns::words(name, *number)),
            })
            .collect();
        words.sort_by_key(|(is_number, _)| *is_number);
        let words = words.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(", ");
        for (name, value) in point {
            if let Value::Number(value) = value
                && !says_where(name, &Value::Number(*value))
            {
                let ours = only.and_then(|cell| cell.measured(name));
                found.push(Comparison { place: words.clone(), column: name.clone(), published: *value, ours });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{cells, fixture};

    #[test]
    fn published_values_find_their_cells() {
        let (manifest, records) = (fixture::manifest(), fixture::records());
        let compared = compare(&manifest.published.unwrap(), &cells::group(&records[..40]));
        assert_eq!(compared.len(), 13);
        assert_eq!((compared[0].place.as_str(), compared[0].published), ("udp, 0 %", 96.0));
        assert_eq!(compared[0].ours.unwrap().value(), records[0].row.msgs_per_s);
        assert!(compared[1].ours.is_none(), "the 20 % cells have not run");
    }
}
