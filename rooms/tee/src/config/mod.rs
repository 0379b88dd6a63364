//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.
//!
//! ```text
//! text -> Document (types of values) -> Config (names resolved, bounds and loops checked)
//! ```

mod check;
pub mod document;
mod loops;
#[cfg(test)]
mod tests;
pub mod values;

use anyhow::{Context, Result, anyhow};
use weir_program::config::{self, Checked};
use weir_service::Fixed;

use weir_forward::settings::{Destination, Settings};

pub use loops::{Local, is_own_listener};

/// A configuration that is read at the start and with each reload.
pub type Origin = config::Origin<document::Document>;

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    document: document::Document,
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
    destinations: &[Destination],
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

    /// Itself, if this machine has all of its interfaces.
    ///
    /// # Errors
    /// One line with the place.
    pub fn startable(self) -> Result<Self> {
        match &self.absent {
            Some(absent) => Err(anyhow!(absent.clone())),
            None => Ok(self),
        }
    }

    /// Reads and checks it, as it is now, on this machine as it is now.
    ///
    /// # Errors
    /// One line: the file cannot be read, or [`Self::read`].
    pub fn load(origin: &Origin) -> Result<Self> {
        let mut config = None;
        origin.load_with(|document, file| {
            config = Some(check::Checker::new(Some(file), &Local::now()).config(document)?);
            Ok(())
        })?;
        config.context("nothing was read")
    }

    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        self.document.to_toml()
    }
}
