//! The document's file, and where in it something stands.

use anyhow::Result;
use weir_service::config::{Document, Step, explain};

use crate::scenario::Scenario;

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
    /// does not say it.
    pub(super) fn place(&self, path: &[Step<'_>]) -> String {
        let keys = path.iter().map_while(|step| if let Step::Key(key) = step { Some(*key) } else { None });
        let keys = keys.collect::<Vec<_>>().join(".");
        let within =
            |of: &&String| keys.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let document = match Document::parse(&self.origin, &self.text) {
            Ok(document) if !self.overridden.iter().any(|key| within(&key)) => document,
            _ => return self.origin.clone(),
        };
        match self.axes.iter().find(within) {
            Some(axis) => document.place(&[Step::Key("axes"), Step::Key(axis)]),
            None => document.place(path),
        }
    }

    /// The same for a dotted key.
    pub(super) fn place_of(&self, key: &str) -> String {
        self.place(&key.split('.').map(Step::Key).collect::<Vec<_>>())
    }
}

/// Deserializes the document as written, so that an error can point at its line.
pub(super) fn check_keys(origin: &str, text: &str) -> Result<()> {
    match toml::from_str::<Scenario>(text) {
        Ok(_) => Ok(()),
        // A key that only an axis gives a value is missing here, and present in every cell.
        Err(error) if error.message().starts_with("missing field") => Ok(()),
        Err(error) => Err(explain(origin, text, &error)),
    }
}
