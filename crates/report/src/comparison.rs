//! Published values next to ours.

use crate::cells::{Cell, Measured};
use crate::columns::{self, Columns, Statistic};
use crate::record::{Published, Value};

/// A published value and the measured one in the same place.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The place as text: `udp, 20 %`.
    pub place: String,
    /// The column.
    pub column: String,
    /// The published value.
    pub published: f64,
    /// The measured value. `None`: this run has no such cell, several, or not this column.
    pub ours: Option<Measured>,
}

/// Finds each published value among the cells. Text columns, settings and axes of a point select the place; its other
/// numbers are values. An extra cell matches only by name.
pub fn compare(known: Columns<'_>, published: &Published, cells: &[Cell<'_>]) -> Vec<Comparison> {
    let is_axis = |name: &str| cells.iter().any(|cell| cell.first().axes.iter().any(|(key, _)| key == name));
    let says_where = |name: &str, value: &Value| {
        let setting = || known.get(name).is_some_and(|column| column.statistic == Statistic::Setting);
        matches!(value, Value::Text(_)) || setting() || is_axis(name)
    };
    let mut found = Vec::new();
    for point in &published.points {
        let (place, values): (Vec<_>, Vec<_>) = point.iter().partition(|(name, value)| says_where(name, value));
        let here = |cell: &&Cell<'_>| {
            (!cell.beside || point.contains_key("cell"))
                && place.iter().all(|(name, value)| columns::matches(cell.first(), name, value))
        };
        let mut matching = cells.iter().filter(here);
        let only = matching.next().filter(|_| matching.next().is_none());
        // Words first.
        let mut words: Vec<(bool, String)> = place
            .iter()
            .map(|(name, value)| match value {
                Value::Text(word) => (false, word.clone()),
                Value::Number(number) => (true, known.words(name, *number)),
            })
            .collect();
        words.sort_by_key(|(is_number, _)| *is_number);
        let place = words.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(", ");
        found.extend(values.into_iter().filter_map(|(name, value)| match value {
            Value::Number(published) => {
                let ours = only.and_then(|cell| cell.measured(name));
                Some(Comparison { place: place.clone(), column: name.clone(), published: *published, ours })
            }
            Value::Text(_) => None,
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::{cells, fixture};

    fn compared(records: &[Record]) -> Vec<Comparison> {
        let manifest = fixture::manifest();
        let cells = cells::group(manifest.columns(), records);
        compare(manifest.columns(), manifest.published.as_ref().unwrap(), &cells)
    }

    #[test]
    fn published_values_find_their_cells() {
        let records = fixture::records();
        let compared = compared(&records[..40]);
        assert_eq!(compared.len(), 13);
        assert_eq!((compared[0].place.as_str(), compared[0].published), ("udp, 0 %", 96.0));
        assert_eq!(compared[0].ours.unwrap().value(), records[0].row.msgs_per_s);
        assert!(compared[1].ours.is_none(), "the 20 % cells have not run");
    }
}
