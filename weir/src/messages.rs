//! `--messages`: every message in a file, as long as that can be written.

use std::path::Path;

use anyhow::Result;
use weir_report::messages::{Message, MessageTable};
use weir_report::store::StoreError;
use weir_service::output::complain;

use crate::Outcome;

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
        let table = MessageTable::create(path).map_err(StoreError::outside_the_lab)?;
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
