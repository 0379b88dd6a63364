//! The account of datagrams: what the sockets received, and what became of each.

use std::collections::BTreeMap;

use weir_forward::ledger::{self as tee, Count, DestinationCount};
use weir_program::ledger;

use crate::collector::Intake;
use crate::fate::Fate;
use crate::shard::{Statistics, Table, Tally};

ledger! {
    /// Everything that was counted since the start: received = analysed + rejected + truncated +
    /// unexplained, at every moment.
    pub struct Ledger {
        /// Seconds since the start.
        elapsed_s: f64,
        /// 1: nothing is unexplained, of what was received and of what was forwarded; 0: a fault in weir.
        closed: bool => Gauge "weir_sflow_ledger_closed",
        /// Taken from sockets.
        received: Received => each,
        /// Datagrams that were taken into account. Single samples in them may have been malformed: those are among `samples`.
        analysed: u64 => Counter "weir_sflow_analysed" ["datagrams"],
        /// Datagrams that were not taken into account, by reason: docs/sflow.md explains each.
        rejected: BTreeMap<&'static str, u64> => Counter "weir_sflow_rejected" ["datagrams"] {reason},
        /// Datagrams longer than the buffer.
        truncated: u64 => Counter "weir_sflow_truncated" ["datagrams"],
        /// Received less its parts; not 0: a fault in weir.
        unexplained: i64 => Gauge "weir_sflow_unexplained" ["datagrams"],
        /// Datagrams that came to another worker's socket than their agent's: right all the same, and dearer.
        misdirected: u64 => Counter "weir_sflow_misdirected" ["datagrams"],
        /// Datagrams that agents sent and that never came, by their sequence numbers.
        lost_before: u64 => Counter "weir_sflow_missing" ["datagrams"],
        /// What was in the datagrams that were analysed.
        samples: Tally => each,
        /// Totals that got no rate (`first` to `unknown`), counter records and samples that were not taken, by reason: docs/sflow.md.
        absent: BTreeMap<&'static str, u64> => Counter "weir_sflow_absent" ["rates"] {reason},
        /// Whoever sent most of what was malformed, by address, and how much.
        malformed_by: BTreeMap<String, u64>,
        /// What is remembered, how much may be, and what was refused or forgotten before its time, by table.
        tables: Vec<Table> => each,
        /// What the room that protects has done; null: nothing is protected.
        protect: Option<weir_protect::room::Summary>,
        /// Where datagrams come in.
        listeners: Vec<ListenerCount> => each,
        /// Where they are forwarded to.
        destinations: Vec<DestinationCount>,
    }

    /// What was taken from sockets.
    pub struct Received {
        /// Datagrams taken from sockets: analysed + rejected + truncated.
        datagrams: u64 => Counter "weir_sflow_received" ["datagrams"],
        /// Payload bytes taken from sockets.
        bytes: u64 => Counter "weir_sflow_received" ["bytes"],
    }

    /// What a listener took.
    pub struct ListenerCount by name, address {
        /// Its name.
        name: String,
        /// Its address.
        address: String,
        /// Taken from the socket.
        received: Count,
        /// Longer than the buffer.
        truncated: u64,
        /// Datagrams dropped by the kernel at this socket before weir saw them; absent: the kernel does not tell.
        kernel_drops: Option<u64> => Counter "weir_sflow_kernel_dropped" ["datagrams"] {listener, address},
        /// Receive buffer that was asked for, bytes; null: the kernel's default.
        asked_buffer: Option<usize>,
        /// Receive buffer in force, as the kernel accounts it.
        receive_buffer: usize => Gauge "weir_sflow_receive_buffer" ["bytes"] {listener, address},
        /// What waits in the receive buffer, of several sockets in the fullest; absent: the kernel does not tell.
        receive_queue: Option<usize> => Gauge "weir_sflow_receive_queue" ["bytes"] {listener, address},
    }
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
            received: Received { datagrams: received.datagrams, bytes: received.bytes },
            analysed: intake.of(Fate::Analysed),
            rejected: Fate::all()[1..].iter().map(|&fate| (fate.name(), intake.of(fate))).collect(),
            truncated,
            unexplained,
            misdirected: intake.misdirected,
            lost_before: statistics.missing,
            samples: statistics.tally,
            absent: statistics.absent,
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
        let parts = (1..=Fate::COUNT as u64).sum::<u64>();
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
