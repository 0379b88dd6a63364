//! `--messages`: every message in a file, as long as that can be written.

use std::path::Path;

use anyhow::Result;
use weir_program::output::complain;
use weir_report::messages::{Message, MessageTable};
use weir_report::store::StoreError;

use crate::{Outcome, files};

/// A file that takes messages. A disk that fails ends no measurement: what it does not take is counted.
pub(crate) struct Rows {
    table: MessageTable,
    failed: Option<StoreError>,
}

/// What the file does not have.
#[derive(Default)]
pub(crate) struct Unwritten {
    /// Messages.
    pub(crate) messages: u64,
    failed: Option<StoreError>,
}

impl Rows {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let table = MessageTable::create(path, files::create(path)).map_err(StoreError::outside_the_lab)?;
        Ok(Self { table, failed: None })
    }

    pub(crate) fn write(&mut self, messages: &[Message]) {
        let written = self.table.write(messages);
        self.failed = self.failed.take().or(written.err());
    }

    pub(crate) fn finish(mut self) -> Unwritten {
        let ended = self.table.finish();
        let failed = self.failed.or(ended.err()).map(StoreError::outside_the_lab);
        Unwritten { messages: self.table.not_written(), failed }
    }
}

impl Unwritten {
    /// How a command ends that has told everything else: not well, if the file could not be written.
    pub(crate) fn judge(self, ended: Result<Outcome>) -> Result<Outcome> {
        match (self.failed, ended) {
            (None, ended) => ended,
            (Some(failed), Ok(_)) => Err(failed.into()),
            (Some(failed), Err(error)) => {
                complain!("weir: {failed}");
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_leads_messages_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file.csv"), folder.path().join("link.csv"));
        std::fs::write(&file, "somebody's").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let refused = Rows::create(&link).err().map(|error| error.to_string());
        let why = format!("create {}: a link, which is not followed (give the file itself)", link.display());
        assert_eq!((refused, std::fs::read_to_string(&file).unwrap()), (Some(why), "somebody's".to_owned()));
        assert!(Rows::create(&file).is_ok());
    }
}
