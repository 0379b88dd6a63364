//! Where a configuration comes from, at the start and at every reload.

use anyhow::{Result, anyhow};
use weir_program::config::Base;
use weir_service::Fixed;

use super::document::Document;
use super::values::Address;
use super::{Config, Local, check};

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
    /// As in [`Document::admin`] and [`Document::user`].
    pub fixed: Fixed,
}

impl Origin {
    /// Reads and checks it, as it is now, on this machine as it is now.
    ///
    /// # Errors
    /// One line: the file cannot be read, or [`Config::read`].
    pub fn load(&self) -> Result<Config> {
        if let Some(workers) = self.flags.workers {
            check::workers(workers).map_err(|message| anyhow!("--workers: {message}"))?;
        }
        let local = Local::now();
        self.base.load(|document, file| check::Checker::new(file, &local).config(&self.flags.over(document)))
    }
}

impl Flags {
    fn over(&self, document: Document) -> Document {
        Document {
            workers: self.workers.or(document.workers),
            admin: self.fixed.admin.map(Address).or(document.admin),
            user: self.fixed.user.clone().or(document.user),
            ..document
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_program::config::Source;

    use super::*;

    #[test]
    fn flags_go_before_the_file_and_the_file_is_read_each_time() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("tee.toml");
        let tables = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[destination]]\nto = \"10.0.0.5:514\"\n";
        fs::write(&path, format!("workers = 3\nuser = \"nobody\"\n{tables}")).unwrap();
        let fixed = Fixed { admin: Some("127.0.0.1:1".parse().unwrap()), user: None };
        let flags = Flags { workers: Some(7), fixed };
        let origin = Origin { base: Base::File(Source::new(path.clone())), flags };
        let config = origin.load().unwrap();
        assert_eq!((config.settings.workers, config.fixed.admin.map(|admin| admin.port())), (7, Some(1)));
        assert_eq!(config.fixed.user.as_deref(), Some("nobody"));

        fs::write(&path, tables.replace("514", "515")).unwrap();
        let again = origin.load().unwrap();
        assert_eq!((&*again.settings.destinations[0].name, again.fixed.user), ("10.0.0.5:515", None));

        fs::remove_file(&path).unwrap();
        let gone = format!("{:#}", origin.load().unwrap_err());
        assert_eq!(gone, format!("read {}: No such file or directory (os error 2)", path.display()));
    }
}
