//! The account of datagrams: what the sockets received, and what became of each.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_tee::ledger::{self as tee, Count, DestinationCount};

use crate::collector::Intake;
use crate::fate::Fate;
use crate::shard::{Statistics, Table, Tally};

/// Everything that was counted since the start: received = analysed + rejected + truncated +
/// unexplained, at every moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Whether nothing is unexplained, of what was received and of what was forwarded.
    pub closed: bool,
    /// Taken from sockets.
    pub received: Count,
    /// Read and taken into account. Single samples in them may have been malformed: those are among `samples`.
    pub analysed: u64,
    /// Not taken into account, by reason: every other [`Fate`].
    pub rejected: BTreeMap<&'static str, u64>,
    /// Longer than the buffer.
    pub truncated: u64,
    /// `received` less the sum of its parts.
    pub unexplained: i64,
    /// Of what was received, datagrams that came to the socket of another worker than their agent's: right all the same, and
    /// dearer.
    pub misdirected: u64,
    /// Datagrams that agents sent and that never came here, as gaps in their sequence numbers tell.
    pub lost_before: u64,
    /// What was in the datagrams that were analysed.
    pub samples: Tally,
    /// Whoever sent most of what was malformed, by address, and how much.
    pub malformed_by: BTreeMap<String, u64>,
    /// What is remembered, how much may be, and what was refused or forgotten before its time, by table.
    pub tables: Vec<Table>,
    /// What the room that protects has done; absent: nothing is protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<weir_protect::room::Summary>,
    /// Where datagrams come in.
    pub listeners: Vec<ListenerCount>,
    /// Where they are forwarded to.
    pub destinations: Vec<DestinationCount>,
}

/// What a listener took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ListenerCount {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Taken from the socket.
    pub received: Count,
    /// Longer than the buffer.
    pub truncated: u64,
    /// Dropped by the kernel at this socket before we saw them; null: the kernel does not tell.
    pub kernel_drops: Option<u64>,
    /// Receive buffer that was asked for, bytes; null: the kernel's default.
    pub asked_buffer: Option<usize>,
    /// Receive buffer in force, as the kernel accounts it, bytes.
    pub receive_buffer: usize,
    /// What waits in the receive buffer now, as the kernel accounts it, bytes; null: the kernel does not tell.
    pub receive_queue: Option<usize>,
}

/// What one worker has counted, at a moment at which it agreed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    /// Taken from its sockets.
    pub received: Count,
    /// Longer than the buffer.
    pub truncated: u64,
    /// What became of the rest.
    pub intake: Intake,
}

impl Ledger {
    /// Puts it together: counts of the workers, of the shards, and of the data path that forwards.
    pub fn new(agreed: &[Agreed], statistics: Statistics, carried: tee::Ledger) -> Self {
        let mut sum = Agreed::default();
        for worker in agreed {
            sum.received += worker.received;
            sum.truncated += worker.truncated;
            sum.intake.absorb(&worker.intake);
        }
        let Agreed { received, truncated, intake } = sum;
        let parts = intake.fates.iter().sum::<u64>() + truncated;
        let unexplained = received.datagrams.wrapping_sub(parts) as i64;
        let forwarded = carried.destinations.iter().all(|to| to.unexplained == 0);
        Self {
            elapsed_s: carried.elapsed_s,
            closed: unexplained == 0 && forwarded,
            received,
            analysed: intake.of(Fate::Analysed),
            rejected: Fate::ALL[1..].iter().map(|&fate| (fate.name(), intake.of(fate))).collect(),
            truncated,
            unexplained,
            misdirected: intake.misdirected,
            lost_before: statistics.missing,
            samples: statistics.tally,
            malformed_by: BTreeMap::new(),
            tables: statistics.tables,
            protect: None,
            listeners: carried.listeners.into_iter().map(ListenerCount::from).collect(),
            destinations: carried.destinations,
        }
    }
}

impl From<tee::ListenerCount> for ListenerCount {
    fn from(count: tee::ListenerCount) -> Self {
        let tee::ListenerCount { name, address, received, truncated, kernel_drops, .. } = count;
        let tee::ListenerCount { asked_buffer, receive_buffer, receive_queue, .. } = count;
        Self { name, address, received, truncated, kernel_drops, asked_buffer, receive_buffer, receive_queue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_closes_or_says_by_how_much_it_does_not() {
        // One of the first fate, two of the second ...
        let fates = std::array::from_fn(|fate| fate as u64 + 1);
        let parts = (1..=Fate::ALL.len() as u64).sum::<u64>();
        let agreed = |datagrams| Agreed {
            received: Count { datagrams, bytes: datagrams * 100 },
            truncated: 3,
            intake: Intake { fates, misdirected: 1 },
        };
        let ledger = |agreed: &[Agreed]| Ledger::new(agreed, Statistics::default(), tee::Ledger::default());
        let whole = ledger(&[agreed(parts + 3), agreed(parts + 3)]);
        assert!(whole.closed && whole.unexplained == 0, "{whole:?}");
        assert_eq!((whole.analysed, whole.truncated, whole.misdirected), (2, 6, 2));
        assert_eq!((whole.rejected["duplicate"], whole.rejected["address_type"]), (4, 18));
        assert_eq!(whole.analysed + whole.rejected.values().sum::<u64>(), 2 * parts);

        let short = ledger(&[agreed(parts + 2)]);
        assert!(!short.closed && short.unexplained == -1, "{short:?}");
    }
}
