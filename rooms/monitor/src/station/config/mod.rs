//! From a file, or from flags, to validated [`Settings`]; and back, for `--check`.

mod check;
pub mod document;
mod needed;
mod source;

use anyhow::Result;
use weir_program::config::{Address, Base};
use weir_service::Fixed;

use super::settings::Settings;
use crate::needed::Needed;
use document::Document;

pub use source::source;

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What to do.
    pub settings: Settings,
    /// What only a start can change.
    pub fixed: Fixed,
    /// The file that says the same with every default written out.
    written: Document,
}

/// A configuration to be read, perhaps again and again.
#[derive(Clone, Debug)]
pub struct Origin {
    /// A file, or what flags said.
    pub base: Base<Document>,
    /// Flags that replace keys of a file.
    pub fixed: Fixed,
}

impl Origin {
    /// Reads and checks it, as it is now.
    ///
    /// # Errors
    /// One line with the place: not TOML, an unknown key, a value out of its bounds.
    pub fn load(&self) -> Result<Config> {
        self.base.load(|document, file| check::config(self.with_flags(document), file))
    }

    /// The same at the start, with the files of keys that it names, and if it is only to be checked with all else that it needs of this
    /// machine.
    ///
    /// # Errors
    /// Likewise; a key cannot be read, a file, an interface or an address is not there.
    pub fn begin(&self, is_check: bool) -> Result<Config> {
        self.base.load(|document, file| {
            let config = check::config(self.with_flags(document), file)?;
            let needed = Needed::new(file);
            needed::keys(&config.settings, &needed)?;
            if is_check {
                needed::others(&config.settings, &needed)?;
                needed.admin(&config.fixed, &self.fixed)?;
            }
            Ok(config)
        })
    }

    fn with_flags(&self, document: Document) -> Document {
        Document {
            admin: self.fixed.admin.map(Address).or(document.admin),
            user: self.fixed.user.clone().or(document.user),
            ..document
        }
    }
}

impl Config {
    /// The file that says the same with every default written out.
    pub fn to_toml(&self) -> String {
        // Every key of the document has a form in TOML.
        toml::to_string(&self.written).unwrap_or_default()
    }
}
