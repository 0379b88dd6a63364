//! How full the tables are.

use serde::Serialize;

use super::Tally;

/// What all shards together hold and have refused.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// What was in the datagrams.
    pub tally: Tally,
    /// Datagrams that agents sent and that did not come.
    pub missing: u64,
    /// By table.
    pub tables: Vec<Table>,
}

/// A table with a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What is in it: the key in `[limits]`, where it has one.
    pub name: &'static str,
    /// Entries now.
    pub entries: u64,
    /// Most entries.
    pub limit: u64,
    /// Entries that were refused, or forgotten before their time, since it was full.
    pub evicted: u64,
}

impl Statistics {
    /// Adds those of another shard, which has the same tables.
    pub(super) fn absorb(&mut self, other: Self) {
        self.tally += other.tally;
        self.missing += other.missing;
        for table in other.tables {
            match self.tables.iter_mut().find(|mine| mine.name == table.name) {
                Some(mine) => {
                    mine.entries += table.entries;
                    mine.limit += table.limit;
                    mine.evicted += table.evicted;
                }
                None => self.tables.push(table),
            }
        }
    }
}
