//! A worker's part: a batch, split by shard.

use std::sync::Arc;

use weir_forward::worker::{Tap, Tapped};

use super::{Cells, STEERING};
use crate::shard::{Now, Shards};

/// Reads what one worker receives.
#[derive(Debug)]
pub struct Collector {
    worker: usize,
    shards: Arc<Shards>,
    cells: Arc<Cells>,
}

impl Collector {
    /// That of the worker of this number, which counts in `cells`.
    pub fn new(worker: usize, shards: Arc<Shards>, cells: Arc<Cells>) -> Self {
        Self { worker, shards, cells }
    }
}

impl Tap for Collector {
    fn read(&mut self, batch: Tapped<'_>) {
        let count = self.shards.len() as u32;
        // Read once a batch: what waited in the socket's buffer waited for milliseconds, intervals of counters are seconds.
        let now = Now::read();
        // Which shards the batch has something for, as bits; shards past the last bit share it.
        let mut wanted = 0_u64;
        for message in batch.messages() {
            wanted |= bit(STEERING.choose(message.bytes, count));
        }
        for number in 0..self.shards.len() {
            if wanted & bit(number as u32) == 0 {
                continue;
            }
            let mut shard = self.shards.work(number);
            for message in batch.messages() {
                if STEERING.choose(message.bytes, count) as usize == number {
                    if number != self.worker {
                        self.cells.count_misdirected();
                    }
                    self.cells.count(shard.datagram(message.bytes, message.source, now));
                }
            }
        }
    }
}

fn bit(shard: u32) -> u64 {
    1 << shard.min(63)
}
