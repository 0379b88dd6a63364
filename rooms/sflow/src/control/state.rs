//! What other threads may ask of a running analyser: its ledger, its metrics, whether it does its job.

use std::sync::{Arc, Mutex};

use weir_forward::ledger::Count;
use weir_forward::worker::Workers;
use weir_protect::room::Protection;
use weir_service::Observable;
use weir_service::metrics::Samples;

use super::held;
use crate::collector::Cells;
use crate::ledger::{Agreed, Ledger};
use crate::shard::Shards;

/// A running analyser as seen from outside.
#[derive(Debug)]
pub(super) struct State {
    pub(super) workers: Arc<Workers>,
    pub(super) cells: Arc<[Arc<Cells>]>,
    pub(super) shards: Arc<Shards>,
    pub(super) protection: Option<Mutex<Protection>>,
}

impl Observable for State {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        samples.ledger(&self.ledger());
        if let Some(protection) = &self.protection {
            held(protection).metrics(samples);
        }
    }

    fn ledger(&self) -> Ledger {
        let cells = self.cells.clone();
        let agreed = self.workers.agreed(move |plan, worker| {
            let mut agreed = Agreed { intake: cells[worker].copy(), ..Agreed::default() };
            for listener in &plan.listeners {
                let count = listener.book.copy(worker);
                agreed.received += Count { ..count.received };
                agreed.truncated += count.truncated;
            }
            agreed
        });
        let mut ledger = Ledger::new(&agreed, self.shards.statistics(), self.workers.ledger());
        let worst = self.shards.offenders(OFFENDERS);
        ledger.protect = self.protection.as_ref().map(|protection| held(protection).summary());
        ledger.malformed_by = worst.into_iter().map(|(address, count)| (address.to_string(), count)).collect();
        ledger
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Addresses that the ledger names.
const OFFENDERS: usize = 20;
