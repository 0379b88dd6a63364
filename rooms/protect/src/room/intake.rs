//! What the shards tell, in the order in which it came, however late somebody has the time to look.

use super::engine::TICKS_APART;
use super::{Engine, Inlet};

/// The ends of all shards' queues.
#[derive(Debug)]
pub(super) struct Intake {
    inlets: Vec<Inlet>,
    /// Drops that were told, and when others are next.
    told: (u64, u64),
}

impl Intake {
    pub(super) fn new(inlets: Vec<Inlet>) -> Self {
        Self { inlets, told: (0, 0) }
    }

    /// Hands over what has come; whether there was anything. Shards take turns of some ms. Who is behind takes what came between two ticks, so
    /// that time goes on for those who decide as it did when it came.
    pub(super) fn take(&mut self, engine: &mut Engine) -> bool {
        let (mut took, mut end) = (0, None);
        while took < BATCH {
            let Some(first) = self.waits() else { break };
            if first > *end.get_or_insert(first + TICKS_APART.as_nanos() as u64) {
                break;
            }
            let turns = self.inlets.iter_mut().map(|inlet| inlet.take(BATCH, first + TURN, |news| engine.take(news)));
            took += turns.sum::<usize>();
        }
        took > 0
    }

    /// When that came which waits longest; `None`: nothing waits.
    pub(super) fn waits(&self) -> Option<u64> {
        self.inlets.iter().filter_map(Inlet::first).min()
    }

    /// The sums of [`Inlet::totals`].
    pub(super) fn totals(&self) -> [u64; 4] {
        let sum = |sum: [u64; 4], one: [u64; 4]| std::array::from_fn(|at| sum[at] + one[at]);
        self.inlets.iter().map(Inlet::totals).fold([0; 4], sum)
    }

    /// Tells people, now and then, that this machine has no time for what comes: how long that waited at which is looked now.
    pub(super) fn tell(&mut self, now: u64, lag: u64) {
        let [_, dropped, ..] = self.totals();
        let (told, next) = self.told;
        if now >= next && (dropped > told || lag >= LONG) {
            tracing::warn!(
                "protect: {} samples were not looked at since the last such line, and others {:.1} s after they came: more come than \
                 one processor decides on (those that are looked at count for the others)",
                dropped - told,
                lag as f64 / 1e9
            );
            self.told = (dropped, now + APART);
        }
    }
}

/// News of a shard that are taken at once.
const BATCH: usize = 4_096;

/// What came within this time is taken shard by shard, ns: buckets are deeper by far.
const TURN: u64 = 5_000_000;

/// What is told when it has waited for so long, ns.
const LONG: u64 = 1_000_000_000;

/// From one such line to the next, ns.
const APART: u64 = 10 * 1_000_000_000;
