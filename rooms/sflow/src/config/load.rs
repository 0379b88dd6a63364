//! Where a configuration comes from, at the start and at every reload.

use std::net::SocketAddr;

use anyhow::Result;
use weir_program::config::{Address, Base};
use weir_service::Fixed;

use super::Config;
use super::check::Checker;
use super::document::Document;

/// A configuration to be read, perhaps again and again.
#[derive(Clone, Debug)]
pub struct Origin {
    /// A file, or what flags said.
    pub base: Base<Document>,
    /// Flags that go before it.
    pub flags: Flags,
}

/// Flags that replace keys of a file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// As in [`Document::workers`].
    pub workers: Option<usize>,
    /// As in [`Document::http`].
    pub http: Option<SocketAddr>,
    /// As in [`Document::admin`] and [`Document::user`].
    pub fixed: Fixed,
}

impl Origin {
    /// Reads and checks it, as it is now, on this machine as it is now.
    ///
    /// # Errors
    /// One line: the file cannot be read, or [`Config::read`].
    pub fn load(&self) -> Result<Config> {
        self.base.load(|document, file| Checker::new(file).config(self.flags.over(document)))
    }

    /// As [`Origin::load`], where nobody will be served: the file of tokens need not be there.
    ///
    /// # Errors
    /// As of [`Origin::load`].
    pub fn load_to_rehearse(&self) -> Result<Config> {
        self.base.load(|document, file| Checker::new(file).alone().config(self.flags.over(document)))
    }
}

impl Flags {
    fn over(&self, document: Document) -> Document {
        Document {
            workers: self.workers.or(document.workers),
            http: self.http.map(Address).or(document.http),
            admin: self.fixed.admin.map(Address).or(document.admin),
            user: self.fixed.user.clone().or(document.user),
            ..document
        }
    }
}
