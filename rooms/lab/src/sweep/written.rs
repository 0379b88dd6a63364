//! The document's file, and where in it something stands.

use toml::{Table, Value};
use weir_program::config::{Document, Step};

/// The document's file, to say where in it something stands.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) origin: String,
    pub(super) text: String,
    /// Keys that it sweeps.
    pub(super) axes: Vec<String>,
    /// Keys that it does not say the last word about.
    pub(super) overridden: Vec<String>,
}

impl Written {
    /// `lab.toml:12` for the value at `path`, of one that is swept the line of its axis; without a line where the file
    /// does not say it. What a link does one way may be written for both.
    pub(super) fn place(&self, path: &[Step<'_>]) -> String {
        let Ok(document) = Document::parse(&self.origin, &self.text) else { return self.origin.clone() };
        let both = both_ways(path);
        for path in [Some(path), both.as_deref()].into_iter().flatten() {
            let keys = dotted(path);
            if self.overridden.iter().any(|key| is_within(&keys, key)) {
                return self.origin.clone();
            }
            if let Some(axis) = self.axes.iter().find(|axis| is_within(&keys, axis)) {
                return document.place(&[Step::Key("axes"), Step::Key(axis)]);
            }
            if self.says(path) {
                return document.place(path);
            }
        }
        document.place(path)
    }

    /// The same for a dotted key.
    pub(super) fn place_of(&self, key: &str) -> String {
        self.place(&path_of(key))
    }

    /// The same for what a message is about, which begins with keys.
    pub(super) fn place_of_message(&self, said: &str) -> String {
        self.place(&named_in(said))
    }

    /// The same in a cell of its own, the entry `index` of `[[cells]]`: the key in its `set` that has most to do with the
    /// path, or the entry.
    pub(super) fn place_in_cell(&self, index: usize, set: &Table, path: &[Step<'_>]) -> String {
        let both = both_ways(path);
        let in_common = |key: &str| {
            let key = path_of(key);
            let with = |path: &[Step<'_>]| key.iter().zip(path).take_while(|(a, b)| a == b).count();
            with(path).max(both.as_deref().map_or(0, with))
        };
        let entry = [Step::Key("cells"), Step::Index(index)];
        let measured = set.keys().map(|key| (in_common(key), key)).filter(|(common, _)| *common > 0);
        match measured.reduce(|best, next| if next.0 > best.0 { next } else { best }) {
            Some((_, key)) => self.place(&[entry[0], entry[1], Step::Key("set"), Step::Key(key)]),
            None => self.place(&entry),
        }
    }

    /// The same for a dotted key, or what a message is about.
    pub(super) fn place_in_cell_of(&self, index: usize, set: &Table, said: &str) -> String {
        self.place_in_cell(index, set, &named_in(said))
    }

    /// Whether the file has something at the path, as far as a value of a link: what is below that is part of it.
    fn says(&self, path: &[Step<'_>]) -> bool {
        let Ok(document) = self.text.parse::<Table>() else { return false };
        let far = match path {
            [Step::Key("links"), _, Step::Key("forward" | "backward"), ..] => 4,
            _ => 3,
        };
        let mut steps = path.iter().take(far);
        let Some(Step::Key(first)) = steps.next() else { return false };
        let found = document.get(*first).and_then(|first| {
            steps.try_fold(first, |value, step| match (value, *step) {
                (Value::Table(table), Step::Key(key)) => table.get(key),
                (Value::Array(list), Step::Index(index)) => list.get(index),
                _ => None,
            })
        });
        found.is_some()
    }
}

/// `links.l.rate` for `links.l.forward.rate`.
fn both_ways<'a>(path: &[Step<'a>]) -> Option<Vec<Step<'a>>> {
    match path {
        [Step::Key("links"), _, Step::Key("forward" | "backward"), rest @ ..] => Some([&path[..2], rest].concat()),
        _ => None,
    }
}

fn dotted(path: &[Step<'_>]) -> String {
    let keys = path.iter().map_while(|step| if let Step::Key(key) = step { Some(*key) } else { None });
    keys.collect::<Vec<_>>().join(".")
}

fn is_within(keys: &str, of: &str) -> bool {
    keys.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The steps of a dotted key: `links.l.steps[1].trace`.
fn path_of(key: &str) -> Vec<Step<'_>> {
    let steps = key.split('.').flat_map(|part| match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
        Some((list, index)) => [Some(Step::Key(list)), index.parse().ok().map(Step::Index)],
        None => [Some(Step::Key(part)), None],
    });
    steps.flatten().collect()
}

/// The path that a message begins with, `links.l: forward: ...`; the word behind it may be the key that it is about, as in
/// ``links.l: `queue` needs a rate``.
fn named_in(said: &str) -> Vec<Step<'_>> {
    let is_key = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "._-[]".contains(c));
    let mut path = Vec::new();
    for part in said.split(": ") {
        let word = part.split(' ').next().unwrap_or_default().trim_matches('`');
        if is_key(word) {
            path.extend(path_of(word));
        }
        if word != part || !is_key(word) {
            break;
        }
    }
    path
}
