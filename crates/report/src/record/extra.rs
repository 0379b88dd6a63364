//! The added columns of a record.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::word::{Word, Words};

/// Added columns: name and value, in order. A value is absent where it was not measured, or is not a number.
///
/// Clones, and the records of a run, share the names: a column is found by its name in the same time, be they few or many.
#[derive(Clone, Default)]
pub struct Extra {
    names: Arc<Names>,
    /// NaN: absent.
    values: Vec<f64>,
}

/// Names in their order.
#[derive(Clone, Default)]
pub(super) struct Names {
    list: Vec<Word>,
    /// Found when somebody looks for one.
    places: OnceLock<HashMap<Word, usize>>,
}

impl Extra {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Their names, in order.
    pub fn names(&self) -> &[Word] {
        &self.names.list
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Word, Option<f64>)> {
        self.names.list.iter().zip(self.values.iter().copied().map(known))
    }

    /// The value of a name; `Some(None)`: it is absent, `None`: there is no such column.
    pub fn get(&self, name: &str) -> Option<Option<f64>> {
        let place = *self.names.places().get(name)?;
        self.values.get(place).copied().map(known)
    }

    /// Adds one at the end.
    pub fn push(&mut self, (name, value): (Word, Option<f64>)) {
        let names = Arc::make_mut(&mut self.names);
        names.list.push(name);
        names.places = OnceLock::new();
        self.values.push(value.unwrap_or(f64::NAN));
    }

    /// Takes the names of another record that has the same ones.
    pub(super) fn share(&mut self, words: &mut Words) {
        self.names = words.names(Arc::clone(&self.names));
        self.values.shrink_to_fit();
    }
}

fn known(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

impl Names {
    pub(super) fn list(&self) -> &[Word] {
        &self.list
    }

    fn places(&self) -> &HashMap<Word, usize> {
        // Of equal ones the first.
        self.places.get_or_init(|| self.list.iter().cloned().enumerate().rev().map(|(at, name)| (name, at)).collect())
    }
}

impl Extend<(Word, Option<f64>)> for Extra {
    fn extend<I: IntoIterator<Item = (Word, Option<f64>)>>(&mut self, columns: I) {
        columns.into_iter().for_each(|column| self.push(column));
    }
}

impl FromIterator<(Word, Option<f64>)> for Extra {
    fn from_iter<I: IntoIterator<Item = (Word, Option<f64>)>>(columns: I) -> Self {
        let (list, values) = columns.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).unzip();
        Self { names: Arc::new(Names { list, places: OnceLock::new() }), values }
    }
}

impl<const N: usize> From<[(Word, Option<f64>); N]> for Extra {
    fn from(columns: [(Word, Option<f64>); N]) -> Self {
        columns.into_iter().collect()
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Extra {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<(Word, Option<f64>)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_also_those_that_came_later() {
        let mut extra = Extra::from([("a".into(), Some(1.0)), ("b".into(), None), ("a".into(), Some(2.0))]);
        assert_eq!((extra.get("a"), extra.get("b"), extra.get("c")), (Some(Some(1.0)), Some(None), None));
        let before = extra.clone();
        extra.push(("c".into(), Some(3.0)));
        assert_eq!((extra.get("c"), before.get("c")), (Some(Some(3.0)), None), "clones have names of their own then");
        let json = serde_json::to_string(&extra).unwrap();
        assert_eq!(json, r#"[["a",1.0],["b",null],["a",2.0],["c",3.0]]"#);
        assert_eq!(serde_json::to_string(&serde_json::from_str::<Extra>(&json).unwrap()).unwrap(), json);
    }

    #[test]
    fn records_share_names_that_are_the_same() {
        let (mut words, one) = (Words::default(), || Extra::from([("a".into(), Some(1.0)), ("b".into(), None)]));
        let (mut first, mut second, mut other) = (one(), one(), Extra::from([("a".into(), Some(1.0))]));
        [&mut first, &mut second, &mut other].into_iter().for_each(|extra| extra.share(&mut words));
        assert!(Arc::ptr_eq(&first.names, &second.names) && !Arc::ptr_eq(&first.names, &other.names));
        assert_eq!((second.get("b"), other.get("b")), (Some(None), None));
    }
}
