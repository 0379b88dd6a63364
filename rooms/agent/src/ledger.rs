//! The account of the agent: what it saw, what it told of it, and what became of each datagram.

use std::collections::BTreeMap;

use weir_program::ledger;
use weir_trace::packets::{Means, Sampled};

ledger! {
    /// Everything that was counted since the start. Each account closes: chosen = sent + shed + lost + waiting + unexplained,
    /// dropped packets = sent + counted alone + waiting + unexplained, a collector's datagrams = sent + dropped + unexplained.
    pub struct Ledger {
        /// Seconds since the start.
        elapsed_s: f64,
        /// 1: nothing is unexplained; 0: a fault in weir.
        closed: bool => Gauge "weir_agent_ledger_closed",
        /// What is unexplained, of all accounts together.
        unexplained: i64,
        /// The address by which collectors know the agent; null: none of them can be reached yet.
        agent: Option<String>,
        /// Interfaces that are counted.
        interfaces: usize => Gauge "weir_agent_interfaces",
        /// Of those, interfaces that are sampled.
        sampled_interfaces: usize => Gauge "weir_agent_sampled_interfaces",
        /// Datagrams made.
        datagrams: u64,
        /// Their bytes.
        bytes: u64,
        /// Counter samples in datagrams.
        counter_samples: u64 => Counter "weir_agent_counter" ["samples"],
        /// Packets that pass; null: not sampled.
        sampling: Option<SamplingCount> => each,
        /// Packets that are dropped; null: not traced.
        drops: Option<DropsCount> => each,
        /// Who is told.
        collectors: Vec<CollectorCount> => each,
    }

    /// What became of flow samples.
    pub struct SamplingCount {
        /// By what: `ebpf`, or `classic` where eBPF is not permitted, whose `shed` and `lost` are estimates.
        means: &'static str,
        /// Packets that could have been sampled; absent where none is sampled.
        pool: u64 => Counter "weir_agent_pool" ["packets"],
        /// Samples due at the configured rates.
        chosen: u64,
        /// In datagrams.
        sent: u64,
        /// Left out in a flood.
        shed: u64,
        /// Lost, for the ring was full or their interface gone.
        lost: u64,
        /// In the ring; none at the end.
        waiting: u64,
        /// `chosen` less its parts.
        unexplained: i64,
    } together {
        /// Flow samples due at the configured rates, by fate: `sent`, `shed` in a flood, `lost` for want of room.
        Counter "weir_agent_flow" ["samples"] {fate}: sent, shed, lost;
    }

    /// What became of packets that were dropped.
    pub struct DropsCount {
        /// Packets dropped. A super-packet is as many as its segments.
        packets: u64,
        /// Samples in datagrams.
        sent: u64,
        /// Of which no sample tells, beyond the limit: in `drops` of the next sample.
        counted_alone: u64,
        /// In the ring; none at the end.
        waiting: u64,
        /// `packets` less its parts.
        unexplained: i64,
        /// By Linux's reason; those beyond 1,024 reasons are missing here.
        by_reason: BTreeMap<String, ReasonCount> => each,
    }

    /// Packets dropped for one reason.
    pub struct ReasonCount {
        /// Packets that the kernel dropped, by Linux's reason; absent where not traced.
        packets: u64 => Counter "weir_agent_discarded" ["packets"] {reason},
        /// Samples of such packets in datagrams.
        sent: u64 => Counter "weir_agent_discarded" ["samples"] {reason},
    }

    /// What became of the datagrams for a collector.
    pub struct CollectorCount by name {
        /// As it was named.
        name: String,
        /// What the name means now; null: nothing.
        address: Option<String>,
        /// Datagrams for it.
        datagrams: u64,
        /// Datagrams given to the network.
        sent: u64 => Counter "weir_agent_sent" ["datagrams"] {collector},
        /// Payload bytes given to the network.
        bytes: u64 => Counter "weir_agent_sent" ["bytes"] {collector},
        /// Datagrams that were not sent, or refused by the collector's machine, by reason: docs/sflow.md explains each.
        dropped: BTreeMap<&'static str, u64> => Counter "weir_agent_dropped" ["datagrams"] {collector, reason},
        /// `datagrams` less its parts.
        unexplained: i64,
    }
}

impl SamplingCount {
    pub(crate) fn new(means: Means, counts: Sampled, sent: u64, ended: bool) -> Self {
        let means = match means {
            Means::Program => "ebpf",
            Means::Classic => "classic",
        };
        let Sampled { pool, chosen, shed, lost } = counts;
        let (waiting, unexplained) = rest(chosen.wrapping_sub(sent + shed + lost) as i64, ended);
        Self { means, pool, chosen, sent, shed, lost, waiting, unexplained }
    }
}

impl DropsCount {
    /// `told`: packets of which the ring had an event.
    pub(crate) fn new(by_reason: BTreeMap<String, ReasonCount>, told: u64, missed: u64, ended: bool) -> Self {
        let packets = by_reason.values().map(|reason| reason.packets).sum::<u64>() + missed;
        let sent = by_reason.values().map(|reason| reason.sent).sum::<u64>();
        let (waiting, unexplained) = rest(told.wrapping_sub(sent) as i64, ended);
        Self { packets, sent, counted_alone: packets - told, waiting, unexplained, by_reason }
    }
}

/// While it goes on, what is over waits; at the end nothing does.
fn rest(over: i64, ended: bool) -> (u64, i64) {
    if ended { (0, over) } else { (u64::try_from(over).unwrap_or(0), over.min(0)) }
}

impl Ledger {
    /// Adds up what is unexplained.
    pub(crate) fn close(mut self) -> Self {
        for collector in &mut self.collectors {
            let parts = collector.sent + collector.dropped.values().sum::<u64>();
            collector.unexplained = collector.datagrams.wrapping_sub(parts) as i64;
        }
        let collectors = self.collectors.iter().map(|collector| collector.unexplained.abs()).sum::<i64>();
        let sampling = self.sampling.as_ref().map_or(0, |sampling| sampling.unexplained.abs());
        let drops = self.drops.as_ref().map_or(0, |drops| drops.unexplained.abs());
        self.unexplained = collectors + sampling + drops;
        self.closed = self.unexplained == 0;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_is_shown() {
        let counts = Sampled { pool: 1000, chosen: 10, shed: 2, lost: 1 };
        let waits = SamplingCount::new(Means::Program, counts, 4, false);
        assert_eq!((waits.waiting, waits.unexplained), (3, 0));
        let ended = SamplingCount::new(Means::Program, counts, 4, true);
        assert_eq!((ended.waiting, ended.unexplained), (0, 3));
        assert_eq!(SamplingCount::new(Means::Program, counts, 9, false).unexplained, -2);

        let by_reason = BTreeMap::from([("NO_SOCKET".to_owned(), ReasonCount { packets: 50, sent: 10 })]);
        let drops = DropsCount::new(by_reason, 10, 3, true);
        assert_eq!((drops.packets, drops.counted_alone, drops.unexplained), (53, 43, 0));
        let collector =
            CollectorCount { datagrams: 5, sent: 3, dropped: BTreeMap::from([("refused", 1)]), ..Default::default() };
        let ledger =
            Ledger { sampling: Some(ended), drops: Some(drops), collectors: vec![collector], ..Ledger::default() };
        let ledger = ledger.close();
        assert_eq!((ledger.unexplained, ledger.closed, ledger.collectors[0].unexplained), (4, false, 1));
        assert!(Ledger::default().close().closed);
    }
}
