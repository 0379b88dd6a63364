//! From `[protect]` to validated [`Settings`]; and back, for `--check`.

mod check;
pub mod document;
#[cfg(test)]
mod tests;
pub mod values;

use anyhow::{Result, anyhow};
use weir_program::config::{self, Step};

use crate::model::Point;
use crate::settings::Settings;
use document::Document;

/// Where a document stands, and what else its room knows of the configuration.
pub struct Context<'a> {
    /// The file; `None`: it was made of flags.
    pub file: Option<&'a config::Document<'a>>,
    /// The table in it.
    pub at: &'a str,
    /// Interfaces that the configuration calls so.
    pub interfaces: &'a dyn Fn(&str) -> Vec<Point>,
    /// Whether anybody is served: who may ask is looked for only then.
    pub serves: bool,
}

impl Context<'_> {
    /// A mistake at a key of the table, one line.
    fn error(&self, path: &[Step<'_>], message: &str) -> anyhow::Error {
        let mut whole = vec![Step::Key(self.at)];
        whole.extend(path);
        match self.file {
            Some(file) => file.wrong(&whole, message),
            None => anyhow!("{message}"),
        }
    }
}

/// The validated configuration.
///
/// # Errors
/// One line with the place, for the first mistake.
pub fn settings(document: &Document, context: &Context<'_>) -> Result<Settings> {
    context.settings(document)
}
