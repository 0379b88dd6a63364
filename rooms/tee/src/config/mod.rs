//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.
//!
//! ```text
//! text -> Document (types of values) -> Config (names resolved, bounds and loops checked)
//! ```

mod check;
pub mod document;
mod load;
mod loops;
mod print;
#[cfg(test)]
mod tests;
pub mod values;

use anyhow::{Result, anyhow};
use weir_program::config;
use weir_service::Fixed;

use crate::settings::Settings;

pub use load::{Flags, Origin};
pub use loops::{Local, is_own_listener};

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What to do.
    pub settings: Settings,
    /// What a reload does not change. There is such a user.
    pub fixed: Fixed,
    /// What is allowed and hardly meant, a line each.
    pub warnings: Vec<String>,
    /// The first interface that this machine does not have: a start would fail.
    pub absent: Option<String>,
}

/// What a room carries out that forwards all that it receives, by the tables `[[listener]]` and `[[destination]]` of a
/// configuration of its own.
///
/// # Errors
/// As [`Config::read`].
pub fn forwarding(
    file: Option<&config::Document<'_>>,
    workers: Option<usize>,
    listeners: &[document::Listener],
    destinations: &[document::Destination],
) -> Result<Settings> {
    check::Checker::new(file, &Local::now()).forwarding(workers, listeners, destinations)
}

impl Config {
    /// Reads a file's text; `origin` names the file in errors.
    ///
    /// # Errors
    /// One line with the place: not TOML, an unknown key, a value out of its bounds, a name that nothing has, a
    /// destination that is one's own listener.
    pub fn read(origin: &str, text: &str, local: &Local) -> Result<Self> {
        let file = config::Document::parse(origin, text)?;
        check::Checker::new(Some(&file), local).config(&file.read()?)
    }

    /// The same, if this machine has all of its interfaces.
    ///
    /// # Errors
    /// One line with the place.
    pub fn startable(self) -> Result<Self> {
        match &self.absent {
            Some(absent) => Err(anyhow!(absent.clone())),
            None => Ok(self),
        }
    }

    /// Checks what flags say.
    ///
    /// # Errors
    /// As [`Config::read`], without a place.
    pub fn from_flags(flags: &document::Document, local: &Local) -> Result<Self> {
        check::Checker::new(None, local).config(flags)
    }

    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        print::to_toml(self)
    }
}
