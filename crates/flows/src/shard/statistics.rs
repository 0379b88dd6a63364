//! How full the tables are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use weir_program::ledger;

use super::Tally;

ledger! {
    /// A table with a limit.
    pub struct Table by name {
        /// What is in it: the key in `[limits]`, where it has one.
        name: &'static str,
        /// What is remembered, by table.
        entries: u64 => Gauge "weir_sflow_table" ["entries"] {table},
        /// How much may be remembered, over all workers.
        limit: u64 => Gauge "weir_sflow_table_limit" ["entries"] {table},
        /// What was refused or forgotten before its time, since a table was full.
        evicted: u64 => Counter "weir_sflow_evicted" ["entries"] {table},
    }
}

/// What all shards together hold and have refused.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// What was in the datagrams.
    pub tally: Tally,
    /// Datagrams that agents sent and that did not come.
    pub missing: u64,
    /// By table.
    pub tables: Vec<Table>,
    /// Why there was no rate of a total, or nothing of counters was taken, how often, by reason.
    pub absent: BTreeMap<&'static str, u64>,
}

impl Statistics {
    /// As one flat object: `samples_KIND`, `datagrams_missing`, `rates_absent_REASON`, and of each table `TABLE_entries`,
    /// `TABLE_limit`, `TABLE_evicted`.
    pub fn figures(&self) -> Map<String, Value> {
        let samples = self.tally.by_kind().map(|(kind, count)| (format!("samples_{kind}"), count.into()));
        let absent = self.absent.iter().map(|(reason, count)| (format!("rates_absent_{reason}"), (*count).into()));
        let tables = self.tables.iter().flat_map(|table| {
            let name = table.name;
            [("entries", table.entries), ("limit", table.limit), ("evicted", table.evicted)]
                .map(|(what, count)| (format!("{name}_{what}"), count.into()))
        });
        let missing = ("datagrams_missing".to_owned(), self.missing.into());
        samples.into_iter().chain([missing]).chain(absent).chain(tables).collect()
    }

    /// Adds those of another shard, which has the same tables.
    pub fn absorb(&mut self, other: Self) {
        self.tally += other.tally;
        self.missing += other.missing;
        for (reason, count) in other.absent {
            *self.absent.entry(reason).or_default() += count;
        }
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
