//! Which cell another one is divided by.

use std::collections::{BTreeMap, HashMap};

use super::selects;
use crate::cells::Cell;
use crate::columns;
use crate::record::{Claim, Value};

/// The cells that those of a claim may be divided by. They are found by the values of their axes, so that looking for one
/// takes the same time among many.
pub(super) struct Partners<'b, 'a> {
    other: &'b BTreeMap<String, Value>,
    candidates: Vec<&'b Cell<'a>>,
    /// Numbers of candidates, by the keys of their axes: of a sweep and of cells beside it.
    groups: Vec<(Vec<&'b str>, Vec<usize>)>,
    /// By group and some of its keys: the numbers of candidates by their values of these.
    places: HashMap<(usize, Vec<&'b str>), Places<'b>>,
}

type Places<'b> = HashMap<Vec<&'b str>, Vec<usize>>;

impl<'b, 'a> Partners<'b, 'a> {
    /// Those that have the values of `other`, and what the claim selects besides.
    pub(super) fn new(claim: &Claim, other: &'b BTreeMap<String, Value>, cells: &'b [Cell<'a>]) -> Self {
        let kept = |cell: &&Cell<'_>| {
            let mut selection = claim.selection.iter();
            selection.all(|(key, value)| other.contains_key(key) || columns::matches(cell.first(), key, value))
        };
        let candidates: Vec<&'b Cell<'a>> = cells.iter().filter(|cell| selects(other, cell)).filter(kept).collect();
        let mut groups: Vec<(Vec<&str>, Vec<usize>)> = Vec::new();
        for (number, cell) in candidates.iter().enumerate() {
            let keys = || cell.first().axes.iter().map(|(key, _)| key.as_str());
            match groups.iter_mut().find(|(known, _)| known.iter().copied().eq(keys())) {
                Some((_, numbers)) => numbers.push(number),
                None => groups.push((keys().collect(), vec![number])),
            }
        }
        Self { other, candidates, groups, places: HashMap::new() }
    }

    /// The one that differs from `cell` in the fewest axes, and in no more than the values of `other` account for; or why
    /// there is none.
    pub(super) fn of(&mut self, cell: &Cell<'_>) -> Result<&'b Cell<'a>, String> {
        let own = cell.first();
        let changed = self.other.iter().filter(|(key, value)| !columns::matches(own, key, value)).count();
        let axes: HashMap<&str, &str> = own.axes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        for differing in 0..=changed {
            let mut found: Vec<usize> = Vec::new();
            for group in 0..self.groups.len() {
                let keys = &self.groups[group].0;
                let shared: Vec<&'b str> = keys.iter().copied().filter(|key| axes.contains_key(key)).collect();
                // Nearer ones were looked for before.
                for equal in without(&shared, differing) {
                    let values: Vec<&str> = equal.iter().map(|key| axes[key]).collect();
                    found.extend(self.places(group, equal).get(&values).into_iter().flatten());
                }
            }
            found.sort_unstable();
            match found[..] {
                [] => {}
                [only] => return Ok(self.candidates[only]),
                [a, b, ..] => {
                    let [a, b] = [a, b].map(|number| self.candidates[number].name);
                    return Err(format!("{a} and {b} could both be compared with"));
                }
            }
        }
        Err("the cell to compare with is missing".into())
    }

    fn places(&mut self, group: usize, keys: Vec<&'b str>) -> &Places<'b> {
        let Self { candidates, groups, places, .. } = self;
        places.entry((group, keys)).or_insert_with_key(|(group, keys)| {
            let mut places = Places::new();
            for &number in &groups[*group].1 {
                let axes = &candidates[number].first().axes;
                let values = keys.iter().filter_map(|key| axes.iter().find(|(own, _)| own == key));
                places.entry(values.map(|(_, value)| value.as_str()).collect()).or_default().push(number);
            }
            places
        })
    }
}

/// Every way to leave out so many of these keys.
fn without<'b>(keys: &[&'b str], count: usize) -> Vec<Vec<&'b str>> {
    match keys {
        _ if count == 0 => vec![keys.to_vec()],
        _ if count > keys.len() => Vec::new(),
        [] => Vec::new(),
        [first, rest @ ..] => {
            let mut kept = without(rest, count);
            kept.iter_mut().for_each(|kept| kept.insert(0, *first));
            kept.extend(without(rest, count - 1));
            kept
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cells;
    use crate::record::{Record, Row};

    #[test]
    fn keys_are_left_out_in_every_way() {
        assert_eq!(without(&["a", "b"], 0), [["a", "b"]]);
        assert_eq!(without(&["a", "b", "c"], 2), [["a"], ["b"], ["c"]]);
        assert_eq!(without(&["a"], 1), [Vec::<&str>::new()]);
        assert!(without(&["a"], 2).is_empty());
    }

    /// What [`Partners::of`] finds, by looking at all cells.
    fn by_hand<'a>(
        claim: &Claim,
        other: &BTreeMap<String, Value>,
        cell: &Cell<'_>,
        cells: &[Cell<'a>],
    ) -> Result<&'a str, String> {
        let own = cell.first();
        let changed = other.iter().filter(|(key, value)| !columns::matches(own, key, value)).count();
        let differing = |of: &Cell<'_>| {
            let theirs = &of.first().axes;
            own.axes.iter().filter(|(key, value)| theirs.iter().any(|(k, v)| k == key && v != value)).count()
        };
        let kept = |of: &&Cell<'_>| {
            let mut selection = claim.selection.iter();
            selection.all(|(key, value)| other.contains_key(key) || columns::matches(of.first(), key, value))
        };
        let near = |of: &&Cell<'_>| selects(other, of) && differing(of) <= changed;
        let candidates: Vec<&Cell<'a>> = cells.iter().filter(near).filter(kept).collect();
        let least = candidates.iter().map(|of| differing(of)).min();
        let nearest: Vec<&str> =
            candidates.iter().filter(|of| Some(differing(of)) == least).map(|of| of.name).collect();
        match nearest[..] {
            [] => Err("the cell to compare with is missing".into()),
            [only] => Ok(only),
            [a, b, ..] => Err(format!("{a} and {b} could both be compared with")),
        }
    }

    proptest! {
        #[test]
        fn the_one_that_is_found_is_the_nearest(
            axes in proptest::collection::vec(
                (proptest::option::of(0..3), proptest::option::of(0..3), 0..2, proptest::option::of(0..3)), 1..30),
            selected in proptest::collection::btree_map("[abcd]", 0..3, 0..3),
            other in proptest::collection::btree_map("[abcd]", 0..3, 1..4),
        ) {
            let record = |index: usize, [a, b, c, d]: [Option<i32>; 4]| Record {
                row: Row { cell: index.to_string(), ..Row::default() },
                axes: [("a", a), ("b", b), ("c", c), ("d", d)]
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?.to_string())))
                    .collect(),
                ..Record::default()
            };
            let records: Vec<Record> = axes.iter().enumerate().map(|(at, &(a, b, c, d))| record(at, [a, b, Some(c), d])).collect();
            let mut cells = cells::group(&records);
            cells.iter_mut().for_each(|cell| cell.beside = false);
            let values = |of: &BTreeMap<String, i32>| -> BTreeMap<String, Value> {
                of.iter().map(|(key, value)| (key.clone(), Value::Text(value.to_string()))).collect()
            };
            let (selection, other) = (values(&selected), values(&other));
            let claim = Claim {
                text: String::new(), reading: String::new(), selection, relative_to: None, column: "sent".into(),
                at_least: None, at_most: None, confidence: 0.95, min_duration_s: None,
            };
            let mut partners = Partners::new(&claim, &other, &cells);
            for cell in &cells {
                let found = partners.of(cell).map(|found| found.name);
                prop_assert_eq!(found, by_hand(&claim, &other, cell, &cells), "{:?}", cell.first().axes);
            }
        }
    }
}
