//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.
//!
//! ```text
//! text -> Document (types of values) -> Config (bounds checked, definitions compiled once)
//! ```

mod check;
pub mod document;
mod load;
mod print;

use anyhow::Result;
use weir_program::config;
use weir_service::Fixed;

use crate::settings::Settings;

pub use load::{Flags, Origin};

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What to do.
    pub settings: Settings,
    /// What only a start can change.
    pub fixed: Fixed,
}

impl Config {
    /// Reads a file's text; `origin` names the file in errors.
    ///
    /// # Errors
    /// One line with the place: not TOML, an unknown key, a value out of its bounds, a definition that is none; of a flow
    /// definition two lines more, which show the place in its text.
    pub fn read(origin: &str, text: &str) -> Result<Self> {
        let file = config::Document::parse(origin, text)?;
        check::Checker::new(Some(&file)).config(file.read()?)
    }

    /// What can be meant, but seldom is: a line each, with its place.
    pub fn warnings(&self) -> &[String] {
        self.settings.warnings()
    }

    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        print::to_toml(self)
    }
}
